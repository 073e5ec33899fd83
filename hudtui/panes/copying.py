"""Scroll, find and copy with the keyboard alone: a line cursor in the history, and the lines from a mark."""

from __future__ import annotations

from textual.strip import Strip

from cell.plain import plain
from hudtui.panes.driven import DrivenPane
from hudtui.panes.selecting import reversed_strip

_STEPS = {"k": -1, "up": -1, "j": 1, "down": 1, "ctrl+u": -12, "ctrl+d": 12, "pageup": -24, "pagedown": 24}


class CopyingPane(DrivenPane):
    """`begin_scroll` stops the typing; `/` finds, `v` marks a line, `y` copies up to it, esc goes back."""

    line = 0
    """The line cursor, counted from the first row kept."""
    mark: int | None = None
    finding: str | None = None
    """What is to be found, while it is typed."""
    missing = ""
    """What was not found, until the next key."""

    def begin_scroll(self) -> None:
        """Scroll, from the row of the program's cursor on."""
        self.scrolling, self.mark, self.finding = True, None, None
        used = self._cursor.y if self._cursor is not None else self.page - 1
        self.line = self._top + min(self.page - 1, max(0, used - self._skip))
        self._redraw()

    @property
    def scroll_words(self) -> str:
        """Say what the keys do while scrolling."""
        if self.finding is not None:
            return f"/{plain(self.finding, limit=40)}▏ · enter finds · esc does not"
        if self.missing:
            return f"{plain(self.missing, limit=40)}: not in what this session printed"
        return "scrolling · j k g G · / n N find · v marks · y copies · esc back to typing"

    def _scroll_key(self, key: str, character: str | None) -> None:
        last = max(0, self.total - 1)
        self.missing = ""
        if self.finding is not None:
            self._find_key(key, character, self.finding)
        elif key == "slash":
            self.finding = ""
        elif key in ("n", "N"):
            self._find(self.sought, 1 if key == "N" else -1)
        elif key in _STEPS:
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

    def _find_key(self, key: str, character: str | None, typed: str) -> None:
        if key in ("enter", "escape"):
            self.finding = None
            if key == "enter":
                self._find(typed or self.sought, -1)
        elif key == "backspace":
            self.finding = typed[:-1]
        elif character is not None and character.isprintable():
            self.finding = typed + character

    def _find(self, text: str, step: int) -> None:
        """Go to the next, older line with a text (-1), or to the one before (1)."""
        beyond = self._further(text, step)
        for _ in range(self.page + 1):  # what the engine finds first may be on the page still
            if beyond or not text:
                break
            top = self._top
            if not self.search(text, step):
                break
            beyond = self._further(text, step)
            if self._top != top:
                beyond = beyond or self._shown(text)
        self.sought = text
        if beyond:
            self.line = beyond[-1 if step < 0 else 0]
        else:
            self.missing = text

    def _further(self, text: str, step: int) -> list[int]:
        return [row for row in self._shown(text) if (row > self.line if step > 0 else row < self.line)]

    def _shown(self, text: str) -> list[int]:
        """Return the lines of the page that hold the text."""
        if self.engine is None or not text:
            return []
        wanted, first = text.casefold(), self.engine.offset
        rows = {y: "".join(piece for piece, _ in row) for y, row in self._rows.items()}
        page = range(self._top, self._top + self.page)
        return [row for row in page if wanted in rows.get(row - first, "").casefold()]

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
