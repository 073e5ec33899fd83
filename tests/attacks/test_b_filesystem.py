"""Section B: what is seen, what can be planted, what links lead to (SPEC S7, S9, H1–H4, V1–V3)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from world import GOOD, PATH, LiveCell, until

from .bench import attack, bundle, init_of, joined, linger, outside, script

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "made",
    [
        "rm -rf /logs",
        "rm -rf /logs; touch /logs",
        "rm -rf /logs; mkfifo /logs",
        "rm -rf /logs; ln -s /nowhere /logs",
        "mkfifo /logs/fifo /fifo; ln -s loop /loop; ln -s loop /logs/loop; touch /file /logs/file; mkdir /tests -m 0",
    ],
)
def test_028_whatever_was_made_of_the_folders_the_verifier_has_its_own(cell: LiveCell, made: str) -> None:
    cell.inside(made)
    graded = cell.grade(
        f"#!/bin/sh\nls -d /logs/verifier /tests/test.sh /usr/bin\nls /file /logs/file\n{GOOD}"
    )
    assert graded["rewards"] == {"reward": 1}, graded
    assert {"/logs/verifier", "/tests/test.sh", "/usr/bin"} <= set(graded["output"].split())
    assert ("/file\n/logs/file" in graded["output"]) == ("/file" in made), (
        "control: the rest is as it was left"
    )


def forbidden(cell: LiveCell) -> tuple[str, ...]:
    """Words that say what the harness is, or where."""
    return (str(cell.trial), str(ROOT), "hudtui", "bwrap", "launcher", "cell.serv", sys.executable)


def words_in(cell: LiveCell, text: str) -> set[str]:
    return {word for word in forbidden(cell) if word in text}


def of_the_harness(cell: LiveCell, name: str) -> str:
    """A file of /proc of every process of the cell's that is outside of it."""
    from cell import kernel

    texts, todo = [], [cell.process.pid]
    while todo:
        pid = todo.pop()
        if kernel.namespace_of(pid, "pid") != cell.pid_namespace:
            texts.append(Path(f"/proc/{pid}/{name}").read_bytes().replace(b"\0", b" ").decode())
            todo += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return "\n".join(texts)


def test_021_h2_pid_1_is_neutral(standing: LiveCell) -> None:
    look = "cd /proc/1; tr '\\0' ' ' <cmdline; echo; cat comm; wc -c <environ; readlink exe cwd root; ls -l fd; true"
    said = standing.ssh(look)
    text = said.stdout + said.stderr
    assert not words_in(standing, text), text
    lines = said.stdout.splitlines()
    assert lines[:2] == ["sleep infinity ", "sleep"]
    assert "environ" in said.stderr or lines[2] == "0", said
    assert set(Path(f"/proc/{init_of(standing)}/fd").iterdir()), "control: it has descriptors"
    held = {os.readlink(fd) for fd in Path(f"/proc/{init_of(standing)}/fd").iterdir()}
    assert held == {"/dev/null", "/memfd:errors (deleted)"}
    assert attack(standing, "joins", 1)["pidfd_getfd"] == "EPERM", "and gives none of them"
    assert Path(f"/proc/{init_of(standing)}/environ").read_bytes() == b""
    assert {"bwrap", "cell.serv"} <= words_in(standing, of_the_harness(standing, "cmdline")), "control"


@pytest.mark.parametrize("user", ["root", "agent"])
def test_022_a_launcher_tells_nothing_while_it_joins(make_cell: Callable[..., LiveCell], user: str) -> None:
    cell = make_cell(agent_phase=user)
    watcher = subprocess.Popen(
        cell.argv(script("newcomers", 12)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with watcher:
        assert watcher.stdin and watcher.stdout and watcher.stderr
        watcher.stdin.write(bundle())
        watcher.stdin.close()
        assert b"watching" in watcher.stderr.readline()
        many = [subprocess.Popen(cell.argv("sleep 0.2; true"), stdin=subprocess.DEVNULL) for _ in range(12)]
        for one in many:
            one.wait(30)
        told = json.loads(watcher.stdout.read())
    early, later = told["early"], told["later"]
    assert "exe" in early, ("control: a launcher was met while it joined", told["met"])
    assert any("/bin/" in link for link in later["exe"]), "control: what it becomes is seen"
    for what in ("exe", "environ", "cwd", "root", "fd", "maps", "mem", "ns/mnt", "auxv"):
        assert {answer for answer in early[what] if not answer.startswith("-")} <= {""}, (what, early[what])
    text = "\n".join(answer for answers in early.values() for answer in answers)
    assert not words_in(cell, text), text
    assert "python" not in "".join(early["cmdline"] + early["comm"]), (early["cmdline"], early["comm"])


def test_023_other_sessions_show_what_was_declared(make_cell: Callable[..., LiveCell]) -> None:
    os.environ["HUDTUI_BENCH_TOKEN"] = "T0KEN"
    try:
        cell = make_cell(env=(("FOO", "bar baz"),))
    finally:
        del os.environ["HUDTUI_BENCH_TOKEN"]
    assert "T0KEN" in of_the_harness(cell, "environ"), "control: the serving process has it"
    cell.inside("nohup sleep 4023 >/dev/null 2>&1 &")
    cell.inside("nohup sh -c 'sleep 4024; :' >/dev/null 2>&1 & sleep 0.2", tty=True)
    seen = cell.inside(
        "for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/cmdline; tr '\\0' '\\n' <$p/environ; done 2>/dev/null"
    )
    assert seen.count("FOO=bar baz") >= 2, "control: environments are seen"
    assert {"4023", "4024"} <= set(seen.split()), "control: command lines are seen"
    assert not words_in(cell, seen), seen
    assert "T0KEN" not in seen
    env = dict(
        line.split("=", 1) for line in cell.inside("cat /proc/self/environ | tr '\\0' '\\n'").splitlines()
    )
    for name in ("PWD", "SHLVL", "_", "OLDPWD"):  # the shell's own
        env.pop(name, None)
    assert env == {"FOO": "bar baz", "PATH": PATH, "HOME": "/root"}


def test_024_h2_no_mount_names_the_harness(standing: LiveCell) -> None:
    told, control = attack(standing, "statmounts"), outside("statmounts")
    whole = json.dumps(told)
    assert " / / " in told["mountinfo"]
    assert not words_in(standing, whole), whole
    assert str(standing.trial) in of_the_harness(standing, "mountinfo"), (
        "control: the harness's own table names it"
    )
    assert told["listmount"] in ("ok", "ENOSYS", "EPERM"), told["listmount"]
    if control["listmount"] == "ok":  # 6.8
        assert "/proc" in control["told by statmount"], "control: statmount tells of mounts"


def test_027_h4_tests_and_verifier_logs_are_absent_until_they_are_needed(cell: LiveCell) -> None:
    look = "ls -d /tests /logs/verifier /logs/agent /logs/artifacts 2>/dev/null; ls /logs; true"
    assert cell.inside(look).split() == ["/logs/agent", "/logs/artifacts", "agent", "artifacts"]
    assert cell.inside("echo a > /logs/agent/a; echo b > /logs/artifacts/b; cat /logs/*/*") == "a\nb\n"
    graded = cell.grade(f"#!/bin/sh\n{look}\ntouch /tmp/seen\n{GOOD}")
    assert {"/tests", "/logs/verifier", "/logs/agent"} <= set(graded["output"].split()), (
        "control: the verifier has them"
    )
    upper = cell.trial / "cell/root/upper"
    assert (upper / "tmp/seen").exists(), "control: that is where the world's changes are"
    assert not (upper / "tests").exists()
    assert not (upper / "logs/verifier").exists()
    assert (cell.trial / "agent/a").read_text() == "a\n"
    assert (cell.trial / "artifacts/logs/artifacts/b").read_text() == "b\n"


@pytest.mark.parametrize("aim", ["/", "/etc", "/logs/artifacts", "{outside}"])
def test_028_a_link_at_a_folder_of_logs_leads_nowhere(cell: LiveCell, tmp_path: Path, aim: str) -> None:
    canary = tmp_path / "canary"
    canary.mkdir()
    (canary / "secret").write_text("S3CRET")
    aim = aim.format(outside=canary)
    cell.inside(
        f"rm -rf /logs/verifier /logs/agent /tests; for f in /logs/verifier /logs/agent /tests; do ln -s {aim} $f; done"
    )
    assert cell.inside("readlink /logs/agent").strip() == aim
    assert cell.grade(GOOD)["rewards"] == {"reward": 1.0}
    assert not list((cell.trial / "cell/root/upper").glob("**/reward.txt"))
    assert not list((cell.trial / "agent").glob("*")), "the link was not followed to collect"
    assert [file.name for file in canary.iterdir()] == ["secret"]
    assert (cell.trial / "verifier/reward.txt").read_text() == "1\n", "control: it was written, elsewhere"


SWAP = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
os.symlink(sys.argv[1], "/logs/artifacts.link")
os.symlink(sys.argv[1], "/logs/artifacts/deep.link")
os.makedirs("/logs/artifacts/deep/er", exist_ok=True)
for n in range(300): open(f"/logs/artifacts/deep/file{n}", "w").write("mine")
open("/tmp/swapping", "w").close()
while True:
    for pair in ((b"/logs/artifacts", b"/logs/artifacts.link"), (b"/logs/artifacts/deep", b"/logs/artifacts/deep.link")):
        libc.renameat2(-100, pair[0], -100, pair[1], 2)
"""


def test_029_a_component_that_is_swapped_is_never_followed(
    make_cell: Callable[..., LiveCell], tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    (canary / "deep").mkdir(parents=True)
    (canary / "secret").write_text("S3CRET")
    (canary / "deep/secret").write_text("S3CRET")
    collected = 0
    for _ in range(2):
        cell = make_cell()
        cell.ssh("cat > /tmp/swap.py", input=SWAP)
        cell.inside(f"nohup python3 /tmp/swap.py {canary} >/dev/null 2>&1 &")
        assert until(lambda cell=cell: (cell.trial / "cell/root/upper/tmp/swapping").exists())
        cell.seal()
        got = [file for file in cell.trial.glob("artifacts/**/*") if file.is_file()]
        assert "secret" not in {file.name for file in got}
        assert {file.read_text() for file in got} <= {"mine"}
        collected += len(got)
        assert cell.grade(GOOD)["rewards"] == {"reward": 1.0}
        cell.stop()
    followed = subprocess.run(["cat", f"{canary}/secret"], capture_output=True, text=True)
    assert followed.stdout == "S3CRET", "control: whoever follows the link from outside reads it"


RECORDER = """#!/usr/bin/python3 -IS
import os, sys
status = open('/proc/self/status').read()
power = [line.split()[1] for line in status.splitlines() if line[:6] in ('CapPrm', 'CapBnd')]
with open('/opt/ran', 'a') as log: log.write(' '.join([os.path.basename(sys.argv[0]), *power]) + chr(10))
os.execv('/opt/sh', ['sh', *sys.argv[1:]])
"""
REPLACED = (
    "env",
    "bash",
    "sh",
    "dash",
    "setpriv",
    "nsenter",
    "setsid",
    "mount",
    "umount",
    "bwrap",
    "tar",
    "cat",
    "ls",
)


def test_031_replaced_programs_run_only_as_the_agent_itself_would(cell: LiveCell) -> None:
    cell.inside(
        "cp /bin/dash /opt/sh; cp /bin/dash /bin/dash.real 2>/dev/null; touch /opt/ran; chmod 666 /opt/ran"
    )
    names = " ".join(REPLACED)
    plant = f"cat > /opt/recorder; chmod 755 /opt/recorder; for n in {names}; do rm -f /usr/bin/$n; cp /opt/recorder /usr/bin/$n; done"
    assert (
        cell.ssh(
            plant.replace("rm -f", "/usr/bin/rm -f").replace("cp ", "/usr/bin/cp "), input=RECORDER
        ).returncode
        == 0
    )
    for tty in (False, True):
        assert cell.inside("echo in", tty=tty) == "in\n"
    cell.grade("#!/opt/sh\necho 1 > /logs/verifier/reward.txt\n")
    lines = (cell.trial / "cell/root/upper/opt/ran").read_text().split("\n")[:-1]
    ran = {line.split()[0] for line in lines}
    assert ran & {"bash", "sh"}, "control: the session's shell is one of them"
    assert ran <= {"bash", "sh"}, ran
    assert {tuple(line.split()[1:]) for line in lines} == {("00000000a80425fb",) * 2}, (
        "with no power but the agent's"
    )


@contextmanager
def listening(path: str) -> Iterator[list[bytes]]:
    """A daemon of this machine on a unix socket that answers; what came to it."""
    came: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind("\0" + path[1:] if path.startswith("@") else path)
        server.listen()

        def answer() -> None:
            while True:
                try:
                    link, _ = server.accept()
                except OSError:
                    return
                with link:
                    came.append(b"x")
                    link.sendall(b"S3CRET")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        try:
            yield came
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(5)
            if not path.startswith("@"):
                os.unlink(path)


def test_032_no_socket_of_a_host_daemon_is_there(standing: LiveCell, tmp_path: Path) -> None:
    short = Path(f"/tmp/bench-{os.getpid()}.sock")
    known = [
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/run/dbus/system_bus_socket",
        "/run/podman/podman.sock",
        "/run/containerd/containerd.sock",
        "/run/systemd/private",
        *map(str, standing.runtime.glob("*.sock")),
    ]
    with listening(str(short)) as came, listening(f"/run/bench-{os.getpid()}.sock") as also:
        names = [str(short), f"/run/bench-{os.getpid()}.sock", *known]
        told = attack(standing, "sockets", *names)
        assert set(told["answers"].values()) == {"ENOENT"}, told
        assert (told["found"], came, also) == ([], [], [])
        control = {path: outside_answer(path) for path in names[:2]}
        assert set(control.values()) == {"S3CRET"}, "control: they answer"
    standing.inside("python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('/tmp/own')\"")
    assert attack(standing, "sockets")["found"] == ["/tmp/own"], "control: a socket would be found"
    standing.inside("rm /tmp/own")


def outside_answer(path: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.connect(path)
        return link.recv(100).decode()


@pytest.mark.parametrize(
    ("made", "fault", "why"),
    [
        ("mkfifo reward.txt", "VerifierOutputParseError", "a FIFO"),
        ("truncate -s 1T reward.txt", "VerifierOutputParseError", "1099511627776 bytes"),
        ("ln -s /dev/zero reward.txt", "VerifierOutputParseError", "a symbolic link"),
        ("echo 1 > /tmp/r; ln -s /tmp/r reward.txt", "VerifierOutputParseError", "a symbolic link"),
        ("ln -s /etc/hostname reward.json; echo 1 > reward.txt", "VerifierOutputParseError", "a symbolic link"),
        ("mkdir reward.txt", "VerifierOutputParseError", "a directory"),
        ("python3 -c \"import socket; socket.socket(1).bind('reward.txt')\"", "VerifierOutputParseError", "a socket"),
        (": > reward.txt", "RewardFileEmptyError", "empty"),
        ("mknod reward.txt c 1 5", "RewardFileNotFoundError", "neither"),
        ("echo yes > reward.txt", "VerifierOutputParseError", "not a number"),
        ("echo nan > reward.txt", "VerifierOutputParseError", "not finite"),
        ("head -c 2000000 /dev/zero | tr '\\0' 1 > reward.txt", "VerifierOutputParseError", "2000000 bytes"),
    ],
)  # fmt: skip
def test_034_a_result_that_is_no_number_in_a_file_is_a_fault(
    make_cell: Callable[..., LiveCell], made: str, fault: str, why: str
) -> None:
    cell = make_cell()
    graded = cell.grade(f"#!/bin/sh\ncd /logs/verifier\n{made}\nls -l\n")
    assert (graded["rewards"], graded["stopped"], graded["exit"]) == (None, "", 0), graded
    assert graded["fault"][0] == fault, graded["fault"]
    assert why in graded["fault"][1], graded["fault"]
    assert "reward" in graded["output"] or "Not" in fault, "control: it was there"


PLANT = """
import os, sys, sysconfig
code = "open('/tmp/loaded', 'a').write(__file__ + chr(10))\\nopen('/loaded-outside', 'a').close()\\n"
names = ('json/__init__', 'os', 'socket', 'select', 'asyncssh/__init__', 'cell/__init__', 'encodings/__init__',
         'encodings/idna', 'encodings/ascii', 'sitecustomize', 'usercustomize', 'traceback', 'pwd', 'locale')
for folder in sys.argv[1:]:
    for name in names:
        path = f'{folder}/{name}.py'
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path): os.unlink(path)
        open(path, 'w').write(code)
"""
LIBRARIES = """
set -e
gconv=$(dirname $(find /usr/lib -name gconv-modules -print -quit))
libc=$(dirname $(find /usr/lib /lib -name libc.so.6 -print -quit))
mkdir -p /usr/lib/locale/C.utf8
for f in $gconv/UTF-16.so $libc/libnss_files.so.2 $libc/libnss_planted.so.2 /usr/lib/locale/locale-archive \\
         /usr/lib/locale/C.utf8/LC_CTYPE /etc/nsswitch.conf /etc/passwd /etc/localtime /etc/hosts; do
    if test -L $f -o ! -e $f; then rm -f $f; cp /etc/passwd $f; fi
    echo $f
done
"""


def test_123_nothing_planted_is_loaded_by_the_harness(cell: LiveCell) -> None:
    """S9. Every folder that the harness's interpreter loads from stands in the root, full of modules that tell."""
    folders = sorted({
        *(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
        *(path for path in sys.path if path and not path.endswith(".zip") and path.startswith("/")),
        f"{sys.base_prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/lib-dynload",
        str(ROOT), "/usr/lib/python3/dist-packages",
    })  # fmt: skip
    # the world's own python3 may use one of these folders: so it stands aside, isolated from all of them
    cell.ssh("cat > /opt/plant.py", input=PLANT)
    files = cell.inside(LIBRARIES).split()
    assert len(files) == 9
    linger(cell, "opens", "/tmp/enough", *files)
    upper = cell.trial / "cell/root/upper"
    assert until(lambda: (upper / "tmp/watching").exists())
    cell.inside(f"python3 /opt/plant.py {' '.join(folders)}")
    own = subprocess.run(joined(cell, "sh", "-c", "cat /usr/lib/locale/locale-archive >/dev/null"), cwd="/")
    assert own.returncode == 0, "control, below: an open by whoever is seen"
    for tty in (False, True):
        assert cell.inside("echo in", tty=tty) == "in\n"
    assert cell.grade("#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n")["rewards"] == {"reward": 1.0}
    assert not (upper / "tmp/loaded").exists()
    assert not (upper / "loaded-outside").exists()
    assert not Path("/loaded-outside").exists()
    (Path(f"/proc/{init_of(cell)}/root/tmp/enough")).touch()
    assert until(lambda: (upper / "tmp/opened").exists())
    opened = set((upper / "tmp/opened").read_text().split())
    assert "/usr/lib/locale/locale-archive" in opened, "control: the watch sees"
    planted = {file for file in files if "gconv" in file or "libnss" in file}
    assert planted
    assert not opened & planted, opened
    # and each of these modules would have been loaded by the harness's interpreter, had it used this root
    for folder in folders:
        load = f"import sys; sys.path[:] = ['{folder}']\nfor n in ('asyncssh', 'sitecustomize', 'traceback'):\n  sys.modules.pop(n, None); __import__(n)"
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", load.replace(f"'{folder}'", f"'/proc/{init_of(cell)}/root{folder}'")],
            capture_output=True, text=True, cwd="/",
        )  # fmt: skip
        assert done.returncode == 0, (folder, done.stderr)
    assert Path("/tmp/loaded").read_text().count("asyncssh") == len(folders), (
        "control: each is a module that tells"
    )
    Path("/tmp/loaded").unlink()
    Path("/loaded-outside").unlink()
    # the interpreter itself, started with this root and every power, as a joining one would be that imports late
    late = "import os; os.chroot('/proc/%d/root' % int(__import__('sys').argv[1])); os.chdir('/'); import traceback"
    subprocess.run([sys.executable, "-I", "-S", "-c", late, str(init_of(cell))], capture_output=True, cwd="/")
    assert "traceback" in (upper / "tmp/loaded").read_text(), (
        "control: a late import takes the planted module"
    )


@pytest.mark.parametrize("user", ["root", "agent"])
def test_124_killing_everything_leaves_the_next_session_working(
    make_cell: Callable[..., LiveCell], user: str
) -> None:
    cell = make_cell(agent_phase=user)
    for how in ("pkill sleep", "pkill -9 .", "pkill -9 -f .", "kill -9 -1", "killall5 -9; kill -9 1"):
        cell.inside("nohup sleep 4124 >/dev/null 2>&1 &")
        assert cell.inside("pgrep -f '^sleep 4124'").strip(), "control: there is a neighbour to kill"
        cell.ssh(how)
        assert cell.inside("echo alive") == "alive\n", how
        assert cell.inside("pgrep -f '^sleep 4124'; true") == "" or how.startswith("killall5"), (
            how,
            "control: it died",
        )
    assert cell.grade(GOOD)["rewards"] == {"reward": 1.0}


MANY = """#!/bin/sh
echo 1 > /logs/verifier/reward.txt
python3 -c '
import os
os.mkdir("/logs/verifier/many"); os.chdir("/logs/verifier/many")
n = 0
try:
    while n < 10_000_000:
        os.symlink("/etc/passwd", str(n)) if n % 100 else os.mkdir(str(n))
        n += 1
except OSError as error: print(n, error.strerror)
'
"""


def test_034_ten_million_names_are_stopped_and_the_reward_is_read(cell: LiveCell) -> None:
    graded = cell.grade(MANY, timeout=60)
    number, why = graded["output"].strip().split(" ", 1)
    assert int(number) < 1_000_000, graded["output"]
    assert why == "No space left on device", "control: it tried"
    assert graded["rewards"] == {"reward": 1}
    copied = list((cell.trial / "verifier/many").iterdir())
    assert 0 < len(copied) <= 1001, "the folders; no link"
    assert any("symbolic link" in note for note in graded["notes"])
    assert any("more were left out" in note for note in graded["notes"])
    assert len(graded["notes"]) < 60
