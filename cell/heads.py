"""The head of an HTTP/1.1 message: read strictly, as a value, and written anew for the next hop.

h11 knows the grammar; what it admits for old peers' sake, and two readers may read differently, is
refused before it: bare line feeds, folded lines, control characters, both lengths at once. Nothing of a head
is passed on as it came. Framing, Host and everything that belongs to one hop are written by us.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

import h11

from cell import hosts
from cell.hosts import Host
from cell.plain import plain

# The longest head, in bytes, and the most lines of one.
LONGEST, MOST_LINES = 64 * 1024, 256

Headers = tuple[tuple[bytes, bytes], ...]

# RFC 9110, 7.6.1, and what proxies were given before it. Framing is here because we write it ourselves.
HOP = frozenset(
    b"connection proxy-connection keep-alive te trailer transfer-encoding upgrade http2-settings "
    b"proxy-authorization proxy-authenticate proxy-authentication-info content-length".split()
)
# Control characters, a bare CR or LF, and a line that begins with a blank (obs-fold).
_ILLEGAL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r[^\n]|(?<!\r)\n|\n[ \t]")
# What the first line of a request begins with, however little of it is here.
_BEGINNING = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,32}(?: [\x21-\x7e]*(?: [HTTP/0-9.]{0,8}\r?)?)?")
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)")


class Bad(Exception):
    """A message that is not passed on: the status a client is told, and why, in words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


@dataclass(frozen=True)
class Request:
    """A request to a proxy. `path` is the origin's form, empty for CONNECT.

    `headers` are those for the origin, without Host. `length` is the body's in bytes, None where it is
    chunked. `claimed` is what its Host header said, `keep` whether the client stays for another one.
    """

    method: str
    host: Host
    port: int
    path: str
    headers: Headers = ()
    length: int | None = 0
    claimed: str = ""
    modern: bool = True
    keep: bool = True
    expect: bool = False
    websocket: bool = False

    @property
    def has_body(self) -> bool:
        """Whether bytes of a body follow the head."""
        return self.length != 0


@dataclass(frozen=True)
class Response:
    """A response of an origin. `length` None: the body's end is its last chunk, or the connection's.

    `keep` says whether the origin stays for another request, `has_body` whether a body follows at all.
    """

    status: int
    reason: bytes = b""
    headers: Headers = ()
    length: int | None = None
    chunked: bool = False
    keep: bool = True
    has_body: bool = True

    @property
    def framed(self) -> bool:
        """Whether the response ends before its connection does."""
        return self.chunked or self.length is not None or not self.has_body


def take(buffer: bytearray, scanned: int, *, request: bool) -> tuple[bytes | None, int]:
    """Cut one whole head off `buffer`; with None, say how far was looked, for the next call.

    Raises Bad as soon as what is there cannot become a head.
    """
    end = buffer.find(b"\r\n\r\n", max(0, scanned - 3))
    if 0 <= end <= LONGEST - 4:
        head = bytes(buffer[: end + 4])
        del buffer[: end + 4]
        return head, 0
    if len(buffer) > LONGEST:
        raise Bad(431 if request else 502, f"the head is longer than {LONGEST} bytes")
    _check(buffer, max(0, scanned - 2), status=400 if request else 502)
    if request and scanned < 9000 and buffer and b"\n" not in buffer and not _BEGINNING.fullmatch(buffer):
        raise Bad(400, "this is not HTTP")
    return None, len(buffer)


def read_request(head: bytes) -> Request:
    """Read the head of a request to a proxy. Raises Bad."""
    _check(head)
    if head.startswith(b"PRI "):
        raise Bad(400, "HTTP/2 is not spoken here")
    event = _parsed(head, h11.SERVER)
    if not isinstance(event, h11.Request):
        raise Bad(400, "this is not a request")
    modern, headers = _version(event.http_version, 505), event.headers.raw_items()
    fields = _fields(headers)
    connection = _tokens(fields, b"connection")
    length = _length(fields, modern, 400)
    method = event.method.decode("ascii")
    host, port, path = _target(method, event.target.decode("ascii"))
    if method == "CONNECT" and length != 0:
        raise Bad(400, "a CONNECT has no body")
    upgrade = modern and length == 0 and method == "GET" and b"upgrade" in connection
    return Request(
        method,
        host,
        port,
        path,
        _end_to_end(headers, {*connection, b"host", *({b"expect"} if not modern else ())}),
        length,
        claimed=fields.get(b"host", [b""])[0].decode("latin-1"),
        modern=modern,
        keep=modern and b"close" not in connection | _tokens(fields, b"proxy-connection"),
        expect=modern and b"100-continue" in _tokens(fields, b"expect"),
        websocket=upgrade and _tokens(fields, b"upgrade") == {b"websocket"},
    )


def read_response(head: bytes, method: str, *, websocket: bool = False) -> Response:
    """Read the head of an origin's response to a request with `method`. Raises Bad, with status 502.

    101 is a response only to a request that asked for a websocket.
    """
    _check(head, status=502)
    event = _parsed(head, h11.CLIENT, _ASKED_TO_SWITCH if websocket else _ASKED)
    if not isinstance(event, h11.Response | h11.InformationalResponse):
        raise Bad(502, "the origin did not send a response")
    modern, headers, status = _version(event.http_version, 502), event.headers.raw_items(), event.status_code
    fields = _fields(headers)
    connection = _tokens(fields, b"connection")
    length = (
        _length(fields, modern, 502) if {b"content-length", b"transfer-encoding"} & fields.keys() else None
    )
    bare = status < 200 or status == 204
    return Response(
        status,
        bytes(event.reason),
        _end_to_end(headers, connection),
        None if bare else length,
        chunked=b"transfer-encoding" in fields and not bare,
        keep=modern and b"close" not in connection,
        has_body=not (bare or status == 304 or method == "HEAD"),
    )


def write_request(request: Request) -> bytes:
    """Return the head for the origin: its own form of the target, Host as it was decided."""
    lines = [
        f"{request.method} {request.path} HTTP/1.1\r\nHost: {request.host.at(request.port, 80)}".encode(
            "ascii"
        ),
        *_lines(request.headers),
    ]
    if request.length is None:
        lines.append(b"Transfer-Encoding: chunked")
    elif request.length or request.method in {"POST", "PUT", "PATCH"}:
        lines.append(b"Content-Length: %d" % request.length)
    if request.websocket:
        lines.append(b"Connection: Upgrade\r\nUpgrade: websocket")
    return b"\r\n".join(lines) + b"\r\n\r\n"


def write_response(response: Response, *, chunked: bool, close: bool, switch: bool = False) -> bytes:
    """Return the head for the client. `chunked`: we frame the body. `close`: it ends the connection."""
    lines = [b"HTTP/1.1 %d %s" % (response.status, response.reason), *_lines(response.headers)]
    if chunked:
        lines.append(b"Transfer-Encoding: chunked")
    elif response.length is not None:
        lines.append(b"Content-Length: %d" % response.length)
    if switch:
        lines.append(b"Connection: Upgrade\r\nUpgrade: websocket")
    elif close:
        lines.append(b"Connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"


def answer(status: int, words: str, *, close: bool, body: bool = True) -> bytes:
    """Return a whole response of our own: `words` for a person, one line of text."""
    text = f"{plain(words)}\n".encode()
    try:
        reason = HTTPStatus(status).phrase.encode("ascii")
    except ValueError:
        reason = b"Refused"
    headers: Headers = ((b"Content-Type", b"text/plain; charset=utf-8"),)
    head = write_response(Response(status, reason, headers, len(text)), chunked=False, close=close)
    return head + text if body else head


def trailers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the trailer fields that may be passed on: none that frames, routes or belongs to a hop."""
    return _end_to_end(list(headers), {b"host", b"connection"})


def chunk(data: bytes) -> bytes:
    """Return `data`, which is not empty, as one chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def last_chunk(fields: Headers) -> bytes:
    """Return the end of a chunked body with its trailer fields."""
    return b"\r\n".join([b"0", *_lines(fields), b"", b""])


def _check(head: bytes | bytearray, start: int = 0, status: int = 400) -> None:
    if (found := _ILLEGAL.search(head, start)) is not None:
        what = "a folded line" if found[0][-1:] in b" \t" else "a character that no head may have"
        raise Bad(status, f"the head has {what}")


# To h11, a response needs a request before it.
_ASKED = h11.Request(method="GET", target="/", headers=[("host", "origin")])
_ASKED_TO_SWITCH = h11.Request(
    method="GET",
    target="/",
    headers=[("host", "origin"), ("connection", "upgrade"), ("upgrade", "websocket")],
)


def _parsed(head: bytes, role: type[h11.SERVER | h11.CLIENT], asked: h11.Request | None = None) -> object:
    status, other = (400, "request") if role is h11.SERVER else (502, "response of the origin")
    if head.count(b"\r\n") > MOST_LINES:
        raise Bad(431 if role is h11.SERVER else 502, f"the head has more than {MOST_LINES} lines")
    connection = h11.Connection(role, max_incomplete_event_size=LONGEST)
    try:
        if asked is not None:
            connection.send(asked)
        connection.receive_data(head)
        return connection.next_event()
    except h11.RemoteProtocolError as error:
        hint = error.error_status_hint if role is h11.SERVER else status
        raise Bad(hint or status, f"the {other} is not HTTP/1.1: {plain(str(error), limit=120)}") from None


def _version(version: bytes, status: int) -> bool:
    if version not in {b"1.0", b"1.1"}:
        raise Bad(status, "only HTTP/1.0 and HTTP/1.1 are spoken here")
    return version == b"1.1"


def _fields(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    fields: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        fields.setdefault(name.lower(), []).append(value)
    return fields


def _tokens(fields: dict[bytes, list[bytes]], name: bytes) -> set[bytes]:
    return {token.strip().lower() for value in fields.get(name, ()) for token in value.split(b",")} - {b""}


def _length(fields: dict[bytes, list[bytes]], modern: bool, status: int) -> int | None:
    """Return the body's length, None for chunks; h11 has seen to it that each of the two is well-formed."""
    if b"transfer-encoding" not in fields:
        return int(fields.get(b"content-length", [b"0"])[0])
    if b"content-length" in fields:
        raise Bad(status, "Content-Length and Transfer-Encoding contradict each other")
    if not modern:
        raise Bad(status, "HTTP/1.0 has no Transfer-Encoding")
    return None


def _end_to_end(headers: Iterable[tuple[bytes, bytes]], dropped: set[bytes]) -> Headers:
    out = HOP | dropped
    return tuple((bytes(name), bytes(value)) for name, value in headers if name.lower() not in out)


def _lines(headers: Headers) -> Iterable[bytes]:
    return (b"%b: %b" % field for field in headers)


def _target(method: str, target: str) -> tuple[Host, int, str]:
    try:
        if method == "CONNECT":
            return *hosts.authority(target), ""
        parts = _ABSOLUTE.fullmatch(target)
        if parts is None:
            raise Bad(400, "this is a proxy: the target of a request must be a whole http:// URL")
        scheme, authority, path = parts.groups()
        if scheme.lower() != "http":
            raise Bad(501, f"{scheme}:// is not forwarded: use CONNECT")
        host, port = hosts.authority(authority, 80)
    except ValueError as error:
        raise Bad(400, f"{plain(target, limit=200)}: {error}") from None
    if not path.startswith("/"):
        path = "*" if method == "OPTIONS" and not path else f"/{path}"
    return host, port, path
