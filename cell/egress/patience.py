"""How long a client is waited for: one timer for each connection, moved only when it has to be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cell.egress.context import Limits


class Patience:
    """Calls `late` with what was waited for, when that took longer than its limit.

    `head` has one deadline, however its bytes drip; everything that happens in an exchange gives that
    a new one.
    """

    def __init__(self, limits: Limits, late: Callable[[str], None]) -> None:
        self._late, self._loop = late, asyncio.get_running_loop()
        self._times = limits.times
        self._otherwise = limits.stall
        self._what, self._deadline = "", 0.0
        self._timer: asyncio.TimerHandle | None = None

    def wait_for(self, what: str, *, anew: bool = False) -> None:
        """Wait for something; for the same thing as before no longer, unless `anew`."""
        if what == self._what and not anew:
            return
        self._what = what
        self._deadline = self._loop.time() + self._times.get(what, self._otherwise)
        if self._timer is None or self._timer.when() > self._deadline:
            self.stop()
            self._timer = self._loop.call_at(self._deadline, self._look)

    def stop(self) -> None:
        """Wait for nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look)
        else:
            self._late(self._what)
