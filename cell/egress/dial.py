"""From an allowed host to a connection: one resolution, every address of it vetted, a vetted one dialled.

A name leads to public addresses only (promise N4). An address that the client gave itself was decided by
the policy; it is only held to be none of the substrate's own. Nothing is resolved a second time: what was
vetted is what is dialled.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from cell.policy import addresses
from cell.policy.addresses import NEVER, PUBLIC, Network
from cell.policy.hosts import IP, Host

P = TypeVar("P", bound=asyncio.BaseProtocol)
Resolver = Callable[[str], Awaitable[Sequence[IP]]]
Classifier = Callable[[IP], str]

# RFC 8305: the next address is tried before the first one has failed.
_STAGGER = 0.25
_MOST = 6


class NoWay(Exception):
    """There is no way to a host. `words` is for the client and holds no address that it did not send.

    `denied` says that the address was refused, not that it failed. `address` and `kind` (its class) are
    for the record.
    """

    def __init__(
        self, status: int, words: str, *, denied: bool = False, address: str = "", kind: str = ""
    ) -> None:
        super().__init__(words)
        self.status, self.words, self.denied, self.address, self.kind = status, words, denied, address, kind


@dataclass(frozen=True)
class Found:
    """Vetted addresses of one host, the first choice first, and the class of that."""

    host: Host
    addresses: tuple[IP, ...]
    kind: str


async def system_resolver(name: str) -> Sequence[IP]:
    """Ask the substrate's resolver. Raises OSError where it knows nothing."""
    loop = asyncio.get_running_loop()
    # With a dot at its end, no search domain of the substrate is tried.
    answers = await loop.getaddrinfo(f"{name}.", 0, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(str(address[0]).partition("%")[0]) for *_, address in answers]


def classify(ip: IP) -> str:
    """Return the class of an address: `own` for one of the substrate's interfaces, else the table's."""
    kind = addresses.described(ip)
    return "own" if kind == PUBLIC and is_own(ip) else kind


def is_own(ip: IP) -> bool:
    """Ask the kernel whether packets to `ip` would stay on this machine; nothing is sent."""
    family = socket.AF_INET if ip.version == 4 else socket.AF_INET6
    with closing(socket.socket(family, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect((str(ip), 9))
            # From itself, or from the loopback, is how the kernel reaches an address of its own.
            source = ipaddress.ip_address(probe.getsockname()[0].partition("%")[0])
            return source == ip or source.is_loopback
        except OSError:
            return False


class Dialer:
    """Finds and connects.

    `also` are networks of the operator's, a mirror's or a company's say, to which a name may lead besides
    public ones; nothing of `addresses.NEVER` is opened by them. `patience` is the time in seconds for a
    resolution, and for a connection. The rest are parameters for tests alone.
    """

    def __init__(
        self,
        resolve: Resolver = system_resolver,
        classify: Classifier = classify,
        own: Callable[[IP], bool] = is_own,
        also: Sequence[Network] = (),
        patience: float = 20.0,
    ) -> None:
        self._resolve, self._classify, self._own = resolve, classify, own
        self._also, self._patience = tuple(also), patience

    async def find(self, host: Host, port: int = 0) -> Found:
        """Return the addresses at which an allowed host may be dialled. Raises NoWay."""
        if host.ip is not None:
            kind = addresses.described(host.ip)
            kind = "own" if kind not in NEVER and self._own(host.ip) else self._classify(host.ip)
            if kind.partition(" ")[0] in NEVER:
                raise _refused(host, host.ip, kind)
            return Found(host, (host.ip,), kind)
        try:
            async with asyncio.timeout(self._patience):
                found = list(dict.fromkeys(await self._resolve(host.text)))
        except TimeoutError:
            raise NoWay(504, f"{host} could not be resolved in time") from None
        except (OSError, UnicodeError):
            found = []
        if not found:
            raise NoWay(502, f"{host} cannot be resolved")
        kinds = {ip: self._classify(ip) for ip in found}
        fit = tuple(ip for ip in found if kinds[ip] == PUBLIC or self._opened(ip, kinds[ip]))
        if not fit:
            raise _refused(host, found[0], kinds[found[0]])
        return Found(host, fit[:_MOST], kinds[fit[0]])

    def _opened(self, ip: IP, kind: str) -> bool:
        named = any(ip.version == network.version and ip in network for network in self._also)
        return named and kind.partition(" ")[0] not in NEVER and not self._own(ip)

    async def connect(self, found: Found, port: int, made: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        """Connect to the first address that answers, `made` being the protocol. Raises NoWay."""
        try:
            async with asyncio.timeout(self._patience):
                if len(found.addresses) == 1:
                    loop = asyncio.get_running_loop()
                    return await loop.create_connection(made, str(found.addresses[0]), port)
                return await _first_of(found.addresses, port, made)
        except TimeoutError:
            raise NoWay(504, f"{found.host.at(port)} did not answer in time") from None
        except OSError as error:
            why = os.strerror(error.errno).lower() if error.errno else "connection failed"
            raise NoWay(502, f"{found.host.at(port)} cannot be reached: {why}") from None


def _refused(host: Host, ip: IP, kind: str) -> NoWay:
    words = f"denied: {host} leads to an address that is not public ({kind})"
    return NoWay(403, words, denied=True, address=str(ip), kind=kind)


async def _first_of(ips: Iterable[IP], port: int, made: Callable[[], P]) -> tuple[asyncio.Transport, P]:
    loop = asyncio.get_running_loop()
    left, tried = list(ips), set[asyncio.Task[tuple[asyncio.Transport, P]]]()
    failure: OSError | None = None
    try:
        while left or tried:
            if left:
                ip = left.pop(0)
                tried.add(asyncio.ensure_future(_one(loop, ip, port, made)))
            done, tried = await asyncio.wait(
                tried, timeout=_STAGGER if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                error = task.exception()
                if error is None:
                    return task.result()
                if not isinstance(error, OSError):
                    raise error
                failure = failure or error
    finally:
        for task in tried:
            task.cancel()
            task.add_done_callback(_drop)
    raise failure or OSError("no address")


async def _one(
    loop: asyncio.AbstractEventLoop, ip: IP, port: int, made: Callable[[], P]
) -> tuple[asyncio.Transport, P]:
    transport, protocol = await loop.create_connection(made, str(ip), port)
    return transport, protocol


def _drop(task: asyncio.Task[tuple[asyncio.Transport, P]]) -> None:
    """Drop a connection that was made too late."""
    if not task.cancelled() and task.exception() is None:
        task.result()[0].abort()
