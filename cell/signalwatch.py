"""Who sent which signal to whom, by the kernel's word: a trace of signals and forks, while it is entered.

Also who set the limits of another process, and to whom a new process was refused, as far as the kernel
traces system calls. Some signals have no sender: the kernel delivers them for the owner of a descriptor
(`F_SETOWN`), in whatever process something happened to it, or by its own decision (memory or processor
time is used up). An agent can bring those about, and so can a verifier; the trace says what they are.

That a process was killed can be seen; by whom cannot, once the killer has gone. The kernel's
`signal_generate` trace point runs in the sender, and its fork records say whose child everybody is,
however short it lived. Where they cannot be had (a container, a kernel without), `why` says so.
"""

from __future__ import annotations

import asyncio
import ctypes
import mmap
import os
import platform
import re
import signal
import struct
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from . import kernel

_libc = ctypes.CDLL(None, use_errno=True)
_SYS_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_TRACEPOINT, _TID, _TIME, _RAW = 2, 1 << 1, 1 << 2, 1 << 10
_TASK, _WATERMARK = 1 << 13, 1 << 14
_FD_CLOEXEC = 8
_SET_FILTER, _SET_OUTPUT = 0x40082406, 0x2405
_LOST, _EXIT, _FORK, _SAMPLE = 2, 4, 7, 9
_RING = 1 << 17  # bytes for each processor, emptied when half full
_MOST = 64 << 20  # bytes of records; a verifier that forks more is not watched to its end
# Trace points, and what of them: not what a timer of one's own sends, nor news of children.
_SIGNALS = ("signal/signal_generate", b"sig != 17 && code != -2")
_LIMITS = ("syscalls/sys_enter_prlimit64", b"pid != 0 && new_rlim != 0")
_FORKS = tuple(
    (f"syscalls/sys_exit_{call}", b"ret == -11 || ret == -12")
    for call in ("clone", "clone3", "fork", "vfork")
)
_IGNORED, _OVERFLOW = 1, 3
_KERNEL, _SIGIO = 128, -5  # codes of a signal: the kernel's own decision, and a descriptor's
# A fault of the process itself has codes that would be a descriptor's with any other signal.
_FAULTS = {signal.SIGILL, signal.SIGTRAP, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGSYS}
# What no process ends or stops by, unless it asked for it.
_HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}


@dataclass(frozen=True)
class Fork:
    """Process `parent` made the thread `tid` of the process `pid` (a new one, or its own)."""

    time: int
    pid: int
    tid: int
    parent: int


@dataclass(frozen=True)
class Signal:
    """Process `sender` sent signal `number` to the thread `target`, whose name was `name`.

    Unless `owned` (it came for the owner of a descriptor) or `kernel` (by the kernel's decision):
    `sender` is then who happened to run.
    """

    time: int
    sender: int
    number: int
    target: int
    name: str
    code: int = 0

    @property
    def owned(self) -> bool:
        """Whether it was sent for the owner of a descriptor, as `F_SETOWN` made one."""
        if self.code == _KERNEL:
            return self.number == signal.SIGIO
        return self.code == _SIGIO or (1 <= self.code <= 6 and self.number not in _FAULTS)

    @property
    def kernel(self) -> bool:
        """Whether the kernel decided it, of what it has: memory and processor time."""
        return self.code == _KERNEL and not self.owned


@dataclass(frozen=True)
class Limited:
    """Process `sender` set a limit of another process, whose pid is its own world's."""

    time: int
    sender: int


@dataclass(frozen=True)
class Refused:
    """Process `pid` was refused a new process or thread."""

    time: int
    pid: int


@dataclass(frozen=True)
class Crossings:
    """What came from the senders: signals as (signal's name, target's name) → how often, and limits.

    `owned` and `kernel` are signals that no sender is known of, `refused` is how often the watched ones
    were refused a process.
    """

    signals: Counter[tuple[str, str]] = field(default_factory=Counter)
    limits: int = 0
    owned: Counter[tuple[str, str]] = field(default_factory=Counter)
    kernel: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: int = 0


_Event = Fork | Signal | Limited | Refused


def crossings(events: Iterable[_Event], senders: Collection[int], root: int) -> Crossings:
    """Return which signals came from `senders` or their children to `root` or its children. Pure."""
    theirs, tree = set(senders), {root}
    found, limits, refused = Counter[tuple[str, str]](), 0, 0
    owned, kernels = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for event in sorted(events, key=lambda event: event.time):
        if isinstance(event, Fork):
            # a pid that is used again belongs to whom it belongs now
            for family in (theirs, tree):
                if event.parent in family:
                    family |= {event.pid, event.tid}
                elif event.pid != root:
                    family -= {event.pid, event.tid}
        elif isinstance(event, Limited):
            limits += event.sender in theirs
        elif isinstance(event, Refused):
            refused += event.pid in tree
        elif event.target not in tree or event.number in _HARMLESS:
            continue
        elif event.owned:
            owned[_name(event.number), event.name] += 1
        elif event.kernel:
            # terminals and the like send so, too, but only to their own session
            if event.number in (signal.SIGKILL, signal.SIGXCPU):
                kernels[_name(event.number), event.name] += 1
        elif event.sender in theirs:
            found[_name(event.number), event.name] += 1
    return Crossings(found, limits, owned, kernels, refused)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class SignalWatch:
    """Watches while it is entered. `senders` says which processes are suspected, at the start.

    `always`: also when nobody is.

    Errors: none. When `why` is not empty, or not `intact`, what `found` says is no proof of innocence.
    """

    def __init__(self, senders: Callable[[], Collection[int]], *, always: bool = False) -> None:
        self.why = ""
        self._always = always
        self.intact = True
        self._ask, self._senders = senders, frozenset[int]()
        self._descriptors: list[int] = []
        self._rings: list[mmap.mmap] = []
        self._records: list[bytes] = []
        self._size = 0
        self._points: dict[int, _Point] = {}

    def __enter__(self) -> Self:
        if not (self._always or self._ask()):  # nobody there who could, or whose children could
            return self
        try:
            self._open()
        except OSError as error:
            self.why, self.intact = str(error), False
            self._close()
        self._senders = frozenset(self._ask())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for ring in self._rings:
            self._drain(ring)
        self._close()

    def found(self, root: int) -> Crossings:
        """Return, after the end, what the senders did to the family of `root`."""
        return crossings(self._events(), self._senders, root)

    def _open(self) -> None:
        call = _SYS_PERF_EVENT_OPEN.get(platform.machine())
        if call is None:
            raise OSError(f"not known on {platform.machine()}")
        tracing = kernel.detached("tracefs")
        try:
            wanted = [_layout(tracing, *_SIGNALS)]
            for point in (_LIMITS, *_FORKS):
                with suppress(OSError):
                    wanted.append(_layout(tracing, *point))
        finally:
            os.close(tracing)
        self._points = {point.number: point for point in wanted}
        for cpu in _processors():
            ring = self._ring(call, cpu, wanted)
            asyncio.get_running_loop().add_reader(self._descriptors[-len(wanted)], self._drain, ring)

    def _ring(self, call: int, cpu: int, wanted: Sequence[_Point]) -> mmap.mmap:
        """Open the trace points on a processor; all write into the ring of the first."""
        first = -1
        for point in wanted:
            attributes = struct.pack(
                "=IIQQQQQII",
                *(_TRACEPOINT, 112, point.number, 1, _TID | _TIME | _RAW, 0),
                *((_TASK if first < 0 else 0) | _WATERMARK, _RING // 2, 0),
            ).ljust(112, b"\0")
            descriptor = kernel.check(
                _libc.syscall(call, attributes, -1, cpu, -1, _FD_CLOEXEC), "perf_event_open"
            )
            self._descriptors.append(descriptor)
            kernel.check(_libc.ioctl(descriptor, ctypes.c_ulong(_SET_FILTER), point.filter), "the filter")
            if first < 0:
                first = descriptor
                self._rings.append(mmap.mmap(first, mmap.PAGESIZE + _RING))
            else:
                kernel.check(_libc.ioctl(descriptor, ctypes.c_ulong(_SET_OUTPUT), first), "the ring")
        return self._rings[-1]

    def _close(self) -> None:
        for ring in self._rings:
            ring.close()
        self._rings.clear()
        loop = asyncio.get_running_loop()
        for descriptor in self._descriptors:
            loop.remove_reader(descriptor)
        # the kernel waits for all processors before a trace point is gone: tens of milliseconds
        loop.run_in_executor(None, _close_all, self._descriptors)
        self._descriptors = []

    def _drain(self, ring: mmap.mmap) -> None:
        """Take what is in a ring; its head and tail count bytes since the beginning."""
        head, tail, start, size = struct.unpack_from("=QQQQ", ring, 1024)
        if head == tail:
            return
        first, last = start + tail % size, start + head % size
        data = ring[first:last] if first < last else ring[first : start + size] + ring[start:last]
        struct.pack_into("=Q", ring, 1032, head)
        self._size += len(data)
        if self._size > _MOST:
            self.intact = False
        else:
            self._records.append(data)

    def _events(self) -> Iterator[_Event]:
        for data in self._records:
            at = 0
            while at < len(data):
                kind, _, length = struct.unpack_from("=IHH", data, at)
                body = data[at + 8 : at + length]
                at += length
                if kind == _FORK:
                    pid, parent, tid, _, time = struct.unpack_from("=IIIIQ", body)
                    yield Fork(time, pid, tid, parent)
                elif kind == _SAMPLE:
                    yield from self._sample(body)
                elif kind == _LOST:
                    self.intact = False

    def _sample(self, body: bytes) -> Iterator[Signal | Limited | Refused]:
        sender, tid, time = struct.unpack_from("=IIQ", body)
        raw = body[20:]
        point = self._points.get(int.from_bytes(raw[:2], sys.byteorder))
        if point is None:
            return

        def number(name: str) -> int:
            offset, size = point.fields[name]
            return int.from_bytes(raw[offset : offset + size], sys.byteorder, signed=True)

        if number("common_pid") != tid:
            # numbers of another pid namespace: who is meant cannot be told
            self.why, self.intact = "it is not the machine's own pid namespace", False
        elif "ret" in point.fields:
            yield Refused(time, sender)
        elif "comm" not in point.fields:
            yield Limited(time, sender)
        elif number("result") not in (_IGNORED, _OVERFLOW):
            offset, size = point.fields["comm"]
            name = raw[offset : offset + size].split(b"\0")[0].decode("utf-8", "replace")
            yield Signal(time, sender, number("sig"), number("pid"), name, number("code"))


@dataclass(frozen=True)
class _Point:
    """A trace point: its number, what of it, and where its fields are (offset, size)."""

    number: int
    filter: bytes
    fields: dict[str, tuple[int, int]]


def _layout(tracing: int, name: str, condition: bytes) -> _Point:
    layout = _read(tracing, f"events/{name}/format").decode("ascii", "replace")
    found = re.findall(r"(\w+)(?:\[\d+\])?;\s+offset:(\d+);\s+size:(\d+)", layout)
    fields = {name: (int(offset), int(size)) for name, offset, size in found}
    return _Point(int(_read(tracing, f"events/{name}/id")), condition, fields)


def _close_all(descriptors: list[int]) -> None:
    for descriptor in reversed(descriptors):
        os.close(descriptor)


def _read(folder: int, path: str) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder), "rb") as file:
        return file.read()


def _processors() -> list[int]:
    found: list[int] = []
    with suppress(OSError, ValueError):
        for part in Path("/sys/devices/system/cpu/online").read_text("ascii").strip().split(","):
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
    return found or list(range(os.cpu_count() or 1))
