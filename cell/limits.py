"""What a task declares of processors and memory, enforced with control groups of either version.

Everything that runs inside descends from the launcher's process, which is put into a group of its own
before it holds anything; the serving process stays outside. The group goes when the cell does. Of one
that was killed an empty group is left, which whoever comes next removes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from .records import Limit

# Nobody declares how many processes a world may have; without a bound one of them fills the machine.
PROCESSES = 8192
_PREFIX = "hudtui-"
_PERIOD = 100_000  # microseconds of processor time that a quota is a part of
_PATIENCE = 2.0  # seconds in which a group becomes empty when its last process has ended
# Version 1 counts in a file of its own, and not before Linux 4.13.
_COUNTERS = {"oom_kill": ("memory.oom_control", "memory.events"), "max": ("pids.events",)}
_NEVER = -1000  # of the kernel's badness when memory is short


@dataclass(frozen=True)
class _Kind:
    """A kind of limit: its controller, and the files to write, for version 1 and 2. The last may fail."""

    controller: str
    v1: tuple[tuple[str, str], ...]
    v2: tuple[tuple[str, str], ...]
    also: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class _Mount:
    """Where a hierarchy is mounted, the part of it that is mounted there, and what it controls."""

    point: Path
    root: str
    version: int
    controllers: frozenset[str]


@dataclass(frozen=True)
class Enforced:
    """The limits, each with what came of it, and the groups that hold them up."""

    limits: tuple[Limit, ...]
    groups: tuple[Path, ...]

    def release(self) -> None:
        """Remove the groups, once what was in them has ended."""
        for group in self.groups:
            _remove(group)


def enforce(cell: str, declared: Sequence[Limit], launcher: int) -> Enforced:
    """Put process `launcher` under the declared limits.

    Errors: none. A limit that this machine cannot enforce says so.
    """
    groups: dict[Path, None] = {}
    found = []
    for limit in declared:
        try:
            groups[_set(cell, limit, launcher)] = None
            found.append(msgspec.structs.replace(limit, enforced=True, why=""))
        except OSError as error:
            why = limit.why or f"control groups: {error.strerror or error}"
            found.append(msgspec.structs.replace(limit, enforced=False, why=why))
    return Enforced(tuple(found), tuple(groups))


@dataclass(frozen=True)
class Pressure:
    """How often, so far, a process was ended for want of memory, and how often one was refused."""

    ended: int = 0
    refused: int = 0

    def __sub__(self, before: Pressure) -> Pressure:
        return Pressure(self.ended - before.ended, self.refused - before.refused)


def pressure(groups: Sequence[Path]) -> Pressure:
    """Return what the limits of a cell have come to. Errors: none; what is not counted is 0."""
    counted = {
        name: sum(_counted(group / file, name) for group in groups for file in files)
        for name, files in _COUNTERS.items()
    }
    return Pressure(ended=counted["oom_kill"], refused=counted["max"])


def _counted(file: Path, name: str) -> int:
    with suppress(OSError, ValueError):
        for line in file.read_text("ascii").splitlines():
            word, _, number = line.partition(" ")
            if word == name:
                return int(number)
    return 0


def members(groups: Sequence[Path]) -> list[int] | None:
    """Return the pids in the groups of a cell; None where there is none. The launcher's are among them."""
    for group in groups:
        with suppress(OSError, ValueError):
            return [int(word) for word in (group / "cgroup.procs").read_text("ascii").split()]
    return None


def protect(launcher: int) -> int:
    """Keep the kernel from choosing the launcher when memory is short; returns what its children get."""
    usual = int(Path("/proc/self/oom_score_adj").read_text("ascii"))
    with suppress(OSError):
        Path(f"/proc/{launcher}/oom_score_adj").write_text(str(_NEVER), "ascii")
    return usual


def sweep() -> list[str]:
    """Remove the groups whose cell is gone, and return their names. One that is in use cannot be removed."""
    gone = []
    for mount in _mounts():
        for place in _places(mount):
            for group in place.glob(f"{_PREFIX}*"):
                with suppress(OSError):
                    group.rmdir()
                    gone.append(group.name)
    return gone


def _kind(limit: Limit) -> _Kind | None:
    if limit.name == "cpus":
        quota = str(int(float(limit.value) * _PERIOD))
        v1 = (("cpu.cfs_period_us", str(_PERIOD)), ("cpu.cfs_quota_us", quota))
        return _Kind("cpu", v1, (("cpu.max", f"{quota} {_PERIOD}"),))
    if limit.name == "memory_mb":
        size = str(int(float(limit.value) * (1 << 20)))
        swap = (("memory.swap.max", "0"), ("memory.memsw.limit_in_bytes", size))
        return _Kind("memory", (("memory.limit_in_bytes", size),), (("memory.max", size),), swap)
    if limit.name == "pids":
        files = (("pids.max", limit.value),)
        return _Kind("pids", files, files)
    return None


def _set(cell: str, limit: Limit, process: int) -> Path:
    kind = _kind(limit)
    if kind is None:
        raise OSError(limit.why)
    mount = next((mount for mount in _mounts() if kind.controller in mount.controllers), None)
    if mount is None:
        raise OSError(f"no {kind.controller} controller")
    failure = OSError("none may be made here")
    for place in _places(mount):
        try:
            if mount.version == 2:
                with suppress(FileNotFoundError):
                    _write(place / "cgroup.subtree_control", f"+{kind.controller}")
            return _join(place / f"{_PREFIX}{cell}", kind, mount.version, process)
        except OSError as error:
            failure = error
    raise failure


def _join(group: Path, kind: _Kind, version: int, process: int) -> Path:
    for attempt in range(5):
        group.mkdir(exist_ok=True)
        try:
            for name, value in kind.v1 if version == 1 else kind.v2:
                _write(group / name, value)
            for name, value in kind.also:
                with suppress(OSError):
                    _write(group / name, value)
            _write(group / "cgroup.procs", str(process))
            return group
        except FileNotFoundError:
            # somebody swept it away while it was empty
            if attempt == 4:
                raise
        except OSError:
            with suppress(OSError):
                group.rmdir()
            raise
    raise AssertionError


def _write(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode("ascii"))
    finally:
        os.close(descriptor)


def _remove(group: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.005)
        else:
            return


def _mounts() -> list[_Mount]:
    """Return the mounted hierarchies; those of version 1 first: what they control, the other does not."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, _, options) = left.split(), right.split(" ", 2)
        if kind == "cgroup":
            found.append(_Mount(Path(fields[4]), fields[3], 1, frozenset(options.split(","))))
        elif kind == "cgroup2":
            with suppress(OSError):
                names = Path(fields[4], "cgroup.controllers").read_text("ascii").split()
                found.append(_Mount(Path(fields[4]), fields[3], 2, frozenset(names)))
    return sorted(found, key=lambda mount: mount.version)


def _places(mount: _Mount) -> list[Path]:
    """Return where a group may be made, the best first: in our own (version 1) or beside it (version 2).

    In version 2 a group with processes in it cannot limit groups below, so it is some way up.
    """
    own = _own(mount)
    if mount.version == 1:
        return [own]
    above = [folder for folder in own.parents if folder == mount.point or mount.point in folder.parents]
    return above or [mount.point]


def _own(mount: _Mount) -> Path:
    for line in Path("/proc/self/cgroup").read_text("utf-8", "replace").splitlines():
        _, names, path = line.split(":", 2)
        if (mount.version == 1 and mount.controllers & set(names.split(","))) or (
            mount.version == 2 and not names
        ):
            inner = os.path.relpath(path, mount.root) if path.startswith(mount.root) else "."
            return Path(os.path.normpath(mount.point / inner))
    return mount.point
