"""Scroll and copy with the keyboard alone: a line cursor in the history, and the lines from a mark to it."""

from __future__ import annotations

from textual.strip import Strip

from hudtui.driven import DrivenPane
from hudtui.selecting import reversed_strip

_STEPS = {"k": -1, "up": -1, "j": 1, "down": 1, "ctrl+u": -12, "ctrl+d": 12, "pageup": -24, "pagedown": 24}


class CopyingPane(DrivenPane):
    """`begin_scroll` stops the typing; `v` marks a line, `y` copies from it to the cursor, esc goes back."""

    line = 0
    """The line cursor, counted from the first row kept."""
    mark: int | None = None

    def begin_scroll(self) -> None:
        """Scroll, from the row of the program's cursor on."""
        self.scrolling, self.mark = True, None
        used = self._cursor.y if self._cursor is not None else self.page - 1
        self.line = self._top + min(self.page - 1, max(0, used - self._skip))
        self._redraw()

    def _scroll_key(self, key: str) -> None:
        last = max(0, self.total - 1)
        if key in _STEPS:
            self._go(max(0, min(last, self.line + _STEPS[key])))
        elif key in ("g", "home"):
            self._go(0)
        elif key in ("G", "end"):
            self._go(last)
        elif key in ("v", "space"):
            self.mark = None if self.mark is not None else self.line
        elif key in ("y", "c", "enter"):
            self._copy()
        elif key in ("escape", "q"):
            self.scrolling = False
            self.follow(True)
        self._redraw()
        self.post_message(self.Changed(self))

    def _go(self, line: int) -> None:
        self.line = line
        if line < self._top:
            self.scroll_lines(line - self._top)
        elif line >= self._top + self.page:
            self.scroll_lines(line - self._top - self.page + 1)

    def _copy(self) -> None:
        first = min(self.line, self.line if self.mark is None else self.mark)
        last = max(self.line, self.line if self.mark is None else self.mark)
        text = "\n".join(self.history_lines(first, last))
        self.mark = None
        if text.strip():
            self.post_message(self.Selected(text))

    def history_lines(self, first: int, last: int) -> list[str]:
        """Return rows of the history as text, also those that are not on the screen."""
        engine = self.engine
        if engine is None:
            return []
        found: list[str] = []
        at = first
        while at <= last:
            engine.scroll_to(min(at, engine.history))
            for y, row in engine.dirty().items():
                self._rows[y] = row
            skip = at - engine.offset
            take = range(skip, min(engine.rows, skip + last - at + 1))
            found += ["".join(text for text, _ in self._rows.get(y, ())).rstrip() for y in take]
            at += max(1, len(take))
        self._settle(changed=True)
        return found

    def render_line(self, y: int) -> Strip:
        """Mark the line cursor, and what would be copied."""
        strip = super().render_line(y)
        if not self.scrolling:
            return strip
        row = self._top + y
        low, high = sorted((self.line, self.line if self.mark is None else self.mark))
        return reversed_strip(strip, 0, strip.cell_length) if low <= row <= high else strip
