"""What every test may rely on: the markers mean what they say, and nothing is left behind.

`live` needs root and bubblewrap, `engine` a Docker engine that answers. Where one is missing its
tests are skipped; with CELL_MUST_WORK=1 (set by .ci/run) they fail instead.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cell.machine import probe

# It installs everything anew, and would run `make test` from `make test`: `make fresh` asks for it.
collect_ignore = [] if os.environ.get("CELL_FRESH") == "1" else ["fresh"]
MUST_WORK = os.environ.get("CELL_MUST_WORK") == "1"


@functools.cache
def missing_for_live() -> str:
    """Say why no cell can be made here; empty when one can."""
    if os.geteuid() != 0:
        return "needs root"
    return "" if shutil.which("bwrap") else "needs bubblewrap"


@functools.cache
def missing_for_engine() -> str:
    """Say why no Docker engine can be used here; empty when one answers."""
    found = probe(Path(), lambda _bwrap: "")
    return "" if found.engine else f"needs a Docker engine: {found.engine_failure}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, missing in (("live", missing_for_live), ("engine", missing_for_engine)):
        if item.get_closest_marker(marker) and (why := missing()):
            if MUST_WORK:
                pytest.fail(f"CELL_MUST_WORK=1, but this machine lacks a part: {why}", pytrace=False)
            pytest.skip(why)


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """After the last test: no cell of ours lives, no process is in its namespaces, nothing is mounted."""
    yield
    base = tmp_path_factory.getbasetemp().resolve()
    deadline = time.monotonic() + 5
    while (left := leftovers(base)) and time.monotonic() < deadline:
        time.sleep(0.05)  # a torn-down world takes the kernel a moment
    assert not left, "left behind by the tests:\n" + "\n".join(left)


def leftovers(base: Path) -> list[str]:
    """List what is left of cells whose trial folders, or whose mounts, are under `base`."""
    left = [f"mount {point}" for point in mounts() if point.is_relative_to(base)]
    worlds: dict[int, Path] = {}
    for file in base.glob("**/cell/cell.json"):
        try:
            info = json.loads(file.read_bytes())
            serve, spaces = info["serve"], info["identity"]["namespaces"]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # torn or odd on purpose: a test of bad input
        if started(serve.get("pid")) == serve.get("start"):
            left.append(f"cell serve {serve['pid']} of {file}")
        worlds |= {space["inode"]: file for space in spaces if space["kind"] == "pid" and not space["shared"]}
    for entry in Path("/proc").iterdir():
        if worlds and entry.name.isdecimal() and (inode := pid_namespace(entry)) in worlds:
            # A number that is free again is given to the next namespace, another test's say: what began
            # after the last record of this cell is none of its own, and nothing outlives a pid 1.
            began, last = started(entry.name), worlds[inode].with_name("events.jsonl").stat().st_mtime
            if began is not None and booted() + began / os.sysconf("SC_CLK_TCK") <= last:
                left.append(f"process {entry.name} in the world of {worlds[inode]}")
    return left


def booted() -> float:
    """Return when this machine was started, in seconds since the epoch."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def mounts() -> list[Path]:
    """List the mount points of this process's mount namespace."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [Path(line.split()[4].encode().decode("unicode_escape")) for line in lines]


def started(pid: object) -> int | None:
    """Return the start time (clock ticks since boot) of a process; None when it has gone or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def pid_namespace(process: Path) -> int:
    """Return the inode of a process's pid namespace, 0 when it cannot be seen."""
    try:
        return (process / "ns/pid").stat().st_ino
    except OSError:
        return 0
