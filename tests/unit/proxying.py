"""A proxy on this machine's loopback, with a resolver of the test and a cell that only writes down."""

from __future__ import annotations

import asyncio
import functools
import inspect
import ipaddress
import socket
import struct
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import uvloop

from cell.egress.context import Caller, Limits
from cell.egress.dial import Dialer
from cell.egress.proxy import Proxy
from cell.events import Egress, EgressEnd
from cell.policy import Decision, Policy, resolved
from cell.policy.hosts import IP, Host
from cell.records import PhaseName

AGENT = Caller("agent", pid=7, command="curl", session=3)
POLICY = resolved("allowlist", ["ok.example", "*.pkg.example"], "agent.network_mode")
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Cell:
    """The Context of a test. `refuses` makes writing down fail."""

    phase: PhaseName = "agent"

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.caller: Caller | None = AGENT
        self.events: list[Egress | EgressEnd] = []
        self.refuses: OSError | None = None

    def identify(self, accepted: socket.socket) -> Caller | None:
        assert accepted.getpeername()
        return self.caller

    def decide(self, caller: Caller, host: Host, port: int) -> Decision:
        assert caller is self.caller
        return self.policy.decide(host, port)

    def opened(self, event: Egress) -> int:
        if self.refuses is not None:
            raise self.refuses
        hit = 1 + sum(isinstance(e, Egress) for e in self.events)
        self.events.append(msgspec.structs.replace(event, hit=hit))
        return hit

    def closed(self, event: EgressEnd) -> None:
        self.events.append(event)

    @property
    def hits(self) -> list[Egress]:
        return [e for e in self.events if isinstance(e, Egress)]

    @property
    def ends(self) -> list[EgressEnd]:
        return [e for e in self.events if isinstance(e, EgressEnd)]


async def loopback(name: str) -> Sequence[IP]:
    """Every name is this machine, except those that say what they are."""
    if name.startswith("private"):
        return [ipaddress.ip_address("10.1.2.3")]
    if name.startswith("unknown"):
        raise OSError(name)
    return [ipaddress.ip_address("127.0.0.1")]


def dialer() -> Dialer:
    """The vetting of tests: the loopback is their internet."""
    return Dialer(
        loopback, classify=lambda ip: "public" if str(ip) == "127.0.0.1" else "private", own=lambda _ip: False
    )


class World:
    """A proxy that listens, and what it wrote down."""

    def __init__(self, proxy: Proxy, cell: Cell, port: int) -> None:
        self.proxy, self.cell, self.port = proxy, cell, port
        self.url = f"http://127.0.0.1:{port}"
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return reader, writer

    async def say(self, request: bytes) -> bytes:
        """Send a request on a connection of its own, and read until the end."""
        reader, writer = await self.connect()
        writer.write(request)
        answer = await reader.read()
        writer.close()
        return answer

    async def tunnel(
        self, port: int, host: str = "ok.example"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self.connect()
        writer.write(b"CONNECT %b:%d HTTP/1.1\r\nHost: a\r\n\r\n" % (host.encode(), port))
        assert await reader.readexactly(len(ESTABLISHED)) == ESTABLISHED
        return reader, writer


@asynccontextmanager
async def world(policy: Policy = POLICY, limits: Limits | None = None) -> AsyncIterator[World]:
    """A proxy that is ready; all of it is gone and recorded at the end."""
    cell = Cell(policy)
    proxy = Proxy(cell, dialer(), limits)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    await proxy.serve(listener)
    made = World(proxy, cell, port)
    try:
        yield made
    finally:
        for writer in made.writers:
            writer.close()
        await proxy.close()
        assert len(proxy) == 0
        assert [e.hit for e in cell.hits] == sorted(e.hit for e in cell.ends), "every attempt ends once"


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def origin(handler: Handler, **tls: object) -> AsyncIterator[int]:
    """A server of the test; yields its port."""
    running: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            running.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20, **tls)  # type: ignore[arg-type]
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tuple(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def fixed(response: bytes, seen: list[bytes] | None = None) -> Handler:
    """A server that answers every request without a body with the same bytes."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            if seen is not None:
                seen.append(head)
            writer.write(response)
            await writer.drain()

    return handler


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that says what it hears, and ends when that ends."""
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


def certificate(folder: Path, *names: str) -> tuple[Path, Path]:
    """Make a certificate that is its own authority, for these names; return it and its key."""
    crt, key = folder / "test.crt", folder / "test.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=" + ",".join(f"DNS:{n}" for n in names),
         "-out", crt, "-keyout", key],
        check=True, capture_output=True,
    )  # fmt: skip
    return crt, key


def reset(writer: asyncio.StreamWriter) -> None:
    """Go without a goodbye."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def run(*argv: str | Path, env: dict[str, str] | None = None, stdin: bytes = b"") -> tuple[int, bytes]:
    """Run a client program; return its status and what it wrote to stdout and stderr."""
    child = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env={"PATH": "/usr/bin:/bin", **(env or {})},
    )  # fmt: skip
    out, _ = await child.communicate(stdin)
    assert child.returncode is not None
    return child.returncode, out


def both_loops(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test on asyncio's own loop and on the one that `cell serve` has."""

    @pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
    @functools.wraps(test)
    def on(loop: str, **fixtures: object) -> None:
        factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(test(**fixtures), 60))

    signature = inspect.signature(test)
    on.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[
            inspect.Parameter("loop", inspect.Parameter.POSITIONAL_OR_KEYWORD),
            *signature.parameters.values(),
        ]
    )
    return on


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until it is so."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.002)
