"""The proxy on real sockets, with both event loops: what is recorded, what is refused, what is cut."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path

import pytest
from proxying import (
    ESTABLISHED,
    POLICY,
    Cell,
    World,
    both_loops,
    certificate,
    dialer,
    echo,
    fixed,
    origin,
    reset,
    until,
    world,
)

from cell.egress.client import Client
from cell.egress.context import Caller, Limits, room
from cell.egress.dial import Found
from cell.egress.proxy import Proxy
from cell.egress.relay import HIGH
from cell.events import Egress, EgressEnd
from cell.policy import Policy
from cell.policy.hosts import Host

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def get(port: int, host: str = "ok.example", path: str = "/", last: bool = False) -> bytes:
    end = "Connection: close\r\n" if last else ""
    return f"GET http://{host}:{port}{path} HTTP/1.1\r\nHost: {host}:{port}\r\n{end}\r\n".encode()


@both_loops
async def test_a_request_is_recorded_with_who_asked_before_it_is_answered() -> None:
    async with world() as w:
        recorded = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            recorded.append((head, list(w.cell.events)))
            writer.write(HELLO)

        async with origin(answer) as port:
            assert (await w.say(get(port, path="/a?b", last=True))).endswith(b"\r\n\r\nhello")
        hit = Egress(
            hit=1,
            phase="agent",
            way="proxy",
            method="GET",
            host="ok.example",
            port=port,
            allowed=True,
            rule="ok.example",
            reason="allowed by ok.example of [agent]",
            path="/a?b",
            session=3,
            pid=7,
            command="curl",
            address="127.0.0.1",
            address_class="public",
        )
        head = b"GET /a?b HTTP/1.1\r\nHost: ok.example:%d\r\n\r\n" % port
        assert recorded == [(head, [hit])]
        end = w.cell.events[1]
        assert isinstance(end, EgressEnd)
        assert (end.hit, end.status, end.error, end.received) == (1, 200, "", len(HELLO) + 19)


@both_loops
async def test_a_denied_request_reaches_nobody_and_is_told_why() -> None:
    async with world() as w:
        seen: list[bytes] = []
        async with origin(fixed(HELLO, seen)) as port:
            reader, writer = await w.connect()
            writer.write(get(port, "no.example") + get(port))  # 75, the other way round
            assert (await reader.readline()) == b"HTTP/1.1 403 Forbidden\r\n"
            body = await reader.readuntil(b"hello")
            assert (
                b"denied: no.example is not in allowed_hosts of [agent] (ok.example, *.pkg.example)" in body
            )
            assert len(seen) == 1, "only the request that was allowed"
            writer.close()
        first, second = w.cell.hits
        assert (first.allowed, first.status, first.address) == (False, 403, "")
        assert second.allowed


@both_loops
async def test_who_is_not_known_gets_nowhere() -> None:
    async with world() as w:
        seen: list[bytes] = []
        async with origin(fixed(HELLO, seen)) as port:
            assert (await w.say(get(port, last=True))).endswith(b"hello")  # the control
            w.cell.caller = None
            assert (await w.say(get(port, last=True))).startswith(b"HTTP/1.1 403 ")
            assert (await w.say(b"CONNECT ok.example:%d HTTP/1.1\r\nHost: a\r\n\r\n" % port)).startswith(
                b"HTTP/1.1 403 "
            )
        assert len(seen) == 1
        assert [(hit.rule, hit.allowed) for hit in w.cell.hits[1:]] == [("owner", False)] * 2


@both_loops
async def test_a_cell_that_fails_to_identify_or_decide_lets_nothing_through() -> None:  # N11
    async with world() as w:
        seen: list[bytes] = []
        async with origin(fixed(HELLO, seen)) as port:
            assert (await w.say(get(port, last=True))).endswith(b"hello")  # the control
            asyncio.get_running_loop().set_exception_handler(lambda *_: None)
            for broken in ("identify", "decide"):

                def fails(*_: object) -> None:
                    raise OSError("the kernel does not answer")

                setattr(w.cell, broken, fails)
                with contextlib.suppress(ConnectionResetError):
                    assert await w.say(get(port)) == b""
                await until(lambda: len(w.proxy) == 0)
                delattr(w.cell, broken)
            assert (await w.say(get(port, last=True))).endswith(b"hello")
        assert len(seen) == 2


@both_loops
async def test_what_is_allowed_meanwhile_counts_for_connections_that_are_open() -> None:
    async with world() as w, origin(fixed(HELLO)) as port:
        reader, writer = await w.connect()
        writer.write(get(port, "new.example"))
        assert b" 403 " in await reader.readline()
        await reader.readuntil(b"[agent]")
        await reader.readline()
        w.cell.policy = w.cell.policy.also("new.example", by="operator")
        writer.write(get(port, "new.example"))
        assert await reader.readexactly(len(HELLO)) == HELLO
        writer.close()


@both_loops
async def test_a_name_that_leads_inside_is_refused_and_only_the_operator_sees_where() -> None:  # 94
    async with world() as w:
        answer = await w.say(get(80, "private.pkg.example", last=True))
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"leads to an address that is not public (private)" in answer
        assert b"10.1.2.3" not in answer
        (hit,) = w.cell.hits
        assert (hit.allowed, hit.address, hit.address_class) == (False, "10.1.2.3", "private")
        assert (hit.rule, hit.status) == ("address: private", 403)


@both_loops
async def test_no_way_is_told_in_words() -> None:
    async with world() as w:
        assert (await w.say(get(80, "unknown.pkg.example", last=True))).endswith(
            b"\r\n\r\nunknown.pkg.example cannot be resolved\n"
        )
        async with origin(echo) as port:
            pass
        assert b"cannot be reached: connection refused" in await w.say(get(port, last=True))
        assert [end.status for end in w.cell.ends] == [502, 502]


@both_loops
async def test_what_cannot_be_recorded_does_not_happen() -> None:  # 116, N11
    async with world() as w:
        seen: list[bytes] = []
        async with origin(fixed(HELLO, seen)) as port:
            assert (await w.say(get(port, last=True))).endswith(b"hello")  # the control
            w.cell.refuses = OSError("the disk is full")
            loop, told = asyncio.get_running_loop(), []
            loop.set_exception_handler(lambda _loop, context: told.append(context))
            for request in (
                get(port),
                get(port, "no.example"),
                b"CONNECT ok.example:%d HTTP/1.1\r\nHost: a\r\n\r\n" % port,
            ):
                with contextlib.suppress(ConnectionResetError):
                    assert await w.say(request) == b""
            loop.set_exception_handler(None)
            w.cell.refuses = None
        assert len(seen) == 1
        assert len(w.cell.hits) == 1


@both_loops
async def test_seven_pipelined_requests_and_a_hundred_at_once() -> None:  # 76, 93
    async with world() as w:
        served = []

        async def numbered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                served.append(head)
                path = head.split(b" ")[1]
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(path), path))

        async with origin(numbered) as port:
            reader, writer = await w.connect()
            writer.write(b"".join(get(port, path=f"/{n}") for n in range(7)))
            for n in range(7):
                answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n/%d" % n
                assert await reader.readexactly(len(answer)) == answer
            writer.close()
            burst = [w.say(get(port, path=f"/{n}", last=True)) for n in range(100)]
            answers = await asyncio.gather(*burst)
            assert all(answer.endswith(b"\r\n\r\n/%d" % n) for n, answer in enumerate(answers))
        assert len(served) == 107


@both_loops
async def test_a_thousand_refusals_at_once_are_all_answered() -> None:
    async with world() as w:
        answers = await w.say(get(80, "no.example") * 1000 + get(80, "no.example", last=True))
        assert answers.count(b"HTTP/1.1 403 Forbidden\r\n") == 1001
        assert len(w.cell.hits) == 1001


@both_loops
async def test_a_body_is_read_no_faster_than_it_is_taken() -> None:  # 91
    size = 64 << 20
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size
    block = bytes(range(256)) * 4096
    go = asyncio.Event()
    sent = got = 0

    async def both(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent, got
        if (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET"):
            writer.write(head)
            while sent < size:
                writer.write(block)
                sent += len(block)
                await writer.drain()
            return
        await go.wait()
        while got < size:
            got += len(await reader.read(1 << 20))
        writer.write(HELLO)

    async with world() as w, origin(both) as port:
        reader, writer = await w.connect()
        writer.write(get(port))
        await until(lambda: len(w.proxy) == 1)
        client = next(iter(w.proxy._open))
        await until(
            lambda: client.origin is not None and not client.origin.transport.is_reading() and client._full
        )
        assert client.transport.get_write_buffer_size() < HIGH + (1 << 20)
        assert sent < size
        await reader.readuntil(b"\r\n\r\n")
        assert len(await reader.readexactly(size)) == size
        sent = 0
        writer.write(
            b"PUT http://ok.example:%d/ HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (port, size)
        )
        for _ in range(size // len(block)):
            writer.write(block)
        await until(lambda: client.origin is not None and client.origin.full)
        assert not client.transport.is_reading()
        assert client.origin is not None
        assert client.origin.transport.get_write_buffer_size() < HIGH + (1 << 20)
        go.set()
        assert await reader.readexactly(len(HELLO)) == HELLO
        assert got == size


@both_loops
async def test_an_answer_to_a_body_that_nobody_reads_is_not_lost() -> None:
    async with world() as w:
        body = b"x" * 3_000_000
        head = b"POST http://no.example/ HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
        assert (await w.say(head + body)).startswith(b"HTTP/1.1 403 ")


@both_loops
async def test_a_response_that_breaks_off_breaks_off() -> None:
    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")

    async with world() as w, origin(broken) as port:
        reader, writer = await w.connect()
        writer.write(get(port))
        await reader.readuntil(b"\r\n\r\n")
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(9)
        writer.close()
        await until(lambda: len(w.cell.ends) == 1)
        assert w.cell.ends[0].error == "the origin ended before its response did"


# Tunnels


@both_loops
async def test_each_side_of_a_tunnel_ends_by_itself() -> None:  # 82
    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = await reader.read()
        writer.write(b"heard " + heard)
        writer.write_eof()

    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"bye")
        writer.write_eof()
        heard.append(await reader.read())

    heard: list[bytes] = []
    async with world() as w:
        async with origin(late) as port:
            reader, writer = await w.tunnel(port)
            writer.write(b"all")
            writer.write_eof()
            assert await reader.read() == b"heard all"
        async with origin(early) as port:
            reader, writer = await w.tunnel(port)
            assert await reader.read() == b"bye"
            writer.write(b"still here")
            writer.write_eof()
            await until(lambda: bool(heard))
        await until(lambda: len(w.cell.ends) == 2)
        assert heard == [b"still here"]
        first, second = w.cell.ends
        connect = len(b"CONNECT ok.example:12345 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (first.sent, first.received) == (connect + 3, len(ESTABLISHED) + 9)
        assert (second.sent, second.received) == (connect + 10, len(ESTABLISHED) + 3)


@both_loops
async def test_bytes_sent_with_the_connect_are_the_first_of_the_tunnel() -> None:
    async with world() as w, origin(echo) as port:
        reader, writer = await w.connect()
        writer.write(b"CONNECT ok.example:%d HTTP/1.0\r\n\r\nearly" % port)
        writer.write_eof()
        assert await reader.read() == ESTABLISHED + b"early"


@both_loops
async def test_a_websocket_is_a_tunnel() -> None:  # 87
    async def chat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Upgrade: websocket\r\n" in head
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nwelcome"
        )
        await echo(reader, writer)

    async with world() as w, origin(chat) as port:
        reader, writer = await w.connect()
        writer.write(get(port).replace(b"\r\n\r\n", b"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"))
        await reader.readuntil(b"welcome")
        writer.write(b"frame")
        assert await reader.readexactly(5) == b"frame"
        writer.close()
        await until(lambda: len(w.cell.ends) == 1)
        assert w.cell.ends[0].status == 101


@both_loops
async def test_much_goes_through_whole_and_neither_side_is_read_faster_than_the_other_writes() -> None:
    size = 64 << 20
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        block = bytes(range(256)) * 4096
        while sent < size:
            writer.write(block)
            sent += len(block)
            await writer.drain()

    async with world() as w, origin(flood) as port:
        reader, writer = await w.tunnel(port)
        client: Client = next(iter(w.proxy._open))
        assert client._pipe is not None
        # Nobody reads: the proxy stops, and so does the origin.
        pipe = client._pipe
        await until(lambda: not pipe.origin.transport.is_reading())
        assert pipe.client.transport.get_write_buffer_size() < HIGH + (1 << 20)
        assert sent < size
        got = 0
        while data := await reader.read(1 << 20):
            assert data[0] == got % 256
            got += len(data)
        assert got == size
        writer.close()


async def tls_world(w: World, port: int, crt: Path, name: str | None) -> bytes:
    reader, writer = await w.tunnel(port)
    context = ssl.create_default_context(cafile=str(crt))
    context.check_hostname = False
    await writer.start_tls(context, server_hostname=name)
    writer.write(b"ping")
    answer = await reader.readexactly(4)
    writer.close()
    return answer


@both_loops
async def test_tls_has_to_ask_for_the_host_that_was_connected_to(tmp_path: Path) -> None:  # 80
    crt, key = certificate(tmp_path, "ok.example")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(crt, key)
    async with world() as w, origin(echo, ssl=server) as port:
        assert await tls_world(w, port, crt, "ok.example") == b"ping"
        assert await tls_world(w, port, crt, "OK.example") == b"ping"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await tls_world(w, port, crt, "evil.example")
        await until(lambda: len(w.cell.ends) == 3)
        assert [(end.sni.lower(), end.denied, end.error) for end in w.cell.ends] == [
            ("ok.example", False, ""),
            ("ok.example", False, ""),
            ("evil.example", True, "TLS asks for evil.example, the connection is to ok.example"),
        ]


@both_loops
async def test_what_begins_like_tls_and_is_none_is_cut_and_what_is_none_passes() -> None:
    async with world() as w, origin(echo) as port:
        reader, writer = await w.tunnel(port)
        writer.write(b"SSH-2.0-x\r\n")
        assert await reader.readline() == b"SSH-2.0-x\r\n"
        writer.close()
        reader, writer = await w.tunnel(port)
        writer.write(b"\x16\x03\x01\x00\x00")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        await until(lambda: len(w.cell.ends) == 2)
        assert w.cell.ends[1].error == "the TLS hello is malformed"


# Ends and limits


@both_loops
async def test_closing_cuts_tunnels_and_exchanges_and_records_them() -> None:  # N8
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with world() as w, origin(silent) as port:
        tunnel, writer = await w.tunnel(port)
        exchange, asking = await w.connect()
        asking.write(get(port))
        await until(lambda: len(w.cell.hits) == 2)
        assert len(w.proxy) == 2
        await w.proxy.close()
        assert [end.error for end in w.cell.ends] == ["the way out was closed"] * 2
        for reader in (tunnel, exchange):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        with pytest.raises(OSError):
            await w.connect()
        writer.close()
        asking.close()


@both_loops
async def test_a_port_that_is_kept_is_nobody_elses_and_refuses_until_it_is_served() -> None:  # 44
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    bound = socket.socket()
    # The kernel lets a port go that it had chosen itself, when its listener shuts down.
    bound.bind(("127.0.0.1", port))
    cell = Cell(POLICY)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        proxy = Proxy(cell, dialer())
        await proxy.serve(bound.dup())
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda proxy=proxy: len(proxy) == 1)  # type: ignore[misc]
        await proxy.close()
        writer.close()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
    bound.close()


@both_loops
async def test_one_phase_can_be_cut_and_another_goes_on() -> None:
    async with world() as w, origin(echo) as port:
        first, one = await w.tunnel(port)
        w.cell.caller = Caller("verifier")
        second, two = await w.tunnel(port)
        w.proxy.cut("sealed", "agent")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await first.readexactly(1)
        two.write(b"on")
        assert await second.readexactly(2) == b"on"
        assert [end.error for end in w.cell.ends] == ["sealed"]
        one.close()
        two.close()


@both_loops
async def test_a_head_has_its_time_however_it_drips() -> None:
    async with world(limits=Limits(head=0.2)) as w:
        reader, writer = await w.connect()
        writer.write(b"GET http://ok.ex")
        assert await reader.readline() == b"HTTP/1.1 408 Request Timeout\r\n"
        writer.close()
        silent, nothing = await w.connect()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await silent.readexactly(1)
        nothing.close()
        await until(lambda: len(w.proxy) == 0)
        assert [hit.reason for hit in w.cell.hits] == ["the head of the request took too long"]


@both_loops
async def test_a_connection_that_nobody_uses_is_closed() -> None:
    async with world(limits=Limits(idle=0.05)) as w, origin(fixed(HELLO)) as port:
        reader, writer = await w.connect()
        writer.write(get(port))
        assert await reader.readexactly(len(HELLO)) == HELLO
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()


@both_loops
async def test_a_hello_and_a_tunnel_have_their_times() -> None:
    async with world(limits=Limits(head=0.05, tunnel=0.1)) as w, origin(echo) as port:
        for said in (b"\x16\x03", b"x"):
            reader, writer = await w.tunnel(port)
            writer.write(said)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(2)
            writer.close()
        await until(lambda: len(w.cell.ends) == 2)
        assert [end.error for end in w.cell.ends] == [
            "the TLS hello took too long",
            "nothing has moved for too long",
        ]


def test_all_ways_of_a_cell_may_be_full_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in (1024, 4096, 20_000, 1 << 20):
        monkeypatch.setattr("cell.egress.context.resource.getrlimit", lambda _, limit=limit: (limit, limit))
        for ways in (4, 5, 68):
            assert ways * 2 * room(ways) + 512 <= limit or room(ways) == 16, (limit, ways)
        assert room(4) == min(2048, (limit - 512) // 8)


@both_loops
async def test_there_is_room_for_so_many_connections_and_no_more() -> None:
    async with world(limits=Limits(connections=2)) as w, origin(fixed(HELLO)) as port:
        held = [await w.connect() for _ in range(2)]
        await until(lambda: len(w.proxy) == 2)
        assert (await w.say(get(port))).endswith(b"\r\n\r\nmore than 2 connections are open\n")
        assert (w.cell.hits[0].status, w.cell.hits[0].allowed) == (503, False)
        for _, writer in held:
            writer.close()
        await until(lambda: len(w.proxy) == 0)
        assert (await w.say(get(port, last=True))).endswith(b"hello")


@both_loops
async def test_a_client_that_goes_while_it_is_dialled_for_is_recorded() -> None:
    async with world() as w, origin(echo) as port:
        never = asyncio.get_running_loop().create_future()

        async def slow(host: Host, port: int = 0) -> Found:
            await never
            raise AssertionError(host)

        w.proxy._dialer.find = slow  # type: ignore[method-assign]
        _, writer = await w.connect()
        writer.write(get(port))
        await until(lambda: any(client.wire.state == "dial" for client in w.proxy._open))
        # An end alone would be half a goodbye: the client might still read.
        reset(writer)
        await until(lambda: len(w.proxy) == 0)
        assert [hit.host for hit in w.cell.hits] == ["ok.example"]
        assert [end.error for end in w.cell.ends] == ["the client went away"]


@both_loops
async def test_public_lets_every_name_through() -> None:
    async with world(Policy("public")) as w, origin(fixed(HELLO)) as port:
        assert (await w.say(get(port, "anything.test", last=True))).endswith(b"hello")
        assert w.cell.hits[0].rule == "public"
