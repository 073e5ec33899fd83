"""Reading the files of a trial folder when nobody promises that they are whole.

Harbor writes JSON non-atomically, a killed writer leaves torn lines, and the folders below `agent/`
and `verifier/` were filled by whoever worked inside: a name may be a pipe, a device or a link to a
file of the operator's. So: regular files only, links are not followed, sizes are capped, and
nothing here raises on content.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

JSON_LIMIT = 32 << 20
"""The largest JSON file that is read, in bytes."""

R = TypeVar("R")

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


def read_regular(path: Path | str, *, limit: int, offset: int = 0) -> bytes | None:
    """Return up to `limit` bytes from `offset` (negative: counted from the end).

    None when there is no regular file of that name that we may read.
    """
    try:
        fd = os.open(path, _FLAGS)
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return None
        start = offset if offset >= 0 else max(0, found.st_size + offset)
        return os.pread(fd, limit, start)
    except OSError:
        return None
    finally:
        os.close(fd)


def load_object(path: Path | str) -> dict[str, Any] | None:
    """Return the JSON object in the file; None when missing, torn, too large or something else."""
    data = read_regular(path, limit=JSON_LIMIT + 1)
    if data is None or len(data) > JSON_LIMIT:
        return None
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def load_record(path: Path | str, kind: type[R]) -> R | None:
    """Return the record in the file; None when missing, torn, too large or not of that kind."""
    data = read_regular(path, limit=JSON_LIMIT + 1)
    if data is None or len(data) > JSON_LIMIT:
        return None
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def load_lines(path: Path | str, kind: type[R]) -> list[R]:
    """Return the records in a file that has one a line; what is torn or something else is passed over."""
    found = []
    for raw in (read_regular(path, limit=JSON_LIMIT) or b"").split(b"\n"):
        try:
            found.append(msgspec.json.decode(raw, type=kind))
        except (msgspec.DecodeError, RecursionError, ValueError):
            continue
    return found


def mtime(path: Path | str) -> float | None:
    """Return when the file was last written (seconds since the epoch), None when it is not there."""
    try:
        return os.lstat(path).st_mtime
    except (OSError, ValueError):
        return None


def stamp(path: Path | str) -> tuple[int, int, int]:
    """Return what changes when the file is written or replaced; zeros when it is not there."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def when(value: object) -> float | None:
    """Read one of Harbor's times: ISO with `Z`, with an offset, or naive local (HARBOR's job times)."""
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def inner(value: object, *names: str) -> Any:
    """Walk into nested objects; None as soon as something is not there or is no object."""
    for name in names:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def word(value: object, default: str = "") -> str:
    """Return `value` when it is a non-empty string, else `default`."""
    return value if isinstance(value, str) and value else default


def entries(path: Path | str, most: int | None = None) -> list[os.DirEntry[str]]:
    """List a folder (at most `most` of it), sorted by name; empty when it is missing or not ours to read."""
    try:
        with os.scandir(path) as found:
            return sorted(islice(found, most), key=lambda entry: entry.name)
    except (OSError, ValueError):
        return []


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Say whether the entry is a folder itself, not a link to one."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def inside(trial: Path, ref: str) -> Path | None:
    """Resolve `ref` (relative, `..` and links included); None when it leaves the trial folder."""
    try:
        target = (trial / ref).resolve()
        return target if target.is_relative_to(trial.resolve()) else None
    except (OSError, ValueError, RuntimeError):
        return None
