"""An internet for the bench: two network namespaces, so that what leaves a cell really arrives somewhere.

    cell ── `near`: the substrate, in which the serving process runs ──veth── `far`: everybody else

Every address there is answers in `far`: by HTTP on a few ports, and by DNS. What answers writes down who
was asked for; a name that nobody gave an address has a public one. The substrate has services too,
on all its addresses. So whatever a cell refuses would have been answered, and is seen if it was not refused.
"""

from __future__ import annotations

import ctypes
import ipaddress
import json
import os
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from world import LiveCell, until

from cell.describe import PhaseSpec

T = TypeVar("T")
Handler = Callable[[socket.socket], None]

PUBLIC = "93.184.216.34"
RESOLVER = "9.9.9.9"
NIC, NIC_6 = "198.51.99.2", "2606:4700:aaaa::2"
HTTP_PORTS = (22, 80, 443, 8443)
_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
# `near` is its own, as are the files that say how names are resolved
_THERE = 'mount --bind "$0/resolv.conf" /etc/resolv.conf && mount --bind "$0/nsswitch.conf" /etc/nsswitch.conf && exec "$@"'


def head_of(link: socket.socket, ahead: bytes = b"") -> tuple[bytes, bytes]:
    """The next head that comes, and what came behind it; an empty head at the end."""
    data = ahead
    while b"\r\n\r\n" not in data:
        more = link.recv(65536)
        if not more:
            return b"", data
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest


def hello(link: socket.socket, heads: list[bytes]) -> None:
    """An HTTP server that answers every request without a body with its path."""
    rest = b""
    while True:
        head, rest = head_of(link, rest)
        if not head:
            return
        heads.append(head)
        body = b"hello " + head.split(b" ")[1]
        link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        if b"\r\nconnection: close" in head.lower():
            return


class Servers:
    """What listens in one of the namespaces. `came` has (address, port) of each connection, as it was meant."""

    def __init__(self, space: Callable[[Callable[[], socket.socket]], socket.socket]) -> None:
        self._space = space
        self.came: list[tuple[str, int]] = []
        self.heads: list[bytes] = []
        self._sockets: list[socket.socket] = []
        for port in HTTP_PORTS:
            self.serve(lambda link: hello(link, self.heads), port)

    def serve(self, handler: Handler, port: int = 0) -> int:
        """Serve on all addresses from now on; the handler's connection is closed for it. Returns the port."""
        server = self._space(
            lambda: socket.create_server(
                ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=256
            )
        )
        self._sockets.append(server)
        threading.Thread(target=self._accept, args=(server, handler), daemon=True).start()
        return int(server.getsockname()[1])

    def _accept(self, server: socket.socket, handler: Handler) -> None:
        while True:
            try:
                link, _ = server.accept()
            except OSError:
                return
            # a connection may be gone before it is accepted
            with suppress(OSError):
                address, port = link.getsockname()[:2]
                self.came.append((address.removeprefix("::ffff:"), port))
            threading.Thread(target=self._carry, args=(link, handler), daemon=True).start()

    @staticmethod
    def _carry(link: socket.socket, handler: Handler) -> None:
        with link, suppress(OSError):
            link.settimeout(60)
            handler(link)

    def close(self) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class Internet:
    """`names` gives names other addresses than PUBLIC: a list, or lists by turns. `asked` are the questions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "resolv.conf").write_text(f"nameserver {RESOLVER}\n")
        (folder / "nsswitch.conf").write_text("hosts: files dns\n")
        self._holders = [self._hold(), self._hold()]
        self.names: dict[str, list[str] | list[list[str]]] = {}
        self.asked: list[str] = []
        near, far = (one.pid for one in self._holders)
        for line in (
            f"link add v0 type veth peer name v1 netns {far}",
            "link set lo up",
            f"addr add {NIC}/24 dev v0",
            f"-6 addr add {NIC_6}/64 dev v0 nodad",
            "link set v0 up",
        ):
            self._ip(near, line)
        for line in (
            "link set lo up",
            "addr add 198.51.99.1/24 dev v1",
            "-6 addr add 2606:4700:aaaa::1/64 dev v1 nodad",
            "link set v1 up",
            "route add local 0.0.0.0/0 dev lo table main",
            "-6 route add local ::/0 dev lo table main",
        ):
            self._ip(far, line)
        self._ip(near, "route add default via 198.51.99.1")
        self._ip(near, "-6 route add default via 2606:4700:aaaa::1")
        self.far = Servers(lambda make: self.within(far, make))
        self.near = Servers(lambda make: self.within(near, make))
        self._resolver = self.within(far, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._resolver.bind((RESOLVER, 53))
        threading.Thread(target=self._resolve, daemon=True).start()

    @staticmethod
    def _hold() -> subprocess.Popen[bytes]:
        """A process that does nothing but keep a namespace."""
        one = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert one.stdout is not None
        one.stdout.readline()
        return one

    @staticmethod
    def _ip(pid: int, line: str) -> None:
        subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", *line.split()], check=True)

    @staticmethod
    def within(pid: int, make: Callable[[], T]) -> T:
        """What `make` gives in the network of a process; a socket made there stays of there."""
        made: list[T] = []

        def work() -> None:
            space = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            assert _libc.setns(space, _NEWNET) == 0
            os.close(space)
            made.append(make())

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return made[0]

    def substrate(self, make: Callable[[], T]) -> T:
        """The same in the substrate, from where a cell's serving process dials."""
        return self.within(self._holders[0].pid, make)

    def beyond(self, make: Callable[[], T]) -> T:
        """The same where everybody else is."""
        return self.within(self._holders[1].pid, make)

    def tell(self, program: str, *args: object) -> Any:
        """What a program of `programs/` tells that is run on the substrate, outside of every cell."""
        folder = Path(__file__).parent / "programs"
        command = ["python3", "-I", str(folder / "alone.py"), str(folder / f"{program}.py"), *map(str, args)]
        done = subprocess.run(self.argv(*command), capture_output=True, timeout=60)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def argv(self, *command: str) -> list[str]:
        """The argv of a command on the substrate."""
        pid = str(self._holders[0].pid)
        return ["nsenter", "-t", pid, "-n", "unshare", "-m", "sh", "-c", _THERE, str(self.folder), *command]

    def cell(self, trial: Path, **overrides: Any) -> LiveCell:
        """A cell whose serving process is on the substrate of this internet."""
        real = subprocess.Popen
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("world.subprocess.Popen", lambda argv, **more: real(self.argv(*argv), **more))
            made = LiveCell(trial, **overrides)
        return made.begin()

    def visits(self) -> int:
        """How many connections have come by now, to anybody; and how many questions."""
        return len(self.far.came) + len(self.near.came) + len(self.asked)

    def _resolve(self) -> None:
        while True:
            try:
                query, sender = self._resolver.recvfrom(600)
            except OSError:
                return
            labels, at = [], 12
            while query[at]:
                labels.append(query[at + 1 : at + 1 + query[at]].decode())
                at += 1 + query[at]
            name, kind = ".".join(labels).lower(), struct.unpack_from("!H", query, at + 1)[0]
            self.asked.append(name)
            found = [ipaddress.ip_address(text) for text in self._addresses(name, kind)]
            records = b"".join(
                struct.pack("!HHHIH", 0xC00C, kind, 1, 0, len(ip.packed)) + ip.packed
                for ip in found
                if (ip.version == 4) == (kind == 1)
            )
            count = (
                records.count(b"\xc0\x0c")
                if not found
                else sum((ip.version == 4) == (kind == 1) for ip in found)
            )
            header = query[:2] + struct.pack("!HHHHH", 0x8180, 1, count, 0, 0)
            self._resolver.sendto(header + query[12 : at + 5] + records, sender)

    def _addresses(self, name: str, kind: int) -> Sequence[str]:
        known = self.names.get(name, [PUBLIC])
        if known and isinstance(known[0], list):
            # turns are taken by the question for IPv4
            turn = known.pop(0) if kind == 1 and len(known) > 1 else known[0]
            return [str(each) for each in turn]
        return [str(each) for each in known]

    def close(self) -> None:
        self.far.close()
        self.near.close()
        self._resolver.close()
        for one in self._holders:
            one.kill()
            one.wait(10)
            for pipe in (one.stdin, one.stdout):
                assert pipe is not None
                pipe.close()


def spec(mode: str, *hosts: str, key: str = "agent.network_mode") -> PhaseSpec:
    return PhaseSpec(
        user="root",
        key="agent.user",
        network_declared=mode,
        network_used=mode,
        allowed_hosts=hosts,
        network_key=key,
    )


class Audit:
    """The egress records that a cell wrote since this was made."""

    def __init__(self, cell: LiveCell) -> None:
        self.cell = cell
        self._before = len(cell.events("egress"))

    def all(self, **wanted: Any) -> list[dict[str, Any]]:
        found = self.cell.events("egress")[self._before :]
        return [one for one in found if all(one[key] == value for key, value in wanted.items())]

    def ends(self, *hits: dict[str, Any]) -> list[dict[str, Any]]:
        """How these attempts ended, once all of them have."""

        def ended() -> list[dict[str, Any]]:
            found = {one["hit"]: one for one in self.cell.events("egress-end")}
            return [found[hit["hit"]] for hit in hits if hit["hit"] in found]

        assert until(lambda: len(ended()) == len(hits)), (hits, ended())
        return ended()
