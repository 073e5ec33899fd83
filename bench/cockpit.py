"""What the cockpit costs: a key's way into a cell and back, four flooding terminals, memory, the first picture.

The cockpit is the real one on a terminal of its own, and the cells are real. A key is timed from the write
to that terminal until the character comes back out of it; the floor is the same key over asyncssh alone, to
the same session of the same cell.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import random
import re
import secrets
import select
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

from bench.living import living, memory, spec
from cell import control, kernel
from cell.serve import RUNTIME

TOP = Path(__file__).resolve().parent.parent
DEMO = TOP / "hudtui/data/demo"
KEYS, STARTS, SECONDS = 200, 5, 10
FINISHED, LIVE, MANY = 100, 4, 300
FLOOD = "n=0; while :; do seq -f '%0180.0f' $n $((n+270)); n=$((n+270)); sleep 0.05; done"
"""About 1 MB/s, 80 screens of 200×60 a second."""
ECHO = "stty raw -echo; echo ready; exec cat"
Row = tuple[str, str, str, str]
_ESCAPES = re.compile(rb"\x1b(?:\[[0-9;:?<>=]*[ -/]*[@-~]|[\]P_^][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|.)")


def p95(times: list[float]) -> float:
    """Return the 95th percentile, in ms."""
    return sorted(times)[int(len(times) * 0.95)] * 1000


def median(times: list[float]) -> float:
    return statistics.median(times) * 1000


# ── the cockpit, and who sits at it ───────────────────────────────────────────────────────────────


class Terminal:
    """A program on a terminal of this size; `until` reads until words were drawn."""

    def __init__(self, argv: list[str], cols: int, rows: int) -> None:
        self.start = time.perf_counter()
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ |= {"TERM": "xterm-256color", "XDG_CONFIG_HOME": "/nowhere"}
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
            os.execv(argv[0], argv)
        self.drawn = self._torn = b""
        """What was drawn, without its escape sequences."""

    def read(self, seconds: float) -> bool:
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        data = os.read(self.master, 1 << 18)
        if b"\x1b[c" in data or b"\x1b[?2026$p" in data:
            os.write(self.master, b"\x1b[?2026;2$y")
        cut = data.rfind(b"\x1b", -64)  # what may be torn waits for its other half
        whole, self._torn = (self._torn + data, b"") if cut < 0 else (self._torn + data[:cut], data[cut:])
        self.drawn = self.drawn[-2000:] + _ESCAPES.sub(b"", whole)
        return True

    def until(self, words: bytes, seconds: float = 60.0) -> float:
        """Return the moment at which the words were there."""
        end = time.perf_counter() + seconds
        while words not in self.drawn + _ESCAPES.sub(b"", self._torn):
            if time.perf_counter() > end:
                raise TimeoutError(f"{words!r} was never drawn: {self.drawn!r}")
            self.read(0.05)
        return time.perf_counter()

    def quiet(self, seconds: float = 0.3) -> None:
        end = time.perf_counter() + 5
        while self.read(seconds) and time.perf_counter() < end:
            pass

    def key(self, key: bytes, words: bytes) -> float:
        """Return the seconds from the key to the words."""
        self.drawn = b""
        start = time.perf_counter()
        os.write(self.master, key)
        return self.until(words) - start

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.master)


@contextmanager
def cockpit(*words: str | Path, cols: int = 120, rows: int = 40) -> Iterator[Terminal]:
    made = Terminal([sys.executable, "-m", "hudtui.cli", *map(str, words)], cols, rows)
    try:
        yield made
    finally:
        made.close()


def seat(config: str, cols: int, rows: int, command: str) -> int:
    """Be an agent at its terminal: the stock client, all it prints is read and dropped."""
    made = Terminal([shutil.which("ssh") or "ssh", "-tt", "-F", config, "agent", command], cols, rows)
    parent = os.getppid()
    with suppress(OSError):
        while os.getppid() == parent:
            made.read(1)
            made.drawn = b""
    made.close()
    return 0


# ── cells ─────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def agent(trial: Path, command: str, cols: int, rows: int) -> AsyncIterator[None]:
    argv = [
        sys.executable,
        "-m",
        "bench.cockpit",
        "seat",
        trial / "cell/ssh_config",
        str(cols),
        str(rows),
        command,
    ]
    process = await asyncio.create_subprocess_exec(*argv, cwd=TOP, start_new_session=True)
    try:
        while not list((trial / "cell/sessions").glob("*.cast")):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def finished(jobs: Path, count: int) -> None:
    """Fill a folder with recorded trials, over and over."""
    recorded = sorted(path.parent for path in DEMO.glob("*/*/result.json"))
    for number in range(count):
        source = recorded[number % len(recorded)]
        target = jobs / "recorded" / f"{source.name.partition('__')[0]}__r{number:06}"
        shutil.copytree(source, target)
    for name in ("config.json", "result.json"):
        shutil.copy(recorded[0].parent / name, jobs / "recorded" / name)


# ── what is measured ──────────────────────────────────────────────────────────────────────────────


async def alone(name: str) -> list[float]:
    """The floor: the same session, attached to by asyncssh with nothing around it."""
    connection = await control.connect(RUNTIME / name, "operator")
    process = await connection.create_process("attach 1", encoding=None)
    times = []
    await asyncio.sleep(0.5)
    for number in range(KEYS):
        key = bytes([33 + number % 90])  # no other than this one answers
        start = time.perf_counter()
        process.stdin.write(key)
        while key not in await process.stdout.read(1 << 16):
            pass
        times.append(time.perf_counter() - start)
        await asyncio.sleep(0.01)
    process.close()
    connection.close()
    await connection.wait_closed()
    return times


def typing(terminal: Terminal) -> list[float]:
    """Type letters into an attached session that says them again."""
    times, line = [], b""
    letters = random.Random(7)
    for number in range(KEYS):
        if number % 50 == 0:
            os.write(terminal.master, b"\r\n")
            terminal.quiet()
            line = b""
        line += bytes([letters.choice(b"abcdefghijklmnopqrstuvwxyz")])
        times.append(terminal.key(line[-1:], line[-6:]))
        terminal.quiet(0.03)
    return times


def keys(trial: Path) -> list[float]:
    with cockpit("--attach", "1", trial) as terminal:
        terminal.until(b"ATTACHED")
        terminal.quiet()
        return typing(terminal)


def first_paint(jobs: Path) -> tuple[list[float], list[float]]:
    """Return times until the rows are there, and what the cockpit has computed until then."""
    times, cpu = [], []
    for _ in range(STARTS):
        with cockpit(jobs) as terminal:
            times.append(terminal.until(f"Fleet {MANY}".encode()) - terminal.start)
            cpu.append(ticks(terminal.pid))
    return times, cpu


def importing() -> list[float]:
    times = []
    for _ in range(STARTS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import textual.app, textual.widgets"], check=True)
        times.append(time.perf_counter() - start)
    return times


def ticks(pid: int) -> float:
    """Return the seconds of a core that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def flooded(jobs: Path) -> tuple[float, float, list[float]]:
    """Return MB of the cockpit on all, the share of a core that four floods take, and times of a key."""
    with cockpit(jobs, cols=410, rows=130) as terminal:
        terminal.until(f"Fleet {FINISHED + LIVE}".encode())
        os.write(terminal.master, b"2")
        terminal.quiet(0.1)
        os.write(terminal.master, b"T")
        watched(terminal, 3)
        start, used = time.perf_counter(), ticks(terminal.pid)
        watched(terminal, SECONDS)
        share = (ticks(terminal.pid) - used) / (time.perf_counter() - start)
        times = []
        for _ in range(60):
            times.append(terminal.key(b"c", b"copied"))
            watched(terminal, 0.1)
        return memory(terminal.pid), share, times


def watched(terminal: Terminal, seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        terminal.read(0.05)
        terminal.drawn = b""


async def rows() -> list[Row]:
    """Measure all, and return the rows of the table."""
    found: list[Row] = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-cockpit-")))
        mark = f"bench{secrets.token_hex(3)}"
        many, mixed = folder / "many", folder / "mixed"
        finished(many, MANY)
        finished(mixed, FINISHED)
        paints, cpu = await asyncio.to_thread(first_paint, many)
        imports = await asyncio.to_thread(importing)
        name = f"cockpit: start to first paint, {MANY} trials"
        found.append(
            (
                name,
                f"{median(paints):.0f} ms",
                f"of it computing {median(cpu):.0f}; importing textual {median(imports):.0f} ms",
                "≤ 1 s",
            )
        )
        trial = folder / "keys/bench__typing"
        async with living(spec(trial, f"{mark}k")), agent(trial, ECHO, 100, 30):
            times = await asyncio.to_thread(keys, trial)
            floor = await alone(f"{mark}k")
        said = f"{median(times):.1f}, p95 {p95(times):.1f} ms"
        beside = f"asyncssh alone {median(floor):.1f}, p95 {p95(floor):.1f} ms"
        found.append(("cockpit: a key in an attached terminal", said, beside, "p95 ≤ 15 ms"))
        for number in range(LIVE):
            trial = mixed / "live" / f"bench__flood{number}"
            await stack.enter_async_context(living(spec(trial, f"{mark}f{number}")))
            await stack.enter_async_context(agent(trial, FLOOD, 200, 60))
        size, share, times = await asyncio.to_thread(flooded, mixed)
        beside = f"{LIVE} terminals of 200×60, 1 MB/s each"
        found.append(("cockpit: four flooding terminals", f"{share * 100:.0f} % of a core", beside, "≤ 50 %"))
        said = f"{median(times):.1f}, p95 {p95(times):.1f} ms"
        found.append(("cockpit: a key among the floods", said, beside, "p95 ≤ 20 ms"))
        name = f"cockpit: memory, {FINISHED} finished and {LIVE} live"
        found.append((name, f"{size:.0f} MB", "PSS, while they flood", "≤ 200 MB"))
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["seat"]:
        sys.exit(seat(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]))
    from bench.__main__ import row

    kernel.private_mounts()
    started = time.monotonic()
    for one in asyncio.run(rows()):
        row(*one)
    print(f"{time.monotonic() - started:.0f} s, load {os.getloadavg()[0]:.1f}")
