"""What the table of sessions says of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from cell.trials import Trial
from cell.trials.events import phase_word
from cell.trials.sessions import Session
from hudtui.lines.fleet import duration
from hudtui.look import Run
from hudtui.panes.table import Column

_COLUMNS = (
    Column("state", "ST", 3),
    Column("name", "SESSION", 10),
    Column("command", "COMMAND", 20, grow=1),
    Column("exit", "EXIT", 6, right=True),
)
_WIDE = (
    Column("state", "ST", 3),
    Column("name", "SESSION", 12),
    Column("phase", "PHASE", 9),
    Column("user", "USER", 8),
    Column("size", "SIZE", 8),
    Column("command", "COMMAND", 16, grow=1),
    Column("exit", "EXIT", 6, right=True),
    Column("took", "TOOK", 7, right=True),
)


class Row(msgspec.Struct, frozen=True):
    """A session and the cell it is of."""

    trial: Trial
    session: Session


def columns(width: int) -> tuple[Column, ...]:
    """Return the columns there is room for."""
    return _WIDE if width >= 85 else _COLUMNS


def _state(row: Row) -> list[Run]:
    session = row.session
    if session.running:
        return [("●", "primary")]
    if session.exit == 0:
        return [("✓", "ok")]
    if session.exit is not None or session.signal:
        return [("×", "bad")]
    return [("•", "muted")]


def _exit(row: Row) -> list[Run]:
    session = row.session
    if session.signal:
        return [(session.signal[:6], "bad")]
    if session.exit is None:
        return [("…" if session.running else "", "muted")]
    return [(str(session.exit), "muted" if session.exit == 0 else "bad")]


def _took(row: Row) -> list[Run]:
    ms = row.session.ms
    if ms is None:
        return []
    return [
        (
            f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s" if ms < 60_000 else duration(ms / 1000),
            "muted",
        )
    ]


def _size(row: Row) -> list[Run]:
    session = row.session
    return [(f"{session.cols}×{session.rows}" if session.tty else "pipe", "muted")]


def _command(row: Row) -> list[Run]:
    session = row.session
    who: list[Run] = [(f"{row.trial.id} ", "link")] if session.principal == "" and not session.command else []
    return [*who, (session.command or ("shell" if session.tty and session.n else ""), "")]


CELLS: Mapping[str, Callable[[Row], list[Run]]] = {
    "state": _state,
    "name": lambda row: [(f"{row.session.name}", "link")],
    "phase": lambda row: [(phase_word(row.session.phase), "muted")],
    "user": lambda row: [(row.session.user, "muted")],
    "size": _size,
    "command": _command,
    "exit": _exit,
    "took": _took,
}
