"""One connection to the proxy: its sockets do what its conversation (`wire`) wants done."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from cell.egress.account import Account
from cell.egress.context import STRANGER, Caller, Context, Limits
from cell.egress.dial import Dialer, Found, NoWay
from cell.egress.patience import Patience
from cell.egress.relay import HIGH, Pipe
from cell.policy import Decision
from cell.policy.hosts import Host
from cell.wire import Conversation
from cell.wire.orders import (
    Attempt,
    CloseClient,
    CloseOrigin,
    Command,
    Dial,
    Over,
    Record,
    ToClient,
    ToOrigin,
    Tunnel,
)

# Closing with it resets the connection: the other end sees that bytes are missing.
_RESET = struct.pack("ii", 1, 0)


class Origin(asyncio.Protocol):
    """The connection to an origin, for as long as requests go over it.

    What it says before anybody listens is kept: a server of another protocol may speak first.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.said = b""
        self.ended = self.full = False
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; it is read when somebody listens."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=HIGH)
        self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        """Hand over what the origin says."""
        if self.client.origin is self:
            self.client.carry_out(self.client.wire.from_origin(data))
        else:
            self.said += data

    def eof_received(self) -> bool:
        """Hand over its end; the connection stays until its bytes are used."""
        self.ended = True
        if self.client.origin is self:
            self.client.carry_out(self.client.wire.from_origin(b""))
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Say that it broke."""
        if self.client.origin is self:
            self.client.origin = None
            why = (getattr(exc, "strerror", None) or type(exc).__name__).lower() if exc else "closed"
            self.client.carry_out(self.client.wire.origin_lost(why))

    def pause_writing(self) -> None:
        """Read no more of the client than the origin takes."""
        self.full = True
        self.client.settle()

    def resume_writing(self) -> None:
        """Go on."""
        self.full = False
        self.client.settle()


class Client(asyncio.Protocol):
    """The client's side. `entered` counts it in and says whether there is room, `left` counts it out."""

    def __init__(
        self,
        context: Context,
        dialer: Dialer,
        limits: Limits,
        entered: Callable[[Client], str],
        left: Callable[[Client], None],
    ) -> None:
        self._context, self._dialer, self._limits = context, dialer, limits
        self._entered, self._left = entered, left
        self.wire = Conversation(self._decide)
        self.origin: Origin | None = None
        self._account = Account(context)
        self._patience = Patience(limits, self._late)
        self._found: Found | None = None
        self._pipe: Pipe | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._unrecorded: Attempt | None = None
        self._ended = self._full = self._gone = False
        self._why = ""
        self._unsent = 0
        self.transport: asyncio.Transport

    # The client's socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Find out who it is; nobody is let through whose name is not known."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=HIGH)
        crowded, clean = self._entered(self), False
        try:
            self._account.caller = self._context.identify(transport.get_extra_info("socket"))
            clean = True
        finally:
            if not clean:
                self.transport.abort()
        self.carry_out(self.wire.refuse(503, crowded) if crowded else [])

    def data_received(self, data: bytes) -> None:
        """Hand over what the client says."""
        self.carry_out(self.wire.from_client(data))

    def eof_received(self) -> bool:
        """Hand over its end; it may still read."""
        self._ended = True
        if self.wire.state == "closed":
            self.transport.close()
        else:
            self.carry_out(self.wire.from_client(b""))
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """End what was under way, and record that."""
        self._gone = True
        self._patience.stop()
        if self._dialling is not None:
            self._dialling.cancel()
        try:
            if self._unrecorded is not None:
                self._account.opened(self._unrecorded)
            self.carry_out(self.wire.client_lost(self._why))
        finally:
            self._left(self)

    def pause_writing(self) -> None:
        """Read no more of the origin than the client takes."""
        self._full = True
        self.settle()

    def resume_writing(self) -> None:
        """Go on."""
        self._full = False
        self.settle()

    @property
    def caller(self) -> Caller | None:
        """Who it is, as far as that is known."""
        return self._account.caller

    def cut(self, why: str) -> None:
        """End it now; what was under way is recorded with `why`."""
        self._why = self._why or why
        if self._pipe is not None:
            self._pipe.cut(why)
        else:
            self._reset()

    # What the conversation wants done

    def carry_out(self, commands: list[Command]) -> None:
        """Do it in this order. If one cannot be done, none after it is, and the connection is cut."""
        clean = False
        try:
            for command in commands:
                if type(command) is ToClient:
                    self.transport.write(command.data)
                elif type(command) is ToOrigin and self.origin is not None:
                    self.origin.transport.write(command.data)
                else:
                    self._do(command)
            clean = True
        finally:
            if not clean:
                self._drop_origin()
                self.cut("it could not be recorded")
        self.settle()

    def _do(self, command: Command) -> None:
        match command:
            case Record(attempt):
                self._account.opened(attempt, self._found)
            case Over(status, sent, received, error):
                self._account.closed(status, sent, received, error=error)
                self._patience.wait_for("", anew=True)
            case Dial():
                self._dialling = asyncio.get_running_loop().create_task(self._dial(command))
            case CloseOrigin():
                self._drop_origin()
            case CloseClient(cut):
                self._close(cut)
            case Tunnel():
                self._tunnel(command)

    def settle(self) -> None:
        """Read whoever should be read, and wait for what is missing."""
        state, origin = self.wire.state, self.origin
        if state == "tunnel" or self._gone:
            return
        if self.wire.more:
            self.wire.more = False
            asyncio.get_running_loop().call_soon(lambda: self.carry_out(self.wire.go_on()))
        # What has ended is not read again: uvloop would tell its end once more.
        if not (self._ended or self.transport.is_closing()):
            # A client that does not read its answers gets no more of them.
            ahead = self.wire.full or (self._full and state == "head")
            if ahead or (origin is not None and origin.full and state == "reply"):
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()
        if origin is not None and not (origin.ended or origin.transport.is_closing()):
            if self._full:
                origin.transport.pause_reading()
            else:
                origin.transport.resume_reading()
        if state == "head" and self.wire.quiet and self._account.hit:
            self._patience.wait_for("idle")
        else:
            self._patience.wait_for(state, anew=state in {"dial", "reply"})

    def _decide(self, host: Host, port: int) -> Decision:
        if self._account.caller is None:
            return STRANGER
        if self._account.caller.phase == "verifier":
            # what the verifier's process has opened may be in other hands by now
            self._account.caller = self._context.identify(self.transport.get_extra_info("socket"))
            if self._account.caller is None:
                return STRANGER
        return self._context.decide(self._account.caller, host, port)

    async def _dial(self, dial: Dial) -> None:
        attempt, clean = dial.attempt, False
        self._found, self._unrecorded = None, None if dial.again else attempt
        try:
            try:
                self._found = await self._dialer.find(attempt.host, attempt.port)
                self._unrecorded = None
                if not dial.again:
                    self._account.opened(attempt, self._found)
                _, self.origin = await self._dialer.connect(self._found, attempt.port, lambda: Origin(self))
                commands = self.wire.reached()
            except NoWay as no:
                self._unrecorded = None
                if self._found is None and not dial.again:
                    self._account.opened(attempt, no=no)
                commands = self.wire.failed(no.status, no.words)
            clean = True
        finally:
            self._dialling = None
            if not clean:
                self.cut("it could not be recorded")
        self.carry_out(commands)
        if self.origin is not None and self.origin.said:
            self.carry_out(self.wire.from_origin(self.origin.said))

    def _drop_origin(self) -> None:
        if self.origin is not None:
            origin, self.origin = self.origin, None
            origin.transport.abort()

    def _close(self, cut: bool) -> None:
        if cut:
            self._reset()
        elif self._ended:
            self.transport.close()
        elif not self.transport.is_closing():
            # Closing with bytes unread would reset the connection, and the answer might be lost with it.
            self.transport.write_eof()

    def _reset(self) -> None:
        if not self.transport.is_closing():
            with (
                suppress(OSError),
                socket.fromfd(
                    self.transport.get_extra_info("socket").fileno(), socket.AF_INET, socket.SOCK_STREAM
                ) as same,
            ):
                same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    def _tunnel(self, tunnel: Tunnel) -> None:
        origin, self.origin = self.origin, None
        assert origin is not None
        self._patience.stop()

        def over(pipe: Pipe) -> None:
            sent, received = tunnel.sent + pipe.sent, tunnel.received + pipe.received
            try:
                self._account.closed(tunnel.status, sent, received, pipe.asked, error=pipe.error)
            finally:
                self._left(self)

        self._pipe = Pipe(
            self.transport,
            origin.transport,
            over,
            self._limits,
            hello=tunnel.hello,
            port=self._account.port,
        )
        said = tunnel.to_client + origin.said
        self._pipe.start(tunnel.to_origin, said, client_ended=self._ended, origin_ended=origin.ended)

    def _late(self, what: str) -> None:
        unsent = self.transport.get_write_buffer_size()
        if what == "closed" and 0 < unsent != self._unsent:
            # It reads, slowly, what is left for it.
            self._unsent = unsent
            self._patience.wait_for("closed", anew=True)
        elif what == "head" and not self.wire.quiet:
            self.carry_out(self.wire.refuse(408, "the head of the request took too long"))
        else:
            self.cut("nothing has happened for too long")
