"""What Textual draws again though it has not changed, and what is done about it.

Whenever one line of the screen changes, all visible widgets are asked for all of their lines, those below
others too. On a large screen that is most of the work of a key.
"""

from __future__ import annotations

from rich.style import Style
from textual.containers import Container
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import ContentSwitcher

from hudtui.look import Look


class Ground(Container):
    """A container of nothing but others: one blank line serves for all of its lines."""

    BLANK = True


class GroundSwitcher(ContentSwitcher):
    """As `Ground`, of which one child is seen."""

    BLANK = True


class GroundScreen(Screen[None]):
    """As `Ground`, below everything."""

    BLANK = True


class Line(Strip):
    """A strip that does not keep itself.

    Textual's caches have it in them where nothing is to be cut off or added: a circle, which only a full
    collection of garbage finds. A flood would leave megabytes of them each second.
    """

    def adjust_cell_length(self, cell_length: int, style: Style | None = None) -> Strip:
        """Return the strip at this length."""
        return self if cell_length == self.cell_length else super().adjust_cell_length(cell_length, style)


class Kept(Widget):
    """Keeps its lines until one of them is to be drawn anew."""

    _lines: tuple[Region, list[Strip]] | None = None
    _still = False

    def _set_dirty(self, *regions: Region) -> None:
        self._still = False
        super()._set_dirty(*regions)

    def notify_style_update(self) -> None:
        """Draw again."""
        self._still = False
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines within `crop`."""
        before = self._lines
        if before is not None and self._still and before[0] == crop:
            return before[1]
        if before is not None:
            for line in before[1]:
                line._divide_cache.clear()  # as `Line`: mostly it has the line itself in it
        self._lines, self._still = (crop, super().render_lines(crop)), True
        return self._lines[1]


class Coloured(Kept):
    """Draws in the roles of the theme in use."""

    _look: Look | None = None

    @property
    def look(self) -> Look:
        """The roles; they are worked out once for a theme."""
        if self._look is None:
            self._look = Look(self.app.theme_variables)
        return self._look

    def notify_style_update(self) -> None:
        """Forget colours: the theme may be another one."""
        super().notify_style_update()
        self._look = None
