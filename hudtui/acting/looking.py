"""What the cockpit knows: the folders as they were at the last look, and the cell in scope."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from textual.app import App

from cell.plain import plain
from cell.trials import Reader, Snapshot, Trial
from cell.trials.egress import EgressReader, denied_within
from hudtui.actions import View
from hudtui.engine import EngineFactory, TerminalEngine
from hudtui.frame.screens import bindings
from hudtui.lines.fleet import counted
from hudtui.look import ANSI_DARK, ANSI_LIGHT, DARK, LIGHT
from hudtui.panes.chrome import Bar, footer_runs, header_runs, place_of
from hudtui.views import HudView
from hudtui.views.fleet import FleetView


def ghostty(cols: int, rows: int) -> TerminalEngine:
    """Make a real engine; the import costs 0.3 s and waits until a terminal is shown."""
    from hudtui.engine.ghostty import GhosttyEngine

    return GhosttyEngine(cols, rows)


class Looking(App[None]):
    """Reads the folders again and again, and fills header and footer.

    `clock` gives epoch seconds. `poll` is the pause between two looks in seconds, 0 for none but the
    first (tests look by hand); `fps` how often terminals are drawn, 0 likewise.
    """

    def __init__(
        self,
        paths: Iterable[Path | str],
        *,
        engine: EngineFactory = ghostty,
        clock: Callable[[], float] = time.time,
        poll: float = 1.0,
        fps: float = 30.0,
        theme: str = DARK.name,
        start_filter: str = "",
    ) -> None:
        super().__init__()
        self.engine, self.clock, self.fps = engine, clock, fps
        self._poll, self._start_filter = poll, start_filter
        self._reader = Reader(paths, clock=clock)
        self.snapshot = Snapshot()
        self.hits = EgressReader()
        self.scope: str | None = None
        self.view: View = "fleet"
        self._looking = False
        self._flashing = False
        for each in (DARK, LIGHT):
            self.register_theme(each)
        self.theme = theme
        self.ansi_theme_dark, self.ansi_theme_light = ANSI_DARK, ANSI_LIGHT
        self.views: dict[View, HudView] = {}
        for binding in bindings():
            self._bindings.key_to_bindings.setdefault(binding.key, []).append(binding)

    @property
    def fleet(self) -> FleetView:
        """The table of cells, which every other view is entered from."""
        view = self.views["fleet"]
        assert isinstance(view, FleetView)
        return view

    @property
    def current(self) -> HudView:
        """The view in front."""
        return self.views[self.view]

    def look(self) -> None:
        """Read the folders now."""
        self._took(self._read())

    def _read(self) -> Snapshot:
        snapshot = self._reader.scan()
        self.hits.scan(snapshot.trials)
        return snapshot

    async def _look_again(self) -> None:
        if self._looking:
            return
        self._looking = True
        try:
            snapshot = await asyncio.to_thread(self._read)
        finally:
            self._looking = False
        if self.is_running:
            self._took(snapshot)

    def _took(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.fleet.looked(snapshot.trials)
        if self.scope is not None and self.scoped is None:
            self.flash(f"{plain(Path(self.scope).name)} is gone")
            self.scope = None
        self.header()
        self.current.update()

    @property
    def scoped(self) -> Trial | None:
        """The one cell that views 2 to 7 are about; None for all."""
        if self.scope is None:
            return None
        return next((trial for trial in self.snapshot.trials if trial.path == self.scope), None)

    def header(self) -> None:
        """Fill the header."""
        place = place_of(self.snapshot.jobs, self._reader.paths)
        counts = counted(self.snapshot.jobs)
        hits = self.hits.hits
        denied = denied_within(hits, self.clock()) if hits else None
        runs = header_runs(counts, place, self.scoped, self.size.width, denied=denied)
        self.query_one("#header", Bar).show(runs)

    @property
    def typed_at(self) -> float:
        """When the last key was read, as `time.monotonic` counts."""
        return getattr(self._driver, "typed_at", 0.0)

    captured = False
    """Whether the keyboard is a cell's."""

    def show_footer(self) -> None:
        """Show the keys of the view in front."""
        self._flashing = False
        self.query_one("#footer", Bar).show(footer_runs(self.view, self.size.width - 2))

    def flash(self, text: str) -> None:
        """Say something on the footer until the next key."""
        self._flashing = True
        self.query_one("#footer", Bar).show([(plain(text, limit=300), "warn")])
