"""What has not changed is not drawn again, and what has is."""

from __future__ import annotations

import gc
from pathlib import Path

from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from cell.trials.sessions import Session
from hudtui.panes.drawing import Ground, GroundScreen, Kept
from hudtui.panes.terminal import TerminalPane

from .conftest import FakeEngine


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


class Drawn(TerminalPane):
    drawn = 0

    def render_line(self, y: int) -> Strip:
        self.drawn += y == 0
        return super().render_line(y)


class One(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.pane = Drawn(FakeEngine, fps=0)

    def compose(self) -> ComposeResult:
        yield self.pane


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


async def test_what_was_drawn_goes_without_a_full_collection(tmp_path: Path) -> None:
    path = tmp_path / "x.pane"
    path.write_text("")
    app = One()
    async with app.run_test(size=(60, 20)) as pilot:
        app.pane.watch_session(
            Session(n=1, name="#1", kind="pane", path=str(path), tty=True, cols=58, rows=18)
        )
        await pilot.pause()
        flags = gc.get_debug()
        gc.collect()
        gc.disable()
        try:
            before = app.pane.drawn
            for number in range(40):
                more(path, f"line {number}\n")
                app.pane.turn()
                await pilot.pause()
            assert app.pane.drawn > before + 30
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = [each for each in gc.garbage if isinstance(each, Strip)]
        finally:
            gc.set_debug(flags)
            gc.garbage.clear()
            gc.enable()
    assert len(left) < 40, "some are of the border; each line of each picture would be hundreds"


def more(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)
