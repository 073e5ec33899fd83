"""What a way out asks of its cell: who is calling, what is decided, where it is written down."""

from __future__ import annotations

import resource
import socket
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from cell.events import Egress, EgressEnd
from cell.policy import Decision
from cell.policy.hosts import Host
from cell.records import PhaseName

# What is decided for who is not known, or not admitted.
STRANGER = Decision(False, "owner", "denied: it is not known which process asks, or this way is not its own")


@dataclass(frozen=True)
class Caller:
    """The process inside that made a connection, as the cell knows it."""

    phase: PhaseName
    pid: int = 0
    command: str = ""
    session: int | None = None


class Context(Protocol):
    """The cell, seen from a way out. None of these may wait; what they raise closes the connection."""

    @property
    def phase(self) -> PhaseName:
        """The phase now, for the record of a caller who is not known."""

    def identify(self, accepted: socket.socket) -> Caller | None:
        """Say who is at the other end; None, where that is not known or not admitted, denies all of it."""

    def decide(self, caller: Caller, host: Host, port: int) -> Decision:
        """Decide one request by the policy of its caller as it is now."""

    def opened(self, event: Egress) -> int:
        """Write an attempt down, before it is answered. Its `hit` is 0; the number it got is returned."""

    def closed(self, event: EgressEnd) -> None:
        """Write down how an attempt ended."""


_MOST = 2048
# What the cell itself needs of its descriptors.
_OURS = 512


def room(ways: int = 2) -> int:
    """Return for how many connections of each of a cell's ways there are descriptors besides the cell's own.

    A connection needs two, and all ways may be full at once.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(_MOST, max(16, (soft - _OURS) // (2 * ways))) if soft > 0 else _MOST


@dataclass(frozen=True)
class Limits:
    """Times in seconds. Beyond `connections` the next one is answered with 503, and recorded.

    `head` is the time for a whole head or a TLS client's hello, `idle` for the next request, `stall` for
    anything to happen in an exchange, `tunnel` the same in a tunnel; `linger` for a client to take note
    of an end. `plain_on_443` admits what is not TLS on port 443.
    """

    connections: int = field(default_factory=room)
    head: float = 20.0
    idle: float = 120.0
    stall: float = 3600.0
    tunnel: float = 4 * 3600.0
    linger: float = 2.0
    plain_on_443: bool = True

    @cached_property
    def times(self) -> dict[str, float]:
        """The limits of what has one of its own, by name."""
        return {"head": self.head, "idle": self.idle, "closed": self.linger}

    @property
    def crowded(self) -> Decision:
        """What is decided where there is no room."""
        return Decision(False, "limit", f"more than {self.connections} connections are open")
