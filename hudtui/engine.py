"""The one port to a terminal emulator: bytes in, styled rows out.

Everything a program inside prints goes through an engine; only the cells it makes of it are drawn.
The real one is in `hudtui.ghostty`; tests use a small one of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from rich.style import Style

Row = tuple[tuple[str, Style], ...]
"""One row as runs of equally styled text; control characters never occur in it."""

TURN = 64 << 10
"""The most bytes to feed at once, so that keys are answered between two turns."""


class Cursor(NamedTuple):
    """Where the cursor is, in cells of the viewport (0, 0 is top left)."""

    x: int
    y: int


class TerminalEngine(Protocol):
    """A terminal of `cols` × `rows` cells with a viewport that can move over its history."""

    cols: int
    rows: int

    def feed(self, data: bytes) -> None:
        """Take output of the program. Answers to its queries are thrown away: we only watch."""

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

    def close(self) -> None:
        """Free what the engine holds; nothing may be called afterwards."""


EngineFactory = Callable[[int, int], TerminalEngine]
