"""The one port to a terminal emulator: bytes in, styled rows out.

Everything a program inside prints goes through an engine; only the cells it makes of it are drawn.
The real one is in `hudtui.engine.ghostty`; tests use a small one of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, Protocol

from rich.style import Style

from hudtui.keys.keystrokes import Stroke

Row = tuple[tuple[str, Style], ...]
"""One row as runs of equally styled text; control characters never occur in it."""

TURN = 64 << 10
"""The most bytes to feed at once, so that keys are answered between two turns."""


class Cursor(NamedTuple):
    """Where the cursor is, in cells of the viewport (0, 0 is top left)."""

    x: int
    y: int


class Mouse(NamedTuple):
    """What the pointer did at a cell of the screen (0, 0 is top left).

    `button` as X11 counts them: 1 left, 2 middle, 3 right, 4 and 5 the wheel up and down, 0 none.
    """

    action: Literal["press", "release", "motion"]
    x: int
    y: int
    button: int = 0
    shift: bool = False
    alt: bool = False
    ctrl: bool = False


class TerminalEngine(Protocol):
    """A terminal of `cols` × `rows` cells with a viewport that can move over its history."""

    cols: int
    rows: int

    def feed(self, data: bytes) -> None:
        """Take output of the program; what it asks of its terminal is answered in `replies`."""

    def replies(self) -> bytes:
        """Return the answers since the last call. Who only watches throws them away."""

    def key(self, name: str, character: str | None) -> bytes:
        """Return what a terminal sends for a key, as Textual names it, in the program's modes."""

    def stroke(self, stroke: Stroke, name: str, character: str | None) -> bytes:
        """Return what a terminal in the program's modes sends where ours sent `stroke`: mostly the same."""

    @property
    def key_flags(self) -> int:
        """In which form the program wants keys: flags of the kitty protocol, 0 for the oldest."""

    def paste(self, text: str) -> bytes:
        """Return what a terminal sends for a paste: bracketed where the program asked for it."""

    def mouse(self, mouse: Mouse) -> bytes:
        """Return what a terminal sends for the pointer; empty where the program does not listen."""

    @property
    def tracks_mouse(self) -> bool:
        """Whether the program listens to the pointer."""

    def find(self, text: str, step: int) -> bool:
        """Move the viewport to the next (1) or previous (-1) place of a text; False if there is none."""

    def resize(self, cols: int, rows: int) -> None:
        """Change the size in cells; the history may reflow."""

    @property
    def history(self) -> int:
        """How many rows lie above the screen."""

    @property
    def offset(self) -> int:
        """The row at the viewport's top, counted from the first one kept (`history`: the live end)."""

    def scroll_to(self, row: int | None) -> None:
        """Move the viewport's top to that row; None goes to the live end and stays there."""

    def dirty(self) -> Mapping[int, Row]:
        """Return the viewport's rows that changed since the last call, by their place in it."""

    def cursor(self) -> Cursor | None:
        """Return the cursor when it is shown and within the viewport."""

    def forget(self) -> None:
        """Keep no rows above the screen from now on; snapshots are small then."""

    def snapshot(self) -> bytes | None:
        """Return the whole state; None in the middle of an escape sequence."""

    def restore(self, snapshot: bytes) -> None:
        """Become what a `snapshot` was, its size included, without rows above the screen."""

    def close(self) -> None:
        """Free what the engine holds; nothing may be called afterwards."""


EngineFactory = Callable[[int, int], TerminalEngine]
