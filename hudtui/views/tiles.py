"""Several terminals at once: four in a square, the rest as thumbnails below them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import count, cycle, islice
from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult

from cell.trials import Trial
from cell.trials.sessions import Session
from hudtui.engine import EngineFactory
from hudtui.panes.drawing import Ground
from hudtui.panes.selecting import SelectingPane
from hudtui.views import titled
from hudtui.views.watching import session_name, state_words

if TYPE_CHECKING:
    from hudtui.app import HudApp

LARGE, SMALL = 4, 6
_WIDE, _LOW = 110, 8
"""Columns for two beside each other; rows that one needs at the least."""
_CALM = 12.0
"""Pictures a second of a tile: four of them are drawn where one is read."""
_SLOWER = 4
"""How many rounds of the large ones there are to one of the thumbnails."""
_PATIENCE = 5
"""How many times as long as its turn took all tiles rest: turns take a sixth of the time at most."""
KEYS_FIRST, STALE = 0.05, 0.25
"""For so long after a key nothing is drawn but its answer; unless a picture is older than that."""


class TilePane(SelectingPane):
    """A terminal as it is now; enter shows the whole of it."""

    remembers = False
    budget = 0.003


class Tiles(Ground):
    """Shows the sessions it is given, those that run first. Hidden, it holds no engine."""

    def __init__(self, factory: EngineFactory, *, fps: float, id: str) -> None:
        super().__init__(id=id)
        self._fps = min(fps, _CALM)
        self.large = [TilePane(factory, fps=0, id=f"tile-{n}") for n in range(LARGE)]
        self.small = [TilePane(factory, fps=0, id=f"thumb-{n}") for n in range(SMALL)]
        self.trials: dict[str, Trial] = {}
        self._order = _rounds(self.large, self.small)
        self._rest = self._worked = 0.0

    def compose(self) -> ComposeResult:
        """The square, and the thumbnails in a row."""
        with Ground(id="tiles-large"):
            yield from self.large
        with Ground(id="tiles-small"):
            yield from self.small

    def on_mount(self) -> None:
        """Begin hidden."""
        self.show_none()
        if self._fps:
            self.set_interval(1 / (self._fps * LARGE), self.turn_next)

    def turn_next(self) -> TilePane | None:
        """Bring one tile up to date, if it is time: all at once would be one long picture."""
        began = time.monotonic()
        if not due(began, rest=self._rest, typed=cast("HudApp", self.app).typed_at, worked=self._worked):
            return None
        turned = next((pane for pane in islice(self._order, LARGE + SMALL) if pane.turn()), None)
        if turned is not None:
            self._worked = began
        self._rest = began + (1 + _PATIENCE) * (time.monotonic() - began)
        return turned

    @property
    def room(self) -> tuple[int, int]:
        """How many large and how many small ones the screen has room for; a narrow one: a column."""
        width, height = self.app.size
        if width < _WIDE:
            return max(1, min(LARGE, (height - 3) // _LOW)), 0
        return LARGE, SMALL

    @property
    def shown(self) -> list[SelectingPane]:
        """The panes that show a session."""
        return [pane for pane in (*self.large, *self.small) if pane.session is not None]

    def show_sessions(self, sessions: Sequence[tuple[Trial, Session]]) -> None:
        """Show these; a session stays in its pane as long as it is among them."""
        large, small = self.room
        order = sorted(sessions, key=lambda one: not one[1].running)[: large + small]
        self.trials = {session.path: trial for trial, session in order}
        wanted = {session.path: session for _, session in order}
        panes = [*self.large[:large], *self.small[:small]]
        for pane in (*self.large[large:], *self.small[small:]):
            pane.set_class(True, "hidden")
            pane.watch_session(None)
        kept = {pane.session.path for pane in panes if pane.session and pane.session.path in wanted}
        fresh = iter([session for session in wanted.values() if session.path not in kept])
        for pane in panes:
            before = pane.session.path if pane.session else ""
            session = wanted[before] if before in kept else next(fresh, None)
            pane.set_class(session is None, "hidden")
            pane.watch_session(session)
            self._title(pane)
        self.query_one("#tiles-small").set_class(not any(pane.session for pane in self.small), "hidden")
        count = sum(pane.session is not None for pane in self.large)
        self.query_one("#tiles-large").set_class(count == 1, "one")

    def show_none(self) -> None:
        """Free the engines."""
        for pane in (*self.large, *self.small):
            pane.watch_session(None)

    def focus_first(self) -> None:
        """Give the first tile the focus."""
        if visible := self.shown:
            visible[0].focus()

    def _title(self, pane: SelectingPane) -> None:
        session = pane.session
        if session is None:
            return
        trial = self.trials.get(session.path)
        name = f"{trial.id} {trial.task} · {session_name(session)}" if trial else session_name(session)
        titled(pane, name, state_words(pane, session))

    def on_terminal_pane_changed(self, event: SelectingPane.Changed) -> None:
        """Say on the border what changed."""
        event.stop()
        if isinstance(pane := event.control, SelectingPane):
            self._title(pane)


def due(now: float, *, rest: float, typed: float, worked: float) -> bool:
    """Say whether a tile is drawn now: `rest` is when its rest ends, the others when that last was."""
    return now >= rest and (now >= typed + KEYS_FIRST or now >= worked + STALE)


def _rounds(large: Sequence[TilePane], small: Sequence[TilePane]) -> Iterator[TilePane]:
    """Yield the large ones round after round; each several rounds also one of the small ones."""
    later = cycle(small)
    for number in count(1):
        yield from large
        if number % _SLOWER == 0:
            yield next(later)
