"""One process of the world and the bytes through it: pumped, recorded, watched, stopped.

The pump is our own. Redirecting asyncssh's streams lost bytes or closed the connection (measured);
a terminal's master must be read until EIO, or until it would block after the exit; and a background
child that keeps a pipe open must not hold the command that started it. So: non-blocking reads when
the descriptor is ready, a write that waits for the client, and an end at end-of-file or at
would-block after the exit.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from .queries import without_queries
from .recording import Recording
from .sandbox import Child, Ended

_CHUNK = 1 << 16  # bytes handed on at a time
_BACKLOG = 1 << 18  # bytes of the latest output that a new watcher is shown
_WATCHER_LIMIT = 1 << 20  # bytes a watcher may lag behind before it is told so
_F_SETPIPE_SZ = 1031


class Client(Protocol):
    """Where a session's bytes go to and come from."""

    async def output(self, data: bytes) -> None:
        """Take output, waiting while the client is slow; BrokenPipeError when it has gone."""

    async def errors(self, data: bytes) -> None:
        """The same for the error stream of a session without a terminal."""

    async def read(self) -> Input:
        """Return the next thing the client did; ConnectionError when it has gone altogether."""

    async def gone(self) -> None:
        """Return when it has gone altogether, without taking anything from it."""


@dataclass(frozen=True)
class Input:
    """What a client did: sent `data` (b"" at its end), resized to (cols, rows), or signalled."""

    data: bytes | None = None
    resize: tuple[int, int] | None = None
    signal: int | None = None


class Watcher:
    """One who looks on. Never waited for: past its limit it loses output and is told how much."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._lost = 0
        self._more = asyncio.Event()
        self._closed = False

    def feed(self, data: bytes) -> None:
        """Take output, or count it as lost."""
        if self._size + len(data) > _WATCHER_LIMIT:
            self._lost += self._size + len(data)
            self._pieces.clear()
            self._size = 0
        else:
            self._pieces.append(data)
            self._size += len(data)
        self._more.set()

    def close(self) -> None:
        """Say that no more will come."""
        self._closed = True
        self._more.set()

    async def next(self) -> tuple[bytes, int] | None:
        """Return (output, bytes lost before it); None at the end."""
        while not self._pieces and not self._lost:
            if self._closed:
                return None
            self._more.clear()
            await self._more.wait()
        data, lost = b"".join(self._pieces), self._lost
        self._pieces.clear()
        self._size = self._lost = 0
        return data, lost


@dataclass
class Outcome:
    """How a session ended. `reason` is why it was stopped, empty if it was not."""

    ended: Ended
    reason: str = ""


@dataclass
class Session:
    """A session between its start and its end. Made by `run`'s caller, driven by `run`.

    `turn` returns when its own client may act (None: always); another one may be typing (`lease`).
    """

    n: int
    child: Child
    recording: Recording
    tty: bool
    client: Client
    principal: str = "agent"
    stdin: int = -1
    stdout: int = -1
    stderr: int = -1
    started: float = field(default_factory=time.monotonic)
    watchers: set[Watcher] = field(default_factory=set)
    stopped: str = ""
    turn: Callable[[], Awaitable[None]] | None = None
    lent: tuple[int, int] | None = None  # the size that it had before who drives it gave it theirs
    _writable: asyncio.Future[None] | None = None
    _backlog: deque[bytes] = field(default_factory=deque)
    _backlog_size: int = 0

    async def run(self) -> Outcome:
        """Pump until the process has ended and its output is out; never raises for the client's sake.

        Errors: StartFailed, HarnessError (the status was lost).
        """
        feed = None
        try:
            await self.child.started
            if self.tty:
                assert self.child.master is not None
                self.stdin = self.stdout = self.child.master
                os.set_blocking(self.stdout, False)
            feed = asyncio.create_task(self._feed())
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pump(self.stdout, self.client.output))
                    if not self.tty and self.stderr >= 0:
                        group.create_task(self._pump(self.stderr, self.client.errors))
            except* (ConnectionError, BrokenPipeError):
                self.stop("client gone")
            ended = await self.child.ended
            return Outcome(ended, self.stopped)
        finally:
            if feed is not None:
                feed.cancel()
                with suppress(asyncio.CancelledError):
                    await feed
            self._close()

    def stop(self, reason: str) -> None:
        """End the whole group, and remember why; what it printed so far still goes out."""
        if not self.child.ended.done():
            self.stopped = self.stopped or reason
            self.child.kill()

    def resize(self, cols: int, rows: int) -> None:
        """Give the terminal another size."""
        if self.tty and self.stdout >= 0 and 0 < cols < 10000 and 0 < rows < 10000:
            fcntl.ioctl(self.stdout, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
            self.recording.resize(cols, rows)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal."""
        rows, cols, *_ = struct.unpack("HHHH", fcntl.ioctl(self.stdout, termios.TIOCGWINSZ, bytes(8)))
        return cols, rows

    def watch(self, *, typing: bool = False) -> Watcher:
        """Return a new watcher, who first sees the latest output; not what it asked, for one who types."""
        watcher = Watcher()
        latest = b"".join(self._backlog)
        if latest:
            watcher.feed(without_queries(latest) if typing else latest)
        self.watchers.add(watcher)
        return watcher

    # ── bytes ─────────────────────────────────────────────────────────────────────────────────

    async def _pump(self, descriptor: int, write: Callable[[bytes], Awaitable[None]]) -> None:
        while True:
            data = self._read_some(descriptor)
            if data is None:
                if self.child.ended.done():
                    return
                await self._wait(descriptor)
            elif not data:
                return
            else:
                self._seen(data)
                await write(data)
                await asyncio.sleep(0)  # a flood must not keep the loop for itself

    @staticmethod
    def _read_some(descriptor: int) -> bytes | None:
        """Return what is there, up to a chunk; None when nothing is yet, b"" at the end."""
        pieces, size = list[bytes](), 0
        while size < _CHUNK:
            try:
                piece = os.read(descriptor, _CHUNK - size)
            except BlockingIOError:
                return b"".join(pieces) if pieces else None
            except OSError:  # EIO: no process has the terminal open any more
                piece = b""
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)

    async def _wait(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()

        def wake(*_: object) -> None:
            if not ready.done():
                ready.set_result(None)

        loop.add_reader(descriptor, wake)
        self.child.ended.add_done_callback(wake)
        try:
            await ready
        finally:
            loop.remove_reader(descriptor)
            self.child.ended.remove_done_callback(wake)

    def _seen(self, data: bytes) -> None:
        self.recording.output(data)
        for watcher in self.watchers:
            watcher.feed(data)
        self._backlog.append(data)
        self._backlog_size += len(data)
        while self._backlog_size > _BACKLOG and len(self._backlog) > 1:
            self._backlog_size -= len(self._backlog.popleft())

    async def _feed(self) -> None:
        """Do what the client does until it has gone, also when the process reads no more of it."""
        reads = True
        try:
            while True:
                got = await self.client.read()
                await self._my_turn()
                if got.resize:
                    self.resize(*got.resize)
                elif got.signal:
                    self.child.signal(got.signal)
                elif got.data and reads:
                    self.recording.typed(got.data, self.principal)
                    reads = await self._write(got.data, self._my_turn)
                elif got.data == b"" and not self.tty and self.stdin >= 0:
                    os.close(self.stdin)
                    self.stdin = -1
        except ConnectionError:
            self.stop("client gone")

    async def _my_turn(self) -> None:
        if self.turn is not None:
            await self.turn()

    async def type(self, data: bytes, by: str) -> None:
        """Type into the terminal as `by`, who is not the session's own client."""
        self.recording.typed(data, by)
        await self._write(data)

    async def _write(self, data: bytes, turn: Callable[[], Awaitable[None]] | None = None) -> bool:
        """Write all of it, asking for the turn before each part; False when nobody reads any more."""
        view = memoryview(data)
        while view:
            if turn is not None:
                await turn()
            try:
                view = view[os.write(self.stdin, view) :]
            except BlockingIOError:
                await self._until_writable()
            except OSError:  # it reads no more
                return False
        return True

    async def _until_writable(self) -> None:
        """Wait for room. Two may wait, the client and a driver: a descriptor has but one callback."""
        if self._writable is None:
            loop, stdin = asyncio.get_running_loop(), self.stdin
            self._writable = loop.create_future()
            loop.add_writer(stdin, self._now_writable)
        await asyncio.shield(self._writable)

    def _now_writable(self) -> None:
        if self._writable is not None:
            asyncio.get_running_loop().remove_writer(self.stdin)
            _done(self._writable)
            self._writable = None

    def _close(self) -> None:
        self._now_writable()
        for descriptor in {self.stdin, self.stdout, self.stderr}:
            if descriptor >= 0:
                os.close(descriptor)
        self.stdin = self.stdout = self.stderr = -1
        for watcher in self.watchers:
            watcher.close()


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


@dataclass(frozen=True)
class Pipes:
    """The three pipes of a session without a terminal: our ends, and those to be lent to the child."""

    stdin: int
    stdout: int
    stderr: int
    theirs: tuple[int, int, int]

    @classmethod
    def make(cls, *, merged: bool = False) -> Pipes:
        """Return new pipes; with `merged`, errors go where output goes (our `stderr` is -1)."""
        in_read, in_write = os.pipe2(os.O_CLOEXEC)
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        with suppress(OSError):  # more than the user's quota of pipe pages
            fcntl.fcntl(out_read, _F_SETPIPE_SZ, 1 << 18)
        ours = [in_write, out_read]
        if merged:
            err_read, err_write = -1, out_write
        else:
            err_read, err_write = os.pipe2(os.O_CLOEXEC)
            ours.append(err_read)
        for descriptor in ours:
            os.set_blocking(descriptor, False)
        return cls(in_write, out_read, err_read, (in_read, out_write, err_write))

    def lent(self) -> None:
        """Close the child's ends, once it has them."""
        for descriptor in set(self.theirs):
            os.close(descriptor)
