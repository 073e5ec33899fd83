"""A person at a desk: the real cockpit on a real pty, its screen read by a terminal emulator as they would."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from world import SOURCE

from hudtui.engine import TURN
from hudtui.engine.ghostty import GhosttyEngine

from .driving import Seat


class Desk:
    """`type` presses keys; `sees` waits until the screen shows something. `seats` are read meanwhile,
    as their people do. `written` is every byte that the cockpit wrote to its terminal."""

    def __init__(
        self, *words: str | Path, cols: int = 120, rows: int = 40, seats: Sequence[Seat] = (), who: str = ""
    ) -> None:
        self.engine = GhosttyEngine(cols, rows)
        self.seats = list(seats)
        self.written = b""
        self._rows: dict[int, str] = {}
        self.master, slave = pty.openpty()
        self._size(cols, rows)
        environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hudtui.cli", *map(str, words)],
            cwd=SOURCE,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env=environ | {"TERM": "xterm-256color", "LOGNAME": who or "ada", "XDG_CONFIG_HOME": "/nowhere"},
        )
        os.close(slave)

    def _size(self, cols: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def resize(self, cols: int, rows: int) -> None:
        self._size(cols, rows)
        self.engine.resize(cols, rows)
        self._rows = {}
        self.process.send_signal(signal.SIGWINCH)

    def type(self, data: bytes | str) -> Desk:
        """Press keys, as bytes; a long paste is written as fast as it is taken."""
        view = memoryview(data.encode() if isinstance(data, str) else data)
        while view:
            _, free, _ = select.select([], [self.master], [], 0.05)
            if free:
                view = view[os.write(self.master, view[:2048]) :]
            self.watch(0)
        return self

    def watch(self, seconds: float = 0.02) -> None:
        """Take in what the cockpit wrote, and what the others at the cell are shown."""
        for seat in self.seats:
            if seat.master >= 0:
                seat.read(0)
        if not select.select([self.master], [], [], seconds)[0]:
            return
        with suppress(OSError):
            data = os.read(self.master, TURN)
            self.written += data
            self.engine.feed(data)
            if answers := self.engine.replies():
                os.write(self.master, answers)

    @property
    def screen(self) -> str:
        for y, row in self.engine.dirty().items():
            self._rows[y] = "".join(text for text, _ in row).rstrip()
        return "\n".join(self._rows.get(y, "") for y in range(self.engine.rows))

    def sees(self, what: str | Callable[[str], object], seconds: float = 20.0) -> str:
        met = what if callable(what) else lambda screen: what in screen
        end = time.monotonic() + seconds
        while not met(screen := self.screen):
            assert time.monotonic() < end, f"{what!r} is not on the screen:\n{screen}"
            assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{screen}"
            self.watch()
        return screen

    def rests(self, seconds: float = 0.3) -> None:
        """Watch until nothing was drawn for so long: what a key showed is whole, also where no word tells."""
        drawn = -1
        while drawn < len(self.written):
            drawn = len(self.written)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                self.watch()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        os.close(self.master)
        self.engine.close()
