"""The body of an HTTP/1.1 message, as its bytes come: by length, by chunks, or until the end.

A body with a length is passed on as it is. Chunks are read by h11 and framed anew, so that extensions and
odd spellings stay on their hop.
"""

from __future__ import annotations

from typing import Protocol

import h11
import msgspec

from cell.wire import heads
from cell.wire.heads import Bad, Headers, Request, Response


class Piece(msgspec.Struct, frozen=True):
    """What some bytes brought: `data` of the body, whether it is `over`, and what `rest` lies behind it."""

    data: bytes
    over: bool = False
    rest: bytes = b""
    trailers: Headers = ()


class Body(Protocol):
    """One body being read."""

    def feed(self, data: bytes) -> Piece:
        """Take the next bytes, not none. Raises Bad where they are no body."""

    def ends(self) -> bool:
        """Say whether the connection's end is the body's end, too."""


class ByLength:
    """As many bytes as the head said, at least one."""

    def __init__(self, length: int) -> None:
        self.left = length

    def feed(self, data: bytes) -> Piece:
        """Take the next bytes."""
        if len(data) < self.left:
            self.left -= len(data)
            return Piece(data)
        left, self.left = self.left, 0
        return Piece(data, True) if len(data) == left else Piece(data[:left], True, data[left:])

    def ends(self) -> bool:
        """Say no: bytes are missing."""
        return False


class ByChunks:
    """Chunks and trailer fields, as h11 reads them. `status` is what bad ones are answered with."""

    def __init__(self, status: int) -> None:
        self._status = status
        self._reader = h11.Connection(h11.SERVER, max_incomplete_event_size=heads.LONGEST)
        self._reader.receive_data(_CHUNKED)
        self._reader.next_event()

    def feed(self, data: bytes) -> Piece:
        """Take the next bytes; the chunks among them become one."""
        self._reader.receive_data(data)
        found: list[bytes] = []
        try:
            while isinstance(event := self._reader.next_event(), h11.Data):
                found.append(event.data)
        except h11.RemoteProtocolError:
            raise Bad(self._status, "the chunks of the body are not as HTTP/1.1 has them") from None
        over = isinstance(event, h11.EndOfMessage)
        rest = self._reader.trailing_data[0] if over else b""
        fields = heads.trailers(event.headers.raw_items()) if isinstance(event, h11.EndOfMessage) else ()
        return Piece(b"".join(found), over, rest, fields)

    def ends(self) -> bool:
        """Say no: the last chunk is missing."""
        return False


class ToTheEnd:
    """Whatever comes until the connection ends."""

    def feed(self, data: bytes) -> Piece:
        """Take the next bytes."""
        return Piece(data)

    def ends(self) -> bool:
        """Say yes."""
        return True


# What makes h11 read chunks next.
_CHUNKED = b"POST / HTTP/1.1\r\nHost: origin\r\nTransfer-Encoding: chunked\r\n\r\n"


def of_request(request: Request) -> Body | None:
    """Return what reads the body of a request, None where it has none."""
    if request.length is None:
        return ByChunks(400)
    return ByLength(request.length) if request.length else None


def of_response(response: Response) -> Body:
    """Return what reads the body of a response that has one."""
    if response.chunked:
        return ByChunks(502)
    return ToTheEnd() if response.length is None else ByLength(response.length)
