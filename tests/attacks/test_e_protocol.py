"""Section E: what two readers may read differently, and whether a byte of it is changed or lost (SPEC N5)."""

from __future__ import annotations

import gzip
import hashlib
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from world import LiveCell, until

from .bench import (
    answered,
    asking,
    attack,
    bundle,
    connecting,
    conversed,
    direct,
    get,
    script,
    to_proxy,
    told,
)
from .internet import Audit, Internet, head_of

pytestmark = pytest.mark.live
Worlds = Callable[..., LiveCell]
# what is moved in each of four ways, in bytes: 1 GB down and up, or as much as the row says
MUCH = 5_000_000_000 if "CHAOS" in os.environ else 1 << 29
BLOB = hashlib.sha256(b"blob").digest()  # what `converse` sends, again and again


@pytest.fixture
def cell(worlds: Worlds) -> LiveCell:
    """One cell for all of these: example.com and nothing else."""
    return worlds("allowlist", "example.com")


def blob(size: int) -> bytes:
    return (BLOB * (size // 32 + 1))[:size]


def request(fields: str = "", *, line: str = "GET http://example.com/ HTTP/1.1", body: str = "") -> list[Any]:
    return to_proxy(f"{line}\r\nHost: example.com\r\nConnection: close\r\n{fields}\r\n{body}")


def unanswerable(cell: LiveCell, internet: Internet, *talks: list[Any], status: int = 400) -> None:
    """Each is refused as malformed and its connection closed; nobody was asked or called."""
    audit, before = Audit(cell), internet.visits()
    told = conversed(cell, *talks)
    assert [(answered(one), one["how"]) for one in told] == [(status, "eof")] * len(talks), told
    assert all(one["got"].count(f"HTTP/1.1 {status} ") == 1 for one in told), "closed after one answer"
    assert internet.visits() == before
    records = audit.all()
    assert [(one["rule"], one["status"], one["allowed"]) for one in records] == [
        ("malformed", status, False)
    ] * len(talks)
    assert all(
        one["reason"] and one["phase"] == "agent" and "converse.py" in one["command"] for one in records
    )


def passes(cell: LiveCell, internet: Internet, *talks: list[Any]) -> list[dict[str, str]]:
    """The control: each reaches the internet, and is answered."""
    before = len(internet.far.came)
    told = conversed(cell, *talks)
    assert all("hello" in one["got"] for one in told), told
    assert len(internet.far.came) == before + len(talks)
    return told


SECOND = "GET http://example.com/smuggled HTTP/1.1\r\nHost: example.com\r\n\r\n"


def test_070_n5_two_lengths_at_once(cell: LiveCell, internet: Internet) -> None:
    post = "POST http://example.com/ HTTP/1.1"
    chunked = "0\r\n\r\n" + SECOND
    unanswerable(
        cell, internet,
        request("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", line=post, body=chunked),
        request("Transfer-Encoding: chunked\r\nContent-Length: 70\r\n", line=post, body=chunked),
        request("Content-Length: 0\r\nContent-Length: 70\r\n", line=post, body=SECOND),
        request("Content-Length: 0, 70\r\n", line=post, body=SECOND),
        request("Content-Length: +5\r\n", line=post, body="hello" + SECOND),
        request("Content-Length: 0x5\r\n", line=post, body="hello" + SECOND),
        to_proxy("POST http://example.com/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked),
    )  # fmt: skip
    unknown = ("chunked, identity", "gzip, chunked", "xchunked", "identity")
    unanswerable(
        cell,
        internet,
        *(request(f"Transfer-Encoding: {text}\r\n", line=post, body=chunked) for text in unknown),
        status=501,
    )
    passes(cell, internet, request("Content-Length: 0\r\n", line=post))


def test_072_lines_that_are_none(cell: LiveCell, internet: Internet) -> None:
    head = "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n"
    unanswerable(
        cell, internet,
        to_proxy(head.replace("\r\n", "\n") + "\n"),
        to_proxy(head + "A: b\nContent-Length: 9\r\n\r\n"),
        to_proxy(head + "A: b\r\r\n\r\n"),
        to_proxy(head + "A: b\r\n c\r\n\r\n"),
        to_proxy(head + "A: b\r\n\tc\r\n\r\n"),
        to_proxy(head + "Content-Length : 9\r\n\r\n"),
        to_proxy(head + " A: b\r\n\r\n"),
        to_proxy(head + "A: b\0c\r\n\r\n"),
        to_proxy(head + "A\0: b\r\n\r\n"),
        to_proxy(head + "no colon\r\n\r\n"),
        to_proxy(head + ": no name\r\n\r\n"),
        to_proxy(head + "Host: evil.net\r\n\r\n"),
        to_proxy("GET  http://example.com/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        to_proxy("GET http://example.com/\tx HTTP/1.1\r\nHost: a\r\n\r\n"),
        to_proxy("GET http://example.com/ HTTP/1.1\r\n\r\n"),
    )  # fmt: skip
    passes(cell, internet, to_proxy(head + "A: b\r\n\r\n"))


def hello(sni: str | None) -> bytes:
    """The first bytes of a TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    said = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname=sni).do_handshake()
    return said.read()


def with_ech(client: bytes) -> bytes:
    """The same hello with an encrypted one in it."""
    body, at = client[9:], 34
    for size in (1, 2, 1):
        at += size + int.from_bytes(body[at : at + size], "big")
    extensions = body[at + 2 :] + struct.pack("!HH", 0xFE0D, 8) + bytes(8)
    body = body[:at] + struct.pack("!H", len(extensions)) + extensions
    message = client[5:6] + len(body).to_bytes(3, "big") + body
    return client[:3] + struct.pack("!H", len(message)) + message


def test_073_other_protocols(cell: LiveCell, internet: Internet) -> None:
    tls = hello("example.com").decode("latin-1")
    talks = (
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        tls,
        "\x05\x01\x00",
        "\x04\x01\x00\x50\x01\x01\x01\x01\x00",
        "\x00" * 50,
        "\xff\xfe garbage",
        "SSH-2.0-x\r\n",
        "EHLO a\r\n",
    )
    # none of them ends what it says: it is not waited for
    unanswerable(cell, internet, *(to_proxy(text) for text in talks))
    passes(cell, internet, asking("example.com"))


def test_074_the_target_is_what_counts_not_the_host_header(cell: LiveCell, internet: Internet) -> None:
    audit, before = Audit(cell), len(internet.far.heads)
    passes(
        cell,
        internet,
        to_proxy("GET http://example.com/x HTTP/1.1\r\nHost: evil.net\r\nConnection: close\r\n\r\n"),
    )
    (head,) = internet.far.heads[before:]
    assert head.startswith(b"GET /x HTTP/1.1\r\nHost: example.com\r\n") and b"evil" not in head
    (record,) = audit.all()
    assert record["host"] == "example.com" and record["reason"].endswith("its Host header names another host")
    visits = internet.visits()
    (told,) = conversed(
        cell, to_proxy("GET http://evil.net/ HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
    )
    assert answered(told) == 403 and internet.visits() == visits
    assert audit.all()[-1]["host"] == "evil.net"


def test_075_n5_each_request_of_a_connection_is_decided(cell: LiveCell, internet: Internet) -> None:
    first, second = (
        get("example.com", more="").replace("GET /", "GET http://example.com/a"),
        asking("evil.net")[2],
    )
    before, audit = len(internet.far.came), Audit(cell)
    told = conversed(cell, to_proxy(first, {"until": "hello /a"}, second), to_proxy(first + second))
    for one in told:
        assert (
            one["got"].index("HTTP/1.1 200") < one["got"].index("hello /a") < one["got"].index("HTTP/1.1 403")
        ), one
        assert "evil.net is not in allowed_hosts" in one["got"]
    assert len(internet.far.came) == before + 2
    assert [(one["host"], one["allowed"]) for one in audit.all()] == [
        ("example.com", True),
        ("evil.net", False),
    ] * 2


def test_076_n5_seven_requests_in_one_piece(cell: LiveCell, internet: Internet) -> None:
    heads = [f"GET http://example.com/{n} HTTP/1.1\r\nHost: example.com\r\n" for n in range(7)]
    (told,) = passes(cell, internet, to_proxy("\r\n".join(heads) + "Connection: close\r\n\r\n"))
    assert [part[:2] for part in told["got"].split("hello ")[1:]] == [f"/{n}" for n in range(7)]
    assert told["got"].count("HTTP/1.1 200 OK") == 7


def test_077_n5_targets_of_another_form(cell: LiveCell, internet: Internet) -> None:
    lines = (
        "GET / HTTP/1.1",
        "GET * HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "GET example.com HTTP/1.1",
        "GET http:/example.com/ HTTP/1.1",
        "GET http:///x HTTP/1.1",
        "GET //example.com/ HTTP/1.1",
        "CONNECT http://example.com/ HTTP/1.1",
        "CONNECT / HTTP/1.1",
    )
    unanswerable(cell, internet, *(request(line=line) for line in lines))
    others = (
        "GET ftp://example.com/ HTTP/1.1",
        "GET https://example.com/ HTTP/1.1",
        "GET ws://example.com/ HTTP/1.1",
        "GET file://example.com/etc/passwd HTTP/1.1",
    )
    unanswerable(cell, internet, *(request(line=line) for line in others), status=501)
    passes(
        cell,
        internet,
        request(line="GET HTTP://example.com HTTP/1.1"),
        request(line="OPTIONS http://example.com HTTP/1.1"),
    )


def test_078_an_old_connect_without_a_host(cell: LiveCell, internet: Internet) -> None:
    passes(cell, internet, to_proxy("CONNECT example.com:80 HTTP/1.0\r\n\r\n", {"until": "\r\n\r\n"}, get()))
    (told,) = conversed(
        cell, to_proxy("CONNECT evil.net:80 HTTP/1.0\r\n\r\n", {"until": "\r\n\r\n"}, get("evil.net"))
    )
    assert answered(told) == 403 and "hello" not in told["got"]


def test_080_n5_what_tls_asks_for_is_what_was_connected_to(cell: LiveCell, internet: Internet) -> None:
    heard: list[bytes] = []

    def listen(link: socket.socket) -> None:
        data = link.recv(65536)
        heard.extend([data] if data else [])
        link.sendall(b"heard")

    port = internet.far.serve(listen)
    own, other, none = hello("example.com"), hello("evil.net"), hello(None)
    odd = hello("EXAMPLE.com")
    cases = [
        (own, True), (odd, True), (with_ech(own), True), (none, True), (b"plain", True),
        (other, False), (with_ech(other), False), (own[:5] + b"\x01\x00\x00\x03abc", False), (own[:3] + b"\xff\xff" + own[5:], False),
    ]  # fmt: skip
    for data, passing in cases:
        text = data.decode("latin-1")
        for way, talk in (
            ("proxy", connecting(f"example.com:{port}", text)),
            ("transparent", direct("example.com", port, text)),
        ):
            audit, before = Audit(cell), len(heard)
            (told,) = conversed(cell, talk)
            assert ("heard" in told["got"]) == passing, (data, way, told)
            assert told["how"] != "hung"
            (record,) = audit.all(way=way)
            assert record["allowed"], "the place was allowed"
            (end,) = audit.ends(record)
            assert end["ech"] == (data in (with_ech(own), with_ech(other)))
            if passing:
                assert heard[before:] == [data] and end["error"] == ""
            else:
                assert heard[before:] == [], "not a byte came there"
                assert "TLS" in end["error"] and end["received"] < 60, end
                assert end["denied"]
            if data == other:
                assert end["sni"] == "evil.net" and "TLS asks for evil.net" in end["error"]
    # on the port of TLS, what is none goes by the policy
    passes(cell, internet, connecting("example.com:443"), direct("example.com", 443))


def test_080_n4_an_address_is_whoever_answers_there_and_the_name_is_recorded(
    worlds: Worlds, internet: Internet
) -> None:
    cell = worlds("allowlist", "203.0.113.7", "198.51.100.0/24")
    port = internet.far.serve(lambda link: link.sendall(b"heard" if link.recv(65536) else b""))
    text = hello("evil.net").decode("latin-1")
    for address in ("203.0.113.7", "198.51.100.9"):
        for talk in (connecting(f"{address}:{port}", text), direct(address, port, text)):
            audit = Audit(cell)
            (told,) = conversed(cell, talk)
            assert "heard" in told["got"], told
            (record,) = audit.all()
            (end,) = audit.ends(record)
            assert (record["host"], end["sni"], end["error"]) == (address, "evil.net", "")


def test_082_n5_each_direction_ends_by_itself(cell: LiveCell, internet: Internet) -> None:
    heard: list[int] = []

    def drain(link: socket.socket) -> None:
        count = 0
        while data := link.recv(65536):
            count += len(data)
        link.sendall(b"all %d" % count)

    def early(link: socket.socket) -> None:
        link.sendall(b"early")
        link.shutdown(socket.SHUT_WR)
        count = 0
        while data := link.recv(65536):
            count += len(data)
        heard.append(count)

    last, first = internet.far.serve(drain), internet.far.serve(early)
    whole = ({"blob": 300_000}, {"end": True})
    for talk in (connecting(f"example.com:{last}", *whole), direct("example.com", last, *whole)):
        (told,) = conversed(cell, talk)
        assert told["got"].endswith("all 300000") and told["how"] == "eof", told
    after = ({"until": "early"}, *whole)
    for talk in (connecting(f"example.com:{first}", *after), direct("example.com", first, *after)):
        (told,) = conversed(cell, talk)
        assert told["got"].endswith("early") and told["how"] == "eof", told
    assert until(lambda: heard == [300_000, 300_000]), heard


def hashed(link: socket.socket) -> None:
    """Say `continue` to who waits for it, then the hash of the body."""
    head, body = head_of(link)
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    if b"100-continue" in head.lower():
        assert not body, "the body waits"
        link.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    while len(body) < length:
        body += link.recv(1 << 20) or b"cut" * length
    said = hashlib.sha256(body).hexdigest().encode()
    link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n" + said)


def test_083_n5_a_body_that_waits_to_be_asked_for(cell: LiveCell, internet: Internet) -> None:
    port, size = internet.far.serve(hashed), 2 << 20
    head = f"PUT http://example.com:{port}/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: {size}\r\n\r\n"
    (told,) = conversed(cell, to_proxy(head, {"until": "100 Continue\r\n\r\n"}, {"blob": size}))
    assert told["got"].endswith(hashlib.sha256(blob(size)).hexdigest()), told["got"][:300]
    said = cell.inside(
        f"head -c {size} /dev/zero > /tmp/zero; curl -s -S -H Expect:100-continue -T /tmp/zero http://example.com:{port}/"
    )
    assert said == hashlib.sha256(bytes(size)).hexdigest()
    (denied,) = conversed(cell, to_proxy(head.replace("example.com", "evil.net"), {"until": "\r\n\r\n"}))
    assert answered(denied) == 403 and "100 Continue" not in denied["got"]


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;secret=1\r\nhello\r\n3\r\n, a\r\n0\r\nX-After: yes\r\n\r\n"


def test_084_n5_chunks_are_framed_anew(cell: LiveCell, internet: Internet) -> None:
    heard: list[bytes] = []

    def answer(link: socket.socket) -> None:
        head, rest = head_of(link)
        while b"chunked" in head and not rest.endswith(b"\r\n\r\n"):
            rest += link.recv(65536) or b"(cut)\r\n\r\n"
        heard.append(head + rest)
        link.sendall(CHUNKED)

    port = internet.far.serve(answer)
    url = f"http://example.com:{port}/"
    modern, old = conversed(
        cell,
        to_proxy(f"POST {url} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "4;ext=evil\r\nabcd\r\n000005;a=\"b\"\r\nefghi\r\n0;last\r\nX-Trailer: t\r\nContent-Length: 9\r\n\r\n"),
        to_proxy(f"GET {url} HTTP/1.0\r\n\r\n"),
    )  # fmt: skip
    sent = heard[0].partition(b"\r\n\r\n")[2]
    assert b"ext" not in sent and b'a="b"' not in sent and b"last" not in sent
    assert sent.endswith(b"0\r\nX-Trailer: t\r\n\r\n"), "and what is no trailer is gone"
    assert b"abcd" in sent.replace(b"\r\n", b"") and heard[0].count(b"Content-Length") == 0
    head, _, body = modern["got"].partition("\r\n\r\n")
    assert (
        "Transfer-Encoding: chunked" in head
        and "secret" not in body
        and body.endswith("0\r\nX-After: yes\r\n\r\n")
    )
    head, _, body = old["got"].partition("\r\n\r\n")
    assert "Transfer-Encoding" not in head and body == "hello, a" and old["how"] == "eof"


def test_086_n5_bytes_are_not_touched(cell: LiveCell, internet: Internet) -> None:
    packed, heard = gzip.compress(os.urandom(5000)), list[bytes]()

    def answer(link: socket.socket) -> None:
        heard.append(head_of(link)[0])
        link.sendall(
            b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-%d/9999\r\nContent-Encoding: gzip\r\nETag: \"x\"\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (4 + len(packed), len(packed), packed)
        )  # fmt: skip

    port = internet.far.serve(answer)
    fields = 'Range: bytes=5-\r\nAccept-Encoding: gzip, br\r\nIf-Range: "x"\r\n'
    (told,) = conversed(cell, request(fields, line=f"GET http://example.com:{port}/%2e%2E/a?b=%20+ HTTP/1.1"))
    head, _, body = told["got"].partition("\r\n\r\n")
    assert body.encode("latin-1") == packed
    assert head.startswith("HTTP/1.1 206 Partial Content\r\n")
    for field in (f"Content-Range: bytes 5-{4 + len(packed)}/9999", "Content-Encoding: gzip", 'ETag: "x"'):
        assert field in head
    assert heard[0].startswith(b"GET /%2e%2E/a?b=%20+ HTTP/1.1\r\n") and fields.encode() in heard[0]


def test_087_n5_upgrades(cell: LiveCell, internet: Internet) -> None:
    heard: list[bytes] = []

    def answer(link: socket.socket) -> None:
        head, rest = head_of(link)
        heard.append(head)
        if b"websocket" not in head:
            link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            return
        link.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: a\r\n\r\n"
        )
        data = rest
        while data or (data := link.recv(65536)):
            link.sendall(data)
            data = b""

    port = internet.far.serve(answer)
    line = f"GET http://example.com:{port}/ HTTP/1.1\r\nHost: a\r\n"
    frames = "\x81\x05frame\x00\xff\r\n\r\nGET http://evil.net/ HTTP/1.1\r\n\r\n"
    (socket_,) = conversed(
        cell,
        to_proxy(
            f"{line}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a\r\n\r\n",
            {"until": "\r\n\r\n"},
            frames,
            {"end": True},
        ),
    )
    assert answered(socket_) == 101 and socket_["got"].partition("\r\n\r\n")[2] == frames, socket_
    assert b"Upgrade: websocket" in heard[0] and b"Sec-WebSocket-Key: a" in heard[0]
    (clear,) = conversed(
        cell,
        to_proxy(
            f"{line}Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n\r\n"
        ),
    )
    assert answered(clear) == 200 and clear["got"].endswith("hello")
    assert b"pgrade" not in heard[1] and b"HTTP2" not in heard[1]
    (denied,) = conversed(
        cell,
        to_proxy(
            f"{line}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n".replace("example.com", "evil.net"),
            {"until": "\r\n\r\n"},
            {"end": True},
        ),
    )
    assert answered(denied) == 403 and len(heard) == 2


def test_088_n5_what_belongs_to_one_hop_stays_on_it(cell: LiveCell, internet: Internet) -> None:
    heard: list[bytes] = []

    def answer(link: socket.socket) -> None:
        heard.append(head_of(link)[0])
        link.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: X-Back, keep-alive\r\nX-Back: hop\r\nKeep-Alive: timeout=5\r\n"
            b"Proxy-Authenticate: Basic realm=hop\r\nProxy-Authentication-Info: hop\r\nX-Kept: end\r\n\r\nhello"
        )

    port = internet.far.serve(answer)
    hop = "Connection: close, X-There\r\nX-There: hop\r\nProxy-Authorization: Basic hop\r\nProxy-Connection: keep-alive\r\nKeep-Alive: hop\r\nTE: trailers\r\nX-Kept: end\r\n"
    (told,) = conversed(cell, to_proxy(f"GET http://example.com:{port}/ HTTP/1.1\r\nHost: a\r\n{hop}\r\n"))
    assert answered(told) == 200 and told["got"].endswith("hello")
    assert "X-Kept: end" in told["got"] and b"X-Kept: end" in heard[0], "control"
    for text in ("hop", "Keep-Alive", "Proxy-", "X-Back", "X-There", "TE:"):
        assert text not in told["got"] and text.encode() not in heard[0], text
    # nor can it take away what frames or routes
    (told,) = conversed(
        cell,
        to_proxy(
            f"POST http://example.com:{port}/ HTTP/1.1\r\nHost: a\r\nConnection: close, Content-Length, Host\r\nContent-Length: 5\r\n\r\nhello"
        ),
    )
    assert answered(told) == 200
    assert b"Content-Length: 5" in heard[1] and f"Host: example.com:{port}".encode() in heard[1]


def moved(link: socket.socket) -> None:
    """Give as many bytes as the path says, or take a body and say how many came."""
    head, rest = head_of(link)
    piece = memoryview(bytes(1 << 20))
    if head.startswith(b"GET"):
        left = int(head.split(b" ")[1][1:])
        link.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % left)
        while left:
            link.sendall(piece[:left])
            left -= min(left, len(piece))
        return
    length, count, room = (
        int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0]),
        len(rest),
        bytearray(1 << 20),
    )
    while count < length:
        count += link.recv_into(room) or length
    said = b"got %d" % count
    link.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said))


class Resident:
    """The most memory that a process had while this is entered, in bytes."""

    def __init__(self, pid: int) -> None:
        self._file, self._over = Path(f"/proc/{pid}/statm"), threading.Event()
        self.most = self.now()
        self._thread = threading.Thread(target=self._look)

    def now(self) -> int:
        return int(self._file.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def _look(self) -> None:
        while not self._over.wait(0.02):
            self.most = max(self.most, self.now())

    def __enter__(self) -> Resident:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@pytest.mark.timeout(600)
def test_091_much_goes_through_and_little_is_kept(cell: LiveCell, internet: Internet) -> None:
    port, audit = internet.far.serve(moved), Audit(cell)
    attack(cell, "stream", "example.com", port, 32 << 20)  # what is loaded and kept for good
    before = Resident(cell.process.pid).now()
    with Resident(cell.process.pid) as resident:
        done = cell.ssh_bytes(script("stream", "example.com", port, MUCH), input=bundle(), timeout=500)
    assert set(told(done).values()) == {MUCH}, done
    assert resident.most - before < 32 << 20, (before, resident.most)
    ends = audit.ends(*audit.all())
    assert sum(end["received"] > MUCH for end in ends) == sum(end["sent"] > MUCH for end in ends) == 2


def test_093_a_hundred_at_once(cell: LiveCell, internet: Internet) -> None:
    for way in ("proxy", "direct"):
        before, audit = len(internet.far.came), Audit(cell)
        assert attack(cell, "burst", "example.com", 80, 100, way) == ["HTTP/1.1 200 OK"] * 100
        assert len(internet.far.came) == before + 100
        records = audit.all(host="example.com", way="proxy" if way == "proxy" else "transparent")
        assert len(records) == 100 and all(one["allowed"] for one in records)
        assert len({end["hit"] for end in audit.ends(*records)}) == 100
