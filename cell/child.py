"""One process of a sandbox: who it is, how it ended, and what can be done to it meanwhile."""

from __future__ import annotations

import array
import asyncio
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from . import kernel
from .errors import HarnessError

# What a plain `docker run` leaves (promise S8), and the one more that walls the verifier off: the
# kernel lets a process look into another only with the other's capabilities, and no agent can have
# this one. It does nothing but wake a suspended machine.
DOCKER_CAPABILITIES = 0xA80425FB
WALL_CAPABILITY = 1 << 35


@dataclass(frozen=True)
class Who:
    """The identity a process takes before it starts; capabilities are masks."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    bounding: int = DOCKER_CAPABILITIES
    ambient: int = 0
    securebits: int = 0

    @property
    def walled(self) -> Who:
        """The same one, behind the wall that keeps every other process out (promise H4)."""
        return Who(
            self.uid,
            self.gid,
            self.groups,
            bounding=self.bounding | WALL_CAPABILITY,
            ambient=WALL_CAPABILITY,
            # a root verifier that runs `su` keeps the wall; locked, so that nothing takes it down
            securebits=(1 << 2) | (1 << 3) if self.uid == 0 else 0,
        )


@dataclass(frozen=True)
class Ended:
    """How a process ended: `code`, or the number of the `signal` that ended it."""

    code: int | None
    signal: int | None

    @property
    def signal_name(self) -> str | None:
        """`KILL` and the like; a realtime signal by number."""
        if self.signal is None:
            return None
        try:
            return signal.Signals(self.signal).name.removeprefix("SIG")
        except ValueError:
            return f"RT{self.signal}"


class StartFailed(Exception):
    """The process never ran; `stage` is the launcher's word for how far it came."""

    def __init__(self, stage: str, number: int, command: Sequence[str]) -> None:
        self.stage, self.errno = stage, number
        super().__init__(f"{command[0]}: {stage}: {os.strerror(number)}")


class Child:
    """One process of the sandbox, from `Sandbox.spawn` until its `ended` is done."""

    def __init__(self, channel: socket.socket, command: Sequence[str]) -> None:
        loop = asyncio.get_running_loop()
        self.pid = 0
        self.mount_namespace = 0
        self.started: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[Ended] = loop.create_future()
        self.master: int | None = None
        self._channel, self._command, self._loop = channel, command, loop
        channel.setblocking(False)
        loop.add_reader(channel.fileno(), self._read)

    def _read(self) -> None:
        while True:
            try:
                message, ancillary, _, _ = self._channel.recvmsg(64, socket.CMSG_SPACE(4))
            except BlockingIOError:
                return
            except OSError:
                message, ancillary = b"", []
            if not message:
                self._loop.remove_reader(self._channel.fileno())
                self._channel.close()
                # the warden went without a word: a lost status is an error, never 0
                self._fail(HarnessError("the status of a process was lost: its sandbox has gone"))
                return
            kind, rest = message[:1], message[1:]
            if kind == b"M":
                for level, what, data in ancillary:
                    if level == socket.SOL_SOCKET and what == socket.SCM_RIGHTS:
                        self.master = array.array("i", data[:4])[0]
            elif kind == b"P":
                self.pid = int(rest)
            elif kind == b"S":
                self.mount_namespace = int(rest)
                if not self.started.done():
                    self.started.set_result(None)
            elif kind == b"E":
                stage, _, number = rest.decode().partition(":")
                self._fail(StartFailed(stage, int(number), self._command))
            elif not self.ended.done():
                self.ended.set_result(
                    Ended(int(rest), None) if kind == b"X" else Ended(None, int(rest)),
                )

    def _fail(self, error: Exception) -> None:
        for future in (self.started, self.ended):
            if not future.done():
                future.set_exception(error)
                future.exception()  # it may be that nobody asks

    def view(self) -> int:
        """Return its mount namespace, also where that has only just been told; 0 before it starts."""
        if not self.mount_namespace and not self.ended.done():
            self._read()
        return self.mount_namespace

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Signal the whole session of the process, and what it started elsewhere but still parents."""
        if not self.pid or self.ended.done():
            return
        for pid in family(self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def signal(self, number: int) -> None:
        """Signal the foreground: the process group of the session's leader."""
        if self.pid and not self.ended.done():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


def family(leader: int) -> list[int]:
    """Return the session led by `leader`, and every descendant of it, wherever it put itself."""
    members, parents = [leader], {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and (fields := kernel.stat_fields(int(entry.name))):
            pid = int(entry.name)
            parents[pid] = int(fields[1])
            if int(fields[3]) == leader and pid != leader:
                members.append(pid)
    grew = True
    while grew:
        grew = False
        for pid, parent in parents.items():
            if parent in members and pid not in members:
                members.append(pid)
                grew = True
    return members
