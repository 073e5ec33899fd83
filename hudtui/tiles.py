"""Several terminals at once: four in a square, the rest as thumbnails below them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container

from cell.trials import Trial
from cell.trials.sessions import Session
from hudtui.engine import EngineFactory
from hudtui.selecting import SelectingPane
from hudtui.views import titled
from hudtui.watching import session_name, state_words

LARGE, SMALL = 4, 6
_WIDE, _LOW = 110, 8
"""Columns for two beside each other; rows that one needs at the least."""
_PATIENCE = 20
"""How many times as long as its turn took a tile rests: what four take is a fifth of the time."""
_CALM = 12.0
"""Pictures a second of the tiles: four of them are drawn where one is read."""


class TilePane(SelectingPane):
    """A terminal as it is now; enter shows the whole of it."""

    remembers = False
    _rest = 0.0

    def turn(self) -> bool:
        """As `TerminalPane`; where a turn takes long, the next one waits longer: keys come first."""
        began = time.monotonic()
        if began < self._rest:
            return False
        worked = super().turn()
        self._rest = time.monotonic() + _PATIENCE * (time.monotonic() - began)
        return worked


class Tiles(Container):
    """Shows the sessions it is given, those that run first. Hidden, it holds no engine."""

    def __init__(self, factory: EngineFactory, *, fps: float, id: str) -> None:
        super().__init__(id=id)
        calm = min(fps, _CALM)
        self.large = [TilePane(factory, fps=calm, id=f"tile-{n}") for n in range(LARGE)]
        self.small = [TilePane(factory, fps=calm / 4, id=f"thumb-{n}") for n in range(SMALL)]
        self.trials: dict[str, Trial] = {}

    def compose(self) -> ComposeResult:
        """The square, and the thumbnails in a row."""
        with Container(id="tiles-large"):
            yield from self.large
        with Container(id="tiles-small"):
            yield from self.small

    def on_mount(self) -> None:
        """Begin hidden."""
        self.show_none()

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
