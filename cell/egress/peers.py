"""Ways to declared peers: a connection to a peer's address inside is relayed to where the peer is.

A peer was handed to the world on purpose, so no policy decides; each connection is recorded all the same.
It stays when the agent phase is over: what the agent started and the verifier asks may need it.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import cast

from cell.egress.context import Caller, Context, Limits
from cell.egress.relay import Pipe, pause_soon
from cell.events import Egress, EgressEnd

_PATIENCE = 20.0  # seconds
_BACKLOG = 1024


class PeerWay:
    """All connections to one peer, `name`:`port` inside and `target` (host, port) outside."""

    def __init__(
        self, context: Context, name: str, port: int, target: tuple[str, int], limits: Limits | None = None
    ) -> None:
        self.context, self.name, self.port, self.target = context, name, port, target
        self.limits = limits or Limits()
        self.connections: set[_Connection] = set()
        self._servers: list[asyncio.Server] = []
        self._empty = asyncio.Event()
        self._empty.set()

    async def serve(self, listener: socket.socket) -> None:
        """Accept on a listener made inside from now on; it belongs to this, which closes it."""
        listener.setblocking(False)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(self), sock=listener, backlog=_BACKLOG)
        self._servers.append(server)

    async def close(self) -> None:
        """Stop listening, and cut all; returns when the last one is recorded."""
        for server in self._servers:
            server.close()
        for one in tuple(self.connections):
            one.cut("the cell ended")
        await self._empty.wait()

    def enter(self, one: _Connection) -> None:
        """Count a connection in."""
        self.connections.add(one)
        self._empty.clear()

    def leave(self, one: _Connection) -> None:
        """Count it out."""
        self.connections.discard(one)
        if not self.connections:
            self._empty.set()


class _Connection(asyncio.Protocol):
    def __init__(self, way: PeerWay) -> None:
        self.way = way
        self.pipe: Pipe | None = None
        self.said, self.quiet = b"", False
        self.hit, self.began, self.why = 0, time.monotonic(), ""
        self.transport: asyncio.Transport
        self.task: asyncio.Task[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
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
        caller = self.way.context.identify(self.transport.get_extra_info("socket"))
        self._record(caller)
        if caller is None:
            self.why = "it is not known which process asks"
            return
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_PATIENCE):
                transport, origin = await loop.create_connection(_Waiting, *self.way.target)
        except OSError as error:  # a timeout is one
            self.why = f"the peer cannot be reached: {error.strerror or 'in time'}".lower()
            return
        self.pipe = Pipe(self.transport, transport, self._piped, self.way.limits)
        self.pipe.start(self.said, origin.said, client_ended=self.quiet, origin_ended=origin.ended)

    def _carried(self, task: asyncio.Task[None]) -> None:
        if self.pipe is None:
            self.transport.abort()
            self._ended(error=self.why or "the cell failed")
        if not task.cancelled():
            task.result()

    def _piped(self, pipe: Pipe) -> None:
        self._ended(pipe.sent, pipe.received, error=pipe.error)

    def _record(self, caller: Caller | None) -> None:
        known = caller is not None
        self.hit = self.way.context.opened(
            Egress(
                hit=0,
                phase=self.way.context.phase if caller is None else caller.phase,
                way="peer",
                method="TCP",
                host=self.way.name,
                port=self.way.port,
                allowed=known,
                rule="peer" if known else "owner",
                reason="a declared peer" if known else "denied: it is not known which process asks",
                session=None if caller is None else caller.session,
                pid=0 if caller is None else caller.pid,
                command="" if caller is None else caller.command,
                address=self.way.target[0],
                address_class="peer",
            )
        )

    def _ended(self, sent: int = 0, received: int = 0, *, error: str = "") -> None:
        self.way.leave(self)
        if self.hit:
            took = round((time.monotonic() - self.began) * 1000, 3)
            self.way.context.closed(
                EgressEnd(hit=self.hit, sent=sent, received=received, ms=took, error=error)
            )


class _Waiting(asyncio.Protocol):
    """The connection to the peer until it is one end of a pipe: what it says at once is kept."""

    def __init__(self) -> None:
        self.said, self.ended = b"", False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        pause_soon(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        self.said += data

    def eof_received(self) -> bool:
        self.ended = True
        return True
