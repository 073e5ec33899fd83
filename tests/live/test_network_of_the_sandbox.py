"""Sockets made in the sandbox's network and used outside it: nothing of ours runs inside for them."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from cell.launcher import net
from cell.sandbox import Plan, Sandbox, Who, hold
from cell.substrate import root as roots

pytestmark = pytest.mark.live
ECHO = """
import socket
server = socket.create_server(("127.0.0.1", 7007))
print("ready", flush=True)
one, _ = server.accept()
one.sendall(one.recv(100).upper())
"""


async def reading(descriptor: int) -> bytes:
    return await asyncio.to_thread(os.read, descriptor, 100)


async def served(sandbox: Sandbox) -> None:
    out, end = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    child = sandbox.spawn(
        [["/usr/bin/python3", "-c", ECHO]],
        who=Who(0, 0, ()),
        env={"PATH": "/usr/bin"},
        cwd="/",
        stdio=(null, end, null),
    )
    os.close(end)
    assert await reading(out) == b"ready\n"
    one = await sandbox.connect(7007)
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(one, b"whole")
    assert await loop.sock_recv(one, 100) == b"WHOLE"
    one.close()
    assert (await child.ended).code == 0
    os.close(out)
    os.close(null)


async def test_a_server_inside_is_reached_and_the_machines_own_is_not(tmp_path: Path) -> None:
    assert set(net.ACTIONS) >= {"connect"}
    outside = socket.create_server(("127.0.0.1", 0))
    root = roots.prepare_system_root(tmp_path / "state", None)
    try:
        async with hold(Plan(str(root.path), "here", suid_mounts=root.mounts)) as sandbox:
            await served(sandbox)
            port = outside.getsockname()[1]
            socket.create_connection(("127.0.0.1", port), 5).close()  # it does answer, out here
            with pytest.raises(OSError, match="refused"):
                await sandbox.connect(port)
    finally:
        roots.release(root)
        outside.close()
