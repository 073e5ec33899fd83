"""What is done in the sandbox's network namespace. A socket belongs to the namespace it was made in,
whoever holds it: made here, used outside, and nothing of ours runs inside."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from . import ends

_PATIENCE = 10.0  # seconds that a connection to the world's own loopback may take

# what comes back: facts that can be marshalled, and descriptors
Made = tuple[dict[str, Any], list[int]]


def connect(request: dict[str, Any]) -> Made:
    """Connect to a server of the world's loopback, at `port`: IPv4 first, then IPv6."""
    failure: OSError | None = None
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        one = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            one.settimeout(_PATIENCE)
            one.connect((host, request["port"]))
        except OSError as error:
            one.close()
            failure = failure or error
        else:
            one.setblocking(False)
            return {}, [one.detach()]
    raise failure or OSError("nothing to connect to")


ACTIONS: dict[str, Callable[[dict[str, Any]], Made]] = {
    "connect": connect,
    "prepare": ends.prepare,
    "visit": ends.visit,
    "leave": ends.leave,
}
