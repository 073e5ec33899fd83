"""Two connected transports become one pipe: bytes pass unread, each direction ends by itself.

A TLS client inside a tunnel to a named host has to ask for that very host. Its first bytes are held back
until that is seen; nothing is opened, only the name in the clear is compared. In a tunnel to an address the
name is recorded and no more: who allows an address allows what answers there, whatever it is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cell.egress.account import NOTHING, Said
from cell.egress.context import Limits
from cell.plain import plain
from cell.policy import hosts
from cell.policy.hosts import Host
from cell.wire import clienthello
from cell.wire.clienthello import Hello

# What may wait in each direction, in bytes.
HIGH = 256 * 1024


class End(asyncio.Protocol):
    """One side of a pipe; what it reads, the other side writes."""

    def __init__(self, pipe: Pipe, transport: asyncio.Transport) -> None:
        self.pipe, self.transport = pipe, transport
        self.other: End = self
        self.moved, self.ended = 0, False

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        self.moved += len(data)
        self.other.transport.write(data)

    def eof_received(self) -> bool:
        """Pass the end of this direction on; the other one drains."""
        self.ended = True
        if self.other.ended:
            self.pipe.close()
        elif not self.other.transport.is_closing():
            self.other.transport.write_eof()
        return True

    def pause_writing(self) -> None:
        """Read no more than this side takes."""
        if not self.other.transport.is_closing():
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        if not (self.other.ended or self.other.transport.is_closing()):
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the other side down, too."""
        self.pipe.lost(exc)


class Asking(End):
    """The client's side while its first bytes are held: another End takes over when they are understood."""

    held = b""

    def data_received(self, data: bytes) -> None:
        """Hold bytes back until it is known what they are."""
        self.held += data
        hello = clienthello.read(self.held)
        if hello is not None and self.pipe.admits(hello):
            self.pipe.understood(self.held)

    def eof_received(self) -> bool:
        """A hello that is not whole asks for nothing; a client that says nothing may still listen."""
        if self.held and not self.pipe.admits(clienthello.BROKEN):
            return False
        return super().eof_received()


class Pipe:
    """Both sides, from the moment they are joined until both are gone. `over` is called once, with the end.

    With `hello`, a TLS client has to ask for that host, where it is a name. `port` is the one it is at.
    """

    def __init__(
        self,
        client: asyncio.Transport,
        origin: asyncio.Transport,
        over: Callable[[Pipe], None],
        limits: Limits,
        *,
        hello: Host | None = None,
        port: int = 0,
    ) -> None:
        self.asked, self.error = NOTHING, ""
        self._over, self._limits, self._hello, self._port = over, limits, hello, port
        self._loop = asyncio.get_running_loop()
        self.client: End = (Asking if hello is not None else End)(self, client)
        self.origin = End(self, origin)
        self.client.other, self.origin.other = self.origin, self.client
        for end in (self.client, self.origin):
            end.transport.set_write_buffer_limits(high=HIGH)
            end.transport.set_protocol(end)
        self._lost = 0
        self._seen = 0
        asking = hello is not None
        self._timer = self._loop.call_later(limits.head if asking else limits.tunnel, self._look)

    def start(
        self, to_origin: bytes, to_client: bytes, *, client_ended: bool = False, origin_ended: bool = False
    ) -> None:
        """Pass on what came before, and read both sides from now on.

        A side that has `ended` already says no more.
        """
        if to_client:
            self.origin.data_received(to_client)
        if to_origin:
            self.client.data_received(to_origin)
        if client_ended:
            self.client.eof_received()
        if origin_ended:
            self.origin.eof_received()
        for end in (self.client, self.origin):
            if not (end.ended or end.transport.is_closing()):
                end.transport.resume_reading()

    @property
    def sent(self) -> int:
        """Bytes that went from the client to the origin."""
        return self.client.moved

    @property
    def received(self) -> int:
        """Bytes that went from the origin to the client."""
        return self.origin.moved

    def admits(self, hello: Hello) -> bool:
        """Say whether the client may go on after these first bytes; it is cut off if not."""
        self.asked = Said(plain(hello.sni, limit=300), hello.ech)
        wanted = self._hello
        if hello.kind == "plain":
            if self._port != 443 or self._limits.plain_on_443:
                return True
            self._deny("what is not TLS is not admitted on port 443")
        elif hello.kind == "broken":
            self._deny("the TLS hello is malformed")
        elif hello.sni and wanted is not None and wanted.ip is None and not _same(hello.sni, wanted):
            self._deny(f"TLS asks for {self.asked.sni}, the connection is to {wanted}")
        else:
            return True
        return False

    def _deny(self, why: str) -> None:
        self.asked = self.asked._replace(denied=True)
        self.cut(why)

    def understood(self, held: bytes) -> None:
        """Pass on what was held, and read no more of what comes after."""
        asking, self.client = self.client, End(self, self.client.transport)
        self.client.other, self.origin.other = self.origin, self.client
        self.client.ended = asking.ended
        self.client.transport.set_protocol(self.client)
        self.client.data_received(held)
        self._timer.cancel()
        self._timer = self._loop.call_later(self._limits.tunnel, self._look)

    def close(self) -> None:
        """Close both sides once all is sent."""
        for end in (self.client, self.origin):
            end.transport.close()

    def cut(self, error: str) -> None:
        """Close both sides now."""
        self.error = self.error or error
        for end in (self.client, self.origin):
            end.transport.abort()

    def lost(self, exc: Exception | None) -> None:
        """Take note that one side is gone."""
        self._lost += 1
        if exc is not None:
            self.error = self.error or (getattr(exc, "strerror", None) or type(exc).__name__).lower()
            self.cut(self.error)
        else:
            self.close()
        if self._lost == 2:
            self._timer.cancel()
            self._over(self)

    def _look(self) -> None:
        """Cut a pipe in which nothing has moved for its time."""
        if isinstance(self.client, Asking):
            if self.client.held:
                self.cut("the TLS hello took too long")
                return
        elif self.sent + self.received == self._seen:
            self.cut("nothing has moved for too long")
            return
        self._seen = self.sent + self.received
        self._timer = self._loop.call_later(self._limits.tunnel, self._look)


def _same(sni: str, host: Host) -> bool:
    try:
        return hosts.canonical(sni) == host
    except ValueError:
        return False


def pause_soon(transport: asyncio.Transport) -> None:
    """Read no more of a connection that was only just made.

    uvloop begins to read after `connection_made`, whatever was asked for in it (seen with 0.23); a little
    may come before this works, and has to be kept.
    """
    asyncio.get_running_loop().call_soon(_pause, transport)


def _pause(transport: asyncio.Transport) -> None:
    if not transport.is_closing():
        transport.pause_reading()
