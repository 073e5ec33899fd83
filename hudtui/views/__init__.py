"""What the views have in common: panes, moving in them, zoom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from cell.trials import Trial
from hudtui.actions import View
from hudtui.panes.doc import Doc
from hudtui.panes.drawing import Ground
from hudtui.panes.table import Table
from hudtui.panes.terminal import TerminalPane

if TYPE_CHECKING:
    from hudtui.app import HudApp

Pane = Table[Any] | Doc | TerminalPane


NOBODY = "no cell is chosen; 1 Fleet, then enter"
"""What a key says that is about one cell, where all are shown."""


class HudView(Ground):
    """One of the numbered views. Its actions are the `act_*` methods of the action table."""

    name_: View = "fleet"
    zoomed: bool = False

    @property
    def hud(self) -> HudApp:
        """The application."""
        return cast("HudApp", self.app)

    def panes(self) -> list[Pane]:
        """Return the panes that can have the focus, in the order of tab."""
        raise NotImplementedError

    def update(self) -> None:
        """Show what is known now; called after each look and when the view is entered."""
        raise NotImplementedError

    def enter(self) -> None:
        """The view comes to the front."""
        self.update()
        self.pane.focus()

    def leave(self) -> None:
        """The view goes to the back."""

    def set_filter(self, text: str) -> str:
        """Filter what is listed (Fleet, where a view has no list); returns what is wrong with the filter."""
        return self.hud.fleet.set_filter(text)

    def search(self, text: str) -> None:
        """Find a text, in a view that has something to search."""

    def back(self) -> bool:
        """Undo one thing (a filter, a detail); say whether there was one."""
        if self.zoomed:
            self.act_zoom()
            return True
        return False

    def trial(self) -> Trial | None:
        """Return the cell that this view is about at the moment."""
        return self.hud.scoped

    @property
    def pane(self) -> Pane:
        """The pane that has the focus, else the first."""
        visible = [pane for pane in self.panes() if pane.display]
        return next((pane for pane in visible if pane.has_focus), visible[0])

    def act_zoom(self) -> None:
        """Show the focused pane alone, or all again."""
        chosen = self.pane
        self.zoomed = not self.zoomed
        for pane in self.panes():
            pane.set_class(self.zoomed and pane is not chosen, "hidden")
        for box in self.query(".box"):
            box.set_class(self.zoomed and chosen not in box.walk_children(), "hidden")
        self.set_class(self.zoomed, "zoomed")
        chosen.focus()

    def act_pane_next(self, step: int = 1) -> None:
        """Focus the next pane."""
        visible = [pane for pane in self.panes() if pane.display and pane.size]
        if self.pane in visible:
            visible[(visible.index(self.pane) + step) % len(visible)].focus()

    def act_pane_previous(self) -> None:
        """Focus the pane before."""
        self.act_pane_next(-1)

    def act_down(self) -> None:
        """One line down."""
        self.pane.move(1)

    def act_up(self) -> None:
        """One line up."""
        self.pane.move(-1)

    def act_top(self) -> None:
        """To the first line."""
        self.pane.move_to(0)

    def act_bottom(self) -> None:
        """To the last line."""
        self.pane.move_to(-1)

    def act_half_down(self) -> None:
        """Half a page down."""
        self.pane.move(self.pane.page // 2)

    def act_half_up(self) -> None:
        """Half a page up."""
        self.pane.move(-(self.pane.page // 2))

    def act_page_down(self) -> None:
        """A page down."""
        self.pane.move(self.pane.page)

    def act_page_up(self) -> None:
        """A page up."""
        self.pane.move(-self.pane.page)

    def act_left(self) -> None:
        """To the left."""
        self._sideways(-16)

    def act_right(self) -> None:
        """To the right."""
        self._sideways(16)

    def _sideways(self, step: int) -> None:
        pane = self.pane
        if isinstance(pane, TerminalPane):
            pane.scroll_side(step)
        else:
            pane.scroll_relative(x=step, animate=False)

    def act_next_cell(self, step: int = 1) -> None:
        """Go to the cell's neighbour in the Fleet's list."""
        self.hud.neighbour(step)

    def act_previous_cell(self) -> None:
        """Go to the neighbour before."""
        self.act_next_cell(-1)


def titled(pane: Pane, title: str, below: str = "") -> None:
    """Write on a pane's border, if that is news: to write is to draw the whole pane again."""
    if pane.titled != (title, below):
        pane.titled = (title, below)
        pane.border_title = title.replace("[", r"\[")  # square brackets are text here, not markup
        pane.border_subtitle = below.replace("[", r"\[")
