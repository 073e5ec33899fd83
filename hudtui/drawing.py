"""What Textual draws again though it has not changed, and what is done about it.

Whenever one line of the screen changes, all visible widgets are asked for all of their lines, those below
others too. On a large screen that is most of the work of a key.
"""

from __future__ import annotations

from textual.containers import Container
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import ContentSwitcher


class Ground(Container):
    """A container of nothing but others: one blank line serves for all of its lines."""

    BLANK = True


class GroundSwitcher(ContentSwitcher):
    """As `Ground`, of which one child is seen."""

    BLANK = True


class GroundScreen(Screen[None]):
    """As `Ground`, below everything."""

    BLANK = True


class Kept(Widget):
    """Keeps its lines until one of them is to be drawn anew."""

    _kept: tuple[Region, list[Strip]] | None = None

    def _set_dirty(self, *regions: Region) -> None:
        self._kept = None
        super()._set_dirty(*regions)

    def notify_style_update(self) -> None:
        """Draw again."""
        self._kept = None
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines within `crop`."""
        if self._kept is None or self._kept[0] != crop:
            self._kept = crop, super().render_lines(crop)
        return self._kept[1]
