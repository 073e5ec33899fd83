"""The forward proxy of a cell: it accepts outside what was asked for inside.

    proxy = Proxy(context, Dialer())
    await proxy.serve(listener)      # a socket that was made inside the sandbox's network namespace
    ...
    await proxy.close()              # nothing is accepted any more; what is open is cut, and recorded

Every attempt is written down before it is answered. What cannot be written down is not answered.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

from cell.egress.client import Client
from cell.egress.context import Context, Limits
from cell.egress.dial import Dialer
from cell.records import PhaseName

_BACKLOG = 1024
# Beyond the limit a client is told so; there is room for telling this many at a time.
_CROWD = 64


class Proxy:
    """All connections of one way out, whichever of its listeners they came by."""

    def __init__(self, context: Context, dialer: Dialer, limits: Limits | None = None) -> None:
        self._context, self._dialer, self._limits = context, dialer, limits or Limits()
        self._clients: set[Client] = set()
        self._listeners: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._empty = asyncio.Event()
        self._empty.set()
        self._closing = False

    def __len__(self) -> int:
        """How many connections are open, tunnels among them."""
        return len(self._clients)

    async def serve(self, listener: socket.socket) -> None:
        """Accept on a bound socket from now on. It is the proxy's now, and closed by it.

        Who keeps a duplicate of it keeps the port, if it was chosen and not the kernel's choice: `close`
        ends the listening of both, and the duplicate, still bound, can be served again.
        """
        listener.setblocking(False)
        self._listeners.append(listener)
        self._servers.append(
            await asyncio.get_running_loop().create_server(self.client, sock=listener, backlog=_BACKLOG)
        )

    async def close(self) -> None:
        """Close the listeners and cut what is open; returns when all of it is gone and recorded."""
        self._closing = True
        for listener in self._listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
        for server in self._servers:
            server.close()
        self.cut("the way out was closed")
        await self._empty.wait()

    def cut(self, why: str, phase: PhaseName | None = None) -> None:
        """Cut every open connection (of callers in one phase), each attempt recorded with `why`."""
        for client in tuple(self._clients):
            if phase is None or (client.caller is not None and client.caller.phase == phase):
                client.cut(why)

    def client(self) -> Client:
        """Return the protocol of one more connection, for whoever accepted it elsewhere."""
        return Client(self._context, self._dialer, self._limits, self._entered, self._left)

    def _entered(self, client: Client) -> str:
        self._clients.add(client)
        self._empty.clear()
        crowd = len(self._clients) - self._limits.connections
        if self._closing or crowd > _CROWD:
            client.cut("there is no room")
        return f"more than {self._limits.connections} connections are open" if crowd > 0 else ""

    def _left(self, client: Client) -> None:
        self._clients.discard(client)
        if not self._clients:
            self._empty.set()
