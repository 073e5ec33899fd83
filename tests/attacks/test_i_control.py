"""Section I: who may ask for what, and what happens when a part of it breaks (SPEC G1–G4, N11, S2, S4, R2)."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import pytest
import world
from world import GOOD, LiveCell, until

from cell import control, gate, kernel
from cell.errors import CellError, HarnessError
from cell.records import PhaseName, Principal

from .bench import PROGRAMS, init_of, joined

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[2]

Table = dict[tuple[str, str], str]
LETTERS = dict(zip("SA=VFC", get_args(PhaseName), strict=True))


def declared() -> Table:
    """The gate's table as it is written down for people: (principal, method) → the letters of its phases."""
    assert gate.__doc__
    lines = gate.__doc__.splitlines()
    start = next(n for n, line in enumerate(lines) if line.split()[:2] == ["method", "agent"])
    columns = {who: lines[start].index(who) for who in get_args(Principal)}
    ends = sorted([*columns.values(), lines[start].index("because")])
    found: Table = {}
    for line in lines[start + 1 :]:
        if not line.strip():
            break
        for method in line[: ends[0]].split():
            for who, at in columns.items():
                cell = line[at : next(end for end in ends if end > at)]
                found[who, method] = "".join(re.findall(r"[SA=VFC]", cell))
    return found


# What ends the phase it is asked in. It is asked for at its end, by the one who then does it.
TRANSITIONS = {"begin", "seal", "grade", "stop"}


def ends_it(method: str, phase: str) -> bool:
    """Whether it is so; a finished cell that is released goes at once."""
    return method in TRANSITIONS or (method, phase) == ("release", "finished")


ARGUMENTS: dict[str, Any] = {
    "reason": "bench",
    "why": "bench",
    "session": 1,
    "n": 1,
    "runner": None,
    "timeout": 5,
    "text": "",
}


async def ask_all(cell: LiveCell, table: Table, phase: str) -> None:
    """Every principal asks, through its own socket and with its own key, for all but an allowed transition."""
    for who in get_args(Principal):
        if who == "agent":
            connection = await control.connect(cell.runtime, who)
            asked = await connection.create_process(subsystem="control", encoding=None)
            told = await asked.wait()
            assert (told.exit_status, told.stdout) == (126, b""), "the agent has no control channel"
            assert b"no subsystem" in told.stderr
            await connection.run("true")
            connection.close()
            await connection.wait_closed()
            continue
        link = await control.Link.open(cell.runtime, who)
        for method in dict.fromkeys(method for _, method in table):
            if ends_it(method, phase) and LETTERS_OF[phase] in table[who, method]:
                continue
            try:
                await link.call(method, **ARGUMENTS)
            except CellError as error:
                if "has gone" in str(error):  # that call's arguments were not enough
                    await link.close()
                    link = await control.Link.open(cell.runtime, who)
            if method == "keep" and not ends_it("release", phase):
                with suppress(CellError):
                    await link.call("release")
        await link.close()


LETTERS_OF = {phase: letter for letter, phase in LETTERS.items()}


def answers(cell: LiveCell) -> dict[tuple[str, str, str], set[bool]]:
    """What the journal says was allowed: (phase, principal, method) → answers."""
    phase, found = "starting", {}
    for event in cell.events():
        if event["kind"] == "phase":
            phase = event["phase"]
        elif event["kind"] == "gate":
            found.setdefault((phase, event["principal"], event["method"]), set()).add(event["allowed"])
    return found


@pytest.mark.parametrize("driver", ["runner", "operator"])
def test_112_the_gate_does_what_its_table_says(make_cell: Callable[..., LiveCell], driver: Principal) -> None:
    table = declared()
    assert len(table) > 70, "control: the table was read"
    cell = make_cell(begun=False)
    asyncio.run(ask_all(cell, table, "starting"))
    cell.begin()
    asyncio.run(ask_all(cell, table, "agent"))
    if cell.info["phase"] == "agent":
        cell.call("seal", principal=driver, reason="bench")
    asyncio.run(ask_all(cell, table, "sealed"))
    waits = "#!/bin/sh\nuntil [ -e /tmp/go ]; do sleep 0.05; done\n" + GOOD
    blob = world.tests({"test.sh": waits.encode()})
    graded: list[Any] = []
    grade = threading.Thread(
        target=lambda: graded.append(cell.call("grade", blob, principal=driver, env={}, timeout=60))
    )
    grade.start()
    assert until(lambda: cell.info["phase"] == "verifier")
    asyncio.run(ask_all(cell, table, "verifier"))
    Path(f"/proc/{init_of(cell)}/root/tmp/go").touch()
    grade.join(60)
    assert graded[0]["rewards"] == {"reward": 1}, "nobody could disturb the verification"
    asyncio.run(ask_all(cell, table, "finished"))
    if driver == "operator":  # a kept cell is graded again, by an operator only
        cell.call("keep", principal="operator")
        for who in ("runner", "viewer"):
            with pytest.raises(CellError):
                cell.call("grade", blob, principal=who, timeout=5)
        assert cell.call("grade", blob, principal="operator", env={}, timeout=5)["rewards"] == {"reward": 1}
        cell.call("release", principal="operator")
    with suppress(HarnessError):
        cell.call("stop", principal=driver)
    assert until(lambda: cell.process.poll() is not None)
    with pytest.raises(HarnessError):
        cell.call("status", principal="viewer")

    said = answers(cell)
    wrong = {}
    for (phase, who, method), allowed in said.items():
        right = LETTERS_OF[phase] in table[who, method]
        once = method == "grade" and phase == "finished"
        if (
            allowed != {right}
            and not (once and allowed == {True, False})
            and not (once and allowed == {False})
        ):
            wrong[phase, who, method] = (sorted(allowed), table[who, method])
    assert wrong == {}
    tried = {(phase, who, method) for phase, who, method in said}
    for phase in ("starting", "agent", "sealed", "verifier", "finished"):
        assert (phase, "agent", "session") in tried
        missing = {
            (who, method) for who, method in table
            if who != "agent" and (phase, who, method) not in tried and not ends_it(method, phase)
        }  # fmt: skip
        assert missing == set(), (phase, missing)
    refused = sum(allowed == {False} for allowed in said.values())
    assert refused > 100, refused


def test_114_whoever_lives_in_a_sandbox_is_turned_away(make_cell: Callable[..., LiveCell]) -> None:
    """Root inside, with our files before it and our key in its hand: only the kernel's word is against it."""
    import json

    cell = make_cell()
    program = ["python3", "-I", str(PROGRAMS / "alone.py"), str(PROGRAMS / "connects.py")]

    def connect(principal: str, spaces: str) -> dict[str, Any]:
        argv = [*program, str(cell.runtime / f"{principal}.sock")]
        done = subprocess.run(
            joined(cell, *argv, spaces=spaces) if spaces else argv, capture_output=True, cwd="/", timeout=30
        )
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    for principal in get_args(Principal):
        control_ = connect(principal, "")
        assert control_["uid"] == 0
        assert control_["said"].startswith("SSH-2.0") and control_["more"], (
            "control: outside root is spoken to"
        )
    before = len(cell.events("fault"))
    tried = [
        ("operator", "U"),
        ("operator", "p"),
        *((principal, "Upniu") for principal in get_args(Principal)),
    ]
    for principal, spaces in tried:
        told = connect(principal, spaces)
        assert told["uid"] == 0
        assert told["more"] == 0, (principal, spaces, told)
    faults = [event["message"] for event in cell.events("fault")[before:]]
    assert len(faults) == len(tried)
    assert all("another namespace" in message for message in faults)
    # with the key and a whole client: refused, where the very same client is let in from outside
    shell = ["ssh", "-F", cell.config, "operator", "echo in"]
    inside = subprocess.run(
        joined(cell, *shell, spaces="Up"),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=30,
    )
    assert (inside.returncode, inside.stdout) == (255, "")
    assert subprocess.run(shell, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout == "in\n"


def family(pid: int) -> list[int]:
    """A process and all below it."""
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *(one for child in children for one in family(int(child)))]
    return []


@pytest.mark.parametrize("victim", ["pid 1", "bwrap", "launcher", "serving process"])
def test_116_a_part_that_dies_takes_the_cell_along_and_is_said(
    make_cell: Callable[..., LiveCell], victim: str
) -> None:
    cell = make_cell()
    cell.inside("nohup sleep 4116 >/dev/null 2>&1 &")
    space = cell.pid_namespace
    assert len(kernel.processes_in(space)) >= 2, "control: it lives"
    outer = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in family(cell.process.pid)}
    pids = {
        "pid 1": init_of(cell),
        "bwrap": next(pid for pid, line in outer.items() if b"bwrap" in line.split(b"\0")[0]),
        "launcher": next(pid for pid, line in outer.items() if b"launcher" in line),
        "serving process": cell.process.pid,
    }
    running = subprocess.Popen(cell.argv("sleep 60"), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert until(
        lambda: (
            len(cell.events("session_opened")) + len(cell.events("session-opened")) >= 2
            or len(kernel.processes_in(space)) >= 3
        )
    )
    os.kill(pids[victim], signal.SIGKILL)
    assert until(lambda: cell.process.poll() is not None)
    assert until(lambda: not cell.left()), cell.left()
    assert running.wait(20) != 0, "a lost session is an error, never 0"
    assert str(cell.trial) not in Path("/proc/self/mountinfo").read_text()
    with pytest.raises(HarnessError):
        cell.call("grade", b"", timeout=5)
    assert cell.ssh("echo in").returncode == 255
    if victim != "serving process":
        assert [event["message"] for event in cell.events("fault")] == ["the sandbox died"]
        assert cell.info["phase"] == "closed"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 MB below which the cells of this test have their trials."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(tmp_path)], check=True)
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_116_an_agent_that_fills_the_disk_of_the_record_ends_its_cell(small_disk: Path) -> None:
    cell = LiveCell(small_disk / "trial").begin()
    assert cell.inside("echo in") == "in\n", "control: with space it works"
    cell.ssh("dd if=/dev/zero of=/fill bs=1M; cat /dev/zero >> /fill", timeout=30)
    answers = []
    for _ in range(400):
        if cell.process.poll() is not None:
            break
        answers.append(cell.ssh("echo in").returncode)
    assert until(lambda: cell.process.poll() is not None), "it does not go on without a record"
    assert set(answers) <= {0, 126, 255}
    assert cell.ssh("echo in").returncode == 255
    assert not cell.left()
    cell.stop()


def refused(trial: Path, path: str | None = None, within: tuple[str, ...] = ()) -> str:
    """Why no cell can be had; "" when one is."""
    with pytest.MonkeyPatch.context() as patch:
        if path is not None:
            patch.setenv("PATH", path)
        try:
            cell = LiveCell(trial, within=within)
        except AssertionError as error:
            assert "it said nothing" not in str(error)
            return str(error)
    cell.stop()
    return ""


# What bubblewrap 0.4.1 (Debian bullseye) documents; and how a program of that age answers anything else.
OLD = """#!{python} -IS
import os, sys
known = set('''--args --unshare-all --share-net --unshare-user --unshare-user-try --unshare-ipc --unshare-pid --unshare-net
--unshare-uts --unshare-cgroup --unshare-cgroup-try --userns --userns2 --pidns --uid --gid --hostname --chdir --setenv --unsetenv
--lock-file --sync-fd --bind --bind-try --dev-bind --dev-bind-try --ro-bind --ro-bind-try --remount-ro --exec-label --file-label
--proc --dev --tmpfs --mqueue --dir --file --bind-data --ro-bind-data --symlink --seccomp --block-fd --userns-block-fd --info-fd
--json-status-fd --new-session --die-with-parent --as-pid-1 --cap-add --cap-drop --version --help'''.split()) - set({without!r})
words = sys.argv[1:]
if '--args' in words:
    at = int(words[words.index('--args') + 1])
    words = [word.decode() for word in os.pread(at, 1 << 20, 0).split(b'\\0')] + words
for word in words:
    if word.startswith('--') and word != '--' and word not in known:
        sys.stderr.write(f'bwrap: Unknown option {{word}}\\n'); sys.exit(1)
os.execv({bwrap!r}, ['bwrap', *sys.argv[1:]])
"""


def old_bwrap(folder: Path, without: tuple[str, ...] = ()) -> str:
    folder.mkdir()
    program = folder / "bwrap"
    program.write_text(
        OLD.format(
            python=shutil.which("python3", path="/usr/bin"), bwrap=shutil.which("bwrap"), without=without
        )
    )
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def doctor(path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cell", "doctor"], capture_output=True, text=True, cwd=ROOT, env={"PATH": path}
    )


def test_117_a_machine_that_cannot_is_refused_with_the_reason(tmp_path: Path) -> None:
    assert refused(tmp_path / "control") == "", "control: a cell can be had here"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "bubblewrap is missing" in refused(tmp_path / "missing", path=str(empty))
    said = doctor(str(empty))
    assert said.returncode == 2
    assert "bubblewrap" in said.stdout

    old = old_bwrap(tmp_path / "old")
    told = subprocess.run([tmp_path / "old/bwrap", "--overlay-src", "/"], capture_output=True, text=True)
    assert "Unknown option --overlay-src" in told.stderr, "control: it is an old one"
    assert refused(tmp_path / "with-old", path=old) == "", "only what 0.4.1 knows is passed"
    crippled = old_bwrap(tmp_path / "crippled", without=("--userns-block-fd",))
    assert "Unknown option --userns-block-fd" in refused(tmp_path / "with-crippled", path=crippled)

    said = doctor(crippled)
    assert (said.returncode, "--userns-block-fd" in said.stdout) == (2, True), (
        "the probe asks for just what a session needs"
    )
    assert doctor(old).returncode == doctor(os.environ["PATH"]).returncode, (
        "control: with an old one it finds no fault"
    )

    sh = ("unshare", "-m", "sh", "-c")
    assert refused(tmp_path / "mounts", within=(*sh, 'exec "$@"', "sh")) == "", (
        "control: in mounts of its own it works"
    )
    masked = refused(
        tmp_path / "masked", within=(*sh, 'mount -t tmpfs -o ro none /proc/acpi; exec "$@"', "sh")
    )
    assert "proc" in masked, masked
    if Path("/proc/acpi").is_dir():
        assert "mount" in masked.lower()
    off = "echo 0 > /proc/sys/user/max_user_namespaces; "
    userns = ("unshare", "-U", "-r", "-m", "sh", "-c")
    none = refused(tmp_path / "userns", within=(*userns, f'{off}exec "$@"', "sh"))
    assert none, "no user namespaces: no cell"
    assert any(word in none for word in ("namespace", "No space left", "devices cannot be made")), none
