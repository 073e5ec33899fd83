"""Addresses that stand for names, inside one network namespace and nowhere else.

The block is 198.18.0.0/15, with 2001:2::/48 beside it: reserved for measuring equipment (RFC 2544, RFC
5180), so no host of the internet has such an address, no task can mean one, and no private network
of the task's own world (10/8, 192.168/16, ULA) is in the way. No rule ever admits a literal in it.

An address keeps its name while it may be in use: while a connection to it is open, and for an hour
after it was last told or connected to. Where all are in use, there is none for a new name, until another
phase begins with what is not connected to being forgotten.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

BLOCK = ipaddress.IPv4Network("198.18.0.0/15")
BLOCK6 = ipaddress.IPv6Network("2001:2::/48")
REST = 3600.0  # seconds
_CAPACITY = 32768

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass
class _Lent:
    index: int
    last: float
    open: int = 0


class Pool:
    """Names and the addresses that stand for them. `clock` is in seconds."""

    def __init__(self, capacity: int = _CAPACITY, clock: Callable[[], float] = time.monotonic) -> None:
        if not 0 < capacity < BLOCK.num_addresses - 1:
            raise ValueError("the block has not so many addresses")
        self._capacity, self._clock = capacity, clock
        self._lent: OrderedDict[str, _Lent] = OrderedDict()  # the one longest unused first
        self._names: dict[int, str] = {}
        self._fresh, self._free = 1, deque[int]()

    def __len__(self) -> int:
        return len(self._lent)

    def address(self, name: str, version: int = 4) -> Address | None:
        """Return the address that stands for a (canonical) name; None when all are in use."""
        lent = self._lent.get(name)
        if lent is None:
            index = self._take()
            if index is None:
                return None
            self._names[index] = name
            lent = self._lent[name] = _Lent(index, self._clock())
        self._use(name, lent)
        return (BLOCK if version == 4 else BLOCK6)[lent.index]

    def name(self, address: Address) -> str | None:
        """Return the name that an address stands for, None if it stands for none."""
        name = self._names.get(_index(address))
        if name is not None:
            self._use(name, self._lent[name])
        return name

    def __contains__(self, name: str) -> bool:
        """Say whether a name has an address."""
        return name in self._lent

    def forget(self) -> None:
        """Take back all that nobody is connected to."""
        for name in [name for name, lent in self._lent.items() if not lent.open]:
            self._free.append(self._drop(name))

    def opened(self, address: Address) -> None:
        """Note that a connection to the address is open: it keeps its name until `closed`."""
        if name := self.name(address):
            self._lent[name].open += 1

    def closed(self, address: Address) -> None:
        """Note that one of them is over."""
        if name := self.name(address):
            self._lent[name].open -= 1

    def _use(self, name: str, lent: _Lent) -> None:
        lent.last = self._clock()
        self._lent.move_to_end(name)

    def _take(self) -> int | None:
        """Return an index that nobody has: one that nobody ever had, as long as there is one."""
        if self._fresh <= self._capacity:
            self._fresh += 1
            return self._fresh - 1
        if self._free:
            return self._free.popleft()
        ended = self._clock() - REST
        for name, lent in self._lent.items():
            if lent.last > ended:
                return None
            if not lent.open:
                return self._drop(name)
        return None

    def _drop(self, name: str) -> int:
        index = self._lent.pop(name).index
        del self._names[index]
        return index


def holds(address: Address) -> bool:
    """Say whether an address is one of the block's, lent or not."""
    return address in (BLOCK if address.version == 4 else BLOCK6)


def _index(address: Address) -> int:
    if not holds(address):
        return 0
    return int(address) - int((BLOCK if address.version == 4 else BLOCK6).network_address)
