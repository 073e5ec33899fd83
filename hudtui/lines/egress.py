"""What the Egress table says of a hit, and of a host over all its hits: pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cell.policy import entry
from cell.policy.hosts import canonical
from cell.trials.egress import Hit, HostSum
from cell.trials.events import phase_word
from hudtui.lines.fleet import ago, clock
from hudtui.look import Run
from hudtui.panes.table import Column

COLUMNS: tuple[Column, ...] = (
    Column("time", "TIME", 8),
    Column("cell", "CELL", 7),
    Column("phase", "PHASE", 8),
    Column("session", "SESSION", 7),
    Column("method", "METHOD", 7),
    Column("host", "HOST:PORT", 22, grow=3),
    Column("path", "SNI/PATH", 12, grow=3),
    Column("decision", "DECISION", 8),
    Column("rule", "RULE", 20, grow=2),
    Column("status", "STATUS", 6, right=True),
    Column("sent", "↑", 5, right=True),
    Column("received", "↓", 5, right=True),
    Column("ms", "MS", 5, right=True),
    Column("process", "PROCESS", 8, grow=1),
)
_NORMAL = ("time", "cell", "phase", "method", "host", "decision", "rule", "status", "received", "ms")
_NARROW: Mapping[str, Column] = {
    "time": Column("time", "TIME", 8),
    "cell": Column("cell", "CELL", 7),
    "phase": Column("phase", "PHASE", 8),
    "host": Column("host", "HOST:PORT", 20, grow=1),
    "decision": Column("decision", "SAID", 5),
    "rule": Column("rule", "RULE", 20),
}

HOST_COLUMNS: tuple[Column, ...] = (
    Column("host", "HOST", 20, grow=2),
    Column("hits", "HITS", 6, right=True),
    Column("denied", "DENY", 6, right=True),
    Column("cells", "CELLS", 5, right=True),
    Column("phases", "PHASES", 14),
    Column("sent", "↑", 5, right=True),
    Column("received", "↓", 5, right=True),
    Column("rule", "RULE", 14, grow=1),
    Column("last", "LAST", 8),
)
_HOST_NARROW = ("host", "hits", "denied", "cells", "phases", "last")


def columns(width: int, *, grouped: bool = False, one_cell: bool = False) -> tuple[Column, ...]:
    """Return the columns that a table of `width` cells has room for; one cell needs no CELL."""
    if grouped:
        return tuple(c for c in HOST_COLUMNS if width >= 95 or c.key in _HOST_NARROW)
    if width < 95:
        return tuple(c for c in _NARROW.values() if not (one_cell and c.key == "cell"))
    names: tuple[str, ...]
    if width < 148:
        names = (*_NORMAL, "process") if one_cell else _NORMAL
    else:
        names = tuple(column.key for column in COLUMNS)
    return tuple(c for c in COLUMNS if c.key in names and not (one_cell and c.key == "cell"))


def cells(row: Hit | HostSum, shown: Sequence[Column], now: float) -> list[list[Run]]:
    """Return a row's cells, one list of runs per column."""
    if isinstance(row, HostSum):
        return [_HOST[column.key](row, now) for column in shown]
    return [_HIT[column.key](row) for column in shown]


def amount(count: int) -> str:
    """Say a number of bytes in at most five characters: `204`, `1.2k`, `88k`, `4.1M`."""
    if count < 1000:
        return str(count)
    value = float(count)
    for unit in "kMGT":
        value /= 1000
        if value < 9.95:
            return f"{value:.1f}{unit}"
        if value < 999.5:
            return f"{value:.0f}{unit}"
    return "lots"


def process_name(command: str) -> str:
    """Name a process by its command line: the program, or the script that an interpreter runs."""
    words = command.split()
    if not words:
        return ""
    name = words[0].rpartition("/")[2]
    bare = name.rstrip("0123456789.")
    if bare in ("python", "sh", "bash", "dash", "node", "perl", "ruby"):
        if words[1:2] == ["-m"] and len(words) > 2:
            return words[2]
        if len(words) > 1 and not words[1].startswith("-"):
            return words[1].rpartition("/")[2] or name
    return name


def rule_words(hit: Hit) -> str:
    """Say in a few words what decided: the entry that let it pass, or why it did not."""
    if hit.allowed:
        return hit.rule
    reason = hit.reason.removeprefix("denied: ").removeprefix(hit.host).removeprefix(f":{hit.port}")
    words = reason.strip().removeprefix("is ").removeprefix(f"{hit.phase} ")
    for tail in (" of [", " (", ", which ", "; "):
        words = words.partition(tail)[0]
    return words or hit.rule


NO_LIST = frozenset({"owner", "limit", "record limit"})
"""Rules of what was refused before any list was asked: what it would have said depends on who it was."""


def may_help(hit: Hit) -> bool:
    """Say whether to allow its host could let it pass the next time.

    Not where no list was asked, nor where the host was let through, and what its client asked for in TLS not.
    """
    return not hit.allowed and hit.rule not in (*NO_LIST, "TLS")


def by_list(hit: Hit) -> bool:
    """Say whether it was a list that denied it: an address that must not be reached, say, no entry changes.

    The rule is then the list itself, or an entry for the same host with another port.
    """
    if hit.allowed:
        return False
    if hit.rule in ("allowlist", "no-network"):
        return True
    try:
        return entry(hit.rule).names(canonical(hit.host))
    except ValueError:
        return False


def phase_runs(phase: str) -> list[Run]:
    """Return a phase's name, the verifier's standing out."""
    return [(phase_word(phase), "accent" if phase == "verifier" else "")]


def decision_runs(hit: Hit) -> list[Run]:
    """Return the decision in its colour."""
    return [("allow", "ok")] if hit.allowed else [("deny", "bad bold")]


def _status(hit: Hit) -> list[Run]:
    if hit.status and not (hit.error and hit.status < 400):  # it was cut, whatever had been answered
        return [(str(hit.status), "muted" if hit.status < 400 else "warn" if hit.allowed else "")]
    if hit.error:
        return [("error", "warn")]
    if hit.allowed and hit.open:
        return [("open", "primary")]
    return [("–" if hit.allowed else "reset", "muted" if hit.allowed else "")]


def _path(hit: Hit) -> list[Run]:
    shown = hit.path or hit.sni
    return [(shown, "")] if shown else [("–", "muted")]


def _ms(hit: Hit) -> list[Run]:
    if hit.open and hit.allowed:
        return [("…", "muted")]
    return [(f"{hit.ms:.0f}" if hit.ms < 99_999 else f"{hit.ms / 1000:.0f}s", "muted")]


def _bytes(count: int) -> list[Run]:
    return [(amount(count), "muted" if not count else "")]


_HIT: Mapping[str, Callable[[Hit], list[Run]]] = {
    "time": lambda hit: [(clock(hit.t), "muted")],
    "cell": lambda hit: [(hit.cell, "link")],
    "phase": lambda hit: phase_runs(hit.phase),
    "session": lambda hit: [(f"#{hit.session}", "")] if hit.session is not None else [("–", "muted")],
    "method": lambda hit: [(hit.method or hit.way, "")],
    "host": lambda hit: [(hit.place, "")],
    "path": _path,
    "decision": decision_runs,
    "rule": lambda hit: [(rule_words(hit), "" if hit.allowed else "muted")],
    "status": _status,
    "sent": lambda hit: _bytes(hit.sent),
    "received": lambda hit: _bytes(hit.received),
    "ms": _ms,
    "process": lambda hit: [(process_name(hit.command), "muted")],
}


def _phases(row: HostSum, now: float) -> list[Run]:
    return [run for phase in row.phases for run in (*phase_runs(phase), (" ", ""))]


_HOST: Mapping[str, Callable[[HostSum, float], list[Run]]] = {
    "host": lambda row, now: [(row.host, "")],
    "hits": lambda row, now: [(f"{row.hits:,}", "")],
    "denied": lambda row, now: [(f"{row.denied:,}", "bad bold" if row.denied else "muted")],
    "cells": lambda row, now: [(str(len(row.cells)), "")],
    "phases": _phases,
    "sent": lambda row, now: _bytes(row.sent),
    "received": lambda row, now: _bytes(row.received),
    "rule": lambda row, now: [(", ".join(row.rules), "muted")],
    "last": lambda row, now: [(f"{ago(now - row.last)} ago" if now - row.last > 1.5 else "now", "muted")],
}

_SORTS: Mapping[str, Callable[[Hit], object]] = {
    "time": lambda hit: hit.t,
    "cell": lambda hit: (hit.cell, hit.t),
    "phase": lambda hit: hit.phase,
    "session": lambda hit: hit.session or 0,
    "method": lambda hit: hit.method,
    "host": lambda hit: (hit.host, hit.port),
    "path": lambda hit: hit.path or hit.sni,
    "decision": lambda hit: hit.allowed,
    "rule": rule_words,
    "status": lambda hit: hit.status,
    "sent": lambda hit: hit.sent,
    "received": lambda hit: hit.received,
    "ms": lambda hit: hit.ms,
    "process": lambda hit: hit.command,
}
_HOST_SORTS: Mapping[str, Callable[[HostSum], object]] = {
    "host": lambda row: row.host,
    "hits": lambda row: row.hits,
    "denied": lambda row: row.denied,
    "cells": lambda row: len(row.cells),
    "phases": lambda row: row.phases,
    "sent": lambda row: row.sent,
    "received": lambda row: row.received,
    "rule": lambda row: row.rules,
    "last": lambda row: row.last,
}


def order_hits(hits: list[Hit], by: str, down: bool) -> list[Hit]:
    """Return the hits sorted by a column; without one, as they came."""
    return sorted(hits, key=_SORTS[by], reverse=down) if by in _SORTS else hits  # type: ignore[arg-type]


def order_hosts(hosts: list[HostSum], by: str, down: bool) -> list[HostSum]:
    """Return the hosts sorted by a column; without one, the most denied first."""
    return sorted(hosts, key=_HOST_SORTS[by], reverse=down) if by in _HOST_SORTS else hosts  # type: ignore[arg-type]
