"""DNS messages, as a name server that asks nobody needs them: a query read, an answer written.

Bytes come from inside and are hostile. What is no query is not answered; what is a query and wrong
gets an error code. Names are text here: a byte that is no letter, digit, hyphen or underscore stands
as `\\DDD`, so that a dot is always between two labels.
"""

from __future__ import annotations

import ipaddress
import re
import struct
from dataclasses import dataclass

A, PTR, AAAA, OPT, AXFR_IXFR, ANY = 1, 12, 28, 41, (251, 252), 255
KINDS = {
    1: "A",
    2: "NS",
    5: "CNAME",
    6: "SOA",
    12: "PTR",
    15: "MX",
    16: "TXT",
    28: "AAAA",
    33: "SRV",
    35: "NAPTR",
    64: "SVCB",
    65: "HTTPS",
    255: "ANY",
    257: "CAA",
}
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = 0, 1, 2, 3, 4, 5
_IN, _ANY_CLASS = 1, 255
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_LONGEST = 255  # octets of a name on the wire
_V4 = re.compile(r"((?:\d{1,3}\.){4})in-addr\.arpa")
_V6 = re.compile(r"((?:[0-9a-f]\.){32})ip6\.arpa")


class NotAQuery(ValueError):
    """Nothing that should be answered."""


@dataclass(frozen=True)
class Query:
    """One question. `error` is the code to answer it with where it is wrong, else NOERROR.

    `name` is lower case without the root's dot; `question` the bytes as they came, to be repeated.
    """

    number: int
    name: str
    kind: int
    question: bytes
    recursion: bool = False
    opcode: int = 0
    extended: bool = False
    error: int = NOERROR

    @property
    def kind_name(self) -> str:
        """`A`, `AAAA`, …; `TYPE999` for one without a name here (RFC 3597)."""
        return KINDS.get(self.kind, f"TYPE{self.kind}")


def parse(message: bytes) -> Query:
    """Read one message. Errors: NotAQuery where silence is the only answer."""
    if len(message) < 12:
        raise NotAQuery("too short")
    number, flags, questions, answers, authorities, more = struct.unpack_from("!6H", message)
    if flags & 0x8000:
        raise NotAQuery("a response")
    opcode, recursion = flags >> 11 & 15, bool(flags & 0x0100)

    def wrong(error: int) -> Query:
        return Query(number, "", 0, b"", recursion, opcode, error=error)

    if opcode:
        return wrong(NOTIMP)
    if questions != 1 or answers or authorities:
        return wrong(FORMERR)
    try:
        name, after = _name(message, 12)
        kind, kind_class = struct.unpack_from("!HH", message, after)
        extended = _extended(message, after + 4, more)
    except (ValueError, struct.error):
        return wrong(FORMERR)
    error = NOERROR
    if kind in AXFR_IXFR or kind_class not in (_IN, _ANY_CLASS):
        error = REFUSED
    return Query(number, name, kind, message[12 : after + 4], recursion, opcode, extended, error)


def answer(
    query: Query, data: tuple[bytes, ...] = (), *, kind: int = 0, ttl: int = 0, code: int = 0
) -> bytes:
    """Write the answer: one record of type `kind` for each of `data`, `ttl` in seconds.

    An empty one without a code says that the name exists and has no record of that type.
    """
    flags = 0x8080 | query.opcode << 11 | (0x0100 if query.recursion else 0) | (code or query.error)
    header = struct.pack(
        "!6H", query.number, flags, 1 if query.question else 0, len(data), 0, int(query.extended)
    )
    records = b"".join(
        b"\xc0\x0c" + struct.pack("!HHIH", kind, _IN, ttl, len(piece)) + piece for piece in data
    )
    # RFC 6891: who speaks EDNS is answered in EDNS
    extension = b"\0" + struct.pack("!HHIH", OPT, 1232, 0, 0) if query.extended else b""
    return header + query.question + records + extension


def encode_name(name: str) -> bytes:
    """Return a name's wire form. Raises ValueError for one that has none."""
    labels = [label.encode("ascii") for label in name.split(".")] if name else []
    if (
        not all(0 < len(label) < 64 for label in labels)
        or sum(len(label) + 1 for label in labels) >= _LONGEST
    ):
        raise ValueError("not a name")
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def reversed_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a PTR question asks about, None where it is no whole address."""
    try:
        if match := _V4.fullmatch(name):
            return ipaddress.IPv4Address(".".join(match[1].rstrip(".").split(".")[::-1]))
        if match := _V6.fullmatch(name):
            return ipaddress.IPv6Address(int(match[1].replace(".", "")[::-1], 16))
    except ValueError:
        pass
    return None


def _name(message: bytes, at: int) -> tuple[str, int]:
    labels: list[str] = []
    start = at
    while True:
        length = message[at] if at < len(message) else 64
        # a pointer has nothing to point at in a question
        if length > 63 or at + 1 + length > len(message) or at + 1 + length - start > _LONGEST:
            raise ValueError("not a name")
        if not length:
            return ".".join(labels), at + 1
        label = message[at + 1 : at + 1 + length]
        labels.append("".join(chr(byte) if byte in _PLAIN else f"\\{byte:03d}" for byte in label).lower())
        at += 1 + length


def _extended(message: bytes, at: int, more: int) -> bool:
    """Say whether one of the additional records is EDNS's."""
    for _ in range(more):
        _, at = _name(message, at)
        kind, _, _, length = struct.unpack_from("!HHIH", message, at)
        at += 10 + length
        if at > len(message):
            raise ValueError("cut short")
        if kind == OPT:
            return True
    return False
