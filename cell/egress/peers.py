"""Ways to declared peers: a connection to a peer's address inside is relayed to where the peer is.

A peer was handed to the world on purpose, so no policy decides; each connection is recorded all the same.
It stays when the agent phase is over: what the agent started and the verifier asks may need it.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Iterable

from cell.egress.account import Account
from cell.egress.context import STRANGER, Context, Limits
from cell.egress.crossing import Crossing, Crossings, Waiting
from cell.egress.dial import Found
from cell.egress.relay import Pipe
from cell.policy import Decision
from cell.policy.addresses import gives_credentials
from cell.policy.hosts import Host, canonical
from cell.wire.orders import Attempt

_PATIENCE = 20.0  # seconds
_DECLARED = Decision(True, "peer", "a declared peer", "peer")


class PeerWay(Crossings[Crossing]):
    """All connections to one peer, `name`:`port` inside and `target` (host, port) outside."""

    def __init__(
        self, context: Context, name: str, port: int, target: tuple[str, int], limits: Limits | None = None
    ) -> None:
        super().__init__()
        self.context, self.name, self.port, self.target = context, name, port, target
        self.limits = limits or Limits()

    async def serve(self, listener: socket.socket) -> None:
        """Accept on a listener made inside from now on; it belongs to this, which closes it."""
        await self.listen(listener, lambda: _ToPeer(self))


async def reach(host: str, port: int) -> tuple[asyncio.Transport, Waiting]:
    """Connect to the first address of a peer that answers. Raises OSError.

    A name is whatever this machine takes it for, also by its hosts file; but it leads to no address that
    hands out the machine's own credentials.
    """
    loop = asyncio.get_running_loop()
    answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure = OSError(errno.EACCES, "it leads to a metadata address")
    for address in vetted([str(answer[4][0]) for answer in answers]):
        try:
            return await loop.create_connection(Waiting, address, port)
        except OSError as error:
            failure = error
    raise failure


def vetted(addresses: Iterable[str]) -> list[str]:
    """Return those that may be dialled, each once; one of IPv6 may name its interface."""
    return [
        each
        for each in dict.fromkeys(addresses)
        if not gives_credentials(ipaddress.ip_address(each.partition("%")[0]))
    ]


class _ToPeer(Crossing):
    """One connection to the peer."""

    def __init__(self, way: PeerWay) -> None:
        super().__init__(way, Account(way.context, "peer"), way.context, way.limits)
        self.peer = way

    async def carry(self) -> None:
        """Identify, record and connect."""
        way, known = self.peer, self.identify() is not None
        decision = _DECLARED if known else STRANGER
        if len(way) > way.limits.connections:
            decision = way.limits.crowded
        self._record(decision)
        if not decision.allowed:
            self.why = decision.reason
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                transport, other = await reach(*way.target)
        except OSError as error:  # a timeout is one
            self.why = f"the peer cannot be reached: {error.strerror or 'in time'}".lower()
            return
        self.join(other, Pipe(self.transport, transport, self.piped, self.limits))

    def _record(self, decision: Decision) -> None:
        way, target = self.peer, canonical(self.peer.target[0])
        attempt = Attempt(
            "TCP", Host(way.name), way.port, "", decision.allowed, decision.rule, decision.reason, "peer"
        )
        self.account.opened(attempt, Found(target, (target.ip,), "peer") if target.ip else None)
