"""S2, R2, O1: a cockpit that is killed at any moment costs nothing but itself."""

from __future__ import annotations

import fcntl
import os
import pty
import random
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cell import journal, trials

from .conftest import until

pytestmark = [pytest.mark.live, pytest.mark.timeout(60 + 10 * int(os.environ.get("CHAOS", "3")))]
SOURCE = Path(__file__).parents[2]
CELL = [sys.executable, "-m", "cell"]
TASK = SOURCE / "examples" / "tasks" / "hello-pass"
# Fleet → the cell's sessions → its keyboard, some text, and back: whatever these do, the agent goes on.
KEYS = [b"", b"2", b"\r", b"\ra", b"2aecho typed\r", b"?", b"/x\r", b"4", b"\x1b"]


class Cockpit:
    """A real `hudtui` on a real terminal, which is read all the time."""

    def __init__(self, jobs: Path) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hudtui.cli", str(jobs)],
            cwd=SOURCE,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
        )
        os.close(slave)
        self.seen = b""

    def watch(self, seconds: float, *, until: bytes = b"\xff") -> None:
        """Take what it paints, for so long or until it has painted that."""
        end = time.monotonic() + seconds
        while until not in self.seen and (left := end - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                with suppress(OSError):
                    self.seen += os.read(self.master, 1 << 16)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        os.close(self.master)


def members(session: int) -> list[int]:
    """Every living process of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] not in "ZX":
                found.append(int(stat.parent.name))
    return found


@pytest.fixture
def rollout(tmp_path: Path) -> Iterator[tuple[Path, Path, subprocess.Popen[bytes]]]:
    """A rollout whose agent prints and works until the file is there."""
    jobs, done = tmp_path / "jobs", tmp_path / "done"
    inside = "while :; do date +%N; echo hello > /root/hello.txt; sleep 0.05; done"
    agent = f'ssh -tt -F "$CELL_SSH_CONFIG" agent "{inside}" & until [ -e {done} ]; do sleep 0.1; done'
    argv = [*CELL, "run", str(TASK), "-a", f"exec:{agent}", "--jobs-dir", str(jobs)]
    runner = subprocess.Popen(argv, cwd=SOURCE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield jobs, done, runner
    finally:
        runner.send_signal(signal.SIGINT)
        runner.wait(30)


def test_a_killed_cockpit_leaves_the_agent_at_work(
    rollout: tuple[Path, Path, subprocess.Popen[bytes]],
) -> None:
    """CHAOS says how many times; each kill comes at another moment, after other keys."""
    jobs, done, runner = rollout
    moments = random.Random("cockpit")
    assert until(lambda: any(jobs.glob("*/*/cell/sessions/1.cast")), seconds=20)
    (cast,) = jobs.glob("*/*/cell/sessions/1.cast")
    trial = cast.parents[2]
    painted = 0
    for _ in range(int(os.environ.get("CHAOS", "3"))):
        cockpit = Cockpit(jobs)
        session = cockpit.process.pid
        if moments.random() < 0.8:  # else also while it starts
            cockpit.watch(10, until=trial.name.rpartition("__")[2].encode())
            os.write(cockpit.master, moments.choice(KEYS))
        cockpit.watch(moments.random())
        painted += trial.name.rpartition("__")[2].encode() in cockpit.seen
        cockpit.kill()
        assert members(session) == []
        size = cast.stat().st_size
        assert until(lambda size=size: cast.stat().st_size > size), "the agent stood still"  # type: ignore[misc]
        assert trials.read_trial(trial).alive
    assert painted, "the control: it did show the cell"
    done.touch()
    assert runner.wait(60) == 0
    assert journal.verify(trial / "cell" / "events.jsonl") is None
    ended = trials.read_trial(trial)
    assert (ended.alive, ended.score) == (False, 0.0)
