"""The transparent way from inside: programs that know of no proxy."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cell.egress.context import Caller, Limits
from cell.egress.dial import Dialer
from cell.egress.names import NameServer
from cell.egress.pool import Pool
from cell.egress.transparent import Transparent
from cell.events import Egress, EgressEnd
from cell.launcher import ends
from cell.policy import Decision, Policy, entry
from cell.policy.hosts import IP, Host

from .network import World, world

pytestmark = pytest.mark.live
ALLOWED = ("pkg.example.org", "*.mirror.example", "203.0.113.7", "away.example.org", "nowhere.example.org")


class Border:
    """What the cell would be: the agent's policy for whoever holds the socket, and a list of records."""

    phase: Any = "agent"

    def __init__(self, here: World) -> None:
        self.here, self.records = here, list[Egress]()
        self.ends = dict[int, EgressEnd]()
        self.policy = Policy("allowlist", tuple(map(entry, ALLOWED)), "[agent]")

    def identify(self, accepted: socket.socket) -> Caller | None:
        owner = self.here.owners.of(accepted)
        if owner is None or not owner.only_in(self.here.sandbox.mount_namespace):
            return None
        return Caller("agent", owner.pid, owner.command, None)

    def decide(self, caller: Caller, host: Host, port: int) -> Decision:
        return self.policy.decide(host, port)

    def opened(self, event: Egress) -> int:
        self.records.append(replace_hit(event, len(self.records) + 1))
        return len(self.records)

    def closed(self, event: EgressEnd) -> None:
        assert event.hit not in self.ends
        self.ends[event.hit] = event


def replace_hit(event: Egress, hit: int) -> Egress:
    import msgspec

    return msgspec.structs.replace(event, hit=hit)


class DirectlyAsked(asyncio.Protocol):
    """A stand-in for the proxy: says that it was asked."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(b"the proxy")  # type: ignore[attr-defined]
        transport.close()


class Outside:
    """The internet: servers of this test, and a resolver that leads there."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.seen: list[bytes] = []

    async def resolve(self, name: str) -> Sequence[IP]:
        self.asked.append(name)
        if name == "nowhere.example.org":
            raise OSError("no such name")
        return [ipaddress.ip_address("10.1.2.3" if name == "away.example.org" else "127.0.0.1")]

    @staticmethod
    def classify(ip: IP) -> str:
        return "public" if ip.is_loopback else "private network"

    async def shout(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Greets first, as a mail or database server does, then answers in capitals until the end."""
        with suppress(OSError):
            writer.write(b"hello\n")
            while data := await reader.read(65536):
                self.seen.append(data)
                writer.write(data.upper())
                await writer.drain()
            writer.write(b"bye\n")
            writer.close()


@asynccontextmanager
async def open_world(
    tmp_path: Path, limits: Limits | None = None
) -> AsyncIterator[tuple[World, Border, Outside, Transparent, int]]:
    outside = Outside()
    server = await asyncio.start_server(outside.shout, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with world(tmp_path / "s", proxy=True, transparent=True) as here:
        border, pool = Border(here), Pool()
        names = NameServer(pool, lambda *_: None)
        answering = asyncio.create_task(names.serve(here.sockets["names"], here.sockets["names-tcp"]))
        dialer = Dialer(outside.resolve, outside.classify, own=lambda ip: False)
        way = Transparent(border, dialer, pool, DirectlyAsked, limits)
        for label in ("way", "way6"):
            await way.serve(here.sockets[label])
        try:
            yield here, border, outside, way, port
        finally:
            answering.cancel()
            await way.close()
            server.close()
            assert set(border.ends) == {record.hit for record in border.records}, "each attempt has its end"


TALK = """
import json, socket, sys
for host in sys.argv[2:]:
    try:
        one = socket.create_connection((host, int(sys.argv[1])), 10)
        one.settimeout(10)
        said = one.recv(6)
        if said:
            one.sendall(b"whole")
            one.shutdown(socket.SHUT_WR)
            while more := one.recv(100):
                said += more
        print(host, said)
    except OSError as error:
        print(host, type(error).__name__)
"""


async def talk(here: World, port: int, *hosts: str, uid: int = 0) -> list[str]:
    return (await here.run(["/usr/bin/python3", "-c", TALK, str(port), *hosts], uid=uid)).splitlines()


async def test_42_a_program_without_a_proxy_reaches_what_is_allowed_by_name(tmp_path: Path) -> None:
    async with open_world(tmp_path) as (here, border, outside, _, port):
        said = await talk(here, port, "pkg.example.org", "a.mirror.example", "PKG.example.org.", uid=1000)
        assert [line.split(" ", 1)[1] for line in said] == [repr(b"hello\nWHOLEbye\n")] * 3
        assert outside.asked == ["pkg.example.org", "a.mirror.example", "pkg.example.org"]
        for record in border.records:
            assert (record.way, record.allowed, record.port, record.address) == (
                "transparent",
                True,
                port,
                "127.0.0.1",
            )
            assert "python3" in record.command
            end = border.ends[record.hit]
            assert (end.sent, end.received, end.error) == (5, 15, "")


async def test_40_42_what_is_not_allowed_is_reset_recorded_and_never_resolved(tmp_path: Path) -> None:
    async with open_world(tmp_path) as (here, border, outside, _, port):
        hosts = (
            "evil.example.net",
            "pkg.example.org.evil.net",
            "169.254.169.254",
            "2606:2800:220:1::1",
            "10.0.0.1",
        )
        said = await talk(here, port, *hosts)
        assert [line.split()[1] for line in said] == ["ConnectionResetError"] * 5
        assert outside.asked == []
        assert [(record.host, record.allowed) for record in border.records] == [
            (host, False) for host in hosts
        ]
        assert all(record.reason and record.pid for record in border.records)
        assert outside.seen == []


async def test_94_a_name_that_leads_to_no_public_address_is_reset(tmp_path: Path) -> None:
    async with open_world(tmp_path) as (here, border, _, _, port):
        said = await talk(here, port, "away.example.org", "nowhere.example.org", "198.18.77.77")
        assert [line.split()[1] for line in said] == ["ConnectionResetError"] * 3
        away, nowhere, nothing = border.records
        assert (away.allowed, away.address, away.address_class) == (False, "10.1.2.3", "private network")
        assert (nowhere.allowed, border.ends[2].error) == (True, "nowhere.example.org cannot be resolved")
        assert (nothing.allowed, nothing.rule) == (False, "name pool")


async def test_41_an_allowed_literal_is_relayed_as_it_is(tmp_path: Path) -> None:
    async with open_world(tmp_path) as (here, _, outside, way, port):
        dialled: list[str] = []

        async def connect(found: Any, port: int, made: Callable[[], Any]) -> Any:
            dialled.append(str(found.addresses[0]))
            return await asyncio.get_running_loop().create_connection(made, "127.0.0.1", port)

        way.dialer.connect = connect  # type: ignore[method-assign]
        way.dialer._classify = lambda ip: "public"
        said = await talk(here, port, "203.0.113.7", "203.0.113.8")
        assert said == ["203.0.113.7 " + repr(b"hello\nWHOLEbye\n"), "203.0.113.8 ConnectionResetError"]
        assert dialled == ["203.0.113.7"]
        assert outside.asked == []


async def test_80_a_tls_client_has_to_ask_for_the_name_it_connected_to(tmp_path: Path) -> None:
    script = """
    import socket, ssl, sys
    context = ssl._create_unverified_context()
    for host, sni in (("pkg.example.org", "evil.example.net"), ("pkg.example.org", "pkg.example.org")):
        one = socket.create_connection((host, int(sys.argv[1])), 5)
        one.recv(6)
        try:
            context.wrap_socket(one, server_hostname=sni)
        except OSError as error:
            print(type(error).__name__)
    """
    import textwrap

    async with open_world(tmp_path) as (here, border, outside, _, port):
        said = await here.run(["/usr/bin/python3", "-c", textwrap.dedent(script), str(port)])
        assert b"pkg.example.org" in outside.seen[0]
        assert b"evil" not in b"".join(outside.seen), "only what asked for the right name went out"
        assert border.ends[1].sni == "evil.example.net"
        assert "evil.example.net" in border.ends[1].error
        assert border.ends[2].sni == "pkg.example.org"
        assert len(said.splitlines()) == 2
        assert ssl.HAS_SNI


async def test_who_connects_to_the_ways_own_address_has_the_proxy(tmp_path: Path) -> None:
    async with open_world(tmp_path) as (here, border, _, _, _):
        for host in ("127.0.0.1", "::1"):
            said = await here.shell(f"exec 3<>/dev/tcp/{host}/3128; cat <&3")
            said = await here.python(
                f"import socket; one = socket.create_connection(('{host}', {ends.WAY_PORT})); print(one.recv(99))"
            )
            assert said == "b'the proxy'\n"
        assert border.records == []


async def test_ten_megabytes_go_each_way_and_no_more_than_the_limit_at_once(tmp_path: Path) -> None:
    script = """
    import socket, sys, threading
    one = socket.create_connection(("pkg.example.org", int(sys.argv[1])), 10)
    one.recv(6)
    def send():
        for _ in range(160):
            one.sendall(b"a" * 65536)
        one.shutdown(socket.SHUT_WR)
    threading.Thread(target=send).start()
    count = 0
    while data := one.recv(1 << 20):
        count += data.count(b"A")
    print(count)
    """
    import textwrap

    async with open_world(tmp_path, Limits(connections=2)) as (here, border, _, _, port):
        said = await here.run(["/usr/bin/python3", "-c", textwrap.dedent(script), str(port)])
        assert said == f"{160 * 65536}\n"
        many = """
        import socket, sys
        held = []
        for _ in range(3):
            try:
                held.append(socket.create_connection(("pkg.example.org", int(sys.argv[1])), 10))
                print(held[-1].recv(6))
            except OSError as error:
                print(type(error).__name__)
        """
        said = await here.run(["/usr/bin/python3", "-c", textwrap.dedent(many), str(port)])
        assert said.splitlines() == ["b'hello\\n'", "b'hello\\n'", "ConnectionResetError"]
        assert border.records[-1].rule == "limit"


async def test_open_connections_are_cut_by_phase_and_recorded(tmp_path: Path) -> None:
    script = """
    import socket, sys
    one = socket.create_connection(("pkg.example.org", int(sys.argv[1])), 10)
    print(one.recv(6), flush=True)
    try:
        print(one.recv(6), flush=True)
    except OSError:
        print("cut", flush=True)
    """
    import textwrap

    async with open_world(tmp_path) as (here, border, _, way, port):
        child, out = here.start(["/usr/bin/python3", "-c", textwrap.dedent(script), str(port)])
        with os.fdopen(out, "rb") as said:
            assert await asyncio.to_thread(said.readline) == b"b'hello\\n'\n"
            way.cut("the verifier has ended", "verifier")
            assert border.ends == {}
            way.cut("the agent phase is over", "agent")
            assert await asyncio.to_thread(said.readline) in (b"cut\n", b"b''\n")
            await child.ended
        assert border.ends[1].error == "the agent phase is over"


async def test_names_are_looked_up_by_the_worlds_own_programs(tmp_path: Path) -> None:
    script = """
    getent ahostsv4 pkg.example.org | head -n1 | cut -d' ' -f1
    getent hosts 198.18.0.1
    getent hosts db || echo none
    python3 -c 'import socket; print(sorted({a[4][0] for a in socket.getaddrinfo("b.mirror.example", 80)}))'
    python3 -c 'import socket; print(socket.gethostbyaddr("198.18.0.2")[0])'
    python3 -c 'import socket; print(socket.gethostbyname("localhost"))'
    echo "options use-vc" >> /etc/resolv.conf
    getent ahostsv4 pkg.example.org | head -n1 | cut -d' ' -f1
    """
    async with open_world(tmp_path) as (here, _, outside, _, _):
        assert (await here.shell(script)).splitlines() == [
            "198.18.0.1",
            "198.18.0.1      pkg.example.org",
            "none",
            "['198.18.0.2']",
            "b.mirror.example",
            "127.0.0.1",
            "198.18.0.1",
        ]
        assert outside.asked == []
