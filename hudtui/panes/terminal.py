"""A watched terminal: a recording goes into an engine, its cells come out on the screen.

The size stays the session's own. A smaller pane shows a part of it (the end, while it follows), a
larger one leaves room around it. Nothing is ever sent to the session.
"""

from __future__ import annotations

import time
from pathlib import Path

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from cell.trials.sessions import Session
from hudtui.engine import TURN, Cursor, EngineFactory, Row, TerminalEngine
from hudtui.panes.drawing import Kept, Line
from hudtui.recordings.cast import CastFeed, Feed, RawFeed


class TerminalPane(Kept, can_focus=True):
    """Shows one session, live or finished, from its first byte."""

    remembers = True
    """Whether rows above the screen are kept; without, any flood costs the memory of one screen."""
    budget = 0.010
    """Seconds of one turn spent on reading and feeding; keys are answered between turns."""
    titled = ("", "")
    """What the border says; see `views.titled`."""
    following: reactive[bool] = reactive(True)

    class Changed(Message):
        """What the border should say has changed; `control` is the pane."""

        def __init__(self, pane: TerminalPane) -> None:
            super().__init__()
            self._pane = pane

        @property
        def control(self) -> TerminalPane:
            """The pane."""
            return self._pane

    def __init__(self, factory: EngineFactory, *, fps: float = 30.0, id: str | None = None) -> None:
        super().__init__(id=id)
        self._factory = factory
        self._fps = fps
        self.session: Session | None = None
        self.engine: TerminalEngine | None = None
        self._feed: Feed | None = None
        self._rows: dict[int, Row] = {}
        self._drawn: dict[int, Strip] = {}
        self._cursor: Cursor | None = None
        self._top = 0
        self._left = 0
        self._offset = 0
        self._used = 0
        self._fits = False
        self._edges: dict[tuple[str, int], Strip] = {}
        self._style: Style | None = None

    def on_mount(self) -> None:
        """Start looking for more output."""
        if self._fps:
            self.set_interval(1 / self._fps, self.turn)

    def watch_session(self, session: Session | None) -> None:
        """Show another session; the same one again changes nothing but its facts."""
        if session is not None and self.session is not None and session.path == self.session.path:
            self.session = session
            return
        self.session = session
        self._start()
        self.turn()

    def _start(self) -> None:
        if self.engine is not None:
            self.engine.close()
        self.engine = self._feed = None
        self._rows, self._drawn, self._cursor, self._top, self._left, self._used = {}, {}, None, 0, 0, 0
        self._offset = 0
        self.following = True
        session = self.session
        if session is not None:
            # Output without a terminal has no size of its own, nor has our own shell: it takes the pane's.
            self._fits = (
                not session.path or session.kind == "text" or (session.kind == "cast" and not session.tty)
            )
            cols, rows = self._own_size() if self._fits else (session.cols, session.rows)
            self.engine = self._factory(cols, rows)
            if not self.remembers:
                self.engine.forget()
            self._feed = self._feed_of(session)
        self.refresh()

    def _feed_of(self, session: Session) -> Feed:
        path = Path(session.path)
        if session.kind == "cast":
            return CastFeed(path, plain=not session.tty)
        return RawFeed(path, plain=session.kind == "text")

    def _own_size(self) -> tuple[int, int]:
        return max(20, self.content_size.width), max(5, self.content_size.height)

    @property
    def room(self) -> tuple[int, int]:
        """How many columns and rows there is room for."""
        return self._own_size()

    def on_unmount(self) -> None:
        """Free the engine."""
        if self.engine is not None:
            self.engine.close()
            self.engine = None

    def on_resize(self) -> None:
        """Keep the end in sight; output without a terminal takes the new size."""
        if self.engine is not None and self._fits:
            self.engine.resize(*self._own_size())
        self._drawn = {}
        self._settle(changed=True)

    def turn(self) -> bool:
        """Read and feed for a moment. Returns whether there was anything."""
        engine, feed = self.engine, self._feed
        if engine is None or feed is None or not (self.display and self.is_attached):
            return False
        end = time.monotonic() + self.budget
        worked = False
        while True:
            steps = list(feed.poll(TURN))
            if feed.restarted:
                self._start()
                return True
            for step in steps:
                worked = True
                if step.do == "feed":
                    for at in range(0, len(step.data), TURN):
                        engine.feed(step.data[at : at + TURN])
                elif not self._fits:
                    engine.resize(*step.size)
                    self._drawn = {}
            if not feed.behind or time.monotonic() > end:
                break
        if worked:
            self._settle()
        return worked

    @property
    def total(self) -> int:
        """Rows from the first kept one to the last of the screen."""
        return self.engine.history + self.engine.rows if self.engine else 0

    def _end(self) -> int:
        """The window's first row when it shows the end: what was printed last, or the cursor."""
        engine = self.engine
        if engine is None:
            return 0
        height = max(1, self.content_size.height)
        if self.following and height < engine.rows:
            printed = [y for y, row in self._rows.items() if y < engine.rows and _printed(row)]
            self._used = 1 + max([self._cursor.y if self._cursor else 0, *printed])
        return engine.history + max(0, min(engine.rows, self._used) - height)

    def _settle(self, *, changed: bool = False) -> None:
        """Bring engine, window and screen together again."""
        engine = self.engine
        if engine is None:
            return
        height = max(1, self.content_size.height)
        engine.scroll_to(None if self.following else min(self._top, engine.history))
        self._offset = engine.offset  # kept, for each line drawn asks for it and the engine counts anew
        dirty = engine.dirty()
        before, self._cursor = self._cursor, engine.cursor()
        for y, row in dirty.items():
            self._rows[y] = row
            self._drawn.pop(y, None)
        if self.following:
            top, self._top = self._top, self._end()
            changed = changed or top != self._top
        touched = {*dirty} | {c.y for c in (before, self._cursor) if c is not None and before != self._cursor}
        if changed or len(touched) > height // 2:
            self.refresh()
        elif touched:
            # a key is answered by one row or two: to draw the others as well is what would take the time
            skip, width = self._skip, self.content_size.width
            self.refresh(*(Region(0, y - skip, width, 1) for y in touched if 0 <= y - skip < height))
        self.post_message(self.Changed(self))

    @property
    def _skip(self) -> int:
        """How many rows of the viewport lie above the pane's first line."""
        return self._top - self._offset

    def scroll_lines(self, step: int) -> None:
        """Move the window by lines; at the end it follows again."""
        highest = self._end()
        self._top = max(0, min(self._top + step, highest))
        self.following = self._top >= highest
        self._settle(changed=True)

    def move(self, step: int) -> None:
        """Move the window by lines."""
        self.scroll_lines(step)

    def move_to(self, index: int) -> None:
        """Go to a line of the history; negative counts from the end."""
        self.scroll_lines((index if index >= 0 else self.total + index) - self._top)

    def scroll_side(self, step: int) -> None:
        """Move the window sideways over a terminal wider than the pane."""
        cols = self.engine.cols if self.engine else 0
        self._left = max(0, min(self._left + step, cols - self.content_size.width))
        self._drawn = {}
        self.refresh()

    @property
    def hidden_columns(self) -> str:
        """Say which columns are seen, where the pane has no room for all."""
        width, cols = self.content_size.width, self.engine.cols if self.engine else 0
        return f"columns {self._left + 1}–{self._left + width}" if 0 < width < cols else ""

    def follow(self, on: bool) -> None:
        """Stay at the end, or stay here."""
        self.following = on
        self._settle(changed=True)

    @property
    def page(self) -> int:
        """How many lines are visible at once."""
        return max(1, self.content_size.height)

    def notify_style_update(self) -> None:
        """Draw again: the theme may be another one."""
        super().notify_style_update()
        self._drawn, self._edges, self._style = {}, {}, None

    def render_line(self, y: int) -> Strip:
        """Draw one row of the viewport; beyond the end of a smaller terminal is its edge, then nothing."""
        width = self.content_size.width
        engine = self.engine
        if engine is None:
            return Strip.blank(width, self._ground)
        place = y + self._skip
        edge = engine.cols - self._left  # where the terminal's right edge is in the pane
        row = self._rows.get(place) if place < engine.rows else None
        strip = self._drawn.get(place)
        if row is None:
            if strip is None or strip.cell_length != width:
                below = place == engine.rows and self._bounded and self._top + y == self.total
                edges = "╌" * min(edge, width) + "╯" * (edge < width) if below else ""
                strip = self._drawn[place] = self._beyond(edges, width)
            return strip
        if strip is None or strip.cell_length != width:
            strip = _whole(row, self._ground)
            if self._left or strip.cell_length > width:
                strip = strip.crop(self._left, self._left + width)
            if edge < width and self._bounded:
                strip = strip.adjust_cell_length(edge, self._ground)
                strip = Line([*strip, *self._beyond("╎", width - edge)], width)
            else:
                strip = strip.adjust_cell_length(width, self._ground)
            self._drawn[place] = strip
        if self._cursor is not None and self._cursor.y == place:
            return _with_cursor(strip, self._cursor.x - self._left, width)
        return strip

    @property
    def _bounded(self) -> bool:
        """Whether there is a terminal whose edge can be shown."""
        return self.session is not None and self.session.tty and not self._fits

    def _beyond(self, edge: str, width: int) -> Strip:
        """Return what stands where no cell of the terminal is."""
        if (edge, width) not in self._edges:
            dim = self._ground + Style(dim=True)
            self._edges[edge, width] = Strip([Segment(edge, dim)]).adjust_cell_length(width, self._ground)
        return self._edges[edge, width]

    @property
    def _ground(self) -> Style:
        """The pane's own style; Textual works it out anew for each picture, and it is the same for long."""
        if self._style is None:
            self._style = self.rich_style
        return self._style


def _printed(row: Row) -> bool:
    return any(text.strip() or style.bgcolor is not None for text, style in row)


def _whole(row: Row, ground: Style) -> Strip:
    """Return a row over the ground. A strip is dear to make (seven caches), and a flood makes thousands."""
    ascii_only = all(text.isascii() for text, _ in row)
    length = sum(len(text) for text, _ in row) if ascii_only else None
    return Line([Segment(text, ground + style) for text, style in row], length)


def _with_cursor(strip: Strip, x: int, width: int) -> Strip:
    if not 0 <= x < width:
        return strip
    before, under, after = (
        strip.divide([x, x + 1, width]) if x + 1 < width else (*strip.divide([x, width]), Strip([]))
    )
    reverse = Style(reverse=True)
    return Strip.join(
        [before, Strip([Segment(s.text, (s.style or Style.null()) + reverse) for s in under]), after]
    )
