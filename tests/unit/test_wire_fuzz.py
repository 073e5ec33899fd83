"""Arbitrary bytes in arbitrary pieces on both sides of a conversation: only its own refusals come of it.

What reaches an origin is read again by h11 as that origin would: it has to be whole requests for the
very host that was allowed and dialled, whatever the client hid in bodies, chunks and headers.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import h11
from hypothesis import given, settings
from hypothesis import strategies as st

from cell.policy import resolved
from cell.wire import KEPT, Conversation, orders
from cell.wire.bodies import ByChunks
from cell.wire.heads import Bad, Request, read_request, read_response, take

POLICY = resolved("allowlist", ["ok.example", "*.pkg.example:81"], "agent.network_mode")

LINES = [
    b"GET http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\n",
    b"POST http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\n",
    b"HEAD http://a.pkg.example:81/ HTTP/1.1\r\nHost: x\r\n",
    b"GET http://no.example/ HTTP/1.1\r\nHost: ok.example\r\n",
    b"GET / HTTP/1.1\r\nHost: no.example\r\n",
    b"GET http://ok.example/ HTTP/1.0\r\n",
    b"CONNECT ok.example:443 HTTP/1.1\r\nHost: a\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n",
    b"HTTP/1.1 304 Not Modified\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: upgrade\r\nUpgrade: websocket\r\n",
    b"Expect: 100-continue\r\n",
    b"\r\n",
    b"\n",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"hello",
    b" ",
    b"\0",
]
FRAGMENTS = st.lists(st.sampled_from(LINES) | st.binary(max_size=12), max_size=12).map(b"".join)


@st.composite
def pieces(draw: st.DrawFn) -> list[bytes]:
    """Bytes, and the pieces in which they come; the last may be the end of them."""
    whole = draw(FRAGMENTS)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    found = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True) if a < b]
    return [*found, b""] if draw(st.booleans()) else found


class Driver:
    """Carries out commands as a proxy would, and checks each."""

    def __init__(self) -> None:
        self.wire = Conversation(POLICY.decide)
        self.dialling: orders.Attempt | None = None
        self.origin: tuple[str, int] | None = None
        self.got = b""
        self.recorded = self.over = 0
        self.closed = self.tunnel = False

    def carry_out(self, commands: list[orders.Command]) -> None:
        for command in commands:
            assert not self.closed, "nothing follows the end"
            assert not self.tunnel, "a tunnel is the caller's"
            match command:
                case orders.Dial(attempt, again):
                    assert attempt.allowed
                    assert POLICY.decide(attempt.host, attempt.port).allowed
                    assert self.origin is None, "one origin at a time"
                    self.dialling = attempt
                    self.recorded += not again
                case orders.Record(attempt):
                    self.recorded += 1
                    if attempt.allowed:
                        assert self.origin == (attempt.host.text, attempt.port)
                case orders.ToOrigin(data):
                    assert data
                    assert self.origin is not None, "no byte leaves without a connection that was allowed"
                    self.got += data
                case orders.ToClient(data):
                    assert data
                case orders.Over():
                    self.over += 1
                case orders.CloseOrigin():
                    self.origin_reads()
                case orders.CloseClient():
                    self.closed = True
                case orders.Tunnel(hello=hello):
                    self.over += 1
                    self.tunnel = True
                    assert hello is None or hello.text == "ok.example"
        assert 0 <= self.recorded - self.over <= 1
        assert len(self.wire._ahead) <= KEPT or self.wire.full

    def origin_reads(self) -> None:
        """Read what was sent, as an origin does: every request names the host that was dialled."""
        got, self.got, origin, self.origin = self.got, b"", self.origin, None
        reader = h11.Connection(h11.SERVER)
        reader.receive_data(got)
        assert origin is not None
        expected = origin[0] if origin[1] == 80 else f"{origin[0]}:{origin[1]}"
        while True:
            event = reader.next_event()
            if isinstance(event, h11.Request):
                assert dict(event.headers)[b"host"] == expected.encode()
            elif isinstance(event, h11.EndOfMessage):
                reader.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                reader.send(h11.EndOfMessage())
                if reader.our_state is h11.DONE and reader.their_state is h11.DONE:
                    reader.start_next_cycle()
                else:
                    return
            elif not isinstance(event, h11.Data):
                return


@settings(max_examples=600, deadline=None)
@given(pieces(), pieces(), st.randoms(use_true_random=False))
def test_whatever_both_sides_send_only_refusals_come_of_it(client, origin, random) -> None:  # type: ignore[no-untyped-def]
    driver = Driver()
    while (client or origin or driver.dialling) and not driver.closed and not driver.tunnel:
        wire, choice = driver.wire, random.random()
        if driver.dialling is not None and choice < 0.5:
            attempt, driver.dialling = driver.dialling, None
            if choice < 0.4:
                tunnel = attempt.method == "CONNECT"
                driver.origin = None if tunnel else (attempt.host.text, attempt.port)
                driver.carry_out(wire.reached())
            else:
                driver.carry_out(wire.failed(502, "no way"))
        elif client and (choice < 0.75 or not origin):
            driver.carry_out(wire.from_client(client.pop(0)))
        elif origin:
            data = origin.pop(0)
            # Only a connection that is open can say something.
            if driver.origin is not None:
                driver.carry_out(
                    wire.from_origin(data) if data or choice < 0.9 else wire.origin_lost("reset")
                )
    if not driver.closed and not driver.tunnel:
        driver.carry_out(driver.wire.client_lost())
        assert driver.recorded == driver.over, "every attempt ends"


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300) | FRAGMENTS)
def test_a_head_is_read_or_refused(data: bytes) -> None:
    for head in (data, data + b"\r\n\r\n"):
        try:
            request = read_request(head)
            assert "\r" not in request.path
            assert 0 < request.port < 65536
        except Bad as bad:
            assert 400 <= bad.status < 600
        try:
            assert 100 <= read_response(head, "GET").status < 1000
        except Bad as bad:
            assert bad.status == 502


FIELDS = st.lists(
    st.sampled_from([line for line in LINES if b":" in line and b"HTTP/" not in line])
    | st.tuples(st.binary(max_size=6), st.binary(max_size=8)).map(lambda pair: b"%b:%b\r\n" % pair)
    | st.sampled_from(
        [
            b"Content-Length: 5, 5\r\n",
            b"Content-Length:\t7 \r\n",
            b"transfer-encoding: Chunked\r\n",
            b"X:\r\n",
            b"X: a \xff b\r\n",
            b"Host: a\r\n",
            b"X : a\r\n",
            b"\tfolded\r\n",
        ]
    ),
    max_size=6,
).map(b"".join)


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(LINES[:9]), FIELDS)
def test_what_is_admitted_h11_reads_the_same(first: bytes, fields: bytes) -> None:
    head = first + fields + b"\r\n"
    response = first.startswith(b"HTTP/")
    try:
        read = read_response(head, "GET") if response else read_request(head)
    except Bad:
        return
    other = h11.Connection(h11.CLIENT if response else h11.SERVER)
    if response:
        other.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    other.receive_data(head)
    event = other.next_event()
    assert isinstance(event, h11.Request | h11.Response | h11.InformationalResponse)
    lowered = {(name.lower(), value) for name, value in read.headers}
    assert lowered <= set(event.headers)
    lengths = [int(value) for name, value in event.headers if name == b"content-length"]
    chunked = (b"transfer-encoding", b"chunked") in event.headers
    if isinstance(event, h11.Request):
        assert read.length == (None if chunked else (lengths or [0])[0])
    elif isinstance(event, h11.Response) and event.status_code != 204:
        assert read.length == (lengths or [None])[0]
        assert not isinstance(read, Request)
        assert read.chunked == chunked


@given(st.binary(max_size=200), st.integers(0, 200))
def test_a_head_is_found_wherever_it_is_cut(data: bytes, cut: int) -> None:
    whole = b"GET http://ok.example/ HTTP/1.1\r\nX: " + data.hex().encode() + b"\r\n\r\nrest"
    buffer = bytearray(whole[:cut])
    head, scanned = take(buffer, 0, request=True)
    if head is None:
        buffer += whole[cut:]
        head, _ = take(buffer, scanned, request=True)
    else:
        buffer += whole[cut:]
    assert (head, bytes(buffer)) == (whole[:-4], b"rest")


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.integers(1, 20))
def test_chunks_are_the_same_in_any_pieces(chunks: list[bytes], size: int) -> None:
    whole = b"".join(b"%X;e=1\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\nrest"
    body, data, rest = ByChunks(400), b"", b""
    for at in range(0, len(whole), size):
        piece = body.feed(whole[at : at + size])
        data += piece.data
        if piece.over:
            rest = piece.rest + whole[at + size :]
            break
    assert (data, rest) == (b"".join(chunks), b"rest")


def test_the_tool_that_fuzzes_for_longer_finds_what_it_imports() -> None:
    """It needs atheris, which is not among the requirements: so nothing else runs it."""
    tool = Path(__file__).parents[2] / "tools/fuzz_wire.py"
    for node in ast.walk(ast.parse(tool.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module in ("cell.wire", "test_wire_fuzz"):
            there = importlib.import_module(node.module if node.module == "cell.wire" else __name__)
            for name in node.names:
                assert hasattr(there, name.name), f"{node.module} has no {name.name}"
        else:
            assert not (isinstance(node, ast.ImportFrom) and node.module == "cell"), "by its module's name"
