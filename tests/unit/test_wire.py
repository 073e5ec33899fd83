from __future__ import annotations

import pytest
from msgspec.structs import replace

from cell.policy import resolved
from cell.policy.hosts import Host, canonical
from cell.wire import Conversation
from cell.wire.orders import (
    Attempt,
    CloseClient,
    CloseOrigin,
    Command,
    Dial,
    Over,
    Record,
    ToClient,
    ToOrigin,
    Tunnel,
)

POLICY = resolved("allowlist", ["ok.example", "*.pkg.example", "203.0.113.7:8443"], "agent.network_mode")


def conversation() -> Conversation:
    return Conversation(POLICY.decide)


def allowed(method: str, path: str, host: str = "ok.example", port: int = 80, reason: str = "") -> Attempt:
    why = f"allowed by ok.example of [agent]{reason}"
    return Attempt(method, canonical(host), port, path, True, "ok.example", why)


GET = b"GET http://ok.example/a HTTP/1.1\r\nHost: ok.example\r\n\r\n"
FORWARDED = b"GET /a HTTP/1.1\r\nHost: ok.example\r\n\r\n"
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def sent_to_client(commands: list[Command]) -> bytes:
    return b"".join(c.data for c in commands if isinstance(c, ToClient))


def sent_to_origin(commands: list[Command]) -> bytes:
    return b"".join(c.data for c in commands if isinstance(c, ToOrigin))


def asked(request: bytes) -> tuple[Conversation, bytes]:
    """A conversation whose one request has been allowed, and what the origin gets of it."""
    wire = conversation()
    assert isinstance(wire.from_client(request)[-1], Dial)
    return wire, sent_to_origin(wire.reached())


def replied(request: bytes, response: bytes) -> bytes:
    """What the client gets when an origin answers with `response` and closes."""
    wire, _ = asked(request)
    return sent_to_client(wire.from_origin(response)) + sent_to_client(wire.from_origin(b""))


# One exchange


def test_a_request_is_recorded_dialled_forwarded_and_answered() -> None:
    wire = conversation()
    assert wire.from_client(GET) == [Dial(allowed("GET", "/a"))]
    assert wire.reached() == [ToOrigin(FORWARDED)]
    assert wire.from_origin(HELLO) == [ToClient(HELLO), Over(200, len(GET), len(HELLO))]
    assert wire.quiet


def test_bytes_come_in_any_pieces() -> None:
    wire = conversation()
    commands = [command for byte in GET for command in wire.from_client(bytes([byte]))]
    assert commands == [Dial(allowed("GET", "/a"))]
    wire.reached()
    commands = [command for byte in HELLO for command in wire.from_origin(bytes([byte]))]
    assert sent_to_client(commands) == HELLO
    assert commands[-1] == Over(200, len(GET), len(HELLO))


def test_a_second_request_uses_the_open_connection_and_is_decided_anew() -> None:  # 75
    wire, _ = asked(GET)
    wire.from_origin(HELLO)
    assert wire.from_client(GET.replace(b"/a", b"/b")) == [
        Record(allowed("GET", "/b")),
        ToOrigin(FORWARDED.replace(b"/a", b"/b")),
    ]
    wire.from_origin(HELLO)
    denied = wire.from_client(b"GET http://no.example/ HTTP/1.1\r\nHost: no.example\r\n\r\n")
    reason = (
        "denied: no.example is not in allowed_hosts of [agent] (ok.example, *.pkg.example, "
        "203.0.113.7:8443); nearest ok.example"
    )
    attempt = Attempt("GET", Host("no.example"), 80, "/", False, "allowlist", reason, status=403)
    text = reason.encode() + b"\n"
    answer = (
        b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(text), text)
    )
    assert denied == [Record(attempt), ToClient(answer), Over(403, 53, len(answer))]
    # And the connection goes on.
    assert wire.from_client(GET)[0] == Record(allowed("GET", "/a"))


def test_pipelined_requests_are_answered_in_order() -> None:  # 76
    wire = conversation()
    wire.from_client(b"".join(GET.replace(b"/a", b"/%d" % n) for n in range(7)))
    commands = wire.reached()
    for n in range(7):
        assert sent_to_origin(commands) == FORWARDED.replace(b"/a", b"/%d" % n)
        body = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % n
        commands = wire.from_origin(body)
        assert sent_to_client(commands) == body
    assert wire.quiet


def test_pipelined_requests_to_a_denied_host_are_answered_in_their_place() -> None:
    wire = conversation()
    wire.from_client(GET + GET.replace(b"ok.", b"no.") + GET)
    wire.reached()
    commands = wire.from_origin(HELLO)
    assert sent_to_client(commands).startswith(HELLO + b"HTTP/1.1 403 ")
    assert commands[-2:] == [Record(allowed("GET", "/a")), ToOrigin(FORWARDED)]


def test_a_connection_that_the_origin_closed_is_dialled_again_for_a_request_that_may_be_repeated() -> None:
    wire, _ = asked(GET)
    wire.from_origin(HELLO)
    wire.from_client(GET)
    assert wire.from_origin(b"") == [CloseOrigin(), Dial(allowed("GET", "/a"), again=True)]
    assert wire.reached() == [ToOrigin(FORWARDED)]
    # Not for ever.
    assert sent_to_client(wire.from_origin(b"")).startswith(b"HTTP/1.1 502 ")


def test_a_request_that_must_not_be_repeated_gets_a_connection_of_its_own() -> None:
    wire, _ = asked(GET)
    wire.from_origin(HELLO)
    post = b"POST http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nContent-Length: 0\r\n\r\n"
    assert wire.from_client(post) == [CloseOrigin(), Dial(allowed("POST", "/"))]


def test_another_origin_is_another_connection() -> None:
    wire, _ = asked(GET)
    wire.from_origin(HELLO)
    commands = wire.from_client(b"GET http://ok.example:81/ HTTP/1.1\r\nHost: ok.example:81\r\n\r\n")
    assert commands == [CloseOrigin(), Dial(allowed("GET", "/", port=81))]


# Targets


@pytest.mark.parametrize(
    ("target", "forwarded"),
    [
        (b"http://ok.example", b"GET / HTTP/1.1\r\nHost: ok.example\r\n\r\n"),
        (b"http://ok.example?q", b"GET /?q HTTP/1.1\r\nHost: ok.example\r\n\r\n"),
        (b"HTTP://OK.example.:80/%7e", b"GET /%7e HTTP/1.1\r\nHost: ok.example\r\n\r\n"),
        (b"http://ok.example:8080/", b"GET / HTTP/1.1\r\nHost: ok.example:8080\r\n\r\n"),
        # what curl sends of a query that was typed so; no other byte of a target is spelt anew
        (
            "http://ok.example/ü?q=ö%c3|".encode(),
            b"GET /%C3%BC?q=%C3%B6%c3| HTTP/1.1\r\nHost: ok.example\r\n\r\n",
        ),
        (b"http://ok.example//x/../y@z", b"GET //x/../y@z HTTP/1.1\r\nHost: ok.example\r\n\r\n"),
    ],
)
def test_the_origin_gets_its_own_form_of_the_target(target: bytes, forwarded: bytes) -> None:
    _, out = asked(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % target)
    assert out == forwarded


def test_the_target_wins_over_the_host_header() -> None:  # 74
    wire = conversation()
    request = b"GET http://ok.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    note = "; its Host header names another host"
    assert wire.from_client(request) == [Dial(allowed("GET", "/", reason=note))]
    assert wire.reached() == [ToOrigin(b"GET / HTTP/1.1\r\nHost: ok.example\r\n\r\n")]


@pytest.mark.parametrize(
    ("target", "claimed", "same"),
    [
        (b"ok.example:443", b"OK.example.:443", True),
        (b"ok.example:443", b"ok.example", True),
        (b"ok.example:443", b"ok.example:444", False),
        (b"[::ffff:1.2.3.4]:443", b"[::ffff:1.2.3.4]:443", True),
        (b"[2001:DB8:0::9]:443", b"[2001:db8::9]", True),
        (b"ok.example:443", b"x y", False),
    ],
)
def test_a_host_header_is_read_as_the_target_is(target: bytes, claimed: bytes, same: bool) -> None:
    (found, *_) = conversation().from_client(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (target, claimed))
    assert isinstance(found, Dial | Record)
    assert found.attempt.reason.endswith("names another host") != same


def test_options_of_a_whole_server() -> None:
    _, out = asked(b"OPTIONS http://ok.example HTTP/1.1\r\nHost: ok.example\r\n\r\n")
    assert out == b"OPTIONS * HTTP/1.1\r\nHost: ok.example\r\n\r\n"


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        # 77: what is no target for a proxy
        (b"GET / HTTP/1.1", 400),
        (b"GET * HTTP/1.1", 400),
        (b"GET ok.example HTTP/1.1", 400),
        (b"GET ftp://ok.example/ HTTP/1.1", 501),
        (b"GET https://ok.example/ HTTP/1.1", 501),
        (b"GET http:///a HTTP/1.1", 400),
        (b"GET http:ok.example HTTP/1.1", 400),
        (b"GET http://ok.example/#f HTTP/1.1", 400),
        (b"CONNECT http://ok.example/ HTTP/1.1", 400),
        (b"CONNECT / HTTP/1.1", 400),
        # 55 to 68: hosts and ports, spelt otherwise
        (b"CONNECT ok.example..:443 HTTP/1.1", 400),
        (b"CONNECT .ok.example:443 HTTP/1.1", 400),
        (b"CONNECT 1.2.3.4\0.ok.example:443 HTTP/1.1", 400),
        (b"GET http://ok.example@evil.example/ HTTP/1.1", 400),
        (b"GET http://ok.example:80@evil.example/ HTTP/1.1", 400),
        (b"GET http://evil.example\\@ok.example/ HTTP/1.1", 400),
        (b"GET http://evil.example\\.ok.example/ HTTP/1.1", 400),
        ("GET http://ⓔxample.com/ HTTP/1.1".encode(), 400),
        ("CONNECT ok.example\u2028:443 HTTP/1.1".encode(), 400),
        (b"GET http://ok.example\xff/ HTTP/1.1", 400),
        (b"GET http://\xb2.ok.example/ HTTP/1.1", 400),
        (b"CONNECT [::1%25x.ok.example]:443 HTTP/1.1", 400),
        (b"CONNECT ok.example:0 HTTP/1.1", 400),
        (b"CONNECT ok.example:99999 HTTP/1.1", 400),
        (b"CONNECT ok.example:+443 HTTP/1.1", 400),
        (b"CONNECT ok.example:443x HTTP/1.1", 400),
        (b"CONNECT ok.example HTTP/1.1", 400),
        (b"GET http://ok.example:/ HTTP/1.1", 400),
        (b"GET http://127.1/ HTTP/1.1", 400),
        (b"GET http://0x7f000001/ HTTP/1.1", 400),
        # 73: other protocols
        (b"PRI * HTTP/2.0", 400),
        (b"GET http://ok.example/ HTTP/2.0", 505),
        (b"GET http://ok.example/ HTTP/0.9", 505),
        (b"GET http://ok.example/", 400),
        (b"SSH-2.0-OpenSSH_9.2p1", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"\x05\x01\x00", 400),
        # 63, 64: read, and denied
        (b"CONNECT [::1]:443 HTTP/1.1", 403),
        (b"CONNECT [::ffff:1.2.3.4]:443 HTTP/1.1", 403),
        (b"CONNECT 203.0.113.7:443 HTTP/1.1", 403),
    ],
)
def test_requests_that_go_nowhere(request_line: bytes, status: int) -> None:
    wire = conversation()
    commands = wire.from_client(request_line + b"\r\nHost: ok.example\r\n\r\n")
    record, answer, over, close = commands
    assert isinstance(record, Record)
    assert (record.attempt.allowed, record.attempt.status) == (False, status)
    assert isinstance(answer, ToClient)
    assert answer.data.startswith(b"HTTP/1.1 %d " % status)
    assert b"Connection: close\r\n" in answer.data
    assert isinstance(over, Over)
    assert (over.status, close) == (status, CloseClient())


@pytest.mark.parametrize(
    "beginning",
    [
        b"\x16\x03\x01",
        b"\x05\x01\x00",
        b"\0",
        b" GET",
        b"{",
        b"A" * 40,
        b"GET /\n",
        b"a\0",
        "ü".encode(),
        b"SSH-2.0-x\r\n",
        b"EHLO a\r\nA: b\r\n",
    ],
)
def test_garbage_is_refused_before_it_ends(beginning: bytes) -> None:  # 73
    assert sent_to_client(conversation().from_client(beginning)).startswith(b"HTTP/1.1 400 ")


# Framing of requests


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),  # 70
        (b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", 400),
        (b"Content-Length: 5\r\nContent-Length: 6\r\n", 400),
        (b"Content-Length: +5\r\n", 400),
        (b"Content-Length: -1\r\n", 400),
        (b"Content-Length: 0x5\r\n", 400),
        (b"Content-Length: \r\n", 400),
        (b"Transfer-Encoding: gzip, chunked\r\n", 501),
        (b"Transfer-Encoding: identity\r\n", 501),
        (b"Transfer-Encoding: xchunked\r\n", 501),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 501),
        (b"X: a\n", 400),  # 72
        (b"X: a\n b\r\n", 400),
        (b"X: a\r\n b\r\n", 400),
        (b"X: a\r\n\tb\r\n", 400),
        (b"X : a\r\n", 400),
        (b" X: a\r\n", 400),
        (b"X: a\0b\r\n", 400),
        (b"X: a\rb\r\n", 400),
        (b"X: a\x01\r\n", 400),
        (b"X\r\n", 400),
        (b": a\r\n", 400),
        (b"X\xe9: a\r\n", 400),
        (b"Host: other.example\r\n", 400),
        (b"X: " + b"a" * 70_000 + b"\r\n", 431),
        (b"X: a\r\n" * 300, 431),
    ],
)
def test_an_ambiguous_head_is_refused(fields: bytes, status: int) -> None:
    wire = conversation()
    commands = wire.from_client(
        b"POST http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\n" + fields + b"\r\nhello"
    )
    assert not any(isinstance(c, Dial | ToOrigin) for c in commands)
    assert sent_to_client(commands).startswith(b"HTTP/1.1 %d " % status)
    assert commands[-1] == CloseClient()
    assert wire.from_client(GET) == []


def test_a_body_is_passed_on_by_its_length() -> None:
    post = b"POST http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nContent-Length: 5\r\n\r\n"
    wire, out = asked(post + b"he")
    assert out == b"POST / HTTP/1.1\r\nHost: ok.example\r\nContent-Length: 5\r\n\r\nhe"
    assert wire.from_client(b"llo" + GET) == [ToOrigin(b"llo")]
    commands = wire.from_origin(HELLO)
    assert commands[1] == Over(200, len(post) + 5, len(HELLO))
    assert commands[2:] == [Record(allowed("GET", "/a")), ToOrigin(FORWARDED)]


def test_chunks_are_framed_anew() -> None:  # 84
    post = b"POST http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nTransfer-Encoding: chunked\r\n\r\n"
    wire, out = asked(post)
    assert out == b"POST / HTTP/1.1\r\nHost: ok.example\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert wire.from_client(b"0003;ext=1\r\nhel\r\n2\r\nlo\r\n") == [ToOrigin(b"5\r\nhello\r\n")]
    end = wire.from_client(b"0\r\nX-Sum: 1\r\nContent-Length: 9\r\nHost: evil\r\n\r\n")
    assert end == [ToOrigin(b"0\r\nX-Sum: 1\r\n\r\n")]
    assert sent_to_client(wire.from_origin(HELLO)) == HELLO
    assert wire.quiet


@pytest.mark.parametrize("body", [b"x\r\n", b"5\r\nhelloX", b"-1\r\n", b"5 5\r\nhello\r\n", b"1;\n\r\nxx"])
def test_bad_chunks_end_the_exchange(body: bytes) -> None:
    wire, _ = asked(
        b"POST http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    commands = wire.from_client(body)
    assert sent_to_client(commands).startswith(b"HTTP/1.1 400 ")
    assert commands[-1] == CloseClient()
    assert CloseOrigin() in commands


def test_an_old_client_may_not_send_chunks() -> None:
    commands = conversation().from_client(
        b"POST http://ok.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    assert sent_to_client(commands).startswith(b"HTTP/1.1 400 ")


def test_a_body_that_the_client_does_not_end_is_not_ended_for_it() -> None:
    wire, _ = asked(b"PUT http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nContent-Length: 5\r\n\r\nhe")
    commands = wire.from_client(b"")
    assert commands == [Over(0, 74, 0, "the client ended before its body did"), CloseOrigin(), CloseClient()]


def test_a_client_that_has_said_all_gets_its_answer() -> None:  # 82
    wire = conversation()
    wire.from_client(b"PUT http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nContent-Length: 2\r\n\r\nhe")
    assert wire.from_client(b"") == []
    assert sent_to_origin(wire.reached()).endswith(b"\r\n\r\nhe")
    commands = wire.from_origin(HELLO)
    assert sent_to_client(commands) == HELLO
    assert commands[-1] == CloseClient()


def test_expectations_go_to_the_origin_and_back() -> None:  # 83
    put = b"PUT http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    wire, out = asked(put)
    assert b"Expect: 100-continue\r\n" in out
    assert wire.from_origin(b"HTTP/1.1 100 Continue\r\n\r\n") == [ToClient(b"HTTP/1.1 100 Continue\r\n\r\n")]
    assert wire.from_client(b"he") == [ToOrigin(b"he")]
    assert sent_to_client(wire.from_origin(HELLO)) == HELLO
    assert wire.quiet


def test_an_expectation_that_fails_ends_the_connection() -> None:
    wire, _ = asked(
        b"PUT http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    )
    commands = wire.from_origin(b"HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n")
    assert sent_to_client(commands) == b"HTTP/1.1 417 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    assert commands[-2:] == [CloseOrigin(), CloseClient()]


# Headers


def test_headers_of_one_hop_stay_on_it_in_both_directions() -> None:  # 88
    request = (
        b"GET http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nUser-Agent: a\r\n"
        b"Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic c2VjcmV0\r\nConnection: X-One, keep-alive\r\n"
        b"X-One: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nX-Two: 2\r\n\r\n"
    )
    wire, out = asked(request)
    assert out == b"GET / HTTP/1.1\r\nHost: ok.example\r\nUser-Agent: a\r\nX-Two: 2\r\n\r\n"
    response = (
        b"HTTP/1.1 200 OK\r\nServer: b\r\nConnection: X-Three\r\nX-Three: 3\r\nProxy-Authenticate: Basic\r\n"
        b"Keep-Alive: 5\r\nUpgrade: h2c\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n"
    )
    assert sent_to_client(wire.from_origin(response)) == (
        b"HTTP/1.1 200 OK\r\nServer: b\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n"
    )


def test_what_connection_names_cannot_take_the_framing_away() -> None:
    request = (
        b"POST http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nConnection: Content-Length, Host, close\r\n"
        b"Content-Length: 2\r\n\r\nhe"
    )
    wire, out = asked(request)
    assert out == b"POST / HTTP/1.1\r\nHost: ok.example\r\nContent-Length: 2\r\n\r\nhe"
    commands = wire.from_origin(HELLO)
    assert sent_to_client(commands) == HELLO.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert commands[-1] == CloseClient()


def test_ranges_and_encodings_are_not_touched() -> None:  # 86
    request = GET.replace(b"\r\n\r\n", b"\r\nRange: bytes=0-1\r\nAccept-Encoding: gzip\r\n\r\n")
    response = (
        b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/9\r\nContent-Encoding: gzip\r\n"
        b"Content-Length: 2\r\n\r\n\x1f\x8b"
    )
    wire, out = asked(request)
    assert b"Range: bytes=0-1\r\nAccept-Encoding: gzip\r\n" in out
    assert sent_to_client(wire.from_origin(response)) == response


# Responses


@pytest.mark.parametrize(
    ("method", "response"),
    [
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        (b"GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
        (b"GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ],
)
def test_responses_without_a_body(method: bytes, response: bytes) -> None:
    wire, _ = asked(GET.replace(b"GET", method))
    assert sent_to_client(wire.from_origin(response)) == response
    assert wire.quiet
    assert wire.from_client(GET) == [Record(allowed("GET", "/a")), ToOrigin(FORWARDED)]


def test_chunked_responses_are_framed_anew() -> None:
    response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n05;x\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"
    assert replied(GET, response) == (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"
    )


def test_an_old_client_gets_its_body_until_the_end() -> None:
    old = GET.replace(b"1.1", b"1.0")
    response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    wire, out = asked(old)
    assert out == FORWARDED
    commands = wire.from_origin(response)
    assert sent_to_client(commands) == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"
    assert commands[-1] == CloseClient()


def test_a_response_that_ends_with_its_connection_is_chunked_for_a_client_that_stays() -> None:
    response = b"HTTP/1.0 200 OK\r\nServer: old\r\n\r\nhello"
    assert replied(GET, response) == (
        b"HTTP/1.1 200 OK\r\nServer: old\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    )


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ],
)
def test_a_response_that_is_cut_off_is_cut_off_for_the_client(response: bytes) -> None:
    wire, _ = asked(GET)
    wire.from_origin(response)
    over, _, close = wire.from_origin(b"")
    assert isinstance(over, Over)
    assert over.error == "the origin ended before its response did"
    assert close == CloseClient(cut=True)


def test_a_lost_origin_is_not_an_end() -> None:
    wire, _ = asked(GET)
    wire.from_origin(b"HTTP/1.0 200 OK\r\n\r\nhello")
    commands = wire.origin_lost("Connection reset by peer")
    assert commands[-1] == CloseClient(cut=True)
    assert sent_to_client(commands) == b""


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX : a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 099 Odd\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"",
    ],
)
def test_an_origin_that_speaks_no_http_is_a_bad_gateway(response: bytes) -> None:
    wire, _ = asked(GET)
    commands = wire.from_origin(response)
    assert sent_to_client(commands).startswith(b"HTTP/1.1 502 ")
    assert CloseOrigin() in commands


def test_bytes_that_nobody_asked_for_are_never_an_answer() -> None:
    wire, _ = asked(GET)
    commands = wire.from_origin(HELLO + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
    assert sent_to_client(commands) == HELLO
    assert commands[-1] == CloseOrigin()
    assert wire.from_client(GET) == [Dial(allowed("GET", "/a"))]
    wire.reached()
    wire.from_origin(HELLO)
    assert wire.from_origin(b"HTTP/1.1 200 OK\r\n") == [CloseOrigin()]


def test_a_response_before_the_body_was_read_ends_the_connection() -> None:
    wire, _ = asked(b"PUT http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nContent-Length: 9\r\n\r\nhe")
    commands = wire.from_origin(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
    assert sent_to_client(commands).startswith(b"HTTP/1.1 413 Too Large\r\n")
    assert commands[-2:] == [CloseOrigin(), CloseClient()]


def test_a_way_that_is_not_found_is_told_and_the_connection_goes_on() -> None:
    wire = conversation()
    wire.from_client(GET)
    commands = wire.failed(502, "ok.example cannot be resolved")
    assert sent_to_client(commands).endswith(b"\r\n\r\nok.example cannot be resolved\n")
    assert commands[-1] == Over(502, len(GET), len(sent_to_client(commands)), "ok.example cannot be resolved")
    assert wire.quiet


def test_a_client_that_goes_takes_its_origin_with_it() -> None:
    wire, _ = asked(GET)
    assert wire.client_lost() == [Over(0, len(GET), 0, "the client went away"), CloseOrigin()]
    assert wire.reached() == wire.from_origin(HELLO) == []


# Tunnels

CONNECT = b"CONNECT ok.example:443 HTTP/1.1\r\nHost: ok.example:443\r\n\r\n"
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        CONNECT,
        b"CONNECT ok.example:443 HTTP/1.0\r\n\r\n",  # 78
        b"CONNECT OK.example.:443 HTTP/1.1\r\nHost: other\r\nProxy-Connection: keep-alive\r\n\r\n",
    ],
)
def test_connect_becomes_a_tunnel(request_bytes: bytes) -> None:
    wire = conversation()
    dial = wire.from_client(request_bytes + b"early")
    assert [replace(c.attempt, reason="") for c in dial if isinstance(c, Dial)] == [
        replace(allowed("CONNECT", "", port=443), reason="")
    ]
    assert wire.reached() == [
        ToClient(ESTABLISHED),
        Tunnel(b"early", b"", 200, len(request_bytes), len(ESTABLISHED), Host("ok.example")),
    ]


def test_a_refused_connect_ends_the_connection_so_that_early_bytes_are_no_request() -> None:
    wire = conversation()
    commands = wire.from_client(b"CONNECT no.example:443 HTTP/1.1\r\nHost: no.example:443\r\n\r\n" + GET)
    assert sent_to_client(commands).startswith(b"HTTP/1.1 403 ")
    assert sent_to_client(commands).count(b"HTTP/1.1 ") == 1
    assert commands[-1] == CloseClient()


def test_a_connect_with_a_body_is_refused() -> None:
    commands = conversation().from_client(CONNECT.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\nabc"))
    assert sent_to_client(commands).startswith(b"HTTP/1.1 400 ")


WEBSOCKET = GET.replace(
    b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"
)


def test_a_websocket_becomes_a_tunnel() -> None:  # 87
    wire, out = asked(WEBSOCKET)
    assert out == FORWARDED.replace(
        b"\r\n\r\n", b"\r\nSec-WebSocket-Key: k\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
    switching = b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert wire.from_client(b"first") == []
    assert wire.from_origin(switching + b"frame") == [
        ToClient(switching),
        Tunnel(b"first", b"frame", 101, len(WEBSOCKET), len(switching)),
    ]


def test_a_websocket_that_the_origin_refuses_is_an_ordinary_answer() -> None:
    wire, _ = asked(WEBSOCKET)
    assert sent_to_client(wire.from_origin(HELLO)) == HELLO
    assert wire.quiet


def test_other_upgrades_stay_on_their_hop() -> None:  # 87
    _, out = asked(
        GET.replace(
            b"\r\n\r\n",
            b"\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\n\r\n",
        )
    )
    assert out == FORWARDED


def test_a_client_that_runs_ahead_is_not_read() -> None:
    wire = conversation()
    wire.from_client(GET)
    assert not wire.full
    wire.from_client(GET * 2000)
    assert wire.full


def test_many_refusals_take_many_turns() -> None:
    wire = conversation()
    commands = wire.from_client(GET.replace(b"ok.", b"no.") * 100)
    turns = 1
    while wire.more:
        commands += wire.go_on()
        turns += 1
    assert turns == 4
    assert sum(isinstance(command, Record) for command in commands) == 100
    assert wire.quiet
