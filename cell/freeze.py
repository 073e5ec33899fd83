"""Making the agent's processes stand still, and go on as if nothing had been (promise O5).

A shell that sees its job stopped takes the terminal back. So whoever starts others is stopped before
those it started, and goes on after them: nobody can look on while somebody else stands still.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from . import kernel
from .child import family
from .sandbox import Sandbox

_ROUNDS = 1000  # after so many looks that each found new processes, something forks faster than we look
_STOPPING = 0.2  # seconds for a process to notice that it was stopped; a stuck one is left to it


class Freezer:
    """Stops all processes of a sandbox but its pid 1, and those that are to be spared."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._stopped: dict[int, str] = {}  # pid → start time, in the order in which they were stopped
        self._lock = asyncio.Lock()

    async def freeze(self, spared: Callable[[], list[int]]) -> None:
        """Stop all, whatever they start meanwhile. `spared` gives the leaders whose families go on.

        One that the agent itself had stopped is left alone, also when the others go on.
        """
        if not self._sandbox.pid_namespace:
            return
        async with self._lock:
            await asyncio.to_thread(self._stop_all, spared)
            for pid in _families(spared()):  # a shell that was opened at this very moment
                if pid in self._stopped:
                    _signal(pid, self._stopped.pop(pid), signal.SIGCONT)

    async def thaw(self) -> None:
        """Let all those go on that were stopped."""
        async with self._lock:
            for pid, start in reversed(self._stopped.items()):
                _signal(pid, start, signal.SIGCONT)
            self._stopped.clear()

    def _stop_all(self, spared: Callable[[], list[int]]) -> None:
        passed: set[int] = set()
        for _ in range(_ROUNDS):
            living = set(kernel.processes_in(self._sandbox.pid_namespace)) - {self._sandbox.pid}
            fresh = living - self._stopped.keys() - passed - _families(spared())
            if not fresh:
                return
            for pid in _elders_first(fresh):
                fields = kernel.stat_fields(pid)
                if not fields or fields[0] in "TtZX":
                    passed.add(pid)
                elif _signal(pid, fields[19], signal.SIGSTOP):
                    self._stopped[pid] = fields[19]
                    _await_stop(pid)


def _families(leaders: list[int]) -> set[int]:
    return {pid for leader in leaders if leader for pid in family(leader)}


def _elders_first(pids: set[int]) -> list[int]:
    parents = {pid: int((kernel.stat_fields(pid) or ["", "0"])[1]) for pid in pids}

    def generation(pid: int) -> int:
        depth, seen = 0, {pid}
        while (pid := parents.get(pid, 0)) and pid not in seen:
            seen.add(pid)
            depth += 1
        return depth

    return sorted(pids, key=lambda pid: (generation(pid), pid))


def _signal(pid: int, start: str, number: signal.Signals) -> bool:
    """Signal a process, if it is still the one that was meant."""
    fields = kernel.stat_fields(pid)
    if not fields or fields[19] != start:
        return False
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
        return True
    return False


def _await_stop(pid: int) -> None:
    end = time.monotonic() + _STOPPING
    while (kernel.stat_fields(pid) or "X")[0] not in "TtZX" and time.monotonic() < end:
        time.sleep(0.0005)
