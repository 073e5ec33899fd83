"""A document of styled lines with a cursor: verdicts, files, records, help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from hudtui.look import Run
from hudtui.panes.drawing import Coloured


class Line(NamedTuple):
    """One line. `ref` names what `enter` opens; `hang` is the indent of what does not fit on it."""

    runs: tuple[Run, ...]
    ref: str = ""
    hang: int = 0

    @property
    def text(self) -> str:
        """The line without its roles."""
        return "".join(text for text, _ in self.runs)


def line(*runs: Run | str, ref: str = "", hang: int = 0) -> Line:
    """Make a line of texts and (text, role) runs."""
    return Line(tuple((run, "") if isinstance(run, str) else run for run in runs), ref, hang)


def wrap(lines: Sequence[Line], width: int) -> list[Line]:
    """Break lines longer than `width` cells at spaces, where there are any; pure."""
    found: list[Line] = []
    for one in lines:
        found += _broken(one, max(10, width))
    return found


def _broken(one: Line, width: int) -> list[Line]:
    if sum(cell_len(text) for text, _ in one.runs) <= width:
        return [one]
    hang = min(one.hang, width // 2)
    pieces: list[Line] = []
    now: list[Run] = []
    used = 0
    for text, role in one.runs:
        for piece in _words(text):
            word = piece
            length = cell_len(word)
            if used and used + cell_len(word.rstrip()) > width:
                pieces.append(Line(tuple(now), one.ref, one.hang))
                now, used, word = [(" " * hang, "")], hang, word.lstrip() or ""
                length = cell_len(word)
            if used + length <= width or word.isspace():
                now.append((word, role))
                used += length
                continue
            for part in chop_cells(word, max(1, width - hang)):
                if used + cell_len(part) > width:
                    pieces.append(Line(tuple(now), one.ref, one.hang))
                    now, used = [(" " * hang, "")], hang
                now.append((part, role))
                used += cell_len(part)
    pieces.append(Line(tuple(now), one.ref, one.hang))
    return pieces


def _words(text: str) -> list[str]:
    """Cut after each run of spaces, losing none."""
    found, start, inside = [], 0, False
    for at, char in enumerate(text):
        if char == " ":
            inside = True
        elif inside:
            found.append(text[start:at])
            start, inside = at, False
    found.append(text[start:])
    return found


class Doc(Coloured, ScrollView, can_focus=True, inherit_bindings=False):
    """Shows lines. With `wrapped` they are broken to the width, else they scroll sideways."""

    titled = ("", "")
    """What the border says; see `views.titled`."""
    COMPONENT_CLASSES = {"doc--cursor", "doc--match"}  # noqa: RUF012
    cursor: reactive[int] = reactive(0, repaint=False)

    class Opened(Message):
        """A line was clicked twice."""

        def __init__(self, doc: Doc) -> None:
            super().__init__()
            self.doc = doc

    def __init__(self, *, wrapped: bool = True, id: str | None = None) -> None:
        super().__init__(id=id)
        self._source: list[Line] = []
        self._wrapped = wrapped
        self.lines: list[Line] = []
        self.sought = ""
        self._broken_at = -1

    def show(self, lines: Sequence[Line], *, keep: bool = False) -> None:
        """Show these lines, from the top or, with `keep`, from where the reader is."""
        if keep and list(lines) == self._source:
            return
        self._source = list(lines)
        self._broken_at = -1
        self._break()
        if not keep:
            self.scroll_to(0, 0, animate=False, immediate=True)
        self.cursor = max(0, min(self.cursor if keep else 0, len(self.lines) - 1))
        self.refresh()

    def _break(self) -> None:
        width = self.scrollable_content_region.width
        if width == self._broken_at:
            return
        self._broken_at = width
        if self._wrapped and width:
            self.lines = wrap(self._source, width)
            self.virtual_size = Size(0, len(self.lines))
        else:
            self.lines = self._source
            longest = max((cell_len(one.text) for one in self.lines), default=0)
            self.virtual_size = Size(longest, len(self.lines))

    def on_resize(self) -> None:
        """Break the lines to the new width."""
        self._break()
        self.refresh()

    @property
    def current(self) -> Line | None:
        """The line under the cursor."""
        return self.lines[self.cursor] if 0 <= self.cursor < len(self.lines) else None

    def move(self, step: int) -> None:
        """Move the cursor by lines, stopping at both ends."""
        self.cursor = max(0, min(self.cursor + step, len(self.lines) - 1))

    def move_to(self, index: int) -> None:
        """Put the cursor on a line; negative counts from the end."""
        self.move((index if index >= 0 else len(self.lines) + index) - self.cursor)

    @property
    def page(self) -> int:
        """How many lines are visible at once."""
        return max(1, self.scrollable_content_region.height)

    def watch_cursor(self) -> None:
        """Keep the cursor in sight."""
        if self.is_attached:
            x = self.scroll_offset.x
            self.scroll_to_region(Region(x, self.cursor, 1, 1), animate=False, force=True, immediate=True)
        self.refresh()

    def find(self, step: int) -> bool:
        """Go to the next (1) or previous (-1) line with the sought text; say whether there is one."""
        wanted = self.sought.casefold()
        count = len(self.lines)
        for offset in range(1, count + 1) if wanted else ():
            at = (self.cursor + step * offset) % count
            if wanted in self.lines[at].text.casefold():
                self.cursor = at
                return True
        return False

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        width = self.scrollable_content_region.width
        left, top = self.scroll_offset
        index = y + top
        if index >= len(self.lines):
            return Strip.blank(width, self.rich_style)
        one = self.lines[index]
        length = max(left + width, cell_len(one.text))
        strip = self.look.strip(one.runs, length).crop(left, left + width)
        if one.ref and self.has_focus and cell_len(one.text) + 2 <= width:
            strip = Strip([*strip.crop(0, width - 2), *self.look.strip([(" ›", "link")], 2)], width)
        if index == self.cursor and self.has_focus:
            return strip.apply_style(self.get_component_rich_style("doc--cursor"))
        if self.sought and self.sought.casefold() in one.text.casefold():
            return strip.apply_style(self.get_component_rich_style("doc--match"))
        return strip.apply_style(self.rich_style)

    def on_click(self, event: events.Click) -> None:
        """A click goes to a line, twice opens it."""
        if (offset := event.get_content_offset(self)) is not None:
            self.move_to(min(offset.y + self.scroll_offset.y, len(self.lines) - 1))
            if event.chain > 1:
                self.post_message(self.Opened(self))
