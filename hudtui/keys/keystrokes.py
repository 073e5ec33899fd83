"""What a person's terminal sends, cut into strokes: keys as their very bytes, reports, pastes.

Textual's own parser gives names to keys, and loses those that it has no name for. Here nothing is
lost: the strokes joined together are what came in. A name is looked up beside it (`meant`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

_PASTE, _PASTED = b"\x1b[200~", b"\x1b[201~"
_LONGEST = 256
"""Bytes of an escape sequence; what is longer is none."""
_REPORT = re.compile(rb"\x1b\[(?:[<=>?].*|M...|\d+;\d+;\d+M|[IO]|[\d;:]*[tycn])\Z", re.DOTALL)
_SEQUENCE = re.compile(rb"\x1b\[(?P<params>[0-?]*)(?P<rest>[ -/]*)(?P<final>[@-~]?)")
_KEYPAD = re.compile(rb"\x1bO[\d;]*(?P<final>[@-~]?)")
_OLD = re.compile(rb"\x1bO(?:1;)?(?P<mods>[2-9]|1\d)(?P<final>[A-HPQRS])\Z")
_KITTY = re.compile(
    rb"\x1b\[(?P<code>\d*)[\d:]*(?P<held>;\d*)?(?::(?P<event>\d))?(?P<text>;[\d:;]*)?(?P<final>[u~A-HPQS])\Z"
)


class Stroke(NamedTuple):
    """One key, one report of the terminal, or one whole paste (without its brackets)."""

    kind: Literal["key", "report", "paste"]
    data: bytes

    @property
    def released(self) -> bool:
        """Whether a key went up; only terminals that were asked to tell do."""
        found = _KITTY.match(self.data)
        return found is not None and found["event"] == b"3"

    @property
    def newer(self) -> bool:
        """Whether it is in the form of the kitty protocol, which only a terminal uses that was asked to."""
        found = _KITTY.match(self.data)
        return found is not None and (found["final"] == b"u" or found["event"] is not None)

    @property
    def under_alt(self) -> bytes:
        """The key that alt was held with, where that is told by an escape before it; empty for all others."""
        tail = self.data[1:]
        sequence = tail[:1] in (b"[", b"O") and len(tail) > 1
        return b"" if self.data[:1] != b"\x1b" or sequence else tail

    @property
    def simple(self) -> str:
        """The key without what only some terminals tell of it: event types, alternate keys, old forms."""
        if old := _OLD.match(self.data):
            return b"".join((b"\x1b[1;", old["mods"], old["final"])).decode()
        found = _KITTY.match(self.data)
        if found is None:
            return self.data.decode("utf-8", "replace")
        held, text = found["held"] or b"", found["text"] or b""
        return b"".join((b"\x1b[", found["code"], held, text, found["final"])).decode()


class Strokes:
    """`feed` takes bytes as they come; what may go on waits for more, or for `flush`."""

    def __init__(self) -> None:
        self._rest = b""
        self._pasting: bytearray | None = None

    @property
    def waiting(self) -> bool:
        """Whether bytes are held back that may be the start of something longer."""
        return bool(self._rest) and self._pasting is None

    def feed(self, data: bytes) -> Iterator[Stroke]:
        """Give the strokes that are complete."""
        self._rest += data
        yield from self._cut(last=False)

    def flush(self) -> Iterator[Stroke]:
        """Nothing more came in time: what waits is complete as it is. A paste waits on."""
        yield from self._cut(last=True)

    def _cut(self, *, last: bool) -> Iterator[Stroke]:
        while self._rest:
            if self._pasting is not None:
                if not self._paste():
                    return
                pasted, self._pasting = bytes(self._pasting), None
                yield Stroke("paste", pasted)
                continue
            size = _size(self._rest)
            if size > len(self._rest):
                if not last:
                    return
                size = _shortest(self._rest)
            stroke, self._rest = self._rest[:size], self._rest[size:]
            if stroke == _PASTE:
                self._pasting = bytearray()
            elif stroke != _PASTED:
                yield Stroke("report" if _REPORT.match(stroke) else "key", stroke)

    def _paste(self) -> bool:
        """Move what is pasted out of the rest; return whether its end was there."""
        assert self._pasting is not None
        text, end, after = self._rest.partition(_PASTED)
        if end:
            self._pasting += text
            self._rest = after
            return True
        keep = next((n for n in range(len(_PASTED) - 1, 0, -1) if text.endswith(_PASTED[:n])), 0)
        self._pasting += text[: len(text) - keep]
        self._rest = text[len(text) - keep :]
        return False


def _size(data: bytes) -> int:
    """How many bytes the first stroke has; more than there are when it is not complete."""
    if data[:1] != b"\x1b":
        return _size_of_character(data)
    second = data[1:2]
    if second == b"[":
        return _size_of_sequence(data)
    if second == b"O":
        found = _KEYPAD.match(data)
        assert found is not None
        if found["final"]:
            return found.end()
        return len(data) + 1 if found.end() == len(data) and len(data) < _LONGEST else 2
    if second == b"\x1b":
        return 1
    return 1 + (_size_of_character(data[1:]) if second else 1)


def _size_of_sequence(data: bytes) -> int:
    if data[2:3] in (b"[", b"M"):  # F1 to F5 of the Linux console; the oldest report of a mouse
        return 4 if data[2:3] == b"[" else 6
    found = _SEQUENCE.match(data)
    assert found is not None
    if found["final"]:
        return found.end()
    if found.end() == len(data) and len(data) < _LONGEST:
        return len(data) + 1
    return 2  # no sequence: `alt+[` and then something else


def _size_of_character(data: bytes) -> int:
    first = data[0]
    size = 1 if first < 0xC2 or first > 0xF4 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    broken = any(not 0x80 <= byte <= 0xBF for byte in data[1:size])
    return 1 if broken else size


def _shortest(data: bytes) -> int:
    """What to take of something that was cut short: a key with alt, else one byte."""
    return min(2, len(data)) if data[:1] == b"\x1b" and data[1:2] in (b"[", b"O") else 1
