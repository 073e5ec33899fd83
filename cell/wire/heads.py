"""The head of an HTTP/1.1 message: read strictly, as a value, and written anew for the next hop.

What two readers may read differently is refused: bare line feeds, folded lines, control characters, blanks
before a colon, both lengths at once. What is left is simple enough to be read line by line; a test
holds it against h11, which reads the same in everything that is admitted here. Nothing of a head is passed on
as it came. Framing, Host and everything that belongs to one hop are written by us.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus

import msgspec

from cell.plain import plain
from cell.policy import hosts
from cell.policy.hosts import Host

# The longest head, in bytes, and the most lines of one.
LONGEST, MOST_LINES = 64 * 1024, 256

Headers = tuple[tuple[bytes, bytes], ...]
Fields = dict[bytes, list[bytes]]

# RFC 9110, 7.6.1, and what proxies were given before it. Framing is here because we write it ourselves.
HOP = frozenset(
    b"connection proxy-connection keep-alive te trailer transfer-encoding upgrade http2-settings "
    b"proxy-authorization proxy-authenticate proxy-authentication-info content-length".split()
)
# Control characters, a bare CR or LF, and a line that begins with a blank (obs-fold).
_ILLEGAL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r[^\n]|(?<!\r)\n|\n[ \t]")
# What the first line of a request begins with, however little of it is here.
_BEGINNING = re.compile(
    rb"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,32}(?: [\x21-\x7e\x80-\xff]*(?: [HTTP/0-9.]{0,8}\r?)?)?"
)
_TOKEN = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_NUMBER = re.compile(rb"[0-9]{1,19}")
_REQUEST = re.compile(rb"([A-Za-z0-9!#$%&'*+.^_`|~-]+) ([\x21-\x7e\x80-\xff]+) HTTP/([0-9]\.[0-9])")
_RESPONSE = re.compile(rb"HTTP/([0-9]\.[0-9]) ([0-9]{3})(?: (.*))?")
# Bytes that no target may have, and that clients send as they were typed (curl, in a query).
_RAW = re.compile("[\x80-\xff]")
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)")


class Bad(Exception):
    """A message that is not passed on: the status a client is told, and why, in words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


class Request(msgspec.Struct, frozen=True):
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

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent twice, should the origin have closed a connection that was kept."""
        return not self.has_body and self.method in {"GET", "HEAD", "OPTIONS"} and not self.websocket

    @property
    def spent(self) -> bool:
        """Whether what follows the head is the next request, even if nobody does what this one asks."""
        return self.keep and not self.has_body and self.method != "CONNECT"


class Response(msgspec.Struct, frozen=True):
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
    if request and buffer:
        # What begins otherwise may never end, and is not waited for.
        line = buffer.find(b"\r\n")
        if line < 0 and scanned < 9000 and not _BEGINNING.fullmatch(buffer):
            raise Bad(400, "this is not HTTP")
        if line >= 0 and scanned < line + 2 and not _REQUEST.fullmatch(buffer, 0, line):
            raise Bad(400, "this is not HTTP")
    return None, len(buffer)


def read_request(head: bytes) -> Request:
    """Read the head of a request to a proxy. Raises Bad."""
    _check(head)
    if head.startswith(b"PRI "):
        raise Bad(400, "HTTP/2 is not spoken here")
    first, headers, fields = _lines_of(head, "request", 400, 431)
    line = _REQUEST.fullmatch(first)
    if line is None:
        raise Bad(400, "this is not HTTP: METHOD TARGET HTTP/1.1 is how a request begins")
    modern = _version(line[3], 505)
    names = fields.get(b"host", ())
    if len(names) > 1 or (modern and not names):
        raise Bad(400, "a request has one Host header")
    connection = _tokens(fields, b"connection")
    length, chunked = _framing(fields, modern, 400, 501)
    length = None if chunked else length or 0
    method = line[1].decode("ascii")
    host, port, path = _target(method, line[2].decode("latin-1"))
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
        claimed=names[0].decode("latin-1") if names else "",
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
    first, headers, fields = _lines_of(head, "response of the origin", 502, 502)
    line = _RESPONSE.fullmatch(first)
    if line is None:
        raise Bad(502, "the origin does not speak HTTP")
    modern, status = _version(line[1], 502), int(line[2])
    if status < 100 or (status == 101 and not websocket):
        raise Bad(502, f"the origin answered {status}, which is no answer here")
    connection = _tokens(fields, b"connection")
    length, chunked = _framing(fields, modern, 502, 502)
    bare = status < 200 or status == 204
    return Response(
        status,
        line[3] or b"",
        _end_to_end(headers, connection),
        None if bare or chunked else length,
        chunked=chunked and not bare,
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
    return _end_to_end([(bytes(name), bytes(value)) for name, value in headers], {b"host"})


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


def _lines_of(
    head: bytes, what: str, status: int, too_many: int
) -> tuple[bytes, list[tuple[bytes, bytes]], Fields]:
    """Split a checked head into its first line and its fields, in order and by lower-case name."""
    first, *lines = head[:-4].split(b"\r\n")
    if len(lines) > MOST_LINES:
        raise Bad(too_many, f"the head has more than {MOST_LINES} lines")
    headers: list[tuple[bytes, bytes]] = []
    fields: Fields = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or _TOKEN.fullmatch(name) is None:
            raise Bad(status, f"the {what} has a line that is no header: {plain(line[:12], limit=80)}…")
        value = value.strip(b" \t")
        headers.append((name, value))
        fields.setdefault(name.lower(), []).append(value)
    return first, headers, fields


def _version(version: bytes, status: int) -> bool:
    if version not in {b"1.0", b"1.1"}:
        raise Bad(status, "only HTTP/1.0 and HTTP/1.1 are spoken here")
    return version == b"1.1"


def _tokens(fields: Fields, name: bytes) -> set[bytes]:
    if name not in fields:
        return set()
    return {token.strip().lower() for value in fields[name] for token in value.split(b",")} - {b""}


def _framing(fields: Fields, modern: bool, status: int, unknown: int) -> tuple[int | None, bool]:
    """Return the length, if one is given, and whether there are chunks."""
    coding, lengths = fields.get(b"transfer-encoding"), fields.get(b"content-length")
    if coding is not None:
        if lengths is not None:
            raise Bad(status, "Content-Length and Transfer-Encoding contradict each other")
        if not modern:
            raise Bad(status, "HTTP/1.0 has no Transfer-Encoding")
        if [value.lower() for value in coding] != [b"chunked"]:
            raise Bad(unknown, "only chunked is known here as a Transfer-Encoding")
        return None, True
    if lengths is None:
        return None, False
    # The same one more than once is admitted (RFC 9110, 8.6).
    given = {text.strip(b" \t") for value in lengths for text in value.split(b",")}
    if len(given) != 1 or _NUMBER.fullmatch(text := given.pop()) is None:
        raise Bad(status, "Content-Length is not one number")
    return int(text), False


def _end_to_end(headers: Iterable[tuple[bytes, bytes]], dropped: set[bytes]) -> Headers:
    out = HOP | dropped
    return tuple(field for field in headers if field[0].lower() not in out)


def _lines(headers: Headers) -> Iterable[bytes]:
    return (b"%b: %b" % field for field in headers)


def told(target: str) -> str:
    """Return a target, or a path, as it is written down: without what may be a secret in it.

    User information, and the values of a query, are the client's and the origin's business.
    """
    before, mark, query = target.partition("?")
    before = re.sub(r"//[^/@]*@", "//…@", before) if "//" in before else re.sub(r"^[^/@]*@", "…@", before)
    return before + (mark + re.sub(r"=[^&]*", "=…", query) if mark else "")


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
        raise Bad(400, f"{plain(told(target), limit=200)}: {error}") from None
    if not path.startswith("/"):
        path = "*" if method == "OPTIONS" and not path else f"/{path}"
    return host, port, _RAW.sub(lambda raw: f"%{ord(raw[0]):02X}", path)
