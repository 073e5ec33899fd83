"""The one wire: SSH on a unix socket per principal (promises G1, T1–T9).

A principal is proved by its key *and* by the socket it came in on. `agent` opens sessions; the
others get the `control` subsystem (JSON requests, `control`) and `watch N`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh.misc import SoftEOFReceived

from . import control, kernel
from .errors import CellError, Refused
from .plain import plain
from .records import Principal
from .sandbox import StartFailed
from .session import Input, Outcome
from .workspace import Terminal, Workspace

PRINCIPALS: tuple[Principal, ...] = ("agent", "viewer", "operator", "runner")
# The fastest of OpenSSH's ciphers here, by a factor of two (measured); what a client may fall back on.
_CIPHERS = ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes128-ctr"]
_WINDOW = 1 << 21

Handler = Callable[[Principal, "asyncssh.SSHServerProcess[bytes]"], Awaitable[None]]


class _Door(asyncssh.SSHServer):
    """One connection: who may come in through this socket."""

    def __init__(self, principal: Principal, workspace: Workspace) -> None:
        self.principal, self.workspace = principal, workspace

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Turn away whoever lives in a sandbox, whatever its uid and keys (attack 114)."""
        connection: socket.socket = conn.get_extra_info("socket")
        pid = kernel.peer_pid(connection)
        own = kernel.namespace_of(os.getpid(), "pid"), kernel.namespace_of(os.getpid(), "user")
        theirs = kernel.namespace_of(pid, "pid"), kernel.namespace_of(pid, "user")
        conn.set_extra_info(peer_pid=pid)
        if self.workspace.sandbox.pid_namespace and theirs != own:
            self.workspace.fault(
                "gate", f"a process of another namespace (pid {pid}) reached a socket of ours"
            )
            conn.abort()

    def begin_auth(self, username: str) -> bool:
        """Everybody must prove a key."""
        return True

    def public_key_auth_supported(self) -> bool:
        """Keys only."""
        return True


class SshClient:
    """A session's client at the other end of an SSH channel."""

    def __init__(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        self._process = process
        self._ended = False

    async def output(self, data: bytes) -> None:
        """Write output, waiting for the client's window."""
        await self._write(self._process.stdout, data)

    async def errors(self, data: bytes) -> None:
        """Write to the error stream."""
        await self._write(self._process.stderr, data)

    async def _write(self, stream: Any, data: bytes) -> None:
        if self._process.is_closing():
            raise BrokenPipeError
        stream.write(data)
        await stream.drain()

    async def read(self) -> Input:
        """Return the next thing the client did. asyncssh raises what is not data, as plain exceptions
        which, uncaught, would close the whole connection (measured)."""
        if self._ended:
            await self._process.wait_closed()
            raise ConnectionResetError
        try:
            data = await self._process.stdin.read(1 << 16)
        except asyncssh.TerminalSizeChanged as change:
            return Input(resize=(change.width, change.height))
        except asyncssh.SignalReceived as received:
            number = getattr(signal, f"SIG{received.signal}", None)
            return Input(signal=int(number)) if number else Input()
        except asyncssh.BreakReceived:
            return Input(signal=int(signal.SIGINT))
        except SoftEOFReceived:
            return Input(data=b"\x04")
        except asyncssh.DisconnectError as error:
            raise ConnectionResetError from error
        if not data:
            self._ended = True
            if self._process.is_closing():
                raise ConnectionResetError
        return Input(data=data)


class Server:
    """The listening side of a cell."""

    def __init__(self, workspace: Workspace, handlers: control.Handlers) -> None:
        self.workspace, self.handlers = workspace, handlers
        self._tasks: set[asyncio.Task[None]] = set()

    async def process(self, principal: Principal, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Serve one channel. Whatever happens in it stays in it (promise T8)."""
        try:
            await self._process(principal, process)
        except Refused as error:
            self._say(process, f"cell: refused: {error}", 126)
        except (CellError, StartFailed) as error:
            self._say(process, f"cell: {plain(str(error))}", 126)
        except (asyncssh.Error, ConnectionError):
            process.close()
        except Exception as error:  # noqa: BLE001 - an odd session must not end its neighbours
            with suppress(CellError):
                self.workspace.fault("session", repr(error))
            self._say(process, "cell: an internal fault; it is in the journal", 255)
        with suppress(asyncssh.Error, ConnectionError):
            await process.wait_closed()

    @staticmethod
    def _say(process: asyncssh.SSHServerProcess[bytes], text: str, status: int) -> None:
        with suppress(asyncssh.Error, OSError):
            process.stderr.write(text.encode() + b"\n")
            process.exit(status)

    async def _process(self, principal: Principal, process: asyncssh.SSHServerProcess[bytes]) -> None:
        if process.subsystem == "control" and principal != "agent":
            pid = process.get_extra_info("peer_pid") or 0
            await control.serve(self.workspace, principal, process, self.handlers, pid=pid)
            process.exit(0)
        elif process.subsystem:
            raise Refused(f"there is no subsystem {plain(process.subsystem)!r} for {principal}")
        elif (process.command or "").startswith("watch ") and principal != "agent":
            await self._watch(principal, process)
        elif principal in ("agent", "operator"):
            await self._session(principal, process)
        else:
            raise Refused(f"a {principal} opens no sessions")

    async def _session(self, principal: Principal, process: asyncssh.SSHServerProcess[bytes]) -> None:
        terminal = None
        if (term := process.get_terminal_type()) is not None:
            cols, rows, _, _ = process.get_terminal_size()
            terminal = Terminal(term, cols or 80, rows or 24)
        env = {_text(key): _text(value) for key, value in process.env.items()}
        outcome = await self.workspace.session(
            principal, SshClient(process), process.command, env=env, terminal=terminal
        )
        _exit(process, outcome)

    async def _watch(self, principal: Principal, process: asyncssh.SSHServerProcess[bytes]) -> None:
        word = (process.command or "").split()[1]
        self.workspace.ask(principal, "watch", word)
        session = self.workspace.sessions.get(int(word) if word.isdigit() else -1)
        if session is None:
            raise Refused(f"there is no live session {plain(word)}")
        watcher = session.watch()
        try:
            while (got := await watcher.next()) is not None:
                data, lost = got
                if lost:
                    process.stderr.write(f"\r\n[you lagged: {lost} bytes were left out]\r\n".encode())
                process.stdout.write(data)
                await process.stdout.drain()
            process.exit(0)
        finally:
            session.watchers.discard(watcher)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _exit(process: asyncssh.SSHServerProcess[bytes], outcome: Outcome) -> None:
    ended = outcome.ended
    with suppress(asyncssh.Error, OSError):
        if outcome.reason:
            process.stderr.write(f"cell: stopped: {outcome.reason}\n".encode())
        if ended.signal is not None:
            name = ended.signal_name or ""
            # OpenSSH's client knows a fixed list; the others travel as the shell's convention
            if name in _SSH_SIGNALS:
                process.exit_with_signal(name)
            else:
                process.exit(128 + ended.signal)
        else:
            process.exit(ended.code if ended.code is not None else 255)


_SSH_SIGNALS = {
    *("ABRT", "ALRM", "FPE", "HUP", "ILL", "INT", "KILL", "PIPE"),
    *("QUIT", "SEGV", "TERM", "USR1", "USR2"),
}


@asynccontextmanager
async def listen(
    workspace: Workspace, runtime: Path, handlers: control.Handlers
) -> AsyncIterator[dict[str, str]]:
    """Make keys and sockets below `runtime` (0700), and serve. Yields socket paths by principal."""
    server = Server(workspace, handlers)
    host = asyncssh.generate_private_key("ssh-ed25519")
    (runtime / "known_hosts").write_bytes(b"cell " + host.export_public_key())
    listeners, paths = [], dict[str, str]()
    for principal in PRINCIPALS:
        key = asyncssh.generate_private_key("ssh-ed25519", comment=f"cell {principal}")
        private = runtime / f"{principal}.key"
        descriptor = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key.export_private_key())
        path = runtime / f"{principal}.sock"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(64)
        paths[principal] = str(path)
        listeners.append(
            await asyncssh.listen(
                sock=listener,
                server_factory=lambda who=principal: _Door(who, workspace),
                process_factory=lambda process, who=principal: server.process(who, process),
                server_host_keys=[host],
                authorized_client_keys=asyncssh.import_authorized_keys(key.export_public_key().decode()),
                encoding=None,
                line_editor=False,
                allow_scp=False,
                sftp_factory=None,
                agent_forwarding=False,
                x11_forwarding=False,
                encryption_algs=_CIPHERS,
                compression_algs=None,
                window=_WINDOW,
                keepalive_interval=0,
                login_timeout=30,
            )
        )
    try:
        yield paths
    finally:
        for acceptor in listeners:
            acceptor.close()
        for acceptor in listeners:
            await acceptor.wait_closed()
