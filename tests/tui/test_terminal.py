"""The watched terminal: which part of a screen it shows, and that it only ever shows cells."""

from __future__ import annotations

from pathlib import Path

from textual.app import App, ComposeResult

from cell.trials.sessions import Session
from hudtui.frame.prompt import Prompt
from hudtui.panes.terminal import TerminalPane

from .conftest import FakeEngine


def session(path: Path, *, kind: str = "pane", cols: int = 40, rows: int = 30) -> Session:
    return Session(n=1, name="#1", kind=kind, path=str(path), tty=kind != "text", cols=cols, rows=rows)  # type: ignore[arg-type]


class One(App[None]):
    CSS = "TerminalPane { height: 10; width: 20; }"

    def __init__(self) -> None:
        super().__init__()
        self.pane = TerminalPane(FakeEngine, fps=0)
        self.prompt = Prompt(id="prompt")

    def compose(self) -> ComposeResult:
        yield self.pane
        yield self.prompt


def shown(pane: TerminalPane) -> list[str]:
    return [pane.render_line(y).text.rstrip() for y in range(pane.content_size.height)]


async def test_a_small_pane_shows_the_end_of_a_large_screen(tmp_path: Path) -> None:
    path = tmp_path / "x.pane"
    path.write_text("\n".join(f"line {n}" for n in range(15)))
    app = One()
    async with app.run_test(size=(60, 20)):
        app.pane.watch_session(session(path))
        assert shown(app.pane) == [f"line {n}" for n in range(5, 15)], "what was printed last, not empty rows"
        app.pane.scroll_lines(-3)
        assert shown(app.pane)[0] == "line 2"
        assert not app.pane.following
        app.pane.scroll_lines(3)
        assert app.pane.following, "at the end it follows again"
        with path.open("a") as file:
            file.write("\nmore")
        assert app.pane.turn()
        assert shown(app.pane)[-1] == "more"
        assert not app.pane.turn()


async def test_the_history_is_there_from_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "x.pane"
    path.write_text("\n".join(f"line {n}" for n in range(1000)))
    app = One()
    async with app.run_test(size=(60, 20)):
        app.pane.watch_session(session(path, rows=5))
        assert shown(app.pane)[:5] == [f"line {n}" for n in range(995, 1000)]
        app.pane.move_to(0)
        assert shown(app.pane)[:5] == [f"line {n}" for n in range(5)]
        app.pane.move_to(-1)
        assert app.pane.following


async def test_sideways_and_the_cursor(tmp_path: Path) -> None:
    path = tmp_path / "x.pane"
    path.write_text("0123456789" * 4)
    app = One()
    async with app.run_test(size=(60, 20)):
        app.pane.watch_session(session(path))
        app.pane.scroll_side(16)
        assert shown(app.pane)[0].startswith("6789")
        app.pane.scroll_side(100)
        app.pane.scroll_side(-1000)
        assert shown(app.pane)[0].startswith("0123")


async def test_output_without_a_terminal_takes_the_size_of_the_pane(tmp_path: Path) -> None:
    path = tmp_path / "oracle.txt"
    path.write_text("hi\nthere\n")
    app = One()
    async with app.run_test(size=(60, 20)):
        app.pane.watch_session(session(path, kind="text"))
        assert app.pane.engine is not None
        assert (app.pane.engine.cols, app.pane.engine.rows) == (20, 10)
        assert shown(app.pane)[:2] == ["hi", "there"]
        engine = app.pane.engine
        app.pane.watch_session(session(path, kind="text"))
        assert app.pane.engine is engine, "the same session again changes nothing"
        app.pane.watch_session(None)
        assert isinstance(engine, FakeEngine)
        assert engine.closed


async def test_the_prompt_passes_on_what_is_typed() -> None:
    app = One()
    async with app.run_test(size=(60, 20)):
        assert not app.prompt.display
        app.prompt.ask("filter", "abc")
        assert (app.prompt.display, app.prompt.value, app.prompt.asked) == (True, "abc", "filter")
        app.prompt.wrong("no")
        assert app.prompt.has_class("-wrong")
