"""The attempts to leave of one trial or of a whole job, as rows: `Egress` joined with its `EgressEnd`.

Each `events.jsonl` is read from where the last look ended; lines of other kinds are not decoded. The
cockpit's Egress view and `cell egress --json` show the same values from here, all text neutralised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from cell.events import Egress, EgressEnd
from cell.filters import WHOLE
from cell.plain import plain
from cell.records import CellInfo
from cell.trials import Trial
from cell.trials.events import phase_word
from cell.trials.files import load_record, read_regular, stamp

_TURN = 4 << 20
_LONGEST = 1 << 20
MOST = 200_000
"""Hits that are kept of one cell; what is beyond is counted in `EgressLog.dropped`."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to leave. `t` is epoch seconds, `ms` its duration, `sent` and `received` are bytes from
    and to the world inside; `open` says that it is not over (or that its end was never written).

    `address` and `address_class` are for the operator only; `trial` is the trial's folder.
    """

    trial: str
    cell: str
    task: str
    hit: int
    t: float
    phase: str
    way: str
    method: str
    host: str
    port: int
    allowed: bool
    session: int | None = None
    sni: str = ""
    path: str = ""
    rule: str = ""
    reason: str = ""
    address: str = ""
    address_class: str = ""
    status: int = 0
    sent: int = 0
    received: int = 0
    ms: float = 0.0
    pid: int = 0
    command: str = ""
    error: str = ""
    ech: bool = False
    open: bool = True

    @property
    def key(self) -> str:
        """What tells it from every other hit of the job."""
        return f"{self.trial}#{self.hit}"

    @property
    def decision(self) -> str:
        """`allow` or `deny`."""
        return "allow" if self.allowed else "deny"

    @property
    def place(self) -> str:
        """Return `host:port`, an IPv6 literal in brackets; the host alone where there is no port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else host

    def as_dict(self) -> dict[str, Any]:
        """Return the hit as JSON values."""
        value: dict[str, Any] = msgspec.to_builtins(self)
        return value


class _Line(msgspec.Struct, frozen=True):
    t: float
    event: Egress | EgressEnd


_decode = msgspec.json.Decoder(_Line).decode


class EgressLog:
    """A fold over one trial's journal. `refresh` costs one look at the file when nothing was written."""

    def __init__(self, trial: Path | str, cell: str, task: str) -> None:
        self.trial, self.cell, self.task = str(trial), cell, task
        self.path = Path(trial) / "cell/events.jsonl"
        self._start()

    def _start(self) -> None:
        self._stamp = (0, 0, 0)
        self._offset = 0
        self._partial = b""
        self._at: dict[int, int] = {}
        self.dropped = 0
        self.hits: list[Hit] = []

    def refresh(self) -> bool:
        """Take in what was written since; return whether any hit is new or over."""
        now = stamp(self.path)
        if now == self._stamp:
            return False
        if now[1] < self._offset or (self._stamp[2] and now[2] != self._stamp[2]):
            self._start()
        self._stamp = now
        changed = False
        while data := read_regular(self.path, limit=_TURN, offset=self._offset):
            self._offset += len(data)
            *whole, self._partial = (self._partial + data).split(b"\n")
            if len(self._partial) > _LONGEST:
                self._partial = b""
            for raw in whole:
                changed |= b'"egress' in raw and self._take(raw)
        return changed

    def _take(self, raw: bytes) -> bool:
        try:
            line = _decode(raw)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return False
        event = line.event
        if isinstance(event, Egress):
            if len(self.hits) >= MOST:
                self.dropped += 1
                return False
            self._at[event.hit] = len(self.hits)
            self.hits.append(self._hit(line.t, event))
            return True
        at = self._at.pop(event.hit, None)
        if at is None:
            return False
        begun, error = self.hits[at], plain(event.error, limit=300)
        if event.denied:
            begun = msgspec.structs.replace(begun, allowed=False, rule="TLS", reason=f"denied: {error}")
        self.hits[at] = msgspec.structs.replace(
            begun,
            status=event.status or begun.status,
            sent=event.sent,
            received=event.received,
            ms=event.ms,
            sni=plain(event.sni, limit=300) or begun.sni,
            error=error,
            ech=event.ech,
            open=False,
        )
        return True

    def _hit(self, t: float, event: Egress) -> Hit:
        return Hit(
            trial=self.trial,
            cell=self.cell,
            task=self.task,
            hit=event.hit,
            t=t,
            phase=event.phase,
            way=event.way,
            method=plain(event.method, limit=40),
            host=plain(event.host, limit=300),
            port=event.port,
            allowed=event.allowed,
            session=event.session,
            sni=plain(event.sni, limit=300),
            path=plain(event.path, limit=2000),
            rule=plain(event.rule, limit=300),
            reason=plain(event.reason, limit=1000),
            address=plain(event.address, limit=80),
            address_class=plain(event.address_class, limit=80),
            status=event.status,
            pid=event.pid,
            command=plain(event.command, limit=400),
            open=event.way != "name",  # a question has its answer at once
        )


def read(trial: Path | str) -> list[Hit]:
    """Return the trial's hits in the order they were tried; empty when there is no record. Never raises."""
    path = Path(trial)
    info = load_record(path / "cell/cell.json", CellInfo)
    name, _, short = path.name.rpartition("__")
    log = EgressLog(path, plain(info.cell if info else short, limit=80), plain(info.task if info else name))
    log.refresh()
    return log.hits


class EgressReader:
    """The hits of many trials, looked at again and again. Not for two threads at once; `hits` may be
    read from another thread, it is replaced and never changed."""

    def __init__(self) -> None:
        self._logs: dict[str, EgressLog] = {}
        self.hits: Sequence[Hit] = ()
        self.counts: Mapping[str, tuple[int, int]] = {}
        """Hits and denials of each trial that has any, by its path."""

    @property
    def dropped(self) -> int:
        """How many hits of the trials are more than are kept."""
        return sum(log.dropped for log in self._logs.values())

    def scan(self, trials: Iterable[Trial]) -> bool:
        """Look once; return whether `hits` is new. The oldest hit comes first."""
        here = {trial.path: trial for trial in trials if trial.origin == "cell"}
        changed = bool(self._logs.keys() - here.keys())
        self._logs = {path: log for path, log in self._logs.items() if path in here}
        for path, trial in here.items():
            log = self._logs.get(path)
            if log is None:
                log = self._logs[path] = EgressLog(path, trial.id, trial.task)
            changed |= log.refresh()
        if changed:
            every = [hit for log in self._logs.values() for hit in log.hits]
            every.sort(key=lambda hit: hit.t)
            self.hits = every
            self.counts = {
                path: (len(log.hits), sum(not hit.allowed for hit in log.hits))
                for path, log in self._logs.items()
                if log.hits
            }
        return changed


def values(hit: Hit) -> dict[str, str | float | None]:
    """Return what the filter language sees of a hit."""
    seen: dict[str, str | float | None] = {
        "cell": hit.cell,
        "task": hit.task,
        "host": hit.host,
        "port": hit.port,
        "decision": hit.decision,
        "phase": phase_word(hit.phase),
        "session": hit.session,
        "way": hit.way,
        "method": hit.method,
        "sni": hit.sni,
        "path": hit.path,
        "rule": hit.rule,
        "reason": f"{hit.reason} {hit.error}" if hit.error else hit.reason,
        "class": hit.address_class,
        "status": hit.status,
        "state": "open" if hit.open else "over",
        "sent": hit.sent,
        "received": hit.received,
        "ms": hit.ms,
        "pid": hit.pid,
        "process": hit.command,
    }
    words = "\n".join([value for value in seen.values() if isinstance(value, str)])
    seen[WHOLE] = f"{words}\n{hit.port}\n{hit.status}\n#{hit.session}".casefold()
    return seen


def denied_within(hits: Sequence[Hit], now: float, seconds: float = 60.0) -> int:
    """Count the denials of the last `seconds`; the hits are in the order of their time."""
    count = 0
    for hit in reversed(hits):
        if hit.t < now - seconds:
            break
        count += not hit.allowed and hit.t <= now
    return count


class HostSum(msgspec.Struct, frozen=True, kw_only=True):
    """What was tried of one host, over all hits that were given."""

    host: str
    hits: int
    denied: int
    ports: tuple[int, ...]
    cells: tuple[str, ...]
    phases: tuple[str, ...]
    rules: tuple[str, ...]
    sent: int
    received: int
    last: float


def by_host(hits: Iterable[Hit]) -> list[HostSum]:
    """Add up the hits of each host: the most denied first, then the most tried."""
    groups: dict[str, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(hit.host, []).append(hit)
    found = [
        HostSum(
            host=host,
            hits=len(members),
            denied=sum(not hit.allowed for hit in members),
            ports=tuple(sorted({hit.port for hit in members})),
            cells=_distinct(hit.cell for hit in members),
            phases=_distinct(hit.phase for hit in members),
            rules=_distinct(hit.rule for hit in members if hit.rule),
            sent=sum(hit.sent for hit in members),
            received=sum(hit.received for hit in members),
            last=max(hit.t for hit in members),
        )
        for host, members in groups.items()
    ]
    found.sort(key=lambda one: (-one.denied, -one.hits, one.host))
    return found


def _distinct(names: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
