"""The marks of a recording as a list, and what is said where there is nothing to play: pure."""

from __future__ import annotations

from collections.abc import Sequence

from cell.events import PhaseChanged
from cell.plain import plain
from cell.trials import Trial
from cell.trials.sessions import Session
from hudtui.panes.doc import Line, line
from hudtui.panes.timeline import SIGNS
from hudtui.recordings.film import Mark, span

_PHASES = {
    "agent": "the agent begins",
    "sealed": "agent phase closed",
    "verifier": "the verifier begins",
    "finished": "finished",
    "closed": "closed",
}


def told(event: PhaseChanged) -> str:
    """Say a change of phase."""
    why = f": {plain(event.reason, limit=80)}" if event.reason else ""
    return f"{_PHASES.get(event.phase, event.phase)}{why}"


def mark_lines(marks: Sequence[Mark], now: float) -> tuple[list[Line], int]:
    """Return the marks as lines, and the place of the one that was reached last."""
    at = max((n for n, mark in enumerate(marks) if mark.t <= now + 0.001), default=-1)
    found = []
    for n, mark in enumerate(marks):
        past = "muted" if n > at else ""
        sign = ("▸ ", "primary bold") if n == at else ("  ", "")
        role = "bold" if n == at else past
        found.append(line(sign, (f"{span(mark.t):>8} ", "muted"), SIGNS[mark.kind], (f" {mark.text}", role)))
    return found, max(0, at)


def missing_lines(trial: Trial | None, others: Sequence[Session]) -> list[Line]:
    """Say which record is missing, and how to get it next time."""
    if trial is None:
        return [
            line("Replay is about one cell."),
            line(),
            line(
                ("1", "primary"), " Fleet, then ", ("enter", "primary"), " on a cell, then ", ("7", "primary")
            ),
        ]
    found = [line("No recording with times is here (cell/sessions/N.cast).")]
    if trial.origin == "harbor":
        found.append(line())
        found.append(
            line("Harbor keeps the output of an agent's commands without times; only some of its agents")
        )
        found.append(
            line("leave agent/recording.cast. ", ("cell run", "bold"), " records every session with times.")
        )
    elif trial.state in ("running", "paused", "queued"):
        found.append(line("No session has been opened yet; it appears here by itself."))
    if others:
        found += [
            line(),
            line(
                f"What was kept without times ({', '.join(each.name for each in others[:6])}) is in ",
                ("2", "primary"),
                " Sessions.",
            ),
        ]
    return found
