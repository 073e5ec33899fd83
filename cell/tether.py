"""Runs a command that must not outlive whoever started it: `tether.py PROGRAM ARGUMENT…`.

An agent's own program works on this machine, outside of every cell. Its starter holds the other end of
this process's stdin; when that closes, also because the starter was killed, everything the command
started is killed: as a subreaper this process is the parent of what detached itself. The command gets
/dev/null as stdin and a session of its own. Its exit status, or the signal that ended it, is this
process's own.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PATIENCE = 5.0  # seconds; something with more power than this process cannot be killed by it
_NOT_STARTED = 127  # as a shell says it


def main(command: list[str]) -> int:
    """Run `command` to its end or to the end of stdin, and leave nothing of it."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ours = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(command, libc, ours)
    status = _wait(pid)
    _end_all()
    if status is None:
        return 0
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(ours, number)
    return os.waitstatus_to_exitcode(status)


def _become(command: list[str], libc: ctypes.CDLL, parent: int) -> None:
    """Turn this child into the command. It dies with its parent, should that be killed."""
    try:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            os.setsid()
            null = os.open("/dev/null", os.O_RDONLY)
            os.dup2(null, 0)
            os.execvp(command[0], command)  # noqa: S606
    finally:
        os._exit(_NOT_STARTED)


def _wait(pid: int) -> int | None:
    """Return the wait status of `pid`; None when stdin closed before."""
    poll, pidfd = select.poll(), os.pidfd_open(pid)
    poll.register(pidfd, select.POLLIN)
    poll.register(0, 0)  # nothing is ever sent; that it was closed is always told
    while True:
        ready = dict(poll.poll())
        if 0 in ready:
            return None
        if pidfd in ready:
            return os.waitpid(pid, 0)[1]


def _end_all() -> None:
    """Kill every descendant until none is left."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        for pid in _descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        time.sleep(0.005)


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
