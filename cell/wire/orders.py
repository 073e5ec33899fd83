"""What a proxy's conversation (`wire`) wants done, as values: record, dial, send, close, or step aside."""

from __future__ import annotations

import msgspec

from cell.policy import Decision, hosts
from cell.policy.hosts import Host
from cell.wire.heads import Request


class Attempt(msgspec.Struct, frozen=True):
    """One attempt to leave, as it is recorded. Host and method are empty for what was not understood."""

    method: str
    host: Host
    port: int
    path: str
    allowed: bool
    rule: str
    reason: str
    address_class: str = ""
    status: int = 0


class Dial(msgspec.Struct, frozen=True):
    """Find and vet an address, record the attempt, and connect; `reached` or `failed` must follow.

    `again`: the attempt is recorded, only the connection is to be made once more.
    """

    attempt: Attempt
    again: bool = False


class Record(msgspec.Struct, frozen=True):
    """Record the attempt: it was refused, or it goes over the connection to the origin that is there."""

    attempt: Attempt


class ToClient(msgspec.Struct, frozen=True):
    """Send bytes to the client."""

    data: bytes


class ToOrigin(msgspec.Struct, frozen=True):
    """Send bytes to the origin."""

    data: bytes


class Over(msgspec.Struct, frozen=True):
    """The attempt recorded last has ended: bytes from and to the client, and what went wrong, if anything."""

    status: int
    sent: int
    received: int
    error: str = ""


class CloseOrigin(msgspec.Struct, frozen=True):
    """Drop the connection to the origin."""


class CloseClient(msgspec.Struct, frozen=True):
    """Close the client's connection once all is sent; with `cut` at once, so that it sees bytes missing."""

    cut: bool = False


class Tunnel(msgspec.Struct, frozen=True):
    """From now on pass bytes on unread, these first. Its caller says when it is over.

    `hello`: a TLS client has to ask for this host by name.
    """

    to_origin: bytes
    to_client: bytes
    status: int
    sent: int
    received: int
    hello: Host | None = None


Command = Dial | Record | ToClient | ToOrigin | Over | CloseOrigin | CloseClient | Tunnel


def attempt(request: Request, decision: Decision) -> Attempt:
    """Return what is recorded of a request and what was decided about it."""
    other = request.claimed and not _same(request.claimed, request)
    return Attempt(
        request.method,
        request.host,
        request.port,
        request.path,
        decision.allowed,
        decision.rule,
        f"{decision.reason}; its Host header names another host" if other else decision.reason,
        decision.address_class,
        0 if decision.allowed else 403,
    )


def malformed(status: int, words: str) -> Attempt:
    """Return what is recorded of a request that was not understood."""
    return Attempt("", Host(""), 0, "", False, "malformed", words, status=status)


def _same(claimed: str, request: Request) -> bool:
    try:
        return hosts.authority(claimed, request.port) == (request.host, request.port)
    except ValueError:
        return False
