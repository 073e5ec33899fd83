"""The person's keyboard: Textual's driver, but for what it reads.

Every key comes as a `Typed`: its very bytes, and what it is called. An attached terminal is given the
bytes; everything else the names.
"""

from __future__ import annotations

import os
import select
import time
from functools import lru_cache

from textual import constants, events
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from hudtui.keys.keystrokes import Stroke, Strokes
from hudtui.keys.typed import Typed

_TOLD = ("last_x", "last_y", "mouse_pixels", "terminal_size", "terminal_pixel_size")


class Keyboard(LinuxDriver):
    """Reads strokes. Bytes that are no text are no reason to end."""

    typed_at = 0.0
    """When the last stroke was read, as `time.monotonic` counts: before anybody has got it."""

    def start_application_mode(self) -> None:
        """As Textual; keys come in their oldest form until a program inside asks for a newer one."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self.newer_keys(0)

    def newer_keys(self, flags: int) -> None:
        """Ask the person's terminal for keys as the kitty protocol's `flags` say; many have no such thing."""
        self.write(f"\x1b[={flags};1u")
        self.flush()

    def run_input_thread(self) -> None:
        """Read until the application ends."""
        strokes, reader = Strokes(), _Reports()
        while not self.exit_event.is_set():
            wait = constants.ESCAPE_DELAY if strokes.waiting else 0.1
            if select.select([self.fileno], [], [], wait)[0]:
                data = os.read(self.fileno, 1 << 16)
                if not data:
                    self.exit_event.wait(0.1)  # it is no terminal any more
                found = strokes.feed(data)
            else:
                found = strokes.flush()
            if found:
                self.typed_at = time.monotonic()
            for stroke in found:
                for message in _messages(stroke, reader):
                    self.process_message(message)


def _messages(stroke: Stroke, reports: _Reports) -> list[Message]:
    if stroke.kind == "paste":
        return [events.Paste(stroke.data.decode("utf-8", "surrogateescape").replace("\0", ""))]
    if stroke.kind == "report":
        return reports.read(stroke)
    return [Typed(stroke, _meant(stroke))]


class _Reports:
    """What the terminal tells of itself and of the pointer, as Textual reads it."""

    def __init__(self) -> None:
        self._last = XTermParser()

    def read(self, stroke: Stroke) -> list[Message]:
        parser = XTermParser()
        for name in _TOLD:
            setattr(parser, name, getattr(self._last, name))
        found = _parsed(parser, stroke.data.decode("utf-8", "replace"))
        self._last = parser
        return [message for message in found if not isinstance(message, events.Key)]


@lru_cache(maxsize=1024)
def _meant(stroke: Stroke) -> tuple[tuple[str, str | None], ...]:
    if stroke.released:
        return ()
    if (tail := stroke.under_alt) and not tail.isalpha():
        return tuple((f"alt+{name}", None) for name, _ in _meant(Stroke("key", tail)))
    found = _parsed(XTermParser(), stroke.simple)
    return tuple((each.key, each.character) for each in found if isinstance(each, events.Key))


def _parsed(parser: XTermParser, text: str) -> list[Message]:
    try:
        return [*parser.feed(text), *parser.feed("")]
    except (ValueError, OverflowError):  # a number that is no character
        return []
