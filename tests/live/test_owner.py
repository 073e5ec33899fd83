"""Whose connection it is, by the kernel's word (promise N8, attack 100)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from cell import kernel
from cell.egress.owner import Descent, Owner, Owners, session_of

from .network import until, world

pytestmark = pytest.mark.live
OWNERS = """
import json, os, socket, subprocess, sys
expected = {}
held = []
def connect(host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    one = socket.socket(family)
    one.connect((host, 443))
    return one
hosts = ("93.184.216.34", "127.0.0.1:3128", "198.18.0.9", "2606:2800::1", "::ffff:93.184.216.34")
for number in range(40):
    for host in hosts:
        uid = (0, 1000, 12345)[number % 3]
        read, write = os.pipe()
        if os.fork() == 0:
            os.setresuid(uid, uid, uid)
            if number % 4 == 1:
                if os.fork():
                    os._exit(0)
            if host.startswith("127"):
                one = socket.create_connection(("127.0.0.1", 3128))
            else:
                one = connect(host)
            meant = one.getpeername()[0].removeprefix("::ffff:")
            os.write(write, json.dumps([meant, one.getsockname()[1], os.getpid(), uid]).encode())
            sys.stdin.read()
            os._exit(0)
        os.close(write)
        print(os.read(read, 200).decode(), flush=True)
        os.close(read)
print("done", flush=True)
sys.stdin.read()
"""


async def test_attribution_is_right_for_two_hundred_connections_of_many_processes(tmp_path: Path) -> None:
    async with world(tmp_path / "s", proxy=True, transparent=True) as here:
        # inner pids: each process says its own, and NSpid in the substrate's /proc says which one that is
        stdin, hold_open = os.pipe()
        out, end = os.pipe()
        from cell.sandbox import Who

        child = here.sandbox.spawn(
            [["/usr/bin/python3", "-c", OWNERS]],
            who=Who(0, 0, (0,)),
            env={"PATH": "/usr/bin"},
            cwd="/",
            stdio=(stdin, end, end),
        )
        os.close(stdin)
        os.close(end)
        for label in ("way", "way6"):
            here.sockets[label].setblocking(False)
        # by both ends: two may have the same port, to different addresses
        connections: dict[tuple[str, int], socket.socket] = {}
        told: list[tuple[str, int, int, int]] = []
        with os.fdopen(out, "rb") as said:
            while (line := await asyncio.to_thread(said.readline)) not in (b"done\n", b""):
                told.append(tuple(json.loads(line)))
                for label in ("way", "way6"):
                    with suppress(BlockingIOError):
                        accepted, peer = here.sockets[label].accept()
                        connections[accepted.getsockname()[0], peer[1]] = accepted
            assert len(told) == len(connections) == 200
            owners = here.owners
            numbers: dict[int, int] = {}
            for meant, port, inner, uid in told:
                owner = owners.of(connections[meant, port])
                while owner is None and owners.gave_up:  # on a machine that has much else to do
                    owner = owners.of(connections[meant, port])
                assert isinstance(owner, Owner)
                spaces = (
                    Path(f"/proc/{owner.pid}/status").read_text().split("NSpid:")[1].splitlines()[0].split()
                )
                assert (int(spaces[-1]), owner.uid) == (inner, uid)
                assert numbers.setdefault(owner.process, owner.pid) == owner.pid
                assert owner.only_in(here.sandbox.mount_namespace)
                assert not owner.only_in(here.sandbox.mount_namespace + 1)
                assert session_of(owner.pid, {child.pid: 7}) == 7
            os.close(hold_open)
            await child.ended
        assert until(lambda: not any(owners.of(one) for one in connections.values())), (
            "who has gone is nobody"
        )
        for one in connections.values():
            one.close()
        assert 0 < len(processes_held()) <= 8
        owners.close()
        assert not processes_held()


def processes_held() -> list[str]:
    """Which folders of processes this one has open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return [path for path in found if re.fullmatch(r"/proc/\d+( \(deleted\))?", path)]


async def test_the_owner_of_a_datagram_is_found_too(tmp_path: Path) -> None:
    script = """
    import socket, sys
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.connect(("127.0.0.1", 53))
    one.send(b"x")
    print("sent", flush=True)
    one.recv(1)
    """
    import textwrap

    async with world(tmp_path / "s", proxy=True, transparent=True) as here:
        child, out = here.start(["/usr/bin/python3", "-c", textwrap.dedent(script)], uid=1000)
        with os.fdopen(out, "rb") as said:
            assert await asyncio.to_thread(said.readline) == b"sent\n"
            names = here.sockets["names"]
            names.settimeout(5)
            _, client = names.recvfrom(100)
            owner = here.owners.of_datagram(client, ("127.0.0.1", 53))
            assert owner is not None
            assert (owner.uid, owner.pid) == (1000, child.pid)
            names.sendto(b"x", client)
            await child.ended
            assert here.owners.of_datagram(client, ("127.0.0.1", 53)) is None


AGENT_GIVES = """
import os, socket
server = socket.socket(socket.AF_UNIX)
server.bind("\\0meet")
server.listen()
print("ready", flush=True)
other, _ = server.accept()
one = socket.create_connection(("127.0.0.1", 3128))
socket.send_fds(other, [b"x"], [one.fileno()])
print("given", flush=True)
other.recv(1)
"""
VERIFIER_TAKES = """
import socket
other = socket.socket(socket.AF_UNIX)
other.connect("\\0meet")
_, (given,), _, _ = socket.recv_fds(other, 1, 1)
own = socket.create_connection(("127.0.0.1", 3128))
print("taken", flush=True)
own.recv(1)
"""


async def test_100_a_connection_that_the_agent_holds_too_is_not_the_verifiers(tmp_path: Path) -> None:
    async with world(tmp_path / "s", proxy=True) as here:
        view = kernel.detached_tmpfs(mode=0o755, size=1 << 20, files=100)
        agent, said_agent = here.start(["/usr/bin/python3", "-c", AGENT_GIVES])
        with os.fdopen(said_agent, "rb") as gives:
            assert await asyncio.to_thread(gives.readline) == b"ready\n"
            verifier, said = here.start(["/usr/bin/python3", "-c", VERIFIER_TAKES], view=[("/tests", view)])
            os.close(view)
            with os.fdopen(said, "rb") as takes:
                assert await asyncio.to_thread(takes.readline) == b"taken\n"
                way = here.sockets["way"]
                way.settimeout(5)
                both, _ = way.accept()
                own, _ = way.accept()
                inside = kernel.namespace_of(verifier.pid, "mnt")
                assert inside not in (0, here.sandbox.mount_namespace)
                owner = here.owners.of(own)
                assert owner is not None
                assert (owner.pid, owner.only_in(inside)) == (verifier.pid, True), "the positive control"
                for owners in (here.owners, Owners(here.sockets["diag"], here.sandbox.pid_namespace)):
                    shared = owners.of(both)
                    assert shared is not None
                    assert not shared.only_in(inside)
                both.close()
                own.close()
                await verifier.ended
            await agent.ended


async def test_a_socket_of_multipath_tcp_and_of_both_families_has_its_owner(tmp_path: Path) -> None:
    script = """
    import socket, threading
    six = socket.socket(socket.AF_INET6)
    six.connect(("::ffff:1.2.3.4", 80))
    many = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    threading.Thread(target=many.connect, args=(("1.2.3.4", 81),)).start()
    print("connected", flush=True)
    six.recv(1)
    """
    import textwrap

    async with world(tmp_path / "s", proxy=True, transparent=True) as here:
        child, out = here.start(["/usr/bin/python3", "-c", textwrap.dedent(script)])
        with os.fdopen(out, "rb") as said:
            assert await asyncio.to_thread(said.readline) == b"connected\n"
            way = here.sockets["way"]
            way.settimeout(5)
            accepted = [way.accept()[0] for _ in range(2)]
            for one in accepted:
                owner = here.owners.of(one)
                assert owner is not None
                assert owner.pid == child.pid
            for one in accepted:
                one.close()
            await child.ended


def test_an_orphan_is_known_by_the_kernels_session() -> None:
    # pid: (parent, the kernel's session)
    table = {
        10: (1, 10),  # the session's first process
        11: (10, 10),
        12: (11, 12),  # its grandchild, which called setsid
        20: (5, 10),  # an orphan of it
        21: (5, 21),  # an orphan that called setsid
        30: (1, 9),  # a later process of a pid that is on the list, but leads nothing
    }

    def stat(pid: int) -> list[str]:
        return ["S", str(table[pid][0]), "0", str(table[pid][1])] if pid in table else []

    sessions = {10: 3, 30: 4}
    assert [session_of(pid, sessions, stat) for pid in (10, 11, 12, 20)] == [3, 3, 3, 3]
    assert [session_of(pid, sessions, stat) for pid in (21, 30, 99)] == [None, None, None]


async def test_a_process_with_very_many_descriptors_hides_nobody_elses_connection(tmp_path: Path) -> None:
    hog = """
    import os, time
    try:
        while True:
            os.dup(0)
    except OSError:
        print("full", flush=True)
    time.sleep(600)
    """
    import textwrap

    connects = "import socket; one = socket.create_connection(('127.0.0.1', 3128)); print('in', flush=True); one.recv(1)"
    async with world(tmp_path / "s", proxy=True) as here:
        view = kernel.detached_tmpfs(mode=0o755, size=1 << 20, files=100)
        verifier, said = here.start(["/usr/bin/python3", "-c", connects], view=[("/tests", view)])
        os.close(view)
        with os.fdopen(said, "rb") as takes:
            assert await asyncio.to_thread(takes.readline) == b"in\n"
            _, full = here.start(["/usr/bin/python3", "-c", textwrap.dedent(hog)])
            with os.fdopen(full, "rb") as filled:
                assert await asyncio.to_thread(filled.readline) == b"full\n"
                way = here.sockets["way"]
                way.settimeout(5)
                one, _ = way.accept()
                owner = here.owners.of(one)
                assert owner is not None
                assert owner.only_in(kernel.namespace_of(verifier.pid, "mnt"))
                one.close()
            await verifier.ended


def test_a_session_is_remembered_though_the_parents_are_gone() -> None:
    def owner(process: int) -> Owner:
        return Owner(12, process, 0, 1, "it", frozenset())

    table = {10: ["S", "1", "0", "10"], 12: ["S", "10", "0", "12"]}
    descent = Descent(lambda pid: table.get(pid, []))
    assert descent.session_of(owner(1), {10: 3}) == 3
    table[12] = ["S", "1", "0", "12"]  # an orphan that called setsid
    assert descent.session_of(owner(1), {}) == 3
    assert descent.session_of(owner(2), {}) is None, "a later process of the same pid is another one"
