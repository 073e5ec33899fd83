"""A sandbox with its network made ready, and programs run in it, without a serving process around them."""

from __future__ import annotations

import asyncio
import os
import socket
import textwrap
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from world import until

from cell import argv
from cell.egress.owner import Owners
from cell.sandbox import Child, Plan, Sandbox, Who, hold
from cell.substrate import root as roots

__all__ = ["World", "until", "world"]

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class World:
    """The sandbox, what `ends.prepare` found, and the sockets it made, by label."""

    def __init__(
        self, sandbox: Sandbox, root: Path, facts: dict[str, Any], sockets: dict[str, socket.socket]
    ) -> None:
        self.sandbox, self.root, self.facts, self.sockets = sandbox, root, facts, sockets

    @property
    def owners(self) -> Owners:
        return Owners(self.sockets["diag"], self.sandbox.pid_namespace, self.sandbox.mount_namespace)

    def start(
        self, command: Sequence[str], *, uid: int = 0, view: Sequence[tuple[str, int]] = ()
    ) -> tuple[Child, int]:
        """Start a program; return it and the descriptor of all it prints."""
        out, end = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        child = self.sandbox.spawn(
            [list(command)],
            who=Who(uid, uid, (uid,)),
            env={"PATH": PATH},
            cwd="/",
            stdio=(null, end, end),
            view=view,
        )
        os.close(end)
        os.close(null)
        return child, out

    async def run(self, command: Sequence[str], *, uid: int = 0) -> str:
        """Return what a program prints."""
        child, out = self.start(command, uid=uid)
        with os.fdopen(out, "rb") as file:
            async with asyncio.timeout(30):
                printed = await asyncio.to_thread(file.read)
                await child.ended
        return printed.decode()

    async def python(self, script: str, *, uid: int = 0) -> str:
        """Return what a Python script prints, run with the world's own Python."""
        return await self.run(["/usr/bin/python3", "-c", textwrap.dedent(script)], uid=uid)

    async def shell(self, script: str, *, uid: int = 0) -> str:
        return await self.run(["/bin/sh", "-c", script], uid=uid)


@asynccontextmanager
async def world(
    state: Path, *, proxy: bool = False, transparent: bool = False, peers: Sequence[tuple[str, int]] = ()
) -> AsyncIterator[World]:
    root = roots.prepare_system_root(state, None)
    sockets: dict[str, socket.socket] = {}
    try:
        async with hold(Plan(str(root.path), "here", suid_mounts=root.mounts)) as sandbox:
            (root.path / "etc/resolv.conf").write_text("nameserver 127.0.0.1\n")
            (root.path / "etc/hosts").write_bytes(argv.hosts_file("here"))
            facts, made = await sandbox.network(
                "prepare", proxy=proxy, transparent=transparent, peers=[list(peer) for peer in peers]
            )
            sockets = {
                label: socket.socket(fileno=one) for label, one in zip(facts["sockets"], made, strict=True)
            }
            yield World(sandbox, root.path, facts, sockets)
    finally:
        for one in sockets.values():
            one.close()
        roots.release(root)
