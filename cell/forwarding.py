"""A person's way to what the agent serves: a port of the world's own loopback, and no other place."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

import asyncssh
from asyncssh.stream import SSHTCPStreamSession

from .errors import CellError
from .gate import Grant
from .plain import plain
from .records import Principal
from .workspace import Workspace

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_CHUNK = 1 << 16


async def forward(
    workspace: Workspace, principal: Principal, host: str, port: int, *, grant: Grant | None, known: set[int]
) -> SSHTCPStreamSession[bytes]:
    """Connect to `port` inside; the answer carries a channel to it. `known` are the ports noted already.

    Errors: asyncssh.ChannelOpenError, with the gate's reason, or the kernel's.
    """
    try:
        workspace.ask(principal, "forward", f"{plain(host, limit=80)}:{port}", grant=grant)
    except CellError as error:
        raise _closed(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, str(error)) from None
    if host not in _LOOPBACK:
        raise _closed(
            asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "only the world's own loopback: say localhost:PORT"
        )
    try:
        _, (descriptor,) = await workspace.sandbox.network("connect", port=port)
    except (OSError, CellError) as error:
        raise _closed(asyncssh.OPEN_CONNECT_FAILED, f"port {port}: {error}") from None
    if port not in known:
        known.add(port)
        workspace.hands_on(principal, f"connected to port {port} inside")
    inside = socket.socket(fileno=descriptor)

    async def relay(reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes]) -> None:
        await _relay(workspace, inside, reader, writer)

    return SSHTCPStreamSession(relay)


async def _relay(workspace: Workspace, inside: socket.socket, reader: Any, writer: Any) -> None:
    near_reader, near = await asyncio.open_connection(sock=inside)

    def cut() -> None:
        near.transport.abort()
        writer.channel.abort()

    workspace.forwards.add(cut)
    try:
        await asyncio.gather(_pump(reader, near), _pump(near_reader, writer))
    except (OSError, asyncssh.Error):
        pass  # one side has gone; so the other one does
    finally:
        workspace.forwards.discard(cut)
        near.close()
        writer.close()
        with suppress(OSError, asyncssh.Error):
            await near.wait_closed()


async def _pump(source: Any, target: Any) -> None:
    while data := await source.read(_CHUNK):
        target.write(data)
        await target.drain()
    with suppress(OSError, RuntimeError):  # gone already
        target.write_eof()


def _closed(code: int, reason: str) -> asyncssh.ChannelOpenError:
    return asyncssh.ChannelOpenError(code, plain(reason, limit=200))
