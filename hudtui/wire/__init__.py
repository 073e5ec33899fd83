"""The one way from the cockpit into a living cell: requests, and terminals with a keyboard.

The real one speaks SSH over the cell's sockets (`hudtui.wire.ssh`); tests use a small one of their
own. Nothing else in the cockpit talks to a cell.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

Who = Literal["agent", "verifier", "root"]
TAKEN = 75
OCCUPIED = 76
"""The exit statuses of a channel that say that somebody took our keyboard, or has it already."""


class WireError(Exception):
    """The cell refused, or does not answer; the text is for a person."""


class Ending(NamedTuple):
    """How a channel ended: its exit status, None if the connection broke, and what was said."""

    status: int | None
    words: str = ""


class Channel(Protocol):
    """A terminal in the cell that we write to."""

    async def read(self) -> bytes:
        """Return more output; empty at its end."""

    def write(self, data: bytes) -> None:
        """Send keystrokes; they are dropped once it has ended."""

    def resize(self, cols: int, rows: int) -> None:
        """Give our own shell another size; an attached session keeps its own."""

    async def ended(self) -> Ending:
        """Wait for its end."""

    def close(self) -> None:
        """Hang up."""


class Wire(Protocol):
    """Everything that the cockpit asks of cells. `runtime` is the folder of a cell's sockets.

    Errors of each: WireError.
    """

    async def call(self, runtime: Path, method: str, **args: Any) -> Any:
        """Ask the cell for one thing, as its operator."""

    async def attach(self, runtime: Path, session: int, *, take: bool, who: str) -> Channel:
        """Take the keyboard of a session; `take` also from somebody who has it."""

    async def shell(self, runtime: Path, who: Who, cols: int, rows: int) -> Channel:
        """Open a shell of our own in the cell."""
