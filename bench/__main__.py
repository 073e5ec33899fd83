"""`python -m bench`: what a cell costs, as medians, with the floor beside each in the same run.

As root, on Linux. Figures, never tests: machines are shared and noisy; the ratio is what counts.
"""

from __future__ import annotations

import asyncio
import os
import pty
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bench import cockpit, egress
from bench.living import memory, own, spec
from cell import control, kernel, placing
from cell.launching import Launcher
from cell.sandbox import Plan, Who, hold
from cell.serve import RUNTIME, SYSTEM_CACHE
from cell.substrate import root as roots

ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
FLOOD = 100_000_000


def median(times: list[float]) -> float:
    return statistics.median(times) * 1000


def timed(act: Callable[[], object], count: int) -> float:
    times = []
    for _ in range(count):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return median(times)


def row(name: str, value: str, floor: str, goal: str = "") -> None:
    print(f"{name:<44} {value:>14}   {floor:<48} {goal}")


def bwrap_true() -> float:
    argv = "bwrap --unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts --bind / / --dev /dev --proc /proc true"
    return timed(lambda: subprocess.run(argv.split(), check=True), 15)


async def ready(folder: Path, *, warm: bool) -> float:
    """From the first mount to a sandbox that can be joined.

    `warm`: the launcher was started before, as the serving process does while it loads its libraries.
    """
    times = []
    for number in range(15):
        state = folder / f"r{number}{warm}"
        early = Launcher.start() if warm else None
        await asyncio.sleep(0.2 if warm else 0)
        start = time.perf_counter()
        root = roots.prepare_system_root(state, SYSTEM_CACHE)
        async with hold(Plan(str(root.path), "bench", suid_mounts=root.mounts), early):
            times.append(time.perf_counter() - start)
        roots.release(root)
    return median(times[1:])


async def launcher(folder: Path) -> float:
    root = roots.prepare_system_root(folder / "l", SYSTEM_CACHE)
    times = []
    null = os.open(os.devnull, os.O_RDWR)
    async with hold(Plan(str(root.path), "bench", suid_mounts=root.mounts)) as sandbox:
        for _ in range(100):
            start = time.perf_counter()
            child = sandbox.spawn(
                [["/bin/true"]], who=Who(0, 0, ()), env=ENV, cwd="/", stdio=(null, null, null)
            )
            await child.ended
            times.append(time.perf_counter() - start)
    roots.release(root)
    os.close(null)
    return median(times)


def raw_pty() -> float:
    start, size = time.perf_counter(), 0
    pid, master = pty.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", f"head -c {FLOOD} /dev/zero | tr '\\0' x"])
    with suppress(OSError):
        while data := os.read(master, 1 << 16):
            size += len(data)
    os.waitpid(pid, 0)
    os.close(master)
    return size / (time.perf_counter() - start) / 1e6


async def flood(connection: object) -> float:
    start, size = time.perf_counter(), 0
    command = f"head -c {FLOOD} /dev/zero | tr '\\0' x"
    process = await connection.create_process(command, term_type="xterm", encoding=None)  # type: ignore[attr-defined]
    while data := await process.stdout.read(1 << 16):
        size += len(data)
    await process.wait_closed()
    assert size == FLOOD, size
    return size / (time.perf_counter() - start) / 1e6


def docker_exec() -> str:
    if shutil.which("docker") is None or subprocess.run(["docker", "info"], capture_output=True).returncode:
        return "docker exec: no engine"
    run = ["docker", "run", "-d", "--rm", "--network", "none", "debian:bookworm", "sleep", "600"]
    started = subprocess.run(run, capture_output=True, text=True)
    if started.returncode:
        return "docker exec: no image debian:bookworm"
    name = started.stdout.strip()
    try:
        took = timed(lambda: subprocess.run(["docker", "exec", name, "true"], check=True), 10)
    finally:
        subprocess.run(["docker", "kill", name], capture_output=True)
    return f"docker exec {took:.1f} ms"


async def served(folder: Path) -> None:
    times, cells = [], []
    for number in range(3):
        trial = folder / f"t{number}"
        trial.mkdir()
        name = f"bench{number}{os.getpid()}"
        start = time.perf_counter()
        cells.append((name, await placing.start(spec(trial, name), trial)))
        times.append(time.perf_counter() - start)
    floor = timed(lambda: subprocess.run([sys.executable, "-c", "import asyncssh, uvloop"], check=True), 5)
    row(
        "cell answers (process start to sockets)",
        f"{median(times):.0f} ms",
        f"python importing asyncssh, uvloop {floor:.0f} ms",
    )
    name, _ = cells[0]
    link = await control.Link.open(RUNTIME / name, "runner")
    await link.call("begin")
    connection = await control.connect(RUNTIME / name, "agent")
    times = []
    for _ in range(100):
        start = time.perf_counter()
        await connection.run("true", encoding=None)
        times.append(time.perf_counter() - start)
    fork = timed(lambda: subprocess.run(["/bin/true"]), 100)
    alone = await launcher(folder)
    peer = await asyncio.to_thread(docker_exec)
    row(
        "command over an open connection",
        f"{median(times):.1f} ms",
        f"fork+exec {fork:.1f}, launcher alone {alone:.1f}, {peer}",
        "≤ 10 ms",
    )
    rates = [await flood(connection) for _ in range(3)]
    floors = [await asyncio.to_thread(raw_pty) for _ in range(3)]
    row(
        "terminal through SSH, recorded",
        f"{statistics.median(rates):.0f} MB/s",
        f"raw pty {statistics.median(floors):.0f} MB/s",
        "≥ 30 MB/s",
    )
    _, idle = cells[1]
    whole, serve = memory(idle.pid), own(idle.pid)
    row(
        "memory of an idle cell (PSS)",
        f"{whole:.0f} MB",
        f"serve {serve:.0f}, launcher {whole - serve:.0f}",
    )
    connection.abort()
    await link.close()
    for _, process in cells:
        process.terminate()
        await process.wait()


async def main() -> int:
    if os.geteuid() != 0:
        print("bench: needs root: sudo make bench", file=sys.stderr)
        return 2
    kernel.private_mounts()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        floor = bwrap_true()
        row("MEASURED", "MEDIAN", "FLOOR OR PEER IN THE SAME RUN", "GOAL")
        row(
            "cell ready (root, sandbox, hardened)",
            f"{await ready(folder, warm=True):.1f} ms",
            f"bwrap … true {floor:.1f}, launcher's start included {await ready(folder, warm=False):.1f} ms",
            "≤ 25 ms",
        )
        await served(folder)
        for one in [*await egress.rows(), *await cockpit.rows()]:
            row(*one)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
