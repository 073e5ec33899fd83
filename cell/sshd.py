"""The one wire: SSH on a unix socket per principal (promises G1, T1–T9).

A principal is proved by its key *and* by the socket it came in on. `agent` opens sessions; the
others get the `control` subsystem (JSON requests, `control`) and `watch N`; an operator, besides, a
shell of their own and `attach N [--take] [--who NAME]`, which lends a session's keyboard (`driving`), and
connections to the world's loopback (`forwarding`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast, get_args

import asyncssh
from asyncssh.misc import SoftEOFReceived

from . import control, driving, forwarding, kernel
from .errors import CellError, Refused
from .gate import Grant
from .grants import Granted, Grants
from .lease import Occupied
from .plain import plain
from .records import Principal
from .sandbox import StartFailed
from .session import Input, Outcome
from .workspace import Role, Terminal, Workspace

PRINCIPALS: tuple[Principal, ...] = ("agent", "viewer", "operator", "runner")
# The fastest of OpenSSH's ciphers here, by a factor of two (measured); what a client may fall back on.
_CIPHERS = ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes128-ctr"]
_WINDOW = 1 << 21

Handler = Callable[[Principal, "asyncssh.SSHServerProcess[bytes]"], Awaitable[None]]


class _Door(asyncssh.SSHServer):
    """One connection: who may come in through this socket."""

    def __init__(self, principal: Principal, key: bytes, grants: Grants, workspace: Workspace) -> None:
        self.principal, self.workspace = principal, workspace
        self._key, self._grants = key, grants
        self._granted: Granted | None = None
        self._cut: Callable[[], None] = lambda: None
        self._ports: set[int] = set()

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Turn away whoever lives in a sandbox, whatever its uid and keys (attack 114)."""
        self._conn = conn
        self._cut = conn.abort
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

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Say whether it is the principal's own key, or that of a grant. The last one asked for is proved."""
        self._granted = None if key.public_data == self._key else self._find(key)
        return key.public_data == self._key or self._granted is not None

    def _find(self, key: asyncssh.SSHKey) -> Granted | None:
        return self._grants.find(self.principal, key.public_data)

    def auth_completed(self) -> None:
        """Bind the connection to its grant: it is cut when that ends."""
        if self._granted is not None:
            self._granted.cuts.add(self._cut)
            self._conn.set_extra_info(grant=self._granted.grant)

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> Awaitable[asyncssh.SSHTCPSession[bytes]]:
        """Lead an operator to a port of the world's loopback (`ssh -L`, `ssh -W`)."""
        grant = self._granted.grant if self._granted else None
        return forwarding.forward(
            self.workspace, self.principal, dest_host, dest_port, grant=grant, known=self._ports
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._granted is not None:
            self._granted.cuts.discard(self._cut)


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

    async def gone(self) -> None:
        """Return when the channel is closed."""
        await self._process.wait_closed()


class Server:
    """The listening side of a cell."""

    def __init__(self, workspace: Workspace, handlers: control.Handlers) -> None:
        self.workspace, self.handlers = workspace, handlers
        self._tasks: set[asyncio.Task[None]] = set()

    async def process(self, principal: Principal, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Serve one channel. Whatever happens in it stays in it (promise T8)."""
        try:
            await self._process(principal, process)
        except Occupied as error:
            self._say(process, f"cell: {plain(str(error))}", driving.OCCUPIED)
        except Refused as error:
            self._say(process, f"cell: refused: {error}", 126)
        except (CellError, StartFailed) as error:
            self._say(process, f"cell: {plain(str(error))}", 126)
        except (asyncssh.Error, ConnectionError):
            process.close()
        except Exception as error:  # noqa: BLE001 - an odd session must not end its neighbours
            with suppress(CellError):
                # only the agent's own sessions are a part of what is graded
                self.workspace.fault("session" if principal == "agent" else "control", repr(error))
            self._say(process, "cell: an internal fault; it is in the journal", 255)
        with suppress(asyncssh.Error, ConnectionError):
            await process.wait_closed()

    @staticmethod
    def _say(process: asyncssh.SSHServerProcess[bytes], text: str, status: int) -> None:
        with suppress(asyncssh.Error, OSError):
            process.stderr.write(text.encode() + b"\n")
            process.exit(status)

    async def _process(self, principal: Principal, process: asyncssh.SSHServerProcess[bytes]) -> None:
        words = (process.command or "").split()
        grant: Grant | None = process.get_extra_info("grant")
        if process.subsystem == "control" and principal != "agent":
            pid = process.get_extra_info("peer_pid") or 0
            await control.serve(self.workspace, principal, process, self.handlers, pid=pid, grant=grant)
            process.exit(0)
        elif process.subsystem:
            raise Refused(f"there is no subsystem {plain(process.subsystem)!r} for {principal}")
        elif words[:1] == ["watch"] and len(words) == 2 and principal != "agent":
            await self._watch(principal, process, words[1], grant)
        elif words[:1] == ["attach"] and principal in ("viewer", "operator"):
            await self._attach(principal, process, process.command or "", grant)
        elif principal in ("agent", "operator"):
            await self._session(principal, process, grant)
        else:
            raise Refused(f"a {principal} opens no sessions")

    async def _session(
        self, principal: Principal, process: asyncssh.SSHServerProcess[bytes], grant: Grant | None
    ) -> None:
        terminal = None
        if (term := process.get_terminal_type()) is not None:
            cols, rows, _, _ = process.get_terminal_size()
            terminal = Terminal(term, cols or 80, rows or 24)
        env = {_text(key): _text(value) for key, value in process.env.items()}
        role = _role(env.pop("CELL_AS", ""), principal)  # it is said to us, and never goes inside
        outcome = await self.workspace.session(
            principal, SshClient(process), process.command, env=env, terminal=terminal, role=role, grant=grant
        )
        _exit(process, outcome)

    async def _watch(
        self,
        principal: Principal,
        process: asyncssh.SSHServerProcess[bytes],
        word: str,
        grant: Grant | None,
    ) -> None:
        number = int(word) if word.isdecimal() and len(word) < 10 else -1
        self.workspace.ask(principal, "watch", word, session=number, grant=grant)
        session = driving.find(self.workspace, number)
        watcher = session.watch()
        try:
            await driving.show(watcher, SshClient(process))
            process.exit(0)
        finally:
            session.watchers.discard(watcher)

    async def _attach(
        self,
        principal: Principal,
        process: asyncssh.SSHServerProcess[bytes],
        command: str,
        grant: Grant | None,
    ) -> None:
        number, over, who = driving.asked(command)
        left = await driving.attach(
            self.workspace,
            principal,
            SshClient(process),
            number,
            who=(grant.holder if grant else "") or who,
            over=over,
            grant=grant,
        )
        self._say(process, f"\r\ncell: {plain(left.words)}\r", left.status)


def _role(wanted: str, principal: Principal) -> Role:
    if principal != "operator" or not wanted:
        return "agent"
    role = next((role for role in get_args(Role) if role == wanted), None)
    if role is None:
        raise Refused(f"CELL_AS is agent, verifier or root, not {plain(wanted, limit=40)!r}")
    return cast(Role, role)


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
    workspace: Workspace, runtime: Path, handlers: control.Handlers, grants: Grants
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
                server_factory=lambda who=principal, own=key.public_data: _Door(who, own, grants, workspace),
                process_factory=lambda process, who=principal: server.process(who, process),
                server_host_keys=[host],
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
