"""The transparent way: connections to elsewhere that were brought here, held to the policy all the same.

    way = Transparent(context, Dialer(), pool, proxy=lambda: …)
    await way.serve(listener)        # 127.0.0.1:3128 and [::1]:3128 of the sandbox
    ...
    await way.close()                # no new connections; open ones are cut, and recorded

The listener has connections of two kinds. Who connected to it by its own address wants the proxy, and
is handed over. Everybody else meant the address that the accepted socket has as its own (`launcher.ends`):
one of the pool stands for a name, which is what is decided, resolved outside and dialled; any other is
decided as it is. There are no words to refuse with: a refused connection is reset, and the record has
the reason.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import struct
import time
from collections.abc import Callable
from typing import cast

from cell.egress import pool
from cell.egress.context import Caller, Context, Limits
from cell.egress.dial import Dialer, Found, NoWay
from cell.egress.pool import Pool
from cell.egress.relay import Pipe, pause_soon
from cell.events import Egress, EgressEnd
from cell.policy import Decision
from cell.policy.hosts import Host
from cell.records import PhaseName

_BACKLOG = 1024
_RESET = struct.pack("ii", 1, 0)


class Transparent:
    """All connections of the transparent way. `proxy` makes the protocol of one that wants the proxy."""

    def __init__(
        self,
        context: Context,
        dialer: Dialer,
        names: Pool,
        proxy: Callable[[], asyncio.Protocol],
        limits: Limits | None = None,
    ) -> None:
        self.context, self.dialer, self.names = context, dialer, names
        self.proxy, self.limits = proxy, limits or Limits()
        self.connections: set[_Caught] = set()
        self._servers: list[asyncio.Server] = []
        self._empty = asyncio.Event()
        self._empty.set()

    async def serve(self, listener: socket.socket) -> None:
        """Accept on a listener made inside from now on; it belongs to this, which closes it."""
        listener.setblocking(False)
        home = listener.getsockname()[:2]
        server = await asyncio.get_running_loop().create_server(
            lambda: _Door(self, home), sock=listener, backlog=_BACKLOG
        )
        self._servers.append(server)

    def cut(self, why: str, phase: PhaseName | None = None) -> None:
        """Cut every open connection (of callers in one phase), each recorded with `why`."""
        for caught in tuple(self.connections):
            if phase is None or (caught.caller is not None and caught.caller.phase == phase):
                caught.cut(why)

    async def close(self) -> None:
        """Stop listening, and cut all; returns when the last one is recorded."""
        for server in self._servers:
            server.close()
        self.cut("the way out was closed")
        await self._empty.wait()

    def enter(self, caught: _Caught) -> None:
        """Count a connection in."""
        self.connections.add(caught)
        self._empty.clear()

    def leave(self, caught: _Caught) -> None:
        """Count it out."""
        self.connections.discard(caught)
        if not self.connections:
            self._empty.set()


class _Door(asyncio.Protocol):
    """A connection of which it is not yet known what it wants."""

    def __init__(self, way: Transparent, home: tuple[str, int]) -> None:
        self.way, self.home = way, home

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connection = cast(asyncio.Transport, transport)
        meant = connection.get_extra_info("sockname")[:2]
        protocol = self.way.proxy() if meant == self.home else _Caught(self.way, *meant)
        connection.set_protocol(protocol)
        protocol.connection_made(connection)


class _Origin(asyncio.Protocol):
    """The connection to an origin until it is one end of a pipe: what it says at once is kept."""

    def __init__(self) -> None:
        self.said, self.ended = b"", False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        pause_soon(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        self.said += data

    def eof_received(self) -> bool:
        self.ended = True
        return True


class _Caught(asyncio.Protocol):
    """One connection to elsewhere, and what is done for it."""

    def __init__(self, way: Transparent, address: str, port: int) -> None:
        self.way, self.port = way, port
        self.address = ipaddress.ip_address(address.partition("%")[0])
        self.host = Host(self.address.compressed, self.address)
        self.caller: Caller | None = None
        self.pipe: Pipe | None = None
        self.decision: Decision | None = None
        self.found: Found | None = None
        self.named = self.over = False
        self.said, self.quiet = b"", False
        self.hit, self.began, self.why = 0, 0.0, ""
        self.transport: asyncio.Transport
        self.task: asyncio.Task[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        # what the client says waits in the kernel until there is somebody to say it to
        pause_soon(self.transport)
        self.way.enter(self)
        self.task = asyncio.get_running_loop().create_task(self._carry())
        self.task.add_done_callback(self._carried)

    def data_received(self, data: bytes) -> None:
        """Keep what comes before it is known where to."""
        self.said += data

    def eof_received(self) -> bool:
        """Take note that the client says no more; it may still listen."""
        self.quiet = True
        return True

    def cut(self, why: str) -> None:
        """End it now; it is recorded with `why`."""
        self.why = self.why or why
        if self.pipe is not None:
            self.pipe.cut(why)
        else:
            self.task.cancel()

    async def _carry(self) -> None:
        """Decide, find, dial; the rest is the pipe's."""
        decision = self.decision = self._decided()
        if not decision.allowed:
            self._record(decision)
            self.why = decision.reason
            return
        try:
            self.found = await self.way.dialer.find(self.host, self.port)
            self._record(decision)
            made = self.way.dialer.connect(self.found, self.port, _Origin)
            transport, origin = await made
        except NoWay as no:
            if not self.hit:
                self._record(decision, no)
            self.why = no.words
            return
        self.pipe = Pipe(
            self.transport, transport, self._piped, self.way.limits, hello=self.host, port=self.port
        )
        self.pipe.start(self.said, origin.said, client_ended=self.quiet, origin_ended=origin.ended)

    def _carried(self, task: asyncio.Task[None]) -> None:
        """Reset what has not become a pipe; an error of ours is raised where the loop reports it."""
        if self.pipe is None:
            self._reset()
            try:
                if self.decision is not None and not self.hit:
                    self._record(self.decision)  # cut while its name was looked up
            finally:
                # also where nothing can be recorded: `close` waits for each to have left
                self._ended(error=self.why or "the cell failed")
        if not task.cancelled():
            task.result()

    def _decided(self) -> Decision:
        way = self.way
        self.caller = way.context.identify(self.transport.get_extra_info("socket"))
        if pool.holds(self.address):
            name = way.names.name(self.address)
            if name is None:
                return Decision(False, "name pool", f"denied: {self.address} stands for no name")
            self.host = Host(name)
            self.named = True
            way.names.opened(self.address)
        if len(way.connections) > way.limits.connections:
            most = way.limits.connections
            return Decision(False, "limit", f"more than {most} connections of this world are open")
        if self.caller is None:
            return Decision(
                False, "owner", "denied: it is not known which process asks, or it is not admitted"
            )
        return way.context.decide(self.caller, self.host, self.port)

    def _piped(self, pipe: Pipe) -> None:
        self._ended(pipe.sent, pipe.received, sni=pipe.sni, error=pipe.error)

    def _reset(self) -> None:
        accepted = self.transport.get_extra_info("socket")
        if accepted is not None and not self.transport.is_closing():
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    # Records

    def _record(self, decision: Decision, no: NoWay | None = None) -> None:
        self.began = time.monotonic()
        denied = no is not None and no.denied
        address, kind = "", decision.address_class
        if self.found is not None:
            address, kind = str(self.found.addresses[0]), self.found.kind
        elif no is not None:
            address, kind = no.address, no.kind
        caller = self.caller
        self.hit = self.way.context.opened(
            Egress(
                hit=0,
                phase=self.way.context.phase if caller is None else caller.phase,
                way="transparent",
                method="TCP",
                host=self.host.text,
                port=self.port,
                allowed=decision.allowed and not denied,
                rule=f"address: {kind}" if denied else decision.rule,
                reason=no.words if no is not None and denied else decision.reason,
                session=None if caller is None else caller.session,
                pid=0 if caller is None else caller.pid,
                command="" if caller is None else caller.command,
                address=address,
                address_class=kind,
            )
        )

    def _ended(self, sent: int = 0, received: int = 0, *, sni: str = "", error: str = "") -> None:
        if self.over:
            return
        self.over = True
        self.way.leave(self)
        if self.named:
            self.way.names.closed(self.address)
        if self.hit:
            took = round((time.monotonic() - self.began) * 1000, 3)
            self.way.context.closed(
                EgressEnd(hit=self.hit, sent=sent, received=received, ms=took, sni=sni, error=error)
            )
