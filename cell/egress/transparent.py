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
from collections.abc import Callable
from typing import cast

from cell.egress import pool
from cell.egress.account import Account
from cell.egress.context import STRANGER, Context, Limits
from cell.egress.crossing import Crossing, Crossings, Waiting
from cell.egress.dial import Dialer, Found, NoWay
from cell.egress.pool import Pool
from cell.egress.relay import Pipe
from cell.policy import Decision
from cell.policy.hosts import Host
from cell.wire.orders import Attempt

_RESET = struct.pack("ii", 1, 0)


class Transparent(Crossings[Crossing]):
    """All connections of the transparent way. `proxy` makes the protocol of one that wants the proxy."""

    def __init__(
        self,
        context: Context,
        dialer: Dialer,
        names: Pool,
        proxy: Callable[[], asyncio.Protocol],
        limits: Limits | None = None,
    ) -> None:
        super().__init__()
        self.context, self.dialer, self.names = context, dialer, names
        self.proxy, self.limits = proxy, limits or Limits()

    async def serve(self, listener: socket.socket) -> None:
        """Accept on a listener made inside from now on; it belongs to this, which closes it."""
        home = listener.getsockname()[:2]
        await self.listen(listener, lambda: _Door(self, home))


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


class _Caught(Crossing):
    """One connection to elsewhere, and what is done for it."""

    def __init__(self, way: Transparent, address: str, port: int) -> None:
        super().__init__(way, Account(way.context, "transparent"), way.context, way.limits)
        self.caught, self.port = way, port
        self.address = ipaddress.ip_address(address.partition("%")[0])
        self.host = Host(self.address.compressed, self.address)
        self.decision: Decision | None = None
        self.named = False

    async def carry(self) -> None:
        """Decide, find, dial; the rest is the pipe's."""
        decision = self.decision = self._decided()
        if not decision.allowed:
            self._record(decision)
            self.why = decision.reason
            return
        dialer = self.caught.dialer
        try:
            found = await dialer.find(self.host, self.port)
            self._record(decision, found)
            transport, origin = await dialer.connect(found, self.port, Waiting)
        except NoWay as no:
            if not self.account.hit:
                self._record(decision, no=no)
            self.why = no.words
            return
        self.join(
            origin,
            Pipe(self.transport, transport, self.piped, self.limits, hello=self.host, port=self.port),
        )

    def unrecorded(self) -> None:
        """Record what was cut while its name was looked up."""
        if self.decision is not None and not self.account.hit:
            self._record(self.decision)

    def refuse(self) -> None:
        """Reset it: there are no words to refuse with."""
        accepted = self.transport.get_extra_info("socket")
        if accepted is not None and not self.transport.is_closing():
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    def left(self) -> None:
        """Let its name's address go."""
        if self.named:
            self.named = False
            self.caught.names.closed(self.address)

    def _decided(self) -> Decision:
        way, caller = self.caught, self.identify()
        if pool.holds(self.address):
            name = way.names.name(self.address)
            if name is None:
                return Decision(False, "name pool", f"denied: {self.address} stands for no name")
            self.host = Host(name)
            self.named = True
            way.names.opened(self.address)
        if len(way) > way.limits.connections:
            return way.limits.crowded
        return STRANGER if caller is None else way.context.decide(caller, self.host, self.port)

    def _record(self, decision: Decision, found: Found | None = None, no: NoWay | None = None) -> None:
        allowed, kind = decision.allowed, decision.address_class
        self.decision = None  # what cannot be written down is not tried again
        attempt = Attempt("TCP", self.host, self.port, "", allowed, decision.rule, decision.reason, kind)
        self.account.opened(attempt, found, no)
