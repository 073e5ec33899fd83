"""What has not changed is not drawn again, and what has is."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from hudtui.drawing import Ground, GroundScreen, Kept


class Counting(Widget):
    """Says how often its lines were asked for."""

    drawn = 0
    words = "as it was"

    def render_lines(self, crop: Region) -> list[Strip]:
        self.drawn += 1
        return super().render_lines(crop)

    def render(self) -> str:
        return self.words


class Still(Kept, Counting):
    pass


class Two(App[None]):
    CSS = "Still, Counting { height: 3; }"

    def __init__(self) -> None:
        super().__init__()
        self.still, self.other = Still(), Counting()

    def get_default_screen(self) -> GroundScreen:
        return GroundScreen(id="_default")

    def compose(self) -> ComposeResult:
        with Ground():
            yield self.still
            yield self.other

    def screen_line(self, y: int) -> str:
        return self.screen._compositor.render_strips()[y].text.rstrip()


async def test_a_widget_is_not_asked_again_when_another_one_changes() -> None:
    app = Two()
    async with app.run_test(size=(40, 10)) as pilot:
        still, other = app.still.drawn, app.other.drawn
        app.other.words = "changed"
        app.other.refresh()
        await pilot.pause()
        assert app.screen_line(3) == "changed"
        assert app.other.drawn > other
        assert app.still.drawn == still


async def test_a_widget_that_changes_is_drawn_in_whole_or_in_part() -> None:
    app = Two()
    async with app.run_test(size=(40, 10)) as pilot:
        for words, regions in (("one", ()), ("two", (Region(0, 0, 40, 1),))):
            app.still.words = words
            app.still.refresh(*regions)
            await pilot.pause()
            assert app.screen_line(0) == words
        app.still.styles.width = 2
        await pilot.pause()
        assert app.screen_line(0) == "tw", "another size is another picture"
