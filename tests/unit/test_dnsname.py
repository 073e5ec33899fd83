"""DNS messages: whole ones are read and answered, hostile ones do no harm."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cell.wire import dnsname


def ask(name: str, kind: int = dnsname.A, *, flags: int = 0x0100, extra: bytes = b"", more: int = 0) -> bytes:
    question = dnsname.encode_name(name) + struct.pack("!HH", kind, 1)
    return struct.pack("!6H", 77, flags, 1, 0, 0, more) + question + extra


EDNS = b"\0" + struct.pack("!HHIH", dnsname.OPT, 4096, 0, 0)


def test_a_question_is_read() -> None:
    query = dnsname.parse(ask("Pkg.Example.ORG", dnsname.AAAA, extra=EDNS, more=1))
    assert (query.number, query.name, query.kind_name) == (77, "pkg.example.org", "AAAA")
    assert (query.recursion, query.extended, query.error) == (True, True, dnsname.NOERROR)


def test_an_answer_repeats_the_question_as_it_came_and_speaks_edns_to_who_does() -> None:
    query = dnsname.parse(ask("Pkg.eXample", extra=EDNS, more=1))
    whole = dnsname.answer(query, (bytes([198, 18, 0, 7]),), kind=dnsname.A, ttl=60)
    number, flags, *counts = struct.unpack_from("!6H", whole)
    assert (number, flags, counts) == (77, 0x8180, [1, 1, 0, 1])
    assert b"\3Pkg\7eXample\0" in whole
    assert b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc6\x12\0\7" in whole
    assert whole.endswith(b"\0" + struct.pack("!HHIH", dnsname.OPT, 1232, 0, 0))
    plain = dnsname.answer(dnsname.parse(ask("a.b", flags=0)))
    assert struct.unpack_from("!6H", plain) == (77, 0x8080, 1, 0, 0, 0)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (ask("a.b", flags=0x2800), dnsname.NOTIMP),
        (ask("a.b", 252), dnsname.REFUSED),
        (ask("a.b")[:-2] + struct.pack("!H", 3), dnsname.REFUSED),  # the class CHAOS
        (ask("a.b")[:-1], dnsname.FORMERR),
        (ask("a.b", more=1), dnsname.FORMERR),
        (ask("a.b", more=1, extra=EDNS[:-2] + b"\0\xff"), dnsname.FORMERR),
        (struct.pack("!6H", 77, 0, 2, 0, 0, 0) + ask("a.b")[12:] * 2, dnsname.FORMERR),
        (struct.pack("!6H", 77, 0, 0, 0, 0, 0), dnsname.FORMERR),
        (struct.pack("!6H", 77, 0, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1", dnsname.FORMERR),
        (struct.pack("!6H", 77, 0, 1, 0, 0, 0) + b"\x3f" + b"a" * 10, dnsname.FORMERR),
        (struct.pack("!6H", 77, 0, 1, 0, 0, 0) + (b"\x3f" + b"a" * 63) * 4 + b"\0\0\1\0\1", dnsname.FORMERR),
    ],
)
def test_what_is_wrong_is_answered_with_its_error(message: bytes, error: int) -> None:
    query = dnsname.parse(message)
    assert query.error == error
    assert dnsname.answer(query)[:2] == struct.pack("!H", 77)
    assert dnsname.answer(query)[3] & 15 == error


@pytest.mark.parametrize("message", [b"", b"short", ask("a.b", flags=0x8180)])
def test_what_is_no_query_is_not_answered(message: bytes) -> None:
    with pytest.raises(dnsname.NotAQuery):
        dnsname.parse(message)


def test_a_dot_inside_a_label_is_not_a_dot_between_labels() -> None:
    message = struct.pack("!6H", 1, 0, 1, 0, 0, 0) + b"\x0cevil.example\3org\0" + struct.pack("!HH", 1, 1)
    assert dnsname.parse(message).name == "evil\\046example.org"
    message = struct.pack("!6H", 1, 0, 1, 0, 0, 0) + b"\x03a\0b\3org\0" + struct.pack("!HH", 1, 1)
    assert dnsname.parse(message).name == "a\\000b.org"


@pytest.mark.parametrize("address", ["198.18.0.7", "127.0.0.1", "2001:2::7", "::1"])
def test_a_reverse_name_is_read_back(address: str) -> None:
    meant = ipaddress.ip_address(address)
    assert dnsname.reversed_address(meant.reverse_pointer) == meant


@pytest.mark.parametrize("name", ["18.198.in-addr.arpa", "256.1.1.1.in-addr.arpa", "1.ip6.arpa", "a.b", ""])
def test_what_is_no_whole_reverse_name_is_none(name: str) -> None:
    assert dnsname.reversed_address(name) is None


@pytest.mark.parametrize("name", ["a..b", "a" * 64, ".".join(["a" * 63] * 4)])
def test_a_name_without_a_wire_form_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        dnsname.encode_name(name)


@given(
    st.binary(max_size=600)
    | st.binary(max_size=80).map(lambda tail: struct.pack("!6H", 9, 0, 1, 0, 0, 1) + tail)
)
def test_no_bytes_raise_anything_but_not_a_query(message: bytes) -> None:
    try:
        query = dnsname.parse(message)
    except dnsname.NotAQuery:
        return
    assert dnsname.answer(query)[2] & 0x80
