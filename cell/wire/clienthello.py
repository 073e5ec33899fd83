"""The server name in the first bytes of a TLS connection (RFC 8446, 6066), read without opening it.

What is not TLS is said to be so; what begins as TLS and is not a well-formed ClientHello is `broken`. An
encrypted client hello is marked, no more: browsers send a made-up one each time that nobody can tell from
a true one, so its presence says nothing, and the name outside of it is compared like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# A hello with post-quantum keys is about 2 KB; longer than this is no client we know.
LONGEST = 32 * 1024

_HANDSHAKE, _CLIENT_HELLO = 22, 1
_SERVER_NAME, _ECH = 0x0000, 0xFE0D


@dataclass(frozen=True)
class Hello:
    """What the first bytes are. `sni` is as it was sent, empty where there is none."""

    kind: Literal["tls", "plain", "broken"]
    sni: str = ""
    ech: bool = False


PLAIN, BROKEN = Hello("plain"), Hello("broken")


class _Broken(Exception):
    pass


class _Bytes:
    """A cursor over one message; reading past its end is a broken hello."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def __bool__(self) -> bool:
        return self.at < len(self.data)

    def take(self, count: int) -> bytes:
        piece = self.data[self.at : self.at + count]
        if len(piece) < count:
            raise _Broken
        self.at += count
        return piece

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> _Bytes:
        return _Bytes(self.take(self.number(size)))


def read(data: bytes) -> Hello | None:
    """Return what `data`, all bytes so far, begins with; None while more are needed to say."""
    if not data:
        return None
    if data[0] != _HANDSHAKE or (len(data) > 1 and data[1] != 3):
        return PLAIN
    try:
        message = _message(data)
        if message is None:
            return BROKEN if len(data) >= LONGEST else None
        return _hello(_Bytes(message))
    except _Broken:
        return BROKEN


def _message(data: bytes) -> bytes | None:
    """Put the first handshake message together from its records, None while it is incomplete."""
    message, at = b"", 0
    while len(data) >= at + 5:
        size = int.from_bytes(data[at + 3 : at + 5], "big")
        if data[at] != _HANDSHAKE or data[at + 1] != 3 or not 0 < size <= 16384:
            raise _Broken
        message += data[at + 5 : at + 5 + size]
        if message[0:1] not in {b"", bytes([_CLIENT_HELLO])}:
            raise _Broken
        if len(message) >= 4:
            end = 4 + int.from_bytes(message[1:4], "big")
            if end > LONGEST:
                raise _Broken
            if len(message) >= end:
                return message[4:end]
        at += 5 + size
    return None


def _hello(message: _Bytes) -> Hello:
    message.take(2 + 32)  # version, random
    message.vector(1)  # session
    message.vector(2)  # ciphers
    message.vector(1)  # compression
    if not message:
        return Hello("tls")
    extensions, sni, ech, seen = message.vector(2), "", False, set[int]()
    if message:
        raise _Broken
    while extensions:
        number, body = extensions.number(2), extensions.vector(2)
        if number in seen:
            raise _Broken
        seen.add(number)
        if number == _SERVER_NAME:
            sni = _server_name(body)
        ech = ech or number == _ECH
    return Hello("tls", sni, ech)


def _server_name(body: _Bytes) -> str:
    names = body.vector(2)
    kind, name = names.number(1), names.vector(2)
    # There is one kind of name, and one name of a kind (RFC 6066).
    if kind != 0 or names or body or not name.data:
        raise _Broken
    try:
        return name.data.decode("ascii")
    except UnicodeDecodeError:
        raise _Broken from None
