"""Whose connection it is, by the kernel's word: from the two ends of a socket to the process inside.

A secret could be read on the loopback (a plain `docker run` has CAP_NET_RAW); who holds a socket cannot
be forged. `sock_diag` names the inode of the client's own socket, and the process is the one that has
that inode among its descriptors. A client that has gone by then is nobody, and nobody is let through.
No answer is cached: what was found before only says where to look first.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from cell import kernel

_TCP, _UDP = socket.IPPROTO_TCP, socket.IPPROTO_UDP
_SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 20, 1
_NO_COOKIE = 0xFFFFFFFF
# ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING. Not SYN_SENT: whoever can forge
# packets could have opened our end in the name of a socket that is only just connecting.
_CONNECTED = frozenset({1, 4, 5, 8, 9, 11})
_LONGEST_COMMAND = 400  # characters that a record keeps
_RECENT = 8  # processes that are looked at first
_PATIENCE = 0.25  # seconds of a search, however hard a world is made to search
_KNOWN = 4096  # processes whose session is remembered
_NEWEST, _ALL = 256, 1 << 30  # descriptors of a process that are looked at

End = tuple[str, int]


@dataclass(frozen=True)
class Owner:
    """The process inside that a connection belongs to, as it was when it was asked for.

    `pid` is the substrate's number, `uid` the sandbox's. A socket that a child has inherited has more
    than one holder: `pid` is one of them, and `mount_namespaces` has those of all that were found. Who
    has the agent's view of files ends the search; so a connection is the verifier's only if nobody
    else has it. `process` is a number for this very process: the same as before only for the same one.
    """

    pid: int
    process: int
    uid: int
    inode: int
    command: str
    mount_namespaces: frozenset[int]

    def only_in(self, mount_namespace: int) -> bool:
        """Whether every holder of the socket has this view of files."""
        return self.mount_namespaces == {mount_namespace}


class Owners:
    """Asks the kernel for owners. `diag` is a sock_diag socket that was made inside the sandbox.

    `home` is the sandbox's own mount namespace; 0, and every search is for all holders. `members` gives
    the pids of the cell, and a few beside, where a control group knows them; else all of the machine are
    looked at, and what others run costs this cell time. `gave_up`: the last search came to no end.
    """

    def __init__(
        self,
        diag: socket.socket,
        pid_namespace: int,
        home: int = 0,
        members: Callable[[], list[int] | None] = lambda: None,
    ) -> None:
        self._members, self.gave_up = members, False
        self._diag, self._home, self._sequence = diag, home, 0
        self._space = f"pid:[{pid_namespace}]"
        self._recent: dict[int, tuple[int, int]] = {}  # (descriptor, number) by pid, the last found last
        self._found = 0  # how many processes have been found
        self._number = 0  # of the descriptor that was found last
        diag.setblocking(False)

    def of(self, connection: socket.socket) -> Owner | None:
        """Return who holds the other end of an accepted TCP connection; None when it has gone."""
        # what uvloop gives for a socket makes a new one, and asks the kernel for its kind, each time
        kind, number = (connection.family, connection.type, connection.proto), connection.fileno()
        if number < 0:
            return None
        same = socket.socket(*kind, fileno=number)
        try:
            local, peer = same.getsockname(), same.getpeername()
        except OSError:
            return None
        finally:
            same.detach()
        return self.of_ends((peer[0], peer[1]), (local[0], local[1]))

    def of_ends(self, client: End, server: End) -> Owner | None:
        """The same from the two ends, as the client's own socket sees them."""
        return self._holder(self._ask(_TCP, client, server))

    def of_datagram(self, client: End, server: End) -> Owner | None:
        """Return who holds the UDP socket at `client`; None when it is closed already."""
        return self._holder(self._ask(_UDP, client, server))

    def _ask(self, protocol: int, client: End, server: End) -> tuple[int, int] | None:
        """Return (inode, uid) of the client's socket."""
        mine, theirs = _packed(client[0]), _packed(server[0])
        if len(mine) != len(theirs):
            return None
        family = socket.AF_INET if len(mine) == 4 else socket.AF_INET6
        ends = [(client[1], mine), (server[1], theirs)]
        if protocol == _UDP:
            ends.reverse()  # the kernel has them the other way round there, "for historical reasons"
        (sport, source), (dport, destination) = ends
        self._sequence = (self._sequence + 1) & 0x7FFFFFFF
        body = struct.pack("=BBBxI", family, protocol, 0, 0xFFFFFFFF)
        body += struct.pack("!HH16s16s", sport, dport, source, destination)
        body += struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
        header = struct.pack(
            "=IHHII", 16 + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, self._sequence, 0
        )
        try:
            self._diag.send(header + body)
            while True:
                # it has been answered when the sending returns
                answer = self._diag.recv(4096)
                _, kind, _, sequence, _ = struct.unpack_from("=IHHII", answer)
                if sequence == self._sequence:
                    break
        except OSError:
            return None
        if kind != _SOCK_DIAG_BY_FAMILY or len(answer) < 16 + 72:
            return None
        _, state, local_port, remote_port = struct.unpack_from("!BB2xHH", answer, 16)
        uid, inode = struct.unpack_from("=II", answer, 16 + 64)
        # a listener is what the kernel gives where there is no such connection
        if local_port != client[1] or not inode:
            return None
        if protocol == _TCP and (state not in _CONNECTED or remote_port != server[1]):
            return None
        return inode, uid

    def _holder(self, found: tuple[int, int] | None) -> Owner | None:
        if found is None:
            return None
        inode, uid = found
        name, until = f"socket:[{inode}]", 0.0
        self.gave_up = False
        first: tuple[int, str, int] | None = None
        views: set[int] = set()
        for pid, known, most in self._inside():
            # it counts from the first who is asked: how many there are is no matter of theirs
            until = until or time.monotonic() + _PATIENCE
            with suppress(OSError):
                # by descriptor, so that it cannot be another process of the same pid later on
                process = known or os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    number = _holds(process, name, self._number, most, until)
                    if number is not None:
                        self._number = number
                        view = os.stat("ns/mnt", dir_fd=process).st_ino
                        first = first or (pid, _command(process), process)
                        views.add(view)
                        if view == self._home:
                            break
                finally:
                    if not known and (first is None or process != first[2]):
                        os.close(process)
            # the verifier's processes come first: the agent cannot hide them behind its own
            if time.monotonic() > until:
                self.gave_up = True
                break
        if first is None:
            return None
        pid, command, process = first
        return Owner(pid, self._remember(pid, process), uid, inode, command, frozenset(views))

    def _remember(self, pid: int, process: int) -> int:
        """Have a process looked at first from now on, and return its number.

        It stays open: one that has ended answers nothing, whoever has its pid by then.
        """
        before, number = self._recent.pop(pid, (process, 0))
        if before != process:
            os.close(before)
        if before != process or not number:
            self._found += 1
            number = self._found
        self._recent[pid] = process, number
        while len(self._recent) > _RECENT:
            os.close(self._recent.pop(next(iter(self._recent)))[0])
        return number

    def close(self) -> None:
        """Let go of the processes that were found."""
        while self._recent:
            os.close(self._recent.popitem()[1][0])

    def _inside(self) -> Iterator[tuple[int, int, int]]:
        """Give the processes of the sandbox, each with its descriptor, if it is open, and how far to look.

        A glance at those that had connections, then all: first those with a view of their own, and the
        youngest first.
        """
        for pid, (process, _) in reversed(tuple(self._recent.items())):
            yield pid, process, _NEWEST
        inside = self._members()
        if inside is None:
            every = (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
            inside = [pid for pid in every if _space(pid, "pid") == self._space]
        home = f"mnt:[{self._home}]"
        at_home = {pid for pid in inside if _space(pid, "mnt") == home}
        for pid in sorted(inside, key=lambda pid: (pid in at_home, -pid)):
            yield pid, 0, _ALL


def session_of(
    pid: int, sessions: Mapping[int, int], stat: Callable[[int], list[str]] = kernel.stat_fields
) -> int | None:
    """Return the number of the session that a process descends from, None if that is not known.

    `sessions` maps the pid of a session's first process (the substrate's number; it leads a session
    of the kernel's, too) to its number. An orphan has lost its line, but it keeps the kernel's
    session id, unless it called setsid(2).
    """
    kernel_session, seen = 0, set[int]()
    while pid > 1 and pid not in seen:
        seen.add(pid)
        fields = stat(pid)
        if len(fields) < 4:
            break
        parent, leader = int(fields[1]), int(fields[3])
        kernel_session = kernel_session or leader
        if leader == pid and pid in sessions:
            return sessions[pid]
        pid = parent
    return sessions.get(kernel_session)


class Descent:
    """Remembers of which session a process is: that stays so, whatever becomes of its parents."""

    def __init__(self, stat: Callable[[int], list[str]] = kernel.stat_fields) -> None:
        self._stat = stat
        self._known: dict[int, int] = {}

    def session_of(self, owner: Owner, sessions: Mapping[int, int]) -> int | None:
        """As the function of that name."""
        found = self._known.get(owner.process)
        if found is None:
            found = session_of(owner.pid, sessions, self._stat)
            if found is not None:
                if len(self._known) >= _KNOWN:
                    self._known.clear()
                self._known[owner.process] = found
        return found


def _packed(address: str) -> bytes:
    address = address.partition("%")[0]
    if ":" not in address:
        return socket.inet_pton(socket.AF_INET, address)
    packed = socket.inet_pton(socket.AF_INET6, address)
    # an IPv4 connection of a socket of both families
    return packed[12:] if packed[:12] == b"\0" * 10 + b"\xff\xff" else packed


def _space(pid: int, kind: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")  # noqa: PTH115
    except OSError:
        return ""


def _holds(process: int, name: str, guess: int, most: int, until: float) -> int | None:
    """Return by which number a process has a socket, None if it has not; `guess` is looked at first."""
    with suppress(FileNotFoundError):
        if os.readlink(f"fd/{guess}", dir_fd=process) == name:
            return guess
    table = os.open("fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=process)
    try:
        # the newest descriptor is most often the one
        for number in sorted(map(int, os.listdir(table)), reverse=True)[:most]:  # noqa: PTH208
            try:
                if os.readlink(str(number), dir_fd=table) == name:
                    return number
            except FileNotFoundError:
                continue  # closed in between
            if time.monotonic() > until:
                break
    finally:
        os.close(table)
    return None


def _read(process: int, name: str) -> bytes:
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=process)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def _command(process: int) -> str:
    """The command line, as the process itself would have it: text from inside."""
    words = _read(process, "cmdline").rstrip(b"\0").replace(b"\0", b" ")
    words = words or b"[" + _read(process, "comm").rstrip(b"\n") + b"]"
    return words.decode("utf-8", "replace")[:_LONGEST_COMMAND]
