"""What the views have in common whose first pane is a list that is filtered and sorted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cell.filters import FilterError, parse
from hudtui.frame.sorting import ask_sort
from hudtui.panes.table import Table
from hudtui.views import HudView


class ListView(HudView):
    """A list: `filter_text` (unless it is switched off) and `only_faults` narrow it, `sort` orders it."""

    table: Table[Any]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.filter_text = ""
        self.filter_on = True
        self.only_faults = False
        self.sort: tuple[str, bool] = ("", False)
        self._matches = parse("")

    def narrowing(self) -> Iterable[tuple[bool, Callable[[], None]]]:
        """Return what else narrows the list: whether it does at the moment, and the action that ends it."""
        return ()

    @property
    def unsorted(self) -> str:
        """In what order the list is when nobody chose one."""
        return ""

    def act_open(self) -> None:
        """Open what the cursor is on."""
        raise NotImplementedError

    def back(self) -> bool:
        """Clear what narrows the list, one thing at a time."""
        if super().back():
            return True
        if self.filter_text:
            self.set_filter("")
            return True
        for narrows, end in ((self.only_faults, self.act_faults), *self.narrowing()):
            if narrows:
                end()
                return True
        if not self.table.has_focus:
            self.table.focus()
            return True
        return False

    def set_filter(self, text: str) -> str:
        """Filter the list; returns what is wrong with the filter, "" when nothing is."""
        try:
            self._matches = parse(text)
        except FilterError as error:
            return str(error)
        self.filter_text, self.filter_on = text.strip(), True
        self.update()
        return ""

    def sort_by(self, column: str) -> None:
        """Sort by a column; the same again turns the direction."""
        by, down = self.sort
        self.sort = (column, bool(column) and by == column and not down)
        self.update()

    def on_table_opened(self, event: Table.Opened) -> None:
        """As enter."""
        event.stop()
        self.act_open()

    def on_table_head_clicked(self, event: Table.HeadClicked) -> None:
        """Sort by that column."""
        event.stop()
        self.sort_by(event.column)

    def act_filter(self) -> None:
        """Ask for a filter."""
        self.hud.ask("filter", self.filter_text)

    def act_filter_toggle(self) -> None:
        """The filter off and on again."""
        if not self.filter_text:
            self.hud.flash("there is no filter; / makes one")
            return
        self.filter_on = not self.filter_on
        self.update()

    def act_faults(self) -> None:
        """Only what went wrong."""
        self.only_faults = not self.only_faults
        self.update()

    def act_sort(self) -> None:
        """Choose the column to sort by."""
        ask_sort(self.app, self.table.columns, self.sort, self.unsorted, self.sort_by)

    def _next_match(self, step: int, matches: Callable[[Any], bool]) -> None:
        rows = self.table.entries
        for offset in range(1, len(rows) + 1):
            at = (self.table.cursor + step * offset) % len(rows)
            if matches(rows[at]):
                self.table.move_to(at)
                return
