"""Which programs the agent changed did the verifier run? (SPEC H4: said plainly, not prevented.)

In shared mode the verifier runs programs of a root that the agent could write. The overlay's upper
layer knows what was changed, and fanotify says what was opened and by whom; where both meet, the
verdict names the path.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import posixpath
import re
import stat
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from . import kernel, trees

_libc = ctypes.CDLL(None, use_errno=True)
_FAN_CLOEXEC, _FAN_NONBLOCK, _FAN_UNLIMITED_QUEUE = 1, 2, 0x10
_FAN_MARK_ADD, _FAN_MARK_FILESYSTEM = 1, 0x100
_FAN_OPEN = 0x20
_EVENT = struct.Struct("=IBBHQii")
_MOST_FILES = 200_000
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})

# Where a changed file can act on a verifier that never names it.
_SYSTEM = re.compile(
    r"^/(bin|sbin|lib[^/]*|usr|etc/ld\.so|etc/python|opt)(/|\.|$)|/(site|dist)-packages/|/\.local/|/ld\.so\.preload$"
)


def changed_programs(diffs: Sequence[tuple[str, Path]]) -> Iterator[str]:
    """Yield the paths (as inside) of files in the upper layers that could act on a verifier.

    `diffs` pairs each mount point inside with the folder of what was changed below it.
    """
    for mount, upper in diffs:
        yield from _changed(mount, upper)


def _changed(mount: str, upper: Path) -> Iterator[str]:
    for below, facts in trees.files(upper, most=_MOST_FILES):
        path = posixpath.join(mount, below)
        if _SYSTEM.search(path) and (stat.S_ISREG(facts.st_mode) or Path(upper, below).is_file()):
            yield path


class ProgramWatch:
    """Watches, while it is entered, what a mount namespace opens of the changed programs.

    `diffs` are the agent's changes as in `changed_programs`, `root` is the merged root. Where the kernel
    refuses (`why` says so), all changed programs are named instead of those that were run.
    """

    def __init__(self, diffs: Sequence[tuple[str, Path]], root: str) -> None:
        self.why = self._missed = ""
        self.view = 0
        self._paths = list(changed_programs(diffs))
        self._inodes: dict[int, str] = {}
        for path in self._paths:
            try:
                self._inodes[os.lstat(root + path).st_ino] = path
            except OSError:
                continue
        self._mounts = [root + mount for mount, _ in diffs]
        # by path, the views of those that opened it; 0 is one that had gone
        self._seen, self._fd = dict[str, set[int]](), -1

    def __enter__(self) -> Self:
        if not self._inodes:
            return self
        flags = _FAN_CLOEXEC | _FAN_NONBLOCK | _FAN_UNLIMITED_QUEUE
        self._fd = _libc.fanotify_init(flags, os.O_RDONLY | os.O_CLOEXEC)
        mark = _FAN_MARK_ADD | _FAN_MARK_FILESYSTEM
        if self._fd < 0 or any(
            _libc.fanotify_mark(self._fd, mark, ctypes.c_uint64(_FAN_OPEN), -100, path.encode())
            for path in self._mounts
        ):
            self.why = os.strerror(ctypes.get_errno())
        else:
            asyncio.get_running_loop().add_reader(self._fd, self._read)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd >= 0:
            if not self.why:
                self._read()
                asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)

    @property
    def found(self) -> tuple[str, ...]:
        """One line for each changed program that the verifier ran or loaded."""
        if why := self.why or self._missed:
            return tuple(
                f"{path}: changed by the agent (whether it ran is not known: {why})" for path in self._paths
            )
        # A process that has gone cannot be asked whose it was; the agent's own opens are no evidence, so
        # only who lived and was a stranger is left out. Judged now: the first opens of a verifier may be
        # read before anybody here knows its view.
        return tuple(
            f"{path}: changed by the agent, and used by the verifier"
            for path, views in self._seen.items()
            if views & {0, self.view}
        )

    def _read(self) -> None:
        # One event at a time: of several, the kernel drops one that it cannot open a descriptor for, unsaid.
        failed = 0
        while failed < _MOST_FILES:
            try:
                data = os.read(self._fd, _EVENT.size)
            except BlockingIOError:
                return
            except OSError as error:
                failed += 1
                if error.errno in _NO_ROOM:
                    self._missed = os.strerror(error.errno)
                continue  # what cannot be opened, as a device without a driver, is no program
            _, _, _, _, _, descriptor, pid = _EVENT.unpack(data)
            if descriptor >= 0:
                path = self._inodes.get(os.fstat(descriptor).st_ino)
                os.close(descriptor)
                if path:
                    self._seen.setdefault(path, set()).add(kernel.namespace_of(pid, "mnt"))
