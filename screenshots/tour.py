"""A short tour of the cockpit on cells that run, in a terminal of its own, as asciicast (version 2)."""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress

from hudtui.engine import TURN
from hudtui.engine.ghostty import GhosttyEngine
from screenshots.stage import TOP, Stage

COLS, ROWS = 120, 36
F12 = "\x1b[24~"


class Desk:
    """The cockpit on a pty; `type` presses keys as a person does, `sees` waits for a text on its screen."""

    def __init__(self, *words: str) -> None:
        self._engine = GhosttyEngine(COLS, ROWS)
        self._rows: dict[int, str] = {}
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self._start = time.monotonic()
        self.events: list[tuple[float, str]] = []
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLS, 0, 0))
        named = {
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LOGNAME": "ada",
            "XDG_CONFIG_HOME": "/nowhere",
            "TEXTUAL_FPS": "20",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hudtui.cli", *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env=os.environ | named | {"PYTHONPATH": str(TOP)},
        )
        os.close(slave)

    @property
    def screen(self) -> str:
        """What a person sees."""
        for y, row in self._engine.dirty().items():
            self._rows[y] = "".join(text for text, _ in row).rstrip()
        return "\n".join(self._rows.get(y, "") for y in range(ROWS))

    def watch(self, seconds: float) -> None:
        """Take in what is drawn meanwhile."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self._process.poll() is None:
            if select.select([self._master], [], [], left)[0]:
                with suppress(OSError):
                    data = os.read(self._master, TURN)
                    self.events.append((time.monotonic() - self._start, self._decode.decode(data)))
                    self._engine.feed(data)
                    if answers := self._engine.replies():
                        os.write(self._master, answers)

    def sees(self, what: str | Callable[[str], bool], seconds: float = 60.0, then: float = 1.2) -> None:
        """Wait until it is on the screen, and look at it for a moment."""
        met = what if callable(what) else lambda screen: what in screen
        end = time.monotonic() + seconds
        while not met(self.screen):
            if time.monotonic() > end or self._process.poll() is not None:
                raise TimeoutError(f"{what!r} is not on the screen:\n{self.screen}")
            self.watch(0.05)
        self.watch(then)

    def type(self, text: str, pause: float = 0.07) -> None:
        """Press keys, one after the other."""
        for char in text:
            os.write(self._master, char.encode())
            self.watch(pause)

    def press(self, sequence: str) -> None:
        """Press one key that is several bytes."""
        os.write(self._master, sequence.encode())
        self.watch(0.1)

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._process.wait(20)
        os.close(self._master)
        self._engine.close()


def cast(events: list[tuple[float, str]]) -> str:
    """Return an asciicast; nobody waits longer than 1.5 s for the next picture."""
    head = {
        "version": 2,
        "width": COLS,
        "height": ROWS,
        "title": "hudtui: why did it fail, and what is the agent doing?",
        "idle_time_limit": 1.5,
        "env": {"TERM": "xterm-256color"},
    }
    lines = [json.dumps(head)]
    host = os.uname().nodename
    shift = events[0][0] if events else 0.0
    for at, text in events:
        said = text.replace(host, "desk")
        lines.append(json.dumps([round(at - shift, 3), "o", said], ensure_ascii=False))
    return "\n".join(lines) + "\n"


def tour(acted: Stage) -> str:
    """Look at failures and at a working agent, take its keyboard, see where it went. Returns the cast."""
    desk = Desk(str(acted.jobs))
    try:
        desk.sees("Fleet 14")
        desk.type("!", 0.8)
        desk.type("jjk", 0.5)
        desk.type("!", 0.8)
        desk.type("/")
        desk.type("task:installs-allowed state:running")
        desk.type("\r", 0.8)
        desk.type("w")
        desk.sees("watching", then=2.5)
        desk.type("a")
        desk.sees("ATTACHED", then=1.5)
        desk.type("\x03", 0.8)
        desk.type("# let me have a look\r")
        desk.type("ls -l /root/lib; id -un\r")
        desk.sees("greet.py", then=1.5)
        desk.press(F12)
        desk.sees("the keyboard is the agent's again")
        desk.type("4")
        desk.sees("denied", then=1.0)
        desk.type("!", 1.0)
        desk.type("A")
        desk.watch(1.5)
        desk.type("\r")
        desk.watch(2.0)
        desk.type("5")
        desk.sees("amespaces", then=1.0)
        desk.type("i")
        desk.sees(lambda screen: "fidelity" in screen.casefold() and "✓" in screen, then=3.0)
        desk.type("1", 1.0)
        desk.watch(2.0)
        desk.type("q")
        desk.watch(1.0)
    finally:
        desk.close()
    return cast(desk.events)
