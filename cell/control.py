"""The `control` subsystem: requests to a cell, one frame each way.

A frame is a 4-byte big-endian length, a JSON object, and, if that says `"blob": N`, N raw bytes.
Request: `{"method": …, "args": {…}}`; answer: `{"result": …}` or `{"error": …, "kind": "refused" |
"task" | "harness"}`. Requests of one channel are answered in order.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from .errors import CellError, HarnessError, Refused, TaskError
from .gate import Grant
from .records import Principal
from .workspace import Workspace

_KINDS = ((Refused, "refused"), (TaskError, "task"), (CellError, "harness"))
_LARGEST = 1 << 20  # bytes of JSON
_LARGEST_BLOB = 1 << 30

# method → what it does; called after the gate allowed it
Handlers = dict[str, Callable[[Principal, dict[str, Any], bytes], Awaitable[Any]]]


async def serve(
    workspace: Workspace,
    principal: Principal,
    process: asyncssh.SSHServerProcess[bytes],
    handlers: Handlers,
    *,
    pid: int,
    grant: Grant | None = None,
) -> None:
    """Answer the requests of one channel until it ends; `grant` narrows what it may ask for."""
    while True:
        frame = await _receive(process.stdin)
        if frame is None:
            return
        request, blob = frame
        method, args = str(request.get("method")), request.get("args") or {}
        if grant is not None and grant.holder:
            args["who"] = grant.holder  # who it is was said when it was granted
        named = args.get("session")
        session = named if isinstance(named, int) else None
        try:
            workspace.ask(principal, method, _told(args), pid=pid, session=session, grant=grant)
            handler = handlers.get(method)
            if handler is None:
                raise Refused(f"{method} is not done by this version")
            answer: dict[str, Any] = {"result": await handler(principal, args, blob)}
        except CellError as error:
            kinds = [name for kind, name in _KINDS if isinstance(error, kind)]
            answer = {"error": str(error), "kind": kinds[0]}
        _send(process.stdout, answer)
        await process.stdout.drain()


def _told(args: dict[str, Any]) -> str:
    """What the journal says of a call: never values that may be secret."""
    return ", ".join(f"{key}={value}" for key, value in args.items() if key in _TELLING)


_TELLING = frozenset(
    {
        *("reason", "why", "keep", "what", "who", "session", "sessions", "freeze", "cols", "rows"),
        *("signal", "principal", "for_sec", "grant"),
    }
)


def _send(stream: Any, document: dict[str, Any], blob: bytes = b"") -> None:
    if blob:
        document = {**document, "blob": len(blob)}
    raw = json.dumps(document).encode()
    stream.write(len(raw).to_bytes(4, "big") + raw)
    if blob:
        stream.write(blob)


async def _receive(stream: Any) -> tuple[dict[str, Any], bytes] | None:
    try:
        size = int.from_bytes(await stream.readexactly(4), "big")
        if size > _LARGEST:
            raise HarnessError(f"a control frame of {size} bytes")
        document = json.loads(await stream.readexactly(size))
        length = int(document.get("blob", 0))
        if not 0 <= length <= _LARGEST_BLOB:
            raise HarnessError(f"a blob of {length} bytes")
        return document, await stream.readexactly(length) if length else b""
    except (asyncio.IncompleteReadError, asyncssh.Error, ConnectionError):
        return None


@dataclass
class Link:
    """The caller's end of a control channel."""

    connection: asyncssh.SSHClientConnection
    process: asyncssh.SSHClientProcess[bytes]

    @classmethod
    async def open(cls, runtime: Path, principal: Principal) -> Link:
        """Connect to a cell as `principal`; HarnessError when it does not answer."""
        connection = await connect(runtime, principal)
        process: asyncssh.SSHClientProcess[bytes] = await connection.create_process(
            subsystem="control", encoding=None, window=1 << 21
        )
        return cls(connection, process)

    async def call(self, method: str, blob: bytes = b"", **args: Any) -> Any:
        """Ask for one thing and return its result.

        Errors: Refused (the gate's reason), HarnessError (the cell failed, or has gone).
        """
        try:
            _send(self.process.stdin, {"method": method, "args": args}, blob)
            await self.process.stdin.drain()
        except (asyncssh.Error, OSError):
            raise HarnessError("the cell has gone") from None
        frame = await _receive(self.process.stdout)
        if frame is None:
            raise HarnessError("the cell has gone")
        answer, _ = frame
        if "error" in answer:
            raise (Refused if answer.get("kind") == "refused" else HarnessError)(answer["error"])
        return answer["result"]

    async def close(self) -> None:
        """Hang up."""
        self.connection.close()
        with suppress(asyncssh.Error, OSError):
            await self.connection.wait_closed()


async def connect(runtime: Path, principal: Principal) -> asyncssh.SSHClientConnection:
    """Return an SSH connection to the cell at `runtime`."""
    import socket

    loop = asyncio.get_running_loop()
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.setblocking(False)
    try:
        host_key = (runtime / "known_hosts").read_text("ascii").partition(" ")[2]
        await loop.sock_connect(stream, str(runtime / f"{principal}.sock"))
        return await asyncssh.connect(
            "cell",
            sock=stream,
            username=principal,
            client_keys=[str(runtime / f"{principal}.key")],
            # as a key: a unix socket has no address that a known_hosts file could be asked for
            known_hosts=([asyncssh.import_public_key(host_key)], [], []),
            config=None,
            agent_path=None,
            encryption_algs=["aes128-gcm@openssh.com"],
            compression_algs=None,
        )
    except (OSError, asyncssh.Error) as error:
        stream.close()
        raise HarnessError(f"the cell does not answer: {error}", remedy="see `cell ls`") from None
