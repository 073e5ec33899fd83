"""A table drawn line by line: only what is visible is ever formatted, so 10,000 rows mount at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from rich.cells import cell_len, set_cell_size
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from hudtui.look import Run
from hudtui.panes.drawing import Coloured

T = TypeVar("T")


class Column(NamedTuple):
    """`width` in cells; `grow` is its share of what is left over; numbers stand to the right."""

    key: str
    title: str
    width: int
    right: bool = False
    grow: int = 0


class Group(NamedTuple):
    """A heading between rows; the cursor passes over it. `tail` stands where column `at` begins."""

    title: str
    role: str = "head"
    tail: str = ""
    at: str = ""


class Table(Coloured, ScrollView, Generic[T], can_focus=True, inherit_bindings=False):
    """Rows of `T` under a fixed heading. `cells(row, now)` says what stands in each column."""

    titled = ("", "")
    """What the border says; see `views.titled`."""
    COMPONENT_CLASSES = {"table--cursor"}  # noqa: RUF012
    cursor: reactive[int] = reactive(0, repaint=False)

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, table: Table[object]) -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> Table[object]:
            """The table."""
            return self.table

    class Opened(Moved):
        """A row was clicked twice."""

    class HeadClicked(Moved):
        """The heading of `column` was clicked."""

        def __init__(self, table: Table[object], column: str) -> None:
            super().__init__(table)
            self.column = column

    def __init__(
        self,
        columns: Callable[[int], tuple[Column, ...]],
        cells: Callable[[T], Sequence[Sequence[Run]]],
        key: Callable[[T], str],
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._columns = columns
        self._cells = cells
        self._key = key
        self.entries: Sequence[T | Group] = ()
        self.sorted_by = ("", False)
        self.marks: set[str] = set()
        self.empty = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that there is room for."""
        return self._columns(self.scrollable_content_region.width)

    def show(self, entries: Sequence[T | Group], *, keep: str | None = None) -> None:
        """Show these rows; the cursor stays on the row called `keep` (by default: where it was)."""
        keep = keep if keep is not None else self.current_key
        self.entries = entries
        self.virtual_size = Size(0, len(entries) + 1)
        place = next(
            (i for i, e in enumerate(entries) if not isinstance(e, Group) and self._key(e) == keep), None
        )
        self._place(min(self.cursor, len(entries) - 1) if place is None else place)
        self.refresh(layout=self.styles.is_auto_height)

    def _place(self, index: int, step: int = 1) -> None:
        """Put the cursor on the row nearest to `index` that is none of the headings."""
        index = max(0, min(index, len(self.entries) - 1))
        for walk in (step, -step):
            at = index
            while 0 <= at < len(self.entries) and isinstance(self.entries[at], Group):
                at += walk
            if 0 <= at < len(self.entries):
                self.cursor = at
                return
        self.cursor = 0

    @property
    def current(self) -> T | None:
        """The row under the cursor."""
        if 0 <= self.cursor < len(self.entries):
            entry = self.entries[self.cursor]
            return None if isinstance(entry, Group) else entry
        return None

    @property
    def current_key(self) -> str:
        """The key of the row under the cursor, "" without any."""
        row = self.current
        return "" if row is None else self._key(row)

    def move(self, step: int) -> None:
        """Move the cursor by rows, stopping at both ends."""
        before = self.cursor
        self._place(self.cursor + step, 1 if step > 0 else -1)
        if self.cursor != before:
            self.post_message(self.Moved(self))  # type: ignore[arg-type]

    def move_to(self, index: int) -> None:
        """Put the cursor on a row; negative counts from the end."""
        self.move((index if index >= 0 else len(self.entries) + index) - self.cursor)

    @property
    def page(self) -> int:
        """How many rows are visible at once."""
        return max(1, self.scrollable_content_region.height - 1)

    def watch_cursor(self) -> None:
        """Keep the cursor in sight."""
        self.scroll_to_region(
            Region(0, max(0, self.cursor), 1, 2), animate=False, force=True, immediate=True
        ) if self.is_attached else None
        self.refresh()

    @property
    def gap(self) -> str:
        """What stands between two columns: they breathe where there is room."""
        return "  " if self.scrollable_content_region.width >= 90 else " "

    def widths(self) -> list[int]:
        """Return each column's width in cells at the present size."""
        total = self.scrollable_content_region.width
        fixed = [column.width for column in self.columns]
        left = total - sum(fixed) - len(self.gap) * max(0, len(fixed) - 1)
        shares = sum(column.grow for column in self.columns)
        if shares:
            given = [column.grow * max(0, left) // shares for column in self.columns]
            return [a + b for a, b in zip(fixed, given, strict=True)]
        return fixed

    def render_line(self, y: int) -> Strip:
        """Draw the heading or one row."""
        width = self.scrollable_content_region.width
        if y == 0:
            return self._heading(width)
        index = y - 1 + self.scroll_offset.y
        if index >= len(self.entries):
            text = self.empty if not self.entries and y == 2 else ""
            return self.look.strip([(text, "muted")], width).apply_style(self.rich_style)
        entry = self.entries[index]
        if isinstance(entry, Group):
            return self.look.strip(self._group(entry), width).apply_style(self.rich_style)
        strip = self._row(entry, width)
        if index == self.cursor:
            return strip.apply_style(self.get_component_rich_style("table--cursor"))
        return strip.apply_style(self.rich_style)

    def _group(self, group: Group) -> list[Run]:
        if not group.tail:
            return [(group.title, group.role)]
        start = 0
        for column, size in zip(self.columns, self.widths(), strict=True):
            if column.key == group.at:
                break
            start += size + len(self.gap)
        return [(group.title.ljust(start), group.role), (group.tail, group.role)]

    def _heading(self, width: int) -> Strip:
        runs: list[Run] = []
        key, down = self.sorted_by
        for column, size in zip(self.columns, self.widths(), strict=True):
            title = column.title + ((("▼" if down else "▲") if column.key == key else "") if key else "")
            runs.append((title[:size].rjust(size) if column.right else title[:size].ljust(size), "head"))
            runs.append((self.gap, ""))
        return self.look.strip(runs[:-1], width).apply_style(self.rich_style)

    def _row(self, row: T, width: int) -> Strip:
        runs: list[Run] = []
        marked = self._key(row) in self.marks
        for column, size, cell in zip(self.columns, self.widths(), self._cells(row), strict=True):
            mark = marked and bool(self.gap) and column is self.columns[0]
            runs += fit(cell, size, column.right)
            runs.append(("•" + self.gap[1:], "accent") if mark else (self.gap, ""))
        if marked:
            return self.look.strip(runs[:-1], width).apply_style(self.look.style("bold"))
        return self.look.strip(runs[:-1], width)

    def on_click(self, event: events.Click) -> None:
        """A click on the heading sorts, on a row goes there, twice opens it."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y == 0:
            at = 0
            for column, size in zip(self.columns, self.widths(), strict=True):
                if offset.x < at + size + len(self.gap):
                    self.post_message(self.HeadClicked(self, column.key))  # type: ignore[arg-type]
                    return
                at += size + len(self.gap)
            return
        index = offset.y - 1 + self.scroll_offset.y
        if index < len(self.entries) and not isinstance(self.entries[index], Group):
            self.move_to(index)
            if event.chain > 1:
                self.post_message(self.Opened(self))  # type: ignore[arg-type]


def fit(cell: Sequence[Run], size: int, right: bool = False) -> list[Run]:
    """Cut or fill a cell's runs to `size` cells; what is cut ends in `…`."""
    length = sum(cell_len(text) for text, _ in cell)
    if length <= size:
        pad: Run = (" " * (size - length), "")
        return [pad, *cell] if right else [*cell, pad]
    kept: list[Run] = []
    room = max(0, size - 1)
    for text, role in cell:
        have = cell_len(text)
        if have > room:
            kept += [(set_cell_size(text, room), role), ("…" if size else "", role)]
            return kept
        kept.append((text, role))
        room -= have
    return kept
