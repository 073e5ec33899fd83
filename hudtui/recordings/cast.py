"""Recordings read while they are written: asciicast v2, raw terminal bytes, plain output.

`CastParser` is sans-IO: bytes in, events out, torn last line kept for later, lines that are no events
skipped. A `Feed` follows one file and turns it into what a terminal engine is fed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import msgspec

LINE_LIMIT = 8 << 20
"""A line longer than this many bytes is no event of a recording and is dropped."""

_decode = msgspec.json.Decoder(list[object]).decode
_header = msgspec.json.Decoder(dict[str, object]).decode


class CastEvent(NamedTuple):
    """One event: `t` in seconds since the recording began, `kind` as asciicast names it (o i r m)."""

    t: float
    kind: str
    data: str


class CastParser:
    """Turns the bytes of an asciicast into events, however they are cut."""

    def __init__(self) -> None:
        self.header: dict[str, object] | None = None
        self.skipped = 0
        self._partial = b""
        self._dropping = False

    def feed(self, data: bytes) -> list[CastEvent]:
        """Take more of the file; return the events that are whole now."""
        *lines, rest = (self._partial + data).split(b"\n")
        if self._dropping and lines:
            lines, self._dropping = lines[1:], False
        if len(rest) > LINE_LIMIT or self._dropping:
            self.skipped += not self._dropping
            rest, self._dropping = b"", True
        self._partial = rest
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: bytes) -> CastEvent | None:
        if not line.strip():
            return None
        try:
            if self.header is None and line.lstrip().startswith(b"{"):
                self.header = _header(line)
                return None
            t, kind, data = _decode(line)[:3]
        except (msgspec.DecodeError, RecursionError, ValueError):
            self.skipped += 1
            return None
        if isinstance(t, (int, float)) and isinstance(kind, str) and isinstance(data, str):
            return CastEvent(float(t), kind, data)
        self.skipped += 1
        return None


class Step(NamedTuple):
    """What to do next with an engine: `feed` bytes, or `resize` to (cols, rows)."""

    do: Literal["feed", "resize"]
    data: bytes = b""
    size: tuple[int, int] = (0, 0)


class Feed(Protocol):
    """A file that is followed."""

    def poll(self, limit: int) -> Iterator[Step]:
        """Take up to `limit` more bytes of the file; yields nothing at its end."""

    @property
    def behind(self) -> bool:
        """Whether the last `poll` stopped at its limit rather than at the end of the file."""

    @property
    def restarted(self) -> bool:
        """True once after the file was replaced by a shorter one: the engine must start afresh."""


class Tail:
    """The next bytes of a file that grows, vanishes and comes back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.behind = False
        self._offset = 0
        self._restarted = False

    def take(self, limit: int) -> bytes:
        """Return up to `limit` more bytes; empty at the end, or while there is no such file."""
        flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
        try:
            fd = os.open(self.path, flags)
        except (OSError, ValueError):
            self.behind = False
            return b""
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                return b""
            if found.st_size < self._offset:
                self._offset, self._restarted = 0, True
            data = os.pread(fd, limit, self._offset)
        except OSError:
            return b""
        finally:
            os.close(fd)
        self._offset += len(data)
        self.behind = len(data) == limit
        return data

    @property
    def restarting(self) -> bool:
        """Whether the file was replaced by a shorter one, and nobody has asked yet."""
        return self._restarted

    @property
    def restarted(self) -> bool:
        """See `Feed`."""
        was, self._restarted = self._restarted, False
        return was


class _OfAFile:
    """What every `Feed` of a file has."""

    def __init__(self, path: Path, *, plain: bool = False) -> None:
        self._tail = Tail(path)
        self._plain = plain

    @property
    def behind(self) -> bool:
        """See `Feed`."""
        return self._tail.behind

    @property
    def restarted(self) -> bool:
        """See `Feed`."""
        return self._tail.restarted


class CastFeed(_OfAFile):
    """Follows an asciicast. `plain` is for sessions without a terminal: their lines end in LF alone."""

    def __init__(self, path: Path, *, plain: bool = False) -> None:
        super().__init__(path, plain=plain)
        self._parser = CastParser()
        self.marks: list[CastEvent] = []

    def poll(self, limit: int) -> Iterator[Step]:
        """See `Feed`."""
        data = self._tail.take(limit)
        if self._tail.restarting:
            self._parser = CastParser()
            self.marks.clear()
        printed: list[str] = []
        for event in self._parser.feed(data):
            if event.kind == "o":
                printed.append(event.data)
            elif event.kind == "r" and (size := size_of(event.data)):
                if printed:
                    yield self._feed("".join(printed))
                    printed = []
                yield Step("resize", size=size)
            elif event.kind == "m" and len(self.marks) < 10_000:
                self.marks.append(event)
        if printed:
            yield self._feed("".join(printed))

    def _feed(self, text: str) -> Step:
        if self._plain:
            text = text.replace("\n", "\r\n")
        return Step("feed", text.encode("utf-8", "replace"))


class RawFeed(_OfAFile):
    """Follows raw bytes: a tmux pane's as they are, with `plain` a program's output of bare LF lines."""

    def poll(self, limit: int) -> Iterator[Step]:
        """See `Feed`."""
        if data := self._tail.take(limit):
            yield Step("feed", data.replace(b"\n", b"\r\n") if self._plain else data)


def size_of(text: str) -> tuple[int, int] | None:
    """Read `COLSxROWS`; None unless both are sizes that a terminal can have."""
    cols, times, rows = text.partition("x")
    if not (times and cols.isascii() and cols.isdigit() and rows.isascii() and rows.isdigit()):
        return None
    if len(cols) > 4 or len(rows) > 4 or not (1 <= int(cols) <= 1000 and 1 <= int(rows) <= 1000):
        return None
    return int(cols), int(rows)
