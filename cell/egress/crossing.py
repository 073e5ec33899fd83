"""What the ways out have in common: their open connections, and one that becomes a pipe to somewhere else.

`Crossings` counts connections in and out, cuts them, and ends when the last one is recorded. `Crossing` is
one that is relayed as it is, once it is known where to; until then what comes is kept.
"""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar, cast

from cell.egress.account import NOTHING, Account, Said
from cell.egress.context import Caller, Context, Limits
from cell.egress.relay import Pipe, pause_soon
from cell.records import PhaseName

_BACKLOG = 1024


class Open(Protocol):
    """A connection that is open."""

    @property
    def caller(self) -> Caller | None:
        """Who made it, None for who is not known."""

    def cut(self, why: str) -> None:
        """End it now; what it was at is recorded with `why`."""


C = TypeVar("C", bound=Open)


class Crossings(Generic[C]):
    """All open connections of one way, whichever of its listeners they came by."""

    def __init__(self) -> None:
        self.closing = False
        self._open: set[C] = set()
        self._listeners: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        """How many connections are open."""
        return len(self._open)

    async def listen(self, listener: socket.socket, made: Callable[[], asyncio.Protocol]) -> None:
        """Accept on a bound socket from now on. It belongs to this now, and is closed by it.

        Who keeps a duplicate of it keeps the port, if it was chosen and not the kernel's choice: `close`
        ends the listening of both, and the duplicate, still bound, can be served again.
        """
        listener.setblocking(False)
        self._listeners.append(listener)
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(made, sock=listener, backlog=_BACKLOG))

    async def close(self) -> None:
        """Accept nothing more and cut what is open; returns when all of it is gone and recorded."""
        self.closing = True
        for listener in self._listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
        for server in self._servers:
            server.close()
        self.cut("the way out was closed")
        await self._empty.wait()

    def cut(self, why: str, *phases: PhaseName) -> None:
        """Cut every open connection (of callers in some phases), each recorded with `why`."""
        for one in tuple(self._open):
            if not phases or (one.caller is not None and one.caller.phase in phases):
                one.cut(why)

    def enter(self, one: C) -> None:
        """Count a connection in."""
        self._open.add(one)
        self._empty.clear()

    def leave(self, one: C) -> None:
        """Count it out."""
        self._open.discard(one)
        if not self._open:
            self._empty.set()


class Crossing(asyncio.Protocol, ABC):
    """One connection that is relayed as it is. `carry` finds out where to, or says in `why` why not."""

    def __init__(self, way: Crossings[Crossing], account: Account, context: Context, limits: Limits) -> None:
        self.way, self.account, self.context, self.limits = way, account, context, limits
        self.why = ""
        self._pipe: Pipe | None = None
        self._said, self._quiet = b"", False
        self.transport: asyncio.Transport
        self._task: asyncio.Task[None]

    @property
    def caller(self) -> Caller | None:
        """Who made the connection, None for who is not known."""
        return self.account.caller

    @abstractmethod
    async def carry(self) -> None:
        """Identify, record, connect and `join`."""

    def refuse(self) -> None:
        """Close what has not become a pipe."""
        self.transport.abort()

    def left(self) -> None:
        """Take note that it is over."""

    def identify(self) -> Caller | None:
        """Find out who made the connection, for the records of it."""
        self.account.caller = self.context.identify(self.transport.get_extra_info("socket"))
        return self.account.caller

    def join(self, other: Waiting, pipe: Pipe) -> None:
        """Become a pipe to what was connected."""
        self._pipe = pipe
        pipe.start(self._said, other.said, client_ended=self._quiet, origin_ended=other.ended)

    def cut(self, why: str) -> None:
        """End it now; it is recorded with `why`."""
        self.why = self.why or why
        if self._pipe is not None:
            self._pipe.cut(why)
        else:
            self._task.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Find out what it wants; what it says meanwhile waits in the kernel."""
        self.transport = cast(asyncio.Transport, transport)
        pause_soon(self.transport)
        self.way.enter(self)
        self._task = asyncio.get_running_loop().create_task(self.carry())
        self._task.add_done_callback(self._carried)

    def data_received(self, data: bytes) -> None:
        """Keep what comes before it is known where to."""
        self._said += data

    def eof_received(self) -> bool:
        """Take note that the client says no more; it may still listen."""
        self._quiet = True
        return True

    def piped(self, pipe: Pipe) -> None:
        """Record how the pipe ended."""
        self._over(pipe.sent, pipe.received, pipe.asked, error=pipe.error)

    def unrecorded(self) -> None:
        """Record what was cut before it could be recorded, if there is something."""

    def _carried(self, task: asyncio.Task[None]) -> None:
        """End what has not become a pipe; an error of ours is raised where the loop reports it."""
        if self._pipe is None:
            self.refuse()
            try:
                self.unrecorded()
            finally:
                # also where nothing can be recorded: `close` waits for each to have left
                self._over(error=self.why or "the cell failed")
        if not task.cancelled():
            task.result()

    def _over(self, sent: int = 0, received: int = 0, asked: Said = NOTHING, *, error: str = "") -> None:
        self.way.leave(self)
        self.left()
        self.account.closed(0, sent, received, asked, error=error)


class Waiting(asyncio.Protocol):
    """The connection to somewhere until it is one end of a pipe: what it says at once is kept."""

    def __init__(self) -> None:
        self.said, self.ended = b"", False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read no more for now."""
        pause_soon(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        """Keep it."""
        self.said += data

    def eof_received(self) -> bool:
        """Take note of it."""
        self.ended = True
        return True
