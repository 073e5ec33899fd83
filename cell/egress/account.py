"""What a connection's attempts become in the journal: opened before they are answered, then closed."""

from __future__ import annotations

import time
from typing import NamedTuple

from cell.egress.context import Caller, Context
from cell.egress.dial import Found, NoWay
from cell.events import Egress, EgressEnd, Way
from cell.plain import plain
from cell.wire.heads import told
from cell.wire.orders import Attempt


class Said(NamedTuple):
    """What a tunnel's client asked for in the clear of TLS; see `EgressEnd`."""

    sni: str = ""
    ech: bool = False
    denied: bool = False


NOTHING = Said()


class Account:
    """The records of one connection: one attempt after the other. `caller` None is not known."""

    def __init__(self, context: Context, way: Way = "proxy") -> None:
        self._context, self._way = context, way
        self.caller: Caller | None = None
        self.hit, self.port = 0, 0
        self._began, self._open = 0.0, False

    def opened(self, attempt: Attempt, found: Found | None = None, no: NoWay | None = None) -> None:
        """Record an attempt: where it leads (`found`), or why there is no way (`no`)."""
        self._began, self.port = time.monotonic(), attempt.port
        denied = no is not None and no.denied
        caller = self.caller or Caller(self._context.phase)
        address, kind = "", attempt.address_class
        if no is not None:
            address, kind = no.address, no.kind
        elif found is not None and attempt.allowed:
            address, kind = str(found.addresses[0]), found.kind
        self.hit = self._context.opened(
            Egress(
                hit=0,
                phase=caller.phase,
                way=self._way,
                method=plain(attempt.method, limit=40),
                host=attempt.host.text,
                port=attempt.port,
                allowed=attempt.allowed and not denied,
                rule=f"address: {kind}" if denied else attempt.rule,
                reason=no.words if no is not None and denied else attempt.reason,
                path=plain(told(attempt.path)),
                session=caller.session,
                pid=caller.pid,
                command=caller.command,
                address=address,
                address_class=kind,
                status=no.status if no is not None else attempt.status,
            )
        )
        self._open = True

    def closed(self, status: int, sent: int, received: int, said: Said = NOTHING, *, error: str = "") -> None:
        """Record the end of the attempt that was opened last, if it could be opened."""
        if not self._open:
            return
        self._open = False
        ms = round((time.monotonic() - self._began) * 1000, 3)
        self._context.closed(
            EgressEnd(
                hit=self.hit,
                status=status,
                sent=sent,
                received=received,
                ms=ms,
                sni=said.sni,
                ech=said.ech,
                denied=said.denied,
                error=error,
            )
        )
