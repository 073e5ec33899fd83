"""A recording as something with times: events, markers, how much happened when; pure.

A `Film` grows while its session runs. Times are seconds since the recording began; whatever the file
says, they never go back and never leave the week.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from cell.plain import plain
from hudtui.recordings.cast import CastEvent

LONGEST = 7 * 86400.0
"""A recording is read up to this many seconds."""
BARS = "▁▂▃▄▅▆▇█"
_MOST_MARKS = 20_000
_MOST_BYTES = 256 << 20

MarkKind = Literal["deny", "typed", "input", "phase", "end", "mark"]


class Mark(NamedTuple):
    """Something worth going to: at `t`, of a kind, in a few words (neutralised)."""

    t: float
    kind: MarkKind
    text: str


class Film:
    """The events of one recording. `events` are what an engine is fed (`o`) and its sizes (`r`)."""

    def __init__(self) -> None:
        self.events: list[CastEvent] = []
        self.times: list[float] = []
        self.marks: list[Mark] = []
        self.duration = 0.0
        self.full = False
        self._sums: list[int] = []
        self._typist = ""
        self._typed: list[str] = []
        self._typed_at = 0.0

    def add(self, events: Iterable[CastEvent]) -> None:
        """Take in more of the recording."""
        for event in events:
            self._add(event)

    def _add(self, event: CastEvent) -> None:
        t = event.t if self.duration <= event.t <= LONGEST else self.duration
        self.duration = t
        if event.kind in ("o", "r"):
            size = self._sums[-1] if self._sums else 0
            if size > _MOST_BYTES:
                self.full = True
                return
            self.events.append(event)
            self.times.append(t)
            self._sums.append(size + (len(event.data) if event.kind == "o" else 0))
        elif event.kind == "m":
            self._marked(t, event.data)
        elif event.kind == "i":
            self._keyed(t, event.data)

    def _marked(self, t: float, label: str) -> None:
        self._flush()
        kind: MarkKind = "mark"
        if label.startswith("typed by "):
            self._typist = label.removeprefix("typed by ")
            if self._typist == "agent":
                return
            kind = "typed"
        elif label == "end" or label.startswith("end "):
            kind = "end"
        self._mark(Mark(t, kind, plain(label, limit=120)))

    def _keyed(self, t: float, text: str) -> None:
        """Keys are told a line at a time, at the moment of the first."""
        for char in text:
            if char in "\r\n":
                self._flush()
                continue
            if not self._typed:
                self._typed_at = t
            if len(self._typed) < 200:
                self._typed.append(char)

    def _flush(self) -> None:
        text = plain("".join(self._typed).strip(), limit=120)
        self._typed = []
        if text:
            kind: MarkKind = "typed" if self._typist not in ("", "agent") else "input"
            self._mark(Mark(self._typed_at, kind, text))

    def _mark(self, mark: Mark) -> None:
        if len(self.marks) < _MOST_MARKS:
            self.marks.append(mark)

    def index(self, t: float) -> int:
        """Return how many events lie at or before `t`."""
        return bisect_right(self.times, t)

    def time(self, index: int) -> float:
        """Return when event number `index` (from 0) happened; the beginning and the end outside of them."""
        if index < 0 or not self.times:
            return 0.0
        return self.times[index] if index < len(self.times) else self.duration

    def size(self, start: int, end: int) -> int:
        """Return how much was printed by the events from `start` to before `end`, in characters."""
        if end <= start or not self._sums:
            return 0
        return self._sums[min(end, len(self._sums)) - 1] - (self._sums[start - 1] if start else 0)

    def activity(self, length: float, buckets: int) -> list[int]:
        """Return how much was printed in each of `buckets` equal parts of `length` seconds."""
        if not (self.times and buckets > 0 and length > 0):
            return [0] * max(0, buckets)
        edges = [bisect_left(self.times, length * n / buckets) for n in range(buckets)]
        edges.append(len(self.times))
        return [self.size(a, b) for a, b in pairwise(edges)]


def bars(amounts: Sequence[int]) -> str:
    """Draw amounts as bars, each of them seen: by the square root, since bursts would hide the rest."""
    top = max(amounts, default=0)
    if not top:
        return " " * len(amounts)
    return "".join(" " if not one else BARS[min(7, int(7 * (one / top) ** 0.5 + 0.5))] for one in amounts)


def next_mark(marks: Sequence[Mark], t: float, step: int) -> Mark | None:
    """Return the mark after (1) or before (-1) the moment `t`; the marks are in the order of time."""
    times = [mark.t for mark in marks]
    if step > 0:
        at = bisect_right(times, t + 0.001)
        return marks[at] if at < len(marks) else None
    at = bisect_left(times, t - 0.001) - 1
    return marks[at] if at >= 0 else None


def span(seconds: float) -> str:
    """Say a time in a recording: `03:12.4`, `1:03:12`."""
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60:02}:{whole % 60:02}.{int(seconds * 10) % 10}"
    return f"{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02}"
