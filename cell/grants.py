"""Access handed to a colleague: a key of their own, narrowed, with an end, and revocable (promise G3).

A grant's key is one more key at a principal's socket. Whoever proves it is that principal, and every
call is narrowed by the gate; when the grant ends its connections are cut. All grants die with the
process that holds them, and so with the rollout.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .gate import Grant
from .records import Principal


@dataclass(eq=False)
class Granted:
    """A grant with its key (the public half, as it travels) and the connections that use it now."""

    id: str
    grant: Grant
    key: bytes
    cuts: set[Callable[[], None]] = field(default_factory=set)
    timer: asyncio.TimerHandle | None = None

    def told(self) -> dict[str, Any]:
        """Return what there is to know of it, without the key."""
        grant = self.grant
        return {
            "id": self.id,
            "principal": grant.principal,
            "holder": grant.holder,
            "until": grant.until,
            "sessions": sorted(grant.sessions) if grant.sessions is not None else None,
            "connections": len(self.cuts),
        }


class Grants:
    """The grants of one cell."""

    def __init__(self) -> None:
        self._all: dict[str, Granted] = {}
        self._count = 0

    def add(self, grant: Grant, key: bytes) -> Granted:
        """Take in a grant; at its `until` it ends by itself."""
        self._count += 1
        granted = Granted(f"g{self._count}", grant, key)
        self._all[granted.id] = granted
        if grant.until is not None:
            loop = asyncio.get_running_loop()
            granted.timer = loop.call_later(max(0.0, grant.until - time.time()), self._end, granted)
        return granted

    def find(self, principal: Principal, key: bytes) -> Granted | None:
        """Return the grant that a key proves at a principal's socket, while it lasts."""
        for granted in self._all.values():
            lasts = granted.grant.until is None or time.time() < granted.grant.until
            if granted.grant.principal == principal and granted.key == key and lasts:
                return granted
        return None

    def revoke(self, wanted: str) -> list[Granted]:
        """End the grant of this id, or all of this holder; return them."""
        found = [one for one in self._all.values() if wanted in (one.id, one.grant.holder)]
        for granted in found:
            self._end(granted)
        return found

    def told(self) -> list[dict[str, Any]]:
        """Return what there is to know of all that last."""
        return [granted.told() for granted in self._all.values()]

    def _end(self, granted: Granted) -> None:
        self._all.pop(granted.id, None)
        if granted.timer is not None:
            granted.timer.cancel()
        for cut in list(granted.cuts):
            cut()
        granted.cuts.clear()
