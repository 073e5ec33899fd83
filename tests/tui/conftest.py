"""A cockpit without a terminal: fake engine, fixed clock, no timers, pictures that are compared."""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from rich.style import Style
from textual import events
from textual._context import active_app
from textual.pilot import Pilot
from textual.widgets import Input

from hudtui.app import HudApp
from hudtui.engine import Cursor, Mouse, Row
from hudtui.keys.keystrokes import Stroke
from hudtui.wire import Ending, WireError
from screenshots.invented import NOW, build

CHARACTERS = {
    "space": " ",
    "tilde": "~",
    "colon": ":",
    "slash": "/",
    "minus": "-",
    "underscore": "_",
    "less_than_sign": "<",
    "question_mark": "?",
    "exclamation_mark": "!",
}
NAMES = {
    "\n": "enter",
    "/": "slash",
    ":": "colon",
    "[": "left_square_bracket",
    "\x1d": "ctrl+right_square_bracket",
}
"""Of keys, by what they write."""
SIZES = ((80, 24), (120, 40), (200, 60))
"""Of the screens that pictures are taken of."""
EVIL = "\x1b[2J\x1b]0;owned\x07[red]markup[/red]\u202egnp.exe\r\n"
"""A name that a program inside could have."""
SNAPSHOTS = Path(__file__).parent / "snapshots"


class FakeEngine:
    """Lines of text and nothing else: escapes are dropped, long lines are cut."""

    def __init__(self, cols: int, rows: int) -> None:
        self.cols, self.rows = cols, rows
        self.text = ""
        self.fed: list[bytes] = []
        self.closed = False
        self.remembers = True
        self.tracks_mouse = False
        self.asked = b""
        self._found = 1 << 30
        self._top: int | None = None
        self._changed = True

    def feed(self, data: bytes) -> None:
        assert len(data) <= 64 << 10
        self.fed.append(data)
        self.text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", data.decode("utf-8", "replace")).replace("\r", "")
        self._changed = True

    def resize(self, cols: int, rows: int) -> None:
        self.cols, self.rows = cols, rows
        self._changed = True

    @property
    def _lines(self) -> list[str]:
        return self.text.split("\n")

    @property
    def history(self) -> int:
        return max(0, len(self._lines) - self.rows)

    @property
    def offset(self) -> int:
        return self.history if self._top is None else self._top

    def scroll_to(self, row: int | None) -> None:
        self._changed |= row != self._top
        self._top = None if row is None else max(0, min(row, self.history))

    def dirty(self) -> Mapping[int, Row]:
        if not self._changed:
            return {}
        self._changed = False
        shown = self._lines[self.offset : self.offset + self.rows]
        shown += [""] * (self.rows - len(shown))
        return {y: ((line[: self.cols].ljust(self.cols), Style.null()),) for y, line in enumerate(shown)}

    def cursor(self) -> Cursor | None:
        if self._top is not None:
            return None
        return Cursor(min(self.cols - 1, len(self._lines[-1])), len(self._lines) - 1 - self.history)

    def replies(self) -> bytes:
        found, self.asked = self.asked, b""
        return found

    def key(self, name: str, character: str | None) -> bytes:
        return f"<{name}>".encode()

    def stroke(self, stroke: Stroke, name: str, character: str | None) -> bytes:
        return stroke.data

    key_flags = 0

    def paste(self, text: str) -> bytes:
        return f"<paste {text}>".encode()

    def mouse(self, mouse: Mouse) -> bytes:
        return f"<{mouse.action} {mouse.button} {mouse.x},{mouse.y}>".encode() if self.tracks_mouse else b""

    def find(self, text: str, step: int) -> bool:
        rows = [n for n, line in enumerate(self._lines) if text and text in line]
        before = [n for n in rows if (n > self._found if step > 0 else n < self._found)]
        if not rows:
            return False
        self._found = (before or rows)[0 if (step > 0) == bool(before) else -1]
        self.scroll_to(min(self._found, self.history))
        return True

    def forget(self) -> None:
        self.remembers = False

    def snapshot(self) -> bytes | None:
        return f"{self.cols}x{self.rows}\n{self.text}".encode()

    def restore(self, snapshot: bytes) -> None:
        size, _, self.text = snapshot.decode().partition("\n")
        cols, _, rows = size.partition("x")
        self.resize(int(cols), int(rows))

    def close(self) -> None:
        assert not self.closed
        self.closed = True


class FakeChannel:
    """A keyboard that remembers what was typed; the test says what it prints and how it ends."""

    def __init__(self) -> None:
        self.typed = b""
        self.sizes: list[tuple[int, int]] = []
        self.closed = False
        self._more: asyncio.Queue[bytes] = asyncio.Queue()
        self._ending = Ending(0)

    def print(self, data: bytes) -> None:
        self._more.put_nowait(data)

    def end(self, status: int | None, words: str = "") -> None:
        self._ending = Ending(status, words)
        self._more.put_nowait(b"")

    async def read(self) -> bytes:
        return await self._more.get()

    def write(self, data: bytes) -> None:
        self.typed += data

    def resize(self, cols: int, rows: int) -> None:
        self.sizes.append((cols, rows))

    async def ended(self) -> Ending:
        return self._ending

    def close(self) -> None:
        self.closed = True


class FakeWire:
    """Remembers what was asked of which cell; `wrong` is what the next request is refused with."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, object]]] = []
        self.channels: list[FakeChannel] = []
        self.wrong = ""
        self.answer: object = None

    def _ask(self, runtime: Path, what: str, args: dict[str, object]) -> None:
        if self.wrong:
            raise WireError(self.wrong)
        self.asked.append((runtime.name, what, args))

    async def call(self, runtime: Path, method: str, **args: object) -> object:
        self._ask(runtime, method, args)
        return self.answer

    async def attach(self, runtime: Path, session: int, *, take: bool, who: str) -> FakeChannel:
        self._ask(runtime, "attach", {"session": session, "take": take, "who": who})
        self.channels.append(FakeChannel())
        return self.channels[-1]

    async def shell(self, runtime: Path, who: str, cols: int, rows: int) -> FakeChannel:
        self._ask(runtime, "shell", {"who": who, "size": (cols, rows)})
        self.channels.append(FakeChannel())
        return self.channels[-1]


async def _quiet(*_: object) -> None:
    """Wait until no widget has anything left to do; Textual's own wait is for an idle processor."""
    app = active_app.get()
    calm = 0
    while calm < 3 and not app._exit:
        await asyncio.sleep(0.001)
        screen = app._screen_stack[-1] if app._screen_stack else None
        busy = screen is not None and (
            screen._dirty_widgets or screen._callbacks or screen._layout_required or screen._repaint_required
        )
        pumps = [app, *(screen.walk_children(with_self=True) if screen is not None else ())]
        calm = 0 if busy or any(not pump._message_queue.empty() for pump in pumps) else calm + 1


class Cockpit:
    """A running application and what a person does and sees."""

    def __init__(self, app: HudApp, pilot: Pilot[None], engines: list[FakeEngine], wire: FakeWire) -> None:
        self.app, self.pilot, self.engines, self.wire = app, pilot, engines, wire

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.send(events.Key(key, key if len(key) == 1 else CHARACTERS.get(key)))

    async def send(self, event: events.Event) -> None:
        """Give the application an event as its terminal does."""
        event.set_sender(self.app)
        self.app._driver.send_message(event)
        await _quiet()

    async def at_once(self, text: str) -> None:
        """Press all these keys before anything is done about the first: a fast hand, or a slow line."""
        for char in text:
            key = NAMES.get(char, char)
            event = events.Key(key, char if char.isprintable() else None)
            event.set_sender(self.app)
            self.app._driver.send_message(event)
        await _quiet()

    async def type(self, text: str) -> None:
        """Type into the prompt, at once: a key at a time costs a frame each."""
        assert isinstance(self.app.focused, Input)
        self.app.focused.insert_text_at_cursor(text)
        await _quiet()

    async def look(self) -> None:
        self.app.look()
        await _quiet()

    @property
    def screen(self) -> str:
        """Everything on the screen, as text."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    @property
    def footer(self) -> str:
        return self.screen.splitlines()[-1]

    @property
    def listed(self) -> list[str]:
        """The ids of the cells that Fleet lists."""
        return [entry.id for entry in self.app.fleet.table.entries if hasattr(entry, "id")]

    @property
    def chosen(self) -> str:
        """The id of the cell under Fleet's cursor."""
        trial = self.app.fleet.table.current
        return trial.id if trial else ""


Open = Callable[..., AbstractAsyncContextManager[Cockpit]]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Gone at once after the test: these folders tell of cells that live, and none does."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def jobs() -> Iterator[Path]:
    """The invented job; not to be changed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs"
        build(path)
        yield path


@pytest.fixture
def cockpit(monkeypatch: pytest.MonkeyPatch) -> Open:
    """Open the cockpit: `async with cockpit(path, size=(120, 40)) as hud`."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("textual.screen.UPDATE_PERIOD", 1 / 1000)
    for module in ("app", "pilot"):
        monkeypatch.setattr(f"textual.{module}.wait_for_idle", _quiet)

    @asynccontextmanager
    async def opened(
        *paths: Path, size: tuple[int, int] = (120, 40), **more: object
    ) -> AsyncIterator[Cockpit]:
        engines: list[FakeEngine] = []

        def make(cols: int, rows: int) -> FakeEngine:
            engines.append(FakeEngine(cols, rows))
            return engines[-1]

        wire = FakeWire()
        options = {"engine": make, "clock": lambda: NOW, "poll": 0, "fps": 0, "wire": wire, "who": "ada@desk"}
        app = HudApp(paths, **(options | more))  # type: ignore[arg-type]
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            yield Cockpit(app, pilot, engines, wire)

    return opened


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Callable[[HudApp, str], None]:
    """Compare the screen with the SVG of that name; `--snapshot-update` writes it."""

    def compare(app: HudApp, name: str) -> None:
        svg = re.sub(r"terminal-\d+", "terminal", app.export_screenshot(title="hudtui"))
        file = SNAPSHOTS / f"{name}.svg"
        if request.config.getoption("--snapshot-update"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(svg)
            return
        assert file.exists(), f"there is no {file.name}: look at the screen, then pytest --snapshot-update"
        if svg != file.read_text():
            seen = Path(tempfile.gettempdir()) / f"hudtui-{name}.svg"
            seen.write_text(svg)
            pytest.fail(f"{file.name} differs from what is on the screen: {seen}", pytrace=False)

    return compare


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--snapshot-update", action="store_true", help="write the pictures of the cockpit again")
