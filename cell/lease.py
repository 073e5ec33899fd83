"""Whose turn it is: who drives a session's keyboard, and whether the agent has to wait (promises O1, O5).

A session has one driver at a time; another takes over only by saying so. While any keyboard is lent
out, or the cell is paused, the agent waits: what it types into a lent session, and every new session
it asks for. Waiting is all that happens to it: nothing is refused, and nothing is lost or mixed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from .errors import Refused
from .events import AnyEvent, Lease, Paused
from .records import Held


class Occupied(Refused):
    """Somebody else has this keyboard."""


@dataclass(eq=False)
class Driver:
    """One who has a session's keyboard. `lost` is done, with the reason, when another one has taken it."""

    session: int
    who: str
    since: float = field(default_factory=time.time)
    lost: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Turns:
    """The keyboards and the pause of one cell.

    `record` journals an event, `changed` is called after each change. With `alone` there is no agent
    beside the operator (a person does the task), so that a lent keyboard stops no clock.
    """

    def __init__(
        self, record: Callable[[AnyEvent], object], changed: Callable[[], None], *, alone: bool = False
    ) -> None:
        self._record, self._changed, self._alone = record, changed, alone
        self.drivers: dict[int, Driver] = {}
        self.paused = False
        self.frozen = False
        self._waiting: list[asyncio.Future[None]] = []
        self._total = 0.0
        self._since: float | None = None
        self.held_since = 0.0

    # ── keyboards ─────────────────────────────────────────────────────────────────────────────

    def take(self, session: int, who: str, *, over: bool) -> Driver:
        """Give the keyboard of `session` to `who`; with `over`, from whoever has it.

        Errors: Occupied, naming who has it and since when.
        """
        before = self.drivers.get(session)
        if before is not None and not over:
            since = time.strftime("%H:%M:%S", time.localtime(before.since))
            raise Occupied(
                f"{before.who} has the keyboard of session {session} since {since}; --take takes it"
            )
        driver = Driver(session, who)
        self.drivers[session] = driver
        if before is not None:
            before.lost.set_result(f"{who} took the keyboard of session {session}")
        self._record(
            Lease(session=session, holder=who, reason=f"taken over from {before.who}" if before else "taken")
        )
        self._settle()
        return driver

    def give_back(self, driver: Driver, reason: str) -> None:
        """Take the keyboard from `driver`, if it is still theirs, and let the agent go on."""
        if self.drivers.get(driver.session) is driver:
            del self.drivers[driver.session]
            try:
                self._record(Lease(session=driver.session, reason=reason))
            finally:
                self._settle()

    # ── pause ─────────────────────────────────────────────────────────────────────────────────

    def pause(self, by: str, *, frozen: bool) -> None:
        """Have the agent wait; `frozen` says that its processes were stopped, too."""
        self.paused, self.frozen = True, frozen
        self._record(Paused(paused=True, by=by, frozen=frozen))
        self._settle()

    def resume(self, by: str) -> None:
        """Let the agent go on, if it was paused."""
        if self.paused:
            self.paused = self.frozen = False
            try:
                self._record(Paused(paused=False, by=by))
            finally:
                self._settle()

    # ── the agent's side ──────────────────────────────────────────────────────────────────────

    def free(self, session: int | None, *, agent: bool) -> bool:
        """Say whether the client of `session` may act now; None asks for a new session."""
        if agent and self.paused:
            return False
        return not self.drivers if session is None else session not in self.drivers

    async def wait(self, session: int | None, *, agent: bool) -> None:
        """Return when `free`; those who wait go on in the order in which they came."""
        while not self.free(session, agent=agent):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    async def claim(
        self, session: int | None, *, agent: bool, gone: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """The same, or ConnectionError when `gone` returns before that."""
        if self.free(session, agent=agent):
            return
        turn, left = asyncio.create_task(self.wait(session, agent=agent)), asyncio.create_task(gone())
        try:
            await asyncio.wait({turn, left}, return_when=asyncio.FIRST_COMPLETED)
            if not turn.done():
                raise ConnectionResetError
        finally:
            turn.cancel()
            left.cancel()

    @property
    def waiting(self) -> int:
        """How many of the agent's doings wait."""
        return sum(not turn.done() for turn in self._waiting)

    # ── the clock ─────────────────────────────────────────────────────────────────────────────

    @property
    def held(self) -> float:
        """Seconds so far in which the agent had to wait: they do not count against its deadline."""
        return self._total + (time.monotonic() - self._since if self._since is not None else 0.0)

    def told(self) -> Held:
        """Return all of this as cell.json shows it."""
        drivers = {number: (one.who, one.since) for number, one in sorted(self.drivers.items())}
        return Held(
            paused=self.paused,
            frozen=self.frozen,
            drivers=drivers,
            sec=round(self._total, 3),
            since=self.held_since,
        )

    def _settle(self) -> None:
        holding = self.paused or (bool(self.drivers) and not self._alone)
        if holding and self._since is None:
            self._since, self.held_since = time.monotonic(), time.time()
        elif not holding and self._since is not None:
            self._total += time.monotonic() - self._since
            self._since, self.held_since = None, 0.0
        # all are woken, in order: one that is still not free waits again, behind nobody who came later
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)
        self._changed()
