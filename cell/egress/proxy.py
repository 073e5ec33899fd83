"""The forward proxy of a cell: it accepts outside what was asked for inside.

    proxy = Proxy(context, Dialer())
    await proxy.serve(listener)      # a socket that was made inside the sandbox's network namespace
    ...
    await proxy.close()              # nothing is accepted any more; what is open is cut, and recorded

Every attempt is written down before it is answered. What cannot be written down is not answered.
"""

from __future__ import annotations

import socket

from cell.egress.client import Client
from cell.egress.context import Context, Limits
from cell.egress.crossing import Crossings
from cell.egress.dial import Dialer

# Beyond the limit a client is told so; there is room for telling this many at a time.
_CROWD = 64


class Proxy(Crossings[Client]):
    """All connections of one way out, tunnels among them."""

    def __init__(self, context: Context, dialer: Dialer, limits: Limits | None = None) -> None:
        super().__init__()
        self._context, self._dialer, self._limits = context, dialer, limits or Limits()

    async def serve(self, listener: socket.socket) -> None:
        """Accept on a bound socket from now on; see `listen`."""
        await self.listen(listener, self.client)

    def client(self) -> Client:
        """Return the protocol of one more connection, for whoever accepted it elsewhere."""
        return Client(self._context, self._dialer, self._limits, self._entered, self.leave)

    def _entered(self, client: Client) -> str:
        self.enter(client)
        crowd = len(self) - self._limits.connections
        if self.closing or crowd > _CROWD:
            client.cut("there is no room")
        return self._limits.crowded.reason if crowd > 0 else ""
