"""What a verifier left behind, read as hostile (promises V1–V3).

The agent may have prepared whatever the verifier ran, so `/logs/verifier` may hold symbolic links,
FIFOs, devices, a sparse terabyte or ten million names. Everything here starts from a *descriptor* of
that directory, follows no link, opens nothing but regular files and directories, and stops at caps.

Rewards follow Harbor: `reward.json` (an object of name → number) before `reward.txt` (one number); a
`reward.json` that is there and wrong is a fault, not a reason to look at the other. Stricter than
Harbor: booleans, `null` and an empty object are no rewards.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import stat
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from cell.errors import HarnessError
from cell.records import TestResult

REWARD_BYTES: Final = 1 << 20
CTRF_BYTES: Final = 4 << 20
CTRF_TESTS: Final = 10_000
_NAME, _MESSAGE = 500, 4000  # characters kept of a test's name and message
_DEPTH = 64
_NOTES = 50
_CHUNK = 256 << 10
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

FaultName = Literal["RewardFileNotFoundError", "RewardFileEmptyError", "VerifierOutputParseError"]


class Rewards(msgspec.Struct, frozen=True, kw_only=True):
    """A reward was written. Integers stay integers, as Harbor keeps them. `file` is where it was."""

    values: dict[str, float]
    file: str
    notes: tuple[str, ...] = ()


class RewardFault(msgspec.Struct, frozen=True, kw_only=True):
    """No reward can be taken from the directory; `name` is Harbor's exception for it."""

    name: FaultName
    message: str
    notes: tuple[str, ...] = ()


class _Bad(Exception):
    """Why a file is not read; the text follows its name."""


def read_rewards(dir_fd: int) -> Rewards | RewardFault:
    """Return the rewards in the directory `dir_fd`, or why there are none.

    Raises:
        HarnessError: the directory cannot be read at all (an I/O error, a descriptor that is none).
    """
    notes: tuple[str, ...] = ()
    if _kind(dir_fd, "rewards.json") is not None:
        notes = ("rewards.json is there; the file that is read is called reward.json",)
    for file, parse in (("reward.json", _json_rewards), ("reward.txt", _text_rewards)):
        try:
            data = _contents(dir_fd, file, REWARD_BYTES)
            if data is None:
                continue
            if not data:
                message = f"Reward file is empty: {file}"
                return RewardFault(name="RewardFileEmptyError", message=message, notes=notes)
            return Rewards(values=parse(data), file=file, notes=notes)
        except _Bad as bad:
            message = f"Failed to parse rewards from {file}: {bad}"
            return RewardFault(name="VerifierOutputParseError", message=message, notes=notes)
    message = "No reward file found: the verifier wrote neither reward.txt nor reward.json"
    return RewardFault(name="RewardFileNotFoundError", message=message, notes=notes)


def read_ctrf(dir_fd: int, notes: list[str] | None = None) -> tuple[TestResult, ...]:
    """Return the per-test results of `ctrf.json`, at most 10,000; none when it is absent or garbage.

    Why tests are missing is appended to `notes`. Raises HarnessError as `read_rewards`.
    """
    said: list[str] = []
    try:
        data = _contents(dir_fd, "ctrf.json", CTRF_BYTES)
        found = () if data is None else _ctrf(data, said)
    except _Bad as bad:
        said.append(f"ctrf.json is not used: {bad}")
        found = ()
    if notes is not None:
        notes += said
    return found


def copy_tree(dir_fd: int, dest: Path, *, max_bytes: int, max_files: int) -> tuple[str, ...]:
    """Copy the regular files and directories below `dir_fd` into `dest`; return what was left out.

    `dest` is made when missing; files already there are replaced. At most `max_files` names are
    looked at and `max_bytes` written; a file that would not fit is skipped whole. Modes become
    0644, or 0755 when the owner may execute; no set-id bit, owner or extended attribute survives.

    Raises:
        HarnessError: `dest` cannot be made, or the directory cannot be read.
    """
    copy = _Copy(max_bytes, max_files)
    try:
        dest.mkdir(parents=True, exist_ok=True)
        to = os.open(dest, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HarnessError(f"cannot make {dest}: {error.strerror}") from error
    try:
        copy.folder(dir_fd, ".", to, "", 0)
    except OSError as error:
        raise HarnessError(f"cannot read the directory to copy to {dest}: {error.strerror}") from error
    finally:
        os.close(to)
    return copy.said()


def _kind(dir_fd: int, name: str) -> int | None:
    """Return the type bits of `name`, itself and not what it points to; None when it is absent."""
    try:
        return stat.S_IFMT(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HarnessError(f"cannot look at the verifier's {name}: {error.strerror}") from error


def _contents(dir_fd: int, name: str, limit: int) -> bytes | None:
    """Return a regular file's bytes, None when it is absent; `_Bad` when it may not be read."""
    kind = _kind(dir_fd, name)  # before opening: to open a device can already do something
    if kind is None:
        return None
    if kind != stat.S_IFREG:
        raise _Bad(f"it is {_KINDS.get(kind, 'no regular file')}, not a regular file")
    try:
        fd = os.open(name, _READ, dir_fd=dir_fd)
    except OSError as error:
        raise _Bad(f"it cannot be opened: {error.strerror}") from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise _Bad("it changed while it was opened")
        if status.st_size > limit:
            raise _Bad(f"it has {status.st_size} bytes, more than {limit}")
        data = b""
        while len(data) <= limit and (chunk := os.read(fd, limit + 1 - len(data))):
            data += chunk
        if len(data) > limit:
            raise _Bad(f"it has more than {limit} bytes")
        return data
    except OSError as error:
        raise HarnessError(f"cannot read the verifier's {name}: {error.strerror}") from error
    finally:
        os.close(fd)


_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a directory",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _Bad(f"it is not JSON ({_clean(str(error), 200)})") from error


def _json_rewards(data: bytes) -> dict[str, float]:
    value = _parsed(data)
    if not isinstance(value, dict):
        raise _Bad("it is not an object of name and number")
    if not value:
        raise _Bad("it names no reward")
    return {
        _clean(name, _NAME): _number(number, f"{_clean(name, 80)!r} is") for name, number in value.items()
    }


def _text_rewards(data: bytes) -> dict[str, float]:
    try:
        text = data.decode("utf-8")
        if "_" in text:
            raise ValueError
        number = float(text)
    except ValueError as error:
        raise _Bad(f"{_clean(data.decode('utf-8', 'replace').strip(), 80)!r} is not a number") from error
    return {"reward": _number(number, "it is")}


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Bad(f"{what} not a number")
    try:
        near = float(value)
    except OverflowError:
        near = math.inf
    if not math.isfinite(near):
        raise _Bad(f"{what} not finite")
    # Integers that a double cannot hold become doubles: not every reader of JSON has them.
    return value if isinstance(value, float) or abs(value) <= 1 << 53 else near


def _ctrf(data: bytes, notes: list[str]) -> tuple[TestResult, ...]:
    value = _parsed(data)
    results = value.get("results") if isinstance(value, dict) else None
    tests = results.get("tests") if isinstance(results, dict) else None
    if not isinstance(tests, list):
        raise _Bad("it has no list results.tests")
    if len(tests) > CTRF_TESTS:
        notes.append(f"ctrf.json has {len(tests)} tests; the first {CTRF_TESTS} are kept")
    kept = [_test(test) for test in tests[:CTRF_TESTS]]
    if strange := kept.count(None):
        notes.append(f"ctrf.json has {strange} tests without a name or a status")
    return tuple(test for test in kept if test is not None)


def _test(value: object) -> TestResult | None:
    if not isinstance(value, dict):
        return None
    name, status, message = value.get("name"), value.get("status"), value.get("message")
    ms: Any = value.get("duration")
    if not isinstance(name, str) or not isinstance(status, str):
        return None
    timed = isinstance(ms, int | float) and not isinstance(ms, bool) and 0 <= ms < 1e15
    return TestResult(
        name=_clean(name, _NAME),
        status=_clean(status, 40).lower(),
        message=_clean(message, _MESSAGE) if isinstance(message, str) else "",
        ms=float(ms) if timed else None,
    )


def _clean(text: str, limit: int) -> str:
    """Cut, and make encodable: JSON may spell half a surrogate pair, a file name any byte."""
    return text[:limit].encode("utf-8", "backslashreplace").decode()


class _Copy:
    """One copy under way: what is left of the caps, and what was left out."""

    def __init__(self, max_bytes: int, max_files: int) -> None:
        self.bytes_left, self.names_left = max_bytes, max_files
        self.max_files = max_files
        self.notes: list[str] = []
        self.unsaid = 0
        self.stopped = False

    def note(self, path: str, why: str) -> None:
        if len(self.notes) < _NOTES:
            self.notes.append(f"{_clean(path, 300)}: {why}")
        else:
            self.unsaid += 1

    def said(self) -> tuple[str, ...]:
        more = [f"and {self.unsaid} more were left out"] if self.unsaid else []
        return (*self.notes, *more)

    def folder(self, at: int, name: str, to: int, path: str, depth: int) -> None:
        """Copy what is in the folder `name` of the descriptor `at` into the descriptor `to`."""
        # "." of a descriptor that was opened O_PATH can still be listed.
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        try:
            with os.scandir(fd) as entries:  # a lazy one: ten million names are not read
                for entry in entries:
                    if self.names_left <= 0 and not self.stopped:
                        self.stopped = True
                        self.notes.append(f"{_clean(path or '.', 300)}: stopped after {self.max_files} names")
                    if self.stopped:
                        return
                    self.names_left -= 1
                    self.entry(fd, entry.name, to, f"{path}{entry.name}", depth)
        finally:
            os.close(fd)

    def entry(self, fd: int, name: str, to: int, path: str, depth: int) -> None:
        try:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            kind = stat.S_IFMT(status.st_mode)
            if kind == stat.S_IFDIR:
                self.sub(fd, name, to, path, depth)
            elif kind == stat.S_IFREG:
                self.file(fd, name, to, path)
            else:
                self.note(path, f"{_KINDS.get(kind, 'something unknown')}, skipped")
        except OSError as error:
            self.note(path, f"not copied: {error.strerror}")
            self.stopped = self.stopped or error.errno in (errno.ENOSPC, errno.EDQUOT)

    def sub(self, fd: int, name: str, to: int, path: str, depth: int) -> None:
        if depth >= _DEPTH:
            self.note(path, f"deeper than {_DEPTH} folders, skipped")
            return
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=to)
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=to)
        try:
            self.folder(fd, name, inner, f"{path}/", depth + 1)
        finally:
            os.close(inner)

    def file(self, fd: int, name: str, to: int, path: str) -> None:
        source = os.open(name, _READ, dir_fd=fd)
        try:
            status = os.fstat(source)
            if not stat.S_ISREG(status.st_mode):
                self.note(path, "changed while it was opened, skipped")
                return
            if status.st_size > self.bytes_left:
                self.note(path, f"{status.st_size} bytes, more than what is left of the cap, skipped")
                return
            mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=to)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            target = os.open(name, flags, mode, dir_fd=to)
            try:
                self.pour(source, target, status.st_size)
                os.utime(target, ns=(status.st_mtime_ns, status.st_mtime_ns))
            except OSError:
                os.unlink(name, dir_fd=to)
                raise
            finally:
                os.close(target)
        finally:
            os.close(source)

    def pour(self, source: int, target: int, size: int) -> None:
        """Copy `size` bytes and no more, should the file be growing."""
        while size > 0 and (chunk := os.read(source, min(size, _CHUNK))):
            size -= len(chunk)
            self.bytes_left -= len(chunk)
            while chunk:
                chunk = chunk[os.write(target, chunk) :]
