"""Pid 1 in a real sandbox (promise S7): reaps, is neutral, and nothing inside ends it."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.live
INIT = Path(__file__).parents[2] / "cell" / "data" / f"init.{platform.machine()}"
ORPHANS = """
import os
hold, release = os.pipe()
for n in range(500):
    if os.fork() == 0:
        if os.fork() == 0:
            os.close(release)
            os.read(hold, 1)
            os._exit(n % 256)
        os._exit(0)
    os.wait()
print(sum(entry.isdigit() for entry in os.listdir("/proc")))
"""


class Held:
    """A sandbox whose pid 1 said `ready`; `pid` is that process seen from outside."""

    def __init__(self) -> None:
        memfd = os.memfd_create("sleep", 0)
        os.write(memfd, INIT.read_bytes())
        program = fcntl.fcntl(memfd, fcntl.F_DUPFD, 20)  # 6 is where pid 1 wants its ready descriptor
        os.close(memfd)
        info, info_w = os.pipe()
        ready, ready_w = os.pipe()
        argv = ["bwrap", "--unshare-pid", "--unshare-ipc", "--bind", "/", "/", "--proc", "/proc"]
        argv += ["--dev-bind", "/dev", "/dev", "--info-fd", str(info_w), "--die-with-parent", "--as-pid-1"]
        self.bwrap = subprocess.Popen(
            [*argv, "--", f"/proc/self/fd/{program}", str(ready_w)],
            pass_fds=(program, ready_w, info_w),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={"SECRET": "s"},
            cwd="/",
        )
        for descriptor in (program, ready_w, info_w):
            os.close(descriptor)
        with open(info) as text, open(ready, "rb") as lines:
            self.pid = int(json.load(text)["child-pid"])
            assert lines.read() == b"ready\n"

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        into = ["nsenter", "-t", str(self.pid), "-m", "-p", "-i", *command]
        return subprocess.run(into, capture_output=True, text=True, cwd="/")

    def alive(self) -> bool:
        return self.bwrap.poll() is None and self.run("true").returncode == 0

    def stop(self) -> None:
        if self.bwrap.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self.bwrap.wait(5)


@pytest.fixture
def held() -> Iterator[Held]:
    sandbox = Held()
    yield sandbox
    sandbox.stop()


def test_500_orphans_leave_no_zombie(held: Held) -> None:
    made = held.run("/usr/bin/python3", "-c", ORPHANS)
    assert int(made.stdout) > 500, made.stderr
    for _ in range(200):
        states = held.run("ps", "-eo", "stat=").stdout.split()
        if not any(state.startswith("Z") for state in states):
            break
    assert not any(state.startswith("Z") for state in states)
    assert held.alive()


@pytest.mark.parametrize(
    "attack",
    ["kill -9 1", "kill -9 -1", "pkill -9 .", "pkill sleep; pkill -9 sleep", "kill -TERM 1", "kill -CHLD 1"],
)
def test_no_signal_from_inside_ends_it(held: Held, attack: str) -> None:
    held.run("sh", "-c", attack)
    assert held.alive()


def test_catchable_signals_from_outside_are_ignored_and_kill_works(held: Held) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE):
        os.kill(held.pid, number)
    assert held.alive()
    os.kill(held.pid, signal.SIGKILL)
    held.bwrap.wait(5)


def test_it_is_neutral_to_look_at(held: Held) -> None:
    folder = Path(f"/proc/{held.pid}")
    assert (folder / "cmdline").read_bytes() == b"sleep\0infinity\0"
    assert (folder / "comm").read_text() == "sleep\n"
    assert (folder / "environ").read_bytes() == b""
    assert sorted(os.listdir(folder / "fd")) == ["0", "1", "2"]
    assert "memfd:sleep" in os.readlink(folder / "exe")
    power = "-sys_ptrace,-perfmon,-sys_admin"  # perfmon alone opens it on recent kernels
    as_agent = ["setpriv", f"--bounding-set={power}", f"--inh-caps={power}", "cat"]
    for name in ("environ", "maps", "auxv"):
        assert "ermission denied" in held.run(*as_agent, f"/proc/1/{name}").stderr


def test_it_sleeps(held: Held) -> None:
    def ticks() -> int:
        fields = Path(f"/proc/{held.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    held.run("sh", "-c", "true & true")
    before = ticks()
    threading.Event().wait(0.3)
    assert ticks() - before <= 1


def test_s2_it_ends_where_nobody_is_there_to_be_told() -> None:
    """Who started it may have been killed before it could have the sandbox die with it."""
    memfd = os.memfd_create("sleep", 0)
    os.write(memfd, INIT.read_bytes())
    program = fcntl.fcntl(memfd, fcntl.F_DUPFD, 20)
    told, tell = os.pipe()
    ready = fcntl.fcntl(tell, fcntl.F_DUPFD, 21)
    os.close(tell)
    for heard in (True, False):
        if not heard:
            os.close(told)
        child = subprocess.Popen([f"/proc/self/fd/{program}", str(ready)], pass_fds=[program, ready])
        if heard:
            assert os.read(told, 6) == b"ready\n", "control: it stays where somebody is told"
            assert child.poll() is None
            child.kill()
            child.wait(10)
        else:
            assert child.wait(10) == 111
    for descriptor in (memfd, program, ready):
        os.close(descriptor)
