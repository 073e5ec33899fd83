"""Trees of folders that an agent made: walked and removed whatever their shape.

An agent may leave a chain of folders deeper than the interpreter's stack and longer than any path, or ten
million names in one folder. So nothing here recurses, joins paths that grow without end, holds more than a
few descriptors, or follows a link.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

PATH_MAX = 4096
"""Bytes of the longest path that a program can name."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FS_IOC_GETFLAGS, _FS_IOC_SETFLAGS = 0x80086601, 0x40086602
_IMMUTABLE_OR_APPEND = 0x10 | 0x20


def remove(folder: Path | str, *, ignore_errors: bool = False) -> None:
    """Remove a folder and all below it, never what its links lead to.

    OSError when something cannot be removed, or `folder` is no folder itself (all the rest is gone then);
    with `ignore_errors` nothing is raised.
    """
    path = Path(folder)
    try:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if failed := _emptied(parent, path.name):
                raise failed
            _remove_folder(parent, path.name)
        finally:
            os.close(parent)
    except OSError as error:
        if ignore_errors:
            return
        if error.filename is None or isinstance(error.filename, str):
            raise type(error)(error.errno, error.strerror, str(path)) from error
        raise


def size(folder: Path) -> int:
    """Return the bytes of disk that a folder takes; hard links count once, what cannot be seen not at all."""
    total, seen = 0, set[tuple[int, int]]()
    for _, _, facts in _walk(folder, longest=None):
        if stat.S_ISDIR(facts.st_mode):
            continue
        if facts.st_nlink > 1:
            if (facts.st_dev, facts.st_ino) in seen:
                continue
            seen.add((facts.st_dev, facts.st_ino))
        total += facts.st_blocks * 512
    return total


def files(folder: Path, *, most: int) -> Iterator[tuple[str, os.stat_result]]:
    """Yield all but the folders below `folder`, by their relative paths, with what they are themselves.

    At most `most` names (folders, too) are looked at, and none whose path no program could name.
    """
    for count, (prefix, name, facts) in enumerate(_walk(folder, longest=PATH_MAX)):
        if count >= most:
            return
        if not stat.S_ISDIR(facts.st_mode):
            yield prefix + name, facts


# ── walking ───────────────────────────────────────────────────────────────────────────────────


def _walk(folder: Path, *, longest: int | None) -> Iterator[tuple[str, str, os.stat_result]]:
    """Yield (path of its folder, name, itself) of everything below; with `longest`, no longer paths.

    One descriptor is open at a time; the way back is `..`, taken only if it leads to where we were.
    """
    try:
        at = os.open(folder, _FOLDER)
    except OSError:
        return
    above: list[tuple[tuple[int, int], str, list[str]]] = []
    prefix, inner = "", list[str]()
    try:
        while True:
            for name, facts in _entries(at):
                yield prefix, name, facts
                if stat.S_ISDIR(facts.st_mode):
                    inner.append(name)
            while True:
                if inner:
                    name = inner.pop()
                    below = "" if longest is None else f"{prefix}{name}/"
                    if longest is not None and len(os.fsencode(below)) > longest:
                        continue
                    try:
                        down = os.open(name, _FOLDER, dir_fd=at)
                    except OSError:
                        continue
                    above.append((_identity(at), prefix, inner))
                    os.close(at)
                    at, prefix, inner = down, below, []
                    break
                if not above:
                    return
                was, prefix, inner = above.pop()
                up = os.open("..", _FOLDER, dir_fd=at)
                os.close(at)
                at = up
                if _identity(at) != was:  # it was moved meanwhile: what we knew of above is not there
                    return
    except OSError:
        return
    finally:
        os.close(at)


def _entries(at: int) -> Iterator[tuple[str, os.stat_result]]:
    """Yield what is in an open folder, lazily: ten million names are never one list."""
    with contextlib.suppress(OSError), os.scandir(at) as found:
        for entry in found:
            try:
                facts = os.stat(entry.name, dir_fd=at, follow_symlinks=False)
            except OSError:
                continue
            yield entry.name, facts


def _identity(at: int) -> tuple[int, int]:
    facts = os.fstat(at)
    return facts.st_dev, facts.st_ino


# ── removing ──────────────────────────────────────────────────────────────────────────────────


def _emptied(parent: int, name: str) -> OSError | None:
    """Empty the folder `name`; return why something in it stayed.

    What is deeper is moved up to the top and emptied there, so depth costs nothing.
    """
    top = _open(parent, name)
    aside, failed = _Aside(top), None
    try:
        while True:
            progress, failed = False, None
            with os.scandir(top) as found:
                for entry in found:
                    try:
                        if not entry.is_dir(follow_symlinks=False):
                            _unlink(top, entry.name)
                        else:
                            moved = _flatten(top, entry.name, aside)
                            progress = progress or moved
                            _remove_folder(top, entry.name)
                        progress = True
                    except FileNotFoundError:
                        progress = True
                    except OSError as error:
                        failed = failed or error
            if not progress:
                return failed
    finally:
        os.close(top)


class _Aside:
    """New names in the top folder for what is moved there."""

    def __init__(self, top: int) -> None:
        self.top, self._stem, self._count = top, f".{secrets.token_hex(8)}", 0

    def take(self, at: int, name: str) -> None:
        self._count += 1
        os.rename(name, f"{self._stem}.{self._count}", src_dir_fd=at, dst_dir_fd=self.top)


def _flatten(top: int, name: str, aside: _Aside) -> bool:
    """Remove what is in a folder of the top, and move its folders up; True if anything went."""
    at, progress, failed = _open(top, name), False, None
    try:
        with os.scandir(at) as found:
            for entry in found:
                try:
                    if not entry.is_dir(follow_symlinks=False):
                        _unlink(at, entry.name)
                    else:
                        _up(at, entry.name, aside)
                    progress = True
                except OSError as error:
                    failed = failed or error
    finally:
        os.close(at)
    if failed is not None and not progress:
        raise failed
    return progress


def _up(at: int, name: str, aside: _Aside) -> None:
    try:
        os.rmdir(name, dir_fd=at)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EPERM, errno.EACCES):
            raise
        try:
            aside.take(at, name)
        except PermissionError:
            _free(at, name)
            aside.take(at, name)


def _open(at: int, name: str) -> int:
    """Open a folder, itself; one that is ours and closed to us is opened first."""
    try:
        return os.open(name, _FOLDER, dir_fd=at)
    except PermissionError:
        _free(at, name)
        return os.open(name, _FOLDER, dir_fd=at)


def _unlink(at: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=at)
    except PermissionError:
        _free(at, name)
        os.unlink(name, dir_fd=at)


def _remove_folder(at: int, name: str) -> None:
    try:
        os.rmdir(name, dir_fd=at)
    except PermissionError:
        _free(at, name)
        os.rmdir(name, dir_fd=at)


def _free(at: int, name: str) -> None:
    """Take from an entry and its folder what forbids to remove it: modes, and the immutable flag."""
    _unflag(at)
    with contextlib.suppress(OSError):
        os.chmod(at, stat.S_IMODE(os.fstat(at).st_mode) | 0o700)
    with contextlib.suppress(OSError):
        kind = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
        if not (stat.S_ISDIR(kind) or stat.S_ISREG(kind)):
            return  # to open a device can already do something
        held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        try:
            if stat.S_ISDIR(os.fstat(held).st_mode):
                with contextlib.suppress(OSError):
                    Path(f"/proc/self/fd/{held}").chmod(0o700)
            found = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
        finally:
            os.close(held)
        try:
            _unflag(found)
        finally:
            os.close(found)


def _unflag(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        (flags,) = struct.unpack("l", fcntl.ioctl(descriptor, _FS_IOC_GETFLAGS, bytes(8)))
        if flags & _IMMUTABLE_OR_APPEND:
            fcntl.ioctl(descriptor, _FS_IOC_SETFLAGS, struct.pack("l", flags & ~_IMMUTABLE_OR_APPEND))
