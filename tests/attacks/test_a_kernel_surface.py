"""Section A: identity, capabilities, and what the kernel offers (SPEC S5, S7, S8)."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from world import GOOD, LiveCell, until

from cell import kernel
from cell.errors import HarnessError, Refused
from cell.machine import probe
from cell.records import Limit

from .bench import PROGRAMS, attack, init_of, joined, outside, unhindered

pytestmark = pytest.mark.live
Maker = Callable[..., LiveCell]

BOUNDING = "00000000a80425fb"
NONE = "0" * 16
REFUSED = {"EPERM", "EACCES"}


def test_001_the_kernels_settings_cannot_be_written(standing: LiveCell) -> None:
    pattern = "/proc/sys/kernel/core_pattern"
    paths = (
        pattern,
        "/proc/sys/vm/overcommit_memory",
        "/proc/irq/default_smp_affinity",
        "/proc/sysrq-trigger",
    )
    there = [path for path in paths if Path(path).exists()]
    before = Path(pattern).read_text()
    told = attack(standing, "writes", *there, "/etc/hosts")
    assert told.pop("/etc/hosts") == "ok", "control: the program can write"
    assert told == dict.fromkeys(there, "EROFS")
    assert Path(pattern).read_text() == before == standing.inside(f"cat {pattern}"), (
        "control: it is the real one"
    )


def test_002_a_mask_cannot_be_taken_away(standing: LiveCell) -> None:
    told, control = attack(standing, "mounts"), unhindered(standing, "mounts")
    assert set(told["umount"].values()) == {"EPERM"} == set(told["umount bind"].values()), told
    assert told["under"] == {"/proc/interrupts": 0}
    assert control["under"]["/proc/interrupts"] > 0, "control: with the power to, there is a secret under it"
    assert set(control["umount"].values()) == {"ok"}, control


def test_003_nothing_can_be_mounted_over_etc(standing: LiveCell) -> None:
    told, control = attack(standing, "mounts"), unhindered(standing, "mounts")
    assert set(told["over"].values()) == {"EPERM"}, told
    assert told["etc is the same"]
    assert [control["over"][how] for how in ("tmpfs", "bind", "move_mount")] == ["ok"] * 3, control
    assert not control["etc is the same"]


def test_004_what_is_read_only_stays_so(standing: LiveCell) -> None:
    told, control = attack(standing, "mounts"), unhindered(standing, "mounts")
    for how in ("remount", "setattr"):
        assert told[how]
        assert set(told[how].values()) == {"EPERM"}, told
    assert "ok" in control["remount"].values(), control


CAPS = "grep -E '^(CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs)' {path}"


def caps(text: str) -> dict[str, str]:
    return dict(line.replace("\t", " ").split(": ") for line in text.splitlines())


def powers(permitted: str, effective: str) -> dict[str, str]:
    return {"CapPrm": permitted, "CapEff": effective, "CapBnd": BOUNDING, "CapAmb": NONE, "NoNewPrivs": "0"}


def test_005_a_device_node_is_this_worlds_own(make_cell: Maker) -> None:
    names = ("null", "zero", "full", "random", "urandom", "tty")
    before = {name: os.stat(f"/dev/{name}") for name in names}
    one, other = make_cell(), make_cell()
    for name in names:
        told = one.inside(f"chmod 0600 /dev/{name}; chown 1000:1000 /dev/{name}; stat -c '%u %a' /dev/{name}")
        assert told.split() == ["1000", "600"], "control: inside it did change"
        assert other.inside(f"stat -c '%u %a %t:%T' /dev/{name}").startswith("0 666 ")
        now = os.stat(f"/dev/{name}")
        assert (now.st_mode, now.st_uid, now.st_rdev) == (
            before[name].st_mode,
            before[name].st_uid,
            before[name].st_rdev,
        ), f"the machine's /dev/{name} was changed"
    one.inside("python3 -c \"import os; os.setxattr('/dev/full', 'trusted.x', b'y')\" 2>/dev/null || true")
    assert not os.listxattr("/dev/full")
    # and they are what they are called
    assert other.inside(
        "head -c 3 /dev/zero | od -An -tx1; echo x > /dev/null; head -c 9 /dev/urandom | wc -c"
    ) == (" 00 00 00\n9\n")
    assert "No space left" in other.ssh("echo x > /dev/full").stderr
    mounts = other.inside("cat /proc/self/mountinfo")
    assert "devtmpfs" not in mounts and "udev" not in mounts


def test_006_s8_capabilities_are_dockers_in_every_kind_of_session(make_cell: Callable[..., LiveCell]) -> None:
    cell, other = make_cell(), make_cell(agent_phase="agent")
    read = CAPS.format(path="/proc/self/status")
    for tty in (False, True):
        assert caps(cell.inside(read, tty=tty)) == powers(BOUNDING, BOUNDING)
        assert caps(other.inside(read, tty=tty)) == powers(NONE, NONE)
    assert caps(cell.inside(f'su agent -c "{read}"')) == powers(NONE, NONE)
    # set-uid, and a file that has a capability within the bounds, and one beyond them
    cell.inside(
        "cp /usr/bin/grep /usr/bin/grep-suid; chmod 4755 /usr/bin/grep-suid; "
        "for n in raw admin; do cp /usr/bin/grep /usr/bin/grep-$n; done"
    )
    give = (
        "import os, struct, sys; os.setxattr(sys.argv[1], 'security.capability', "
        "struct.pack('<5I', 0x02000000 | int(sys.argv[3]), 1 << int(sys.argv[2]), 0, 0, 0))"
    )
    cell.inside(f'python3 -c "{give}" /usr/bin/grep-raw 13 1; python3 -c "{give}" /usr/bin/grep-admin 12 0')

    def by(program: str) -> dict[str, str]:
        return caps(cell.inside(f'su agent -c "{read.replace("grep", program)}"'))

    assert by("grep-suid") == powers(BOUNDING, BOUNDING)
    assert by("grep-raw") == powers(f"{1 << 13:016x}", f"{1 << 13:016x}")
    assert by("grep-admin") == powers(NONE, NONE)
    unbound = subprocess.run(
        joined(
            cell, "setpriv", "--reuid=1000", "--clear-groups", "grep-admin", "CapPrm", "/proc/self/status"
        ),
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert f"{1 << 12:016x}" in unbound.stdout, "control: without the bounds that file gives its power"


def test_007_pid_1_holds_nothing_and_gives_nothing(standing: LiveCell) -> None:
    standing.inside("nohup sleep 4007 >/dev/null 2>&1 &")
    neighbour = standing.inside("pgrep -f '^sleep 4007'").strip()
    control = attack(standing, "joins", neighbour)
    assert {control[how] for how in ("attach", "seize", "mem", "exe", "maps", "process_vm_readv")} == {
        "ok"
    }, control
    for user in ("", "agent", "nobody"):
        told = attack(standing, "joins", 1, user=user)
        assert "ok" not in [answer for answer in told.values() if isinstance(answer, str)], (user, told)
    status = caps(standing.inside(CAPS.format(path="/proc/1/status")))
    assert (status["CapPrm"], status["CapEff"]) == (NONE, NONE), "pid 1 holds nothing"
    # the holder and the launcher are in no list that could be walked
    seen = standing.inside("ls -d /proc/[0-9]*; ps -eo ppid=").split()
    assert "/proc/1" in seen
    outer = {f"/proc/{pid}" for pid in (standing.process.pid, init_of(standing))}
    assert not outer & set(seen)
    standing.inside(f"kill -9 {neighbour}")


def test_008_no_namespace_of_pid_1_can_be_joined(standing: LiveCell) -> None:
    told, control = attack(standing, "joins", 1), unhindered(standing, "joins", 1)
    assert set(told["setns"].values()) <= {"EPERM", "EACCES", "EINVAL"}, told["setns"]
    assert told["setns by pidfd"] in REFUSED
    assert {control["setns"][kind] for kind in ("ipc", "uts", "net")} == {"ok"}, control["setns"]


def test_009_no_new_namespace_can_be_made(standing: LiveCell) -> None:
    told, control = attack(standing, "namespaces"), unhindered(standing, "namespaces")
    assert told.pop("clone3") == "ENOSYS", "so that a program falls back to clone, which the filter can judge"
    assert set(told.values()) == {"EPERM"}, told
    assert {control[kind] for kind in ("mnt", "uts", "ipc", "pid", "net")} == {"ok"}, control
    assert control["user"] == "ENOSPC", "and without the filter there would be none left to have"
    assert control["clone3"] == "EINVAL"


def test_010_the_root_cannot_be_left(standing: LiveCell, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("outside")
    told, control = attack(standing, "escapes", secret), outside("escapes", secret)
    assert control["secret by its path"] == "outside", "control: the secret is there"
    assert told["secret by its path"] == "ENOENT"
    assert (told["open_by_handle_at"], told["pivot_root"]) == ("EPERM", "EPERM")
    assert unhindered(standing, "escapes", secret)["pivot_root"] != "EPERM", (
        "control: it is the power that lacks"
    )
    assert told["chroot"] == "(True, True, [])", "out of its own jail, which is the control, and no farther"
    assert f"['{secret}'" in control["chroot"]


def test_011_no_device_can_be_made_or_opened(standing: LiveCell) -> None:
    block = Path("/proc/partitions").read_text().split("\n")[2].split()
    words = ("c:1:1", "c:5:1", *([f"b:{block[0]}:{block[1]}"] if block else []))
    planted = Path(f"/proc/{init_of(standing)}/root/opt")
    names = []
    for number, word in enumerate(words):
        kind, major, minor = word.split(":")
        node = planted / f"device{number}"
        os.mknod(node, {"b": 0o060666, "c": 0o020666}[kind], os.makedev(int(major), int(minor)))
        names.append(f"/opt/{node.name}")
    told = attack(standing, "nodes", *words, *names)
    assert told.pop("fifo") == "ok", "control: mknod itself is allowed"
    assert {told[f"mknod {word}"] for word in words} == {"EPERM"}, told
    assert {told[f"open {name}"] for name in names} <= REFUSED, "a device that the image brings is dead"
    control = outside("nodes", *words)
    assert {control[f"mknod {word}"] for word in words} == {"ok"}, control
    assert "ok" in {control[f"open {word}"] for word in words}, control
    assert standing.inside("head -c 3 /dev/zero | wc -c").strip() == "3"


KEYRING = """
import asyncio, ctypes, json, os, subprocess, sys
from cell import kernel, sandbox
from cell.child import Who
libc = ctypes.CDLL(None, use_errno=True)
programs = sys.argv[1]
keyctl, add_key = (250, 248) if os.uname().machine == "x86_64" else (219, 217)
assert libc.syscall(keyctl, 1, b"hudtui-bench-ring") >= 0, os.strerror(ctypes.get_errno())
assert libc.syscall(add_key, b"user", b"hudtui-bench", b"S3CRET", 6, -3) >= 0
mine = json.loads(subprocess.check_output(["python3", "-I", programs + "/alone.py", programs + "/surface.py"]))
# without the filter, so that it is the keyring that is asked and not the filter that answers
sandbox.seccomp.docker_filter = lambda *_, **__: b""
kernel.private_mounts()
async def inside():
    async with sandbox.hold(sandbox.Plan("/", "bench")) as held:
        out, end = os.pipe()
        null = os.open("/dev/null", os.O_RDWR)
        everything = Who(uid=0, gid=0, groups=(0,))
        child = held.spawn([["/usr/bin/python3", "-I", programs + "/alone.py", programs + "/surface.py"]],
                           who=everything, env={}, cwd="/", stdio=(null, end, null))
        os.close(end)
        await child.ended
        return json.loads(os.read(out, 1 << 16))
print(json.dumps([mine, asyncio.run(inside())]))
"""


def test_012_one_cell_cannot_have_every_inotify_instance(make_cell: Maker) -> None:
    cell = make_cell()
    program = (
        "import ctypes; libc = ctypes.CDLL(None); got = 0\n"
        "while got < 5000 and libc.inotify_init() >= 0: got += 1\n"
        "print(got, flush=True); import time; time.sleep(600)"
    )
    cell.inside(f"nohup python3 -c '{program}' > /tmp/got 2>/dev/null &")
    got = int(until(lambda: cell.inside("cat /tmp/got")))
    assert 0 < got <= 64
    watcher = ctypes.CDLL(None).inotify_init()
    assert watcher >= 0, "the machine's root has one left"
    os.close(watcher)


def test_013_a_world_full_of_processes_is_still_one(make_cell: Maker) -> None:
    cell = make_cell(limits=(Limit(name="pids", value="200", enforced=False),))
    cell.inside(
        "nohup python3 -c 'import os, time\n"
        "while True:\n try:\n  if os.fork() == 0: time.sleep(600)\n"
        " except OSError: time.sleep(0.01)' >/dev/null 2>&1 &"
    )

    def refused() -> bool:
        return cell.ssh("true").returncode != 0

    assert until(refused), "control: the bound was reached"
    assert cell.process.poll() is None
    assert cell.info["phase"] == "agent"
    assert not [event for event in cell.events("fault") if event["where"] == "sandbox"]
    # the harness still answers, and ends it
    assert cell.call("status", principal="operator")["phase"] == "agent"


def test_014_the_harness_keyring_is_not_the_sessions(standing: LiveCell) -> None:
    told = attack(standing, "surface")
    assert (told["keyctl search"], told["keyctl describe"], told["keys"]) == ("EPERM", "EPERM", 0)
    done = subprocess.run(
        [sys.executable, "-c", KEYRING, str(PROGRAMS)],
        capture_output=True,
        text=True,
        cwd=PROGRAMS.parents[2],
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    import json

    harness, behind = json.loads(done.stdout)
    assert harness["secret"] == "S3CRET", "control: the harness's own processes read it"
    assert (behind["keyctl search"], behind["secret"]) == ("ENOKEY", ""), behind
    assert behind["keyctl describe"] == "ok", (
        "control: there was no filter, and there is a keyring, a fresh one"
    )


def test_015_no_io_uring_and_no_vsock(standing: LiveCell) -> None:
    told, control = attack(standing, "surface"), outside("surface")
    assert [told[what] for what in ("io_uring_setup", "vsock", "alg")] == ["EPERM"] * 3, told
    assert told["unix"] == "ok"
    assert [control[what] for what in ("io_uring_setup", "vsock")] == ["ok"] * 2, (
        "control: this kernel has both"
    )


@pytest.mark.skipif(
    "memory" not in probe(Path(), lambda _bwrap: "").cgroups_writable,
    reason="no control group may be made on this machine: a cell says that it does not enforce limits",
)
def test_017_a_bomb_and_a_hog_are_stopped_and_the_harness_answers(make_cell: Callable[..., LiveCell]) -> None:
    limits = {"pids": "100", "memory_mb": "300", "storage_mb": "100"}
    cell = make_cell(
        limits=tuple(Limit(name=name, value=value, enforced=False) for name, value in limits.items())
    )
    told = {one["name"]: one for one in cell.info["identity"]["limits"]}
    assert {name: one["enforced"] for name, one in told.items()} == {
        "pids": True,
        "memory_mb": True,
        "storage_mb": False,
    }
    assert told["storage_mb"]["why"], "what is not enforced is said, and why"
    few = "for n in $(seq 40); do sleep 30 & done; true"
    cell.inside(few)
    assert len(kernel.processes_in(cell.pid_namespace)) > 40, "control: some may be had"
    allocate = "python3 -c 'data = bytearray(%d); data[::4096] = data[::4096]; print(len(data))'"
    assert cell.inside(allocate % (100 << 20)) == f"{100 << 20}\n", "control: some may be had"
    for size in (100 << 30, 1 << 30):
        done = cell.ssh(allocate % size)
        assert (done.returncode != 0, done.stdout) == (True, ""), done
    bomb = "import os, time\nwhile True:\n try: os.fork()\n except OSError: time.sleep(.01)"
    cell.inside(f'nohup python3 -c "{bomb}" >/dev/null 2>&1 &')
    assert until(lambda: len(kernel.processes_in(cell.pid_namespace)) >= 95), "the bomb has what there is"
    assert cell.call("status", principal="operator")["phase"] == "agent"
    assert len(kernel.processes_in(cell.pid_namespace)) <= 100
    assert cell.seal() is not False
    assert cell.call("status", principal="operator")["phase"] == "sealed"


def test_018_pid_1_is_immune_and_a_dead_sandbox_is_said(make_cell: Callable[..., LiveCell]) -> None:
    cell = make_cell()
    for how in ("kill -9 1", "kill -9 -1", "kill -STOP 1; kill -KILL 1; kill -INT 1; kill -9 -1"):
        cell.inside("nohup sleep 4018 >/dev/null 2>&1 &")
        assert cell.inside("pgrep -f '^sleep 4018'"), "control: there is somebody to kill"
        cell.ssh(how)
        assert cell.inside("pgrep -f '^sleep 4018' || echo none") in ("none\n",) or how == "kill -9 1", how
        cell.inside("pkill -f '^sleep 4018'; true")
    os.kill(init_of(cell), signal.SIGKILL)
    assert until(lambda: cell.process.poll() is not None)
    assert [event["message"] for event in cell.events("fault")] == ["the sandbox died"]
    assert cell.info["phase"] == "closed"
    assert cell.ssh("echo in").returncode == 255
    with pytest.raises((HarnessError, Refused)):
        cell.call("grade", b"", timeout=5)


def test_019_every_id_can_be_owner_and_user(cell: LiveCell) -> None:
    ids = ("1000", "12345", "65534", "65536", "4000000")
    told = attack(cell, "ids", *ids)
    assert told == {number: ["ok", [int(number)] * 2, "ok"] for number in ids}
    for number in ids:
        file = cell.trial / "cell/root/upper/opt" / f"owned-{number}"
        assert (file.stat().st_uid, file.read_text()) == (int(number), "mine"), "outside it is the same owner"


def test_020_set_uid_programs_work_within_the_bounds(cell: LiveCell) -> None:
    cell.inside(
        "cp /usr/bin/python3.11 /opt/py 2>/dev/null || cp $(readlink -f /usr/bin/python3) /opt/py; chmod 4755 /opt/py"
    )
    read = "import os; print(os.geteuid(), [l.split()[1] for l in open('/proc/self/status') if l[:6] in ('CapEff', 'CapBnd')])"
    assert cell.inside(f'su agent -c "/opt/py -I -S -c \\"{read}\\""') == f"0 ['{BOUNDING}', '{BOUNDING}']\n"
    assert (
        cell.inside(f'su agent -c "/usr/bin/python3 -I -S -c \\"{read}\\""')
        == f"1000 ['{NONE}', '{BOUNDING}']\n"
    )
    assert cell.inside("su agent -c 'stat -c %a /usr/bin/su'").strip() == "4755"
    assert cell.grade(GOOD)["rewards"] == {"reward": 1.0}
