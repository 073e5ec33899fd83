"""An engine that can be taken to any moment of a film.

A second engine, the scout, runs ahead when there is time and keeps the whole state every few seconds;
a seek starts from the nearest of these keyframes. Both work in short turns, so that keys are answered.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from typing import NamedTuple

from hudtui.engine import TURN, EngineFactory, TerminalEngine
from hudtui.recordings.cast import size_of
from hudtui.recordings.film import Film

EVERY = 5.0
"""Seconds of the recording between two keyframes."""
EVERY_SIZE = 256 << 10
"""Characters between two keyframes, where much is printed at once."""
_MOST = 64 << 20
_NEAR = 20


class _Keyframe(NamedTuple):
    events: int
    state: bytes


class Player:
    """Plays `film`. `aim` is how many of its events should have been fed, `index` how many have been."""

    def __init__(
        self, film: Film, factory: EngineFactory, size: tuple[int, int], *, plain: bool = False
    ) -> None:
        self.film = film
        self.aim = self.index = 0
        self.engine, self._scout = factory(*size), factory(*size)
        self._plain = plain
        for engine in (self.engine, self._scout):
            engine.forget()
        self._frames = [_Keyframe(0, self.engine.snapshot() or b"")]
        self._scouted = 0
        self._apart = 1.0
        self._size = 0

    def close(self) -> None:
        """Free both engines."""
        self.engine.close()
        self._scout.close()

    @property
    def arrived(self) -> bool:
        """Whether the engine shows what it should."""
        return self.index == self.aim

    @property
    def indexed(self) -> bool:
        """Whether the scout has seen everything that is recorded so far."""
        return self._scouted >= len(self.film.events)

    @property
    def keyframes(self) -> int:
        """How many keyframes are kept."""
        return len(self._frames)

    def seek(self, t: float) -> None:
        """Aim at a moment."""
        self.seek_index(self.film.index(t))

    def seek_index(self, index: int) -> None:
        """Aim at the moment after so many events."""
        self.aim = max(0, min(index, len(self.film.events)))

    def work(self, budget: float) -> bool:
        """Go towards the aim for at most `budget` seconds; say whether the engine changed."""
        if self.arrived:
            return False
        at = bisect_right(self._frames, self.aim, key=lambda frame: frame.events) - 1
        frame = self._frames[at]
        # To come back costs as much as a few steps forward.
        near = frame.events - self.index < _NEAR and self.film.size(self.index, frame.events) < TURN
        if self.aim < self.index or (frame.events > self.index and not near):
            self.engine.restore(frame.state)
            self.index = frame.events
        end = time.monotonic() + budget
        while self.index < self.aim:
            self._feed(self.engine, self.index)
            self.index += 1
            if time.monotonic() > end:
                break
        return True

    def scout(self, budget: float) -> bool:
        """Run ahead for at most `budget` seconds; say whether there is more to do."""
        end = time.monotonic() + budget
        film = self.film
        while self._scouted < len(film.events) and time.monotonic() < end:
            self._feed(self._scout, self._scouted)
            self._scouted += 1
            last = self._frames[-1].events
            passed = film.time(self._scouted - 1) - (film.time(last - 1) if last else 0.0)
            if passed >= EVERY * self._apart or film.size(last, self._scouted) >= EVERY_SIZE * self._apart:
                self._keep()
        return not self.indexed

    def _keep(self) -> None:
        state = self._scout.snapshot()
        if state is None:
            return
        self._frames.append(_Keyframe(self._scouted, state))
        self._size += len(state)
        if self._size > _MOST:
            # Half of them, twice as far apart: a night of recording still fits.
            self._frames = self._frames[::2]
            self._size = sum(len(frame.state) for frame in self._frames)
            self._apart *= 2

    def _feed(self, engine: TerminalEngine, index: int) -> None:
        event = self.film.events[index]
        if event.kind == "r":
            if (size := size_of(event.data)) and not self._plain:
                engine.resize(*size)
            return
        text = event.data.replace("\n", "\r\n") if self._plain else event.data
        data = text.encode("utf-8", "replace")
        for at in range(0, len(data), TURN):
            engine.feed(data[at : at + TURN])
