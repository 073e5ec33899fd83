"""The agent's own program: what it says and how it ends is passed on, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cell import tether

TETHER = [sys.executable, "-I", "-S", tether.__file__]


def until(met: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not met():
        assert time.monotonic() < end
        time.sleep(0.01)


def start(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*TETHER, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_output_and_status_are_passed_on_and_stdin_is_empty() -> None:
    with start("sh", "-c", "cat; echo said; exit 7") as run:
        assert run.stdout is not None
        assert run.stdout.read() == b"said\n"
    assert run.returncode == 7


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_the_signal_that_ended_it_is_passed_on(number: signal.Signals) -> None:
    with start("sh", "-c", f"kill -{int(number)} $$") as run:
        run.wait(10)
    assert run.returncode == -number


def test_a_command_that_cannot_be_started_is_127() -> None:
    with start("/no/such/program") as run:
        run.wait(10)
    assert run.returncode == 127


DETACHED = 'setsid sh -c "echo \\$\\$; exec sleep 600" & sleep 0.1; echo $$; '


def pids(run: subprocess.Popen[bytes]) -> list[int]:
    assert run.stdout is not None
    return [int(run.stdout.readline()) for _ in "12"]


def test_what_detached_itself_ends_with_the_command() -> None:
    with start("sh", "-c", DETACHED + "exit 0") as run:
        left = pids(run)
        run.wait(10)
        assert not any(map(alive, left))
    assert run.returncode == 0


def test_the_whole_tree_ends_when_the_starter_lets_go() -> None:
    with start("sh", "-c", DETACHED + "sleep 600") as run:
        found = pids(run)
        assert all(map(alive, found))  # the control: it is the closing that ends them
        assert run.stdin is not None
        run.stdin.close()
        run.wait(10)
        assert not any(map(alive, found))


def test_the_whole_tree_ends_when_the_starter_is_killed() -> None:
    script = (
        "import subprocess, sys, time; "
        f"subprocess.Popen([*{TETHER!r}, 'sh', '-c', {DETACHED + 'sleep 600'!r}], stdin=subprocess.PIPE); "
        "time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as starter:
        found = pids(starter)
        assert all(map(alive, found))
        os.kill(starter.pid, signal.SIGKILL)
        until(lambda: not any(map(alive, found)))
