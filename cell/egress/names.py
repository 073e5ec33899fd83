"""The name server of a world with the transparent way: it answers from a pool and asks nobody.

A name that could be one gets an address that stands for it (`pool`); whether anything may be reached
there, and what it really resolves to, is decided when somebody connects. So nothing can be told to
the outside by asking for names. Each name is reported once, when it is first asked for.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from contextlib import suppress

from cell.egress.pool import Address, Pool, holds
from cell.policy import hosts
from cell.wire import dnsname

TTL = 60  # seconds
# Names of which no public resolver knows anything (RFC 6761, 6762, 7686).
_NEVER = ("invalid", "local", "onion", "home.arpa")
_PATIENCE = 10.0  # seconds that a TCP client may take for a question
_CLIENTS = 64  # TCP clients at once
_TURN = 32  # datagrams answered before others get a turn
_LOCAL: dict[int, Address] = {4: ipaddress.IPv4Address("127.0.0.1"), 6: ipaddress.IPv6Address("::1")}

# name, type of the question, the client's own end, is it UDP, and the code of the answer
Asked = Callable[[str, str, tuple[str, int], bool, int], None]
# whether who asks may have an address for a name that has none: the client's own end, and is it UDP
MayName = Callable[[tuple[str, int], bool], bool]


class NameServer:
    """Answers on two sockets that were made inside; `ipv6` says whether IPv6 leads anywhere there.

    `may_name` is asked before a name gets an address: else one who asks for all that there are would leave
    none to somebody else.
    """

    def __init__(
        self,
        pool: Pool,
        asked: Asked,
        *,
        may_name: MayName = lambda client, datagram: True,
        ipv6: bool = False,
        most_reports: int = 10_000,
    ) -> None:
        self.pool, self._asked, self._ipv6, self._most = pool, asked, ipv6, most_reports
        self._may_name = may_name
        self._told: set[str] = set()
        self._clients: set[asyncio.Task[None]] = set()

    def name_of(self, address: Address) -> str | None:
        """Return the name that an address of the pool stands for, None if it stands for none."""
        return self.pool.name(address)

    def begin_anew(self) -> None:
        """Forget what nobody is connected to, and report each name once more: another phase has begun."""
        self._told.clear()
        self.pool.forget()

    def respond(self, message: bytes, client: tuple[str, int], *, datagram: bool = True) -> bytes | None:
        """Return the answer to one message, None where there is none."""
        try:
            query = dnsname.parse(message)
        except dnsname.NotAQuery:
            return None
        if query.error:
            return dnsname.answer(query)
        code, data, kind = self._look_up(query, client, datagram=datagram)
        if code == dnsname.REFUSED:  # nor does a crowd of them fill the record
            return dnsname.answer(query, code=code)
        ours = query.name.endswith("localhost") or (kind == dnsname.PTR and bool(data))
        # beyond `most_reports` a program that makes up names would fill the journal
        if not ours and query.name not in self._told and len(self._told) < self._most:
            # what cannot be recorded is not answered, and is not taken for recorded
            self._asked(query.name, query.kind_name, client, datagram, code)
            self._told.add(query.name)
        return dnsname.answer(query, data, kind=kind, ttl=TTL if data else 0, code=code)

    def _look_up(
        self, query: dnsname.Query, client: tuple[str, int], *, datagram: bool
    ) -> tuple[int, tuple[bytes, ...], int]:
        """Return the code, the data, and their type."""
        if query.kind in (dnsname.PTR, dnsname.ANY) and query.name.endswith(".arpa"):
            name = self._reverse(query.name)
            if name is None:
                return dnsname.NXDOMAIN, (), 0
            return dnsname.NOERROR, (dnsname.encode_name(name),), dnsname.PTR
        try:
            host = hosts.canonical(query.name)
        except ValueError:
            return dnsname.NXDOMAIN, (), 0
        version = 6 if query.kind == dnsname.AAAA else 4
        wanted = query.kind in (dnsname.A, dnsname.AAAA, dnsname.ANY)
        kind = dnsname.AAAA if version == 6 else dnsname.A
        if host.text == "localhost" or host.text.endswith(".localhost"):
            return dnsname.NOERROR, (_LOCAL[version].packed,) if wanted else (), kind
        # a name without a dot is a host of a network that is not there
        if host.ip is not None or "." not in host.text or _never(host.text):
            return dnsname.NXDOMAIN, (), 0
        if not wanted or (version == 6 and not self._ipv6):
            return dnsname.NOERROR, (), 0
        if host.text not in self.pool and not self._may_name(client, datagram):
            return dnsname.REFUSED, (), 0
        address = self.pool.address(host.text, version)
        if address is None:
            return dnsname.SERVFAIL, (), 0
        return dnsname.NOERROR, (address.packed,), kind

    def _reverse(self, question: str) -> str | None:
        address = dnsname.reversed_address(question)
        if address is None:
            return None
        if address.is_loopback:
            return "localhost"
        return self.pool.name(address) if holds(address) else None

    # ── sockets ───────────────────────────────────────────────────────────────────────────────

    async def serve(self, datagrams: socket.socket, listener: socket.socket) -> None:
        """Answer until cancelled. The sockets are lent."""
        datagrams.setblocking(False)
        listener.setblocking(False)
        loop = asyncio.get_running_loop()
        loop.add_reader(datagrams, self._drain, datagrams)
        try:
            while True:
                try:
                    connection, client = await loop.sock_accept(listener)
                except OSError:
                    # out of descriptors, or the client has gone already
                    await asyncio.sleep(0.05)
                    continue
                if len(self._clients) >= _CLIENTS:
                    connection.close()
                    continue
                task = asyncio.create_task(self._converse(connection, (client[0], client[1])))
                self._clients.add(task)
                task.add_done_callback(self._clients.discard)
        finally:
            loop.remove_reader(datagrams)
            for task in self._clients:
                task.cancel()

    def _drain(self, datagrams: socket.socket) -> None:
        for _ in range(_TURN):
            try:
                message, client = datagrams.recvfrom(4096)
            except OSError:
                return
            reply = self.respond(message, (client[0], client[1]))
            if reply is not None:
                with suppress(OSError):  # its buffer is full, or it has gone: it asks again
                    datagrams.sendto(reply, client)

    async def _converse(self, connection: socket.socket, client: tuple[str, int]) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        try:
            while True:
                async with asyncio.timeout(_PATIENCE):
                    length = int.from_bytes(await reader.readexactly(2), "big")
                    reply = self.respond(await reader.readexactly(length), client, datagram=False)
                    if reply is None:
                        return
                    writer.write(len(reply).to_bytes(2, "big") + reply)
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


def _never(name: str) -> bool:
    return any(name == end or name.endswith(f".{end}") for end in _NEVER)
