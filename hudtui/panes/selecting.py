"""A terminal whose text can be selected with the mouse and copied, and searched."""

from __future__ import annotations

from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from hudtui.panes.terminal import TerminalPane

_SELECTED = Style(reverse=True)


class Spot(NamedTuple):
    """A cell of the whole history: row counted from the first one kept, then column."""

    row: int
    col: int


class SelectingPane(TerminalPane):
    """Drag selects and copies; where the program listens to the pointer, shift drags."""

    ALLOW_SELECT = False

    class Selected(Message):
        """A text was selected."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    _anchor: Spot | None = None
    _head: Spot | None = None
    sought = ""

    def _pointer(self, event: events.MouseEvent, action: str) -> bool:
        """Send the pointer to the program; here nobody listens."""
        return False

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin a selection, or press in the program."""
        event.stop()
        if not self._pointer(event, "press") and event.button == 1:
            self._anchor = self._head = self._spot(event)
            self.capture_mouse()
            self._redraw()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Drag."""
        if self._anchor is not None and event.button:
            self._head = self._spot(event) or self._head
            self._redraw()
        else:
            self._pointer(event, "motion")

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """End the selection, and copy it."""
        event.stop()
        if self._anchor is None:
            self._pointer(event, "release")
            return
        self.release_mouse()
        text = self.selection()
        self._anchor = self._head = None
        self._redraw()
        if text:
            self.post_message(self.Selected(text))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel scrolls the history, or is the program's."""
        event.stop()
        if not self._pointer(event, "press"):
            self.scroll_lines(-3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel scrolls the history, or is the program's."""
        event.stop()
        if not self._pointer(event, "press"):
            self.scroll_lines(3)

    def _spot(self, event: events.MouseEvent) -> Spot | None:
        offset = event.get_content_offset(self)
        if offset is None or self.engine is None:
            return None
        return Spot(self._top + offset.y, self._left + offset.x)

    def _redraw(self) -> None:
        self._drawn = {}
        self.refresh()

    def _range(self) -> tuple[Spot, Spot] | None:
        if self._anchor is None or self._head is None or self._anchor == self._head:
            return None
        return min(self._anchor, self._head), max(self._anchor, self._head)

    def selection(self) -> str:
        """Return the selected text, as much of it as is on the screen."""
        if self.engine is None or (found := self._range()) is None:
            return ""
        first, last = found
        lines = []
        for row in range(first.row, last.row + 1):
            whole = Strip(
                [Segment(text, style) for text, style in self._rows.get(row - self.engine.offset, ())]
            )
            left = first.col if row == first.row else 0
            right = last.col + 1 if row == last.row else whole.cell_length
            lines.append(whole.crop(left, max(left, right)).text.rstrip())
        return "\n".join(lines)

    def search(self, text: str, step: int = -1) -> bool:
        """Go to the next place of `text` in the history (-1 older, 1 newer); say whether there is one."""
        engine = self.engine
        if engine is None:
            return False
        self.sought = text
        found = engine.find(text, step)
        if found:
            self._top = engine.offset
            self.following = self._top >= engine.history
            self._settle(changed=True)
        self._redraw()
        return found

    def render_line(self, y: int) -> Strip:
        """Mark what is selected and what was sought."""
        strip = super().render_line(y)
        engine = self.engine
        if engine is None:
            return strip
        spans: list[tuple[int, int]] = []
        row = y + self._top
        if found := self._range():
            first, last = found
            if first.row <= row <= last.row:
                left = first.col - self._left if row == first.row else 0
                right = last.col + 1 - self._left if row == last.row else strip.cell_length
                spans.append((max(0, left), max(0, right)))
        if self.sought:
            spans += _places(strip.text, self.sought)
        for left, right in spans:
            strip = reversed_strip(strip, left, min(right, strip.cell_length))
        return strip


def _places(text: str, sought: str) -> list[tuple[int, int]]:
    low, needle = text.casefold(), sought.casefold()
    if len(low) != len(text) or not needle:
        return []
    found, at = [], low.find(needle)
    while at >= 0:
        left = Segment(text[:at]).cell_length
        found.append((left, left + Segment(text[at : at + len(needle)]).cell_length))
        at = low.find(needle, at + len(needle))
    return found


def reversed_strip(strip: Strip, left: int, right: int) -> Strip:
    """Return the strip with these cells marked."""
    if not 0 <= left < right:
        return strip
    middle = strip.crop(left, right)
    marked = Strip([Segment(s.text, (s.style or Style.null()) + _SELECTED) for s in middle])
    return Strip.join([strip.crop(0, left), marked, strip.crop(right, strip.cell_length)])
