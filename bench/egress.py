"""What the way out of a cell costs, beside squid and tinyproxy as Debian has them, in the same run.

Ours is a whole cell: the client runs inside, the kernel is asked whose each connection is, the policy is an
allowlist, and every request is in the journal before it is answered. The others run on the loopback
of this machine, with Debian's own logging, and no rules. All have the same client and the same origin,
and take turns, so that whatever else the machine does is borne by all.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.living import living, memory, spec
from cell import control, kernel
from cell.launcher import ends
from cell.serve import RUNTIME, PhaseSpec

LOAD = Path(__file__).with_name("load.py")
# The same Python for all: the one that a cell on the system's root has.
PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
ROUNDS, SECONDS, CONNECTS, IDLE = 5, 2, 300, 1000
NAME = "origin.example"
SQUID = """http_port 127.0.0.1:{port}
http_access allow all
cache deny all
cache_mem 0
pinger_enable off
max_filedescriptors 8192
shutdown_lifetime 0 seconds
pid_filename {folder}/squid.pid
cache_log {folder}/cache.log
access_log daemon:{folder}/access.log squid
coredump_dir {folder}
"""
TINYPROXY = """Port {port}
Listen 127.0.0.1
MaxClients 2000
Timeout 600
LogFile "{folder}/tinyproxy.log"
LogLevel Info
"""
Row = tuple[str, str, str, str]


@dataclass
class Side:
    """One proxy: how its client is run, the processes that it is, and what was measured."""

    name: str
    port: int
    target: str
    pid: int
    inside: Any = None
    found: dict[str, list[float]] = field(default_factory=dict)
    closes: bool = False

    async def run(self, what: str, *numbers: int) -> list[str]:
        """Run the client to its end and return the words that it prints."""
        words = [what, str(self.port), self.target, *map(str, numbers)]
        if self.inside is not None:
            done = await self.inside.run(" ".join(["python3 /tmp/load.py", *words]), check=True)
            return str(done.stdout).split()
        child = await asyncio.create_subprocess_exec(PYTHON, LOAD, *words, stdout=subprocess.PIPE)
        out, _ = await child.communicate()
        if child.returncode:
            raise RuntimeError(f"{self.name}: {what} ended with {child.returncode}")
        return out.decode().split()

    async def measure(self) -> None:
        """Take one round of figures."""
        for count in (1, 8):
            rate, closed = await self.run("requests", count, SECONDS)
            self.note(f"requests {count}", float(rate))
            self.closes = int(closed) > 10
        self.note("connect", float((await self.run("connect", CONNECTS))[0]))
        self.note("tunnel", float((await self.run("tunnel"))[0]))

    async def idle(self) -> None:
        """Note the memory before and with idle tunnels, in MB."""
        self.note("empty", memory(self.pid))
        words = f"idle {self.port} {self.target} {IDLE}"
        if self.inside is not None:
            client = await self.inside.create_process(f"python3 /tmp/load.py {words}")
        else:
            client = await asyncio.create_subprocess_exec(
                PYTHON, LOAD, *words.split(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        said = await client.stdout.readline()
        if int(said or 0) != IDLE:
            raise RuntimeError(f"{self.name}: {IDLE} tunnels could not be opened")
        self.note("full", memory(self.pid))
        client.stdin.write_eof()
        await (client.wait() if self.inside is None else client.wait_closed())

    def note(self, what: str, value: float) -> None:
        self.found.setdefault(what, []).append(value)

    def median(self, what: str) -> float:
        return statistics.median(self.found[what])


@asynccontextmanager
async def ours(folder: Path, origin: int) -> AsyncIterator[Side]:
    """A cell whose agent may reach the origin alone, by a name."""
    name = f"bench{secrets.token_hex(3)}"
    allowed = PhaseSpec(
        user="root",
        key="bench",
        network_declared="allowlist",
        network_used="allowlist",
        allowed_hosts=("pkg.example", "*.mirror.example", NAME),
        network_key="agent.network_mode",
    )
    async with living(spec(folder / "trial", name, allowed, pins=((NAME, "127.0.0.1"),))) as process:
        connection = await control.connect(RUNTIME / name, "agent")
        await connection.run("cat > /tmp/load.py", input=LOAD.read_text("utf-8"), check=True)
        yield Side("cell", ends.WAY_PORT, f"{NAME}:{origin}", process.pid, connection)
        connection.abort()


@asynccontextmanager
async def theirs(name: str, program: str, folder: Path, origin: int) -> AsyncIterator[Side]:
    """Squid or tinyproxy with a configuration of its own, in the foreground."""
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        port = chosen.getsockname()[1]
    folder.chmod(0o777)  # squid becomes a user of its own
    settings = folder / f"{name}.conf"
    settings.write_text((SQUID if name == "squid" else TINYPROXY).format(port=port, folder=folder), "utf-8")
    argv: list[str | Path] = (
        [program, "-N", "-f", settings] if name == "squid" else [program, "-d", "-c", settings]
    )
    with (folder / f"{name}.out").open("wb") as out:
        process = await asyncio.create_subprocess_exec(*argv, stdout=out, stderr=out)
    try:
        for _ in range(200):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            await asyncio.sleep(0.05)
        yield Side(name, port, f"127.0.0.1:{origin}", process.pid)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(5):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def rows() -> list[Row]:
    """Measure all, and return the rows of the table."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    found = {name: shutil.which(name, path=path) for name in ("squid", "tinyproxy")}
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-egress-")))
        child = await asyncio.create_subprocess_exec(PYTHON, LOAD, "origin", stdout=subprocess.PIPE)
        stack.callback(child.kill)
        assert child.stdout is not None
        origin = int(await child.stdout.readline())
        cell = await stack.enter_async_context(ours(folder, origin))
        sides = [cell]
        for name, program in found.items():
            if program is not None:
                sides.append(await stack.enter_async_context(theirs(name, program, folder, origin)))
        bare = Side("no proxy", 0, f"127.0.0.1:{origin}", 0)
        for _ in range(ROUNDS):
            for side in (*sides, bare):
                await side.measure()
        for side in sides:
            await side.idle()
        return table(cell, sides[1:], bare)


def table(cell: Side, others: list[Side], bare: Side) -> list[Row]:
    """Set ours beside theirs, with the ratio that the goal is about."""
    missing = {"squid", "tinyproxy"} - {side.name for side in others}
    alone = "".join(f", no {name} is installed here" for name in sorted(missing))
    squid = next((side for side in others if side.name == "squid"), None)

    def beside(what: str, unit: str, against: float | None, *, floor: bool = True) -> str:
        form = ".2f" if unit == "ms" else ",.0f"
        listed = [f"{side.name} {side.median(what):{form}}" for side in (*others, *([bare] if floor else []))]
        ratio = f"ratio {cell.median(what) / against:.2f}; " if against else ""
        return ratio + ", ".join(listed) + alone

    def best(what: str, choose: Any) -> float | None:
        return choose(side.median(what) for side in others) if others else None

    found = []
    for count, of in ((1, "1 connection"), (8, "8 connections")):
        what = f"requests {count}"
        against = squid.median(what) if squid else None
        value = f"{cell.median(what):,.0f}/s"
        found.append((f"requests by proxy, {of}", value, beside(what, "/s", against), "≥ 0.5 × squid"))
    value = f"{cell.median('connect'):.2f} ms"
    found.append(("CONNECT until answered", value, beside("connect", "ms", best("connect", min)), "≤ 1.5 ×"))
    value = f"{cell.median('tunnel'):,.0f} MB/s"
    found.append(("tunnel, 1 GB", value, beside("tunnel", "MB/s", best("tunnel", max)), "≥ 1.2 ×"))
    value = f"{cell.median('full') - cell.median('empty'):.0f} MB"
    for side in (cell, *others):
        side.note("more", side.median("full") - side.median("empty"))
    found.append((f"memory of {IDLE} idle tunnels (PSS)", value, beside("more", "MB", None, floor=False), ""))
    return found


if __name__ == "__main__":
    from bench.__main__ import row

    kernel.private_mounts()
    start = time.monotonic()
    for one in asyncio.run(rows()):
        row(*one)
    print(f"{time.monotonic() - start:.0f} s, load {os.getloadavg()[0]:.1f}")
