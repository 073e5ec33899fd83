"""The verifier's own way out: it listens while a verification runs, and admits its processes alone.

Where the agent's phase has a network, the transparent way is there already, and each of its connections is
judged by whose it is. Where it has none, the world has to look like that (SPEC N1) until the verifier runs:
so then the rules of the kernel, the name server and the line that names it are made when it starts, and taken
away when it has ended. What the agent started meanwhile finds a network, too, and is refused by owner.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from .border import Border
from .egress.context import Limits
from .egress.dial import Dialer
from .egress.names import NameServer
from .egress.pool import Pool
from .egress.proxy import Proxy
from .egress.transparent import Transparent
from .errors import HarnessError
from .sandbox import Sandbox

_BACKLOG = 1024


class OwnWay:
    """One verification's: `serve`, `reach` where the agent has no network, `close`.

    `over` are files that have another content in the verifier's view, `lost` what it goes without because
    the agent has it.
    """

    def __init__(self, border: Border, dialer: Dialer, limits: Limits) -> None:
        self.over: tuple[tuple[str, bytes], ...] = ()
        self.lost: tuple[str, ...] = ()
        self._border, self._pool = border, Pool()
        only = border.only_verifier()
        self._proxy = Proxy(only, dialer, limits)
        self._caught = Transparent(only, dialer, self._pool, self._proxy.client, limits)
        self.ways = (self._caught, self._proxy)
        self._listeners: Sequence[socket.socket] = ()
        self._sandbox: Sandbox | None = None
        self._answering: asyncio.Task[None] | None = None
        self._names: list[socket.socket] = []

    async def serve(self, listeners: Sequence[socket.socket]) -> None:
        """Have bound sockets listen. They stay bound when this is over. Errors: HarnessError."""
        self._listeners = listeners
        for listener in listeners:
            _listen(listener)
            await self._caught.serve(socket.socket(fileno=os.dup(listener.fileno())))

    async def reach(self, sandbox: Sandbox, *, ipv6: bool) -> None:
        """Have every connection to elsewhere brought here, and names answered."""
        self._sandbox = sandbox
        try:
            facts, made = await sandbox.network("visit", ipv6=ipv6)
        except OSError as error:
            self._border.broke(f"there is no transparent way for the verifier: {error.strerror}")
            return
        self._names = [socket.socket(fileno=descriptor) for descriptor in made]
        for said in facts["refused"]:
            self._border.broke(f"the verifier's transparent way is not whole: {said}")
        if not self._names:
            self.lost = ("port 53: held by a program of the agent's, so no name is answered",)
            return
        border, server = self._border, facts["names"]
        asked, may_name = partial(border.asked, server), partial(border.may_name, server)
        names = NameServer(self._pool, asked, may_name=may_name, ipv6=ipv6)
        self._answering = asyncio.create_task(names.serve(*self._names))
        self.over = (("/etc/resolv.conf", f"nameserver {facts['names']}\n".encode()),)

    async def close(self) -> None:
        """Cut and record all, and leave the world as it was."""
        for listener in self._listeners:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        # which ends the listening of our descriptors, too; a second time would be taken for the two
        # directions of every connection to come (inet_shutdown in the kernel)
        for way in self.ways:
            await way.close()
        if self._answering is not None:
            self._answering.cancel()
            await asyncio.wait([self._answering])
        for one in self._names:
            one.close()
        if self._sandbox is not None:
            with suppress(HarnessError):  # it has gone, and all of it with it
                facts, _ = await self._sandbox.network("leave")
                for said in facts["refused"]:
                    self._border.broke(f"what was made for the verifier's network stayed: {said}")


def _listen(listener: socket.socket) -> None:
    """Have a bound socket listen, once more if need be.

    What an earlier verification left in TIME_WAIT would refuse that for a minute, but for SO_REUSEADDR, then
    and now. While a socket that only is bound has it, somebody else could bind the port as well: so it has
    it only while it listens. Errors: HarnessError, should somebody have been that quick.
    """
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        raise HarnessError(f"the verifier's way out cannot listen: {error.strerror}") from error
