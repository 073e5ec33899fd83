from __future__ import annotations

import ssl
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cell.wire.clienthello import BROKEN, LONGEST, PLAIN, Hello, read


def from_openssl(name: str | None) -> bytes:
    """The first flight of this machine's own TLS library."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    out = ssl.MemoryBIO()
    wanting = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        wanting.do_handshake()
    return out.read()


def vector(size: int, data: bytes) -> bytes:
    return len(data).to_bytes(size, "big") + data


def extension(number: int, data: bytes) -> bytes:
    return struct.pack("!H", number) + vector(2, data)


def server_name(*names: bytes, kind: int = 0) -> bytes:
    return extension(0, vector(2, b"".join(bytes([kind]) + vector(2, name) for name in names)))


def message(*extensions: bytes) -> bytes:
    body = b"\x03\x03" + bytes(32) + vector(1, b"") + vector(2, b"\x13\x01") + vector(1, b"\0")
    body += vector(2, b"".join(extensions)) if extensions else b""
    return b"\x01" + vector(3, body)


def records(handshake: bytes, size: int = 16384) -> bytes:
    pieces = [handshake[at : at + size] for at in range(0, len(handshake), size)]
    return b"".join(b"\x16\x03\x01" + vector(2, piece) for piece in pieces)


def test_the_name_a_real_client_asks_for() -> None:
    assert read(from_openssl("pkg.example")) == Hello("tls", "pkg.example")
    assert read(from_openssl(None)) == Hello("tls")
    assert read(from_openssl("pkg.example") + b"early data") == Hello("tls", "pkg.example")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_hello_in_many_records(size: int) -> None:
    assert read(records(message(server_name(b"a.example")), size)) == Hello("tls", "a.example")


def test_every_prefix_of_a_hello_needs_more() -> None:
    for whole in (from_openssl("pkg.example"), records(message(server_name(b"a.example")), 5)):
        assert all(read(whole[:end]) is None for end in range(len(whole)))


@pytest.mark.parametrize(
    ("data", "hello"),
    [
        (b"GET / HTTP/1.1\r\n", PLAIN),
        (b"SSH-2.0-", PLAIN),
        (b"\x05\x01\x00", PLAIN),
        (b"\x16\x02", PLAIN),
        (b"\x80\x2e\x01\x03\x01", PLAIN),  # SSLv2 framing
        (records(message()), Hello("tls")),
        (records(message(extension(0xFE0D, b"\0abc"), server_name(b"front.example"))), Hello("tls", "front.example", True)),
        (records(message(server_name(b"a.example", b"b.example"))), BROKEN),
        (records(message(server_name(b"a.example"), server_name(b"b.example"))), BROKEN),
        (records(message(server_name(b"a.example", kind=1))), BROKEN),
        (records(message(server_name(b""))), BROKEN),
        (records(message(server_name(b"b\xfccher.example"))), BROKEN),
        (records(message(extension(0, b""))), BROKEN),
        (records(b"\x02" + vector(3, b"")), BROKEN),  # a server's hello
        (records(b"\x01" + vector(3, b"\x03\x03")), BROKEN),
        (b"\x16\x03\x01\x00\x00", BROKEN),
        (b"\x16\x03\x01\xff\xff", BROKEN),
        (records(b"\x01\xff\xff\xff"), BROKEN),
        (records(message(server_name(b"a.example")), 9)[:14] + b"\x17\x03\x01\x00\x01x", BROKEN),
    ],
)  # fmt: skip
def test_what_the_first_bytes_are(data: bytes, hello: Hello) -> None:
    assert read(data) == hello


def test_a_hello_that_never_ends_is_broken() -> None:
    assert read(records(b"\x01" + (LONGEST - 4).to_bytes(3, "big") + bytes(LONGEST), 1)[:LONGEST]) == BROKEN


@given(st.binary(max_size=400), st.booleans())
def test_arbitrary_bytes_are_read_without_harm_and_an_answer_stands(data: bytes, framed: bool) -> None:
    data = records(b"\x01" + vector(3, data)) if framed else data
    first = next((read(data[:end]) for end in range(len(data) + 1) if read(data[:end])), None)
    assert read(data) == first
