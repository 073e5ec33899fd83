"""Whether something can be asked of a cell, and where it answers."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from cell.gate import decide
from cell.records import PhaseName
from cell.trials import Trial
from cell.trials.files import inner, load_object


def runtime_of(trial: Trial) -> Path | None:
    """Return the folder of a cell's sockets, as its record names it."""
    where = inner(load_object(Path(trial.path) / "cell/cell.json"), "sockets", "operator")
    return Path(where).parent if isinstance(where, str) and where else None


def refusal(trial: Trial | None, method: str, *, read_only: bool = False) -> str:
    """Say why `method` cannot be asked of the cell now; empty when it can."""
    if trial is None:
        return "no cell is chosen"
    if read_only:
        return f"{method}: this cockpit only looks (--read-only)"
    if trial.origin != "cell":
        return f"{method}: {trial.id} is Harbor's record; there is no cell to ask"
    if not trial.alive and trial.state == "running":
        return f"{method}: {trial.id} is starting; there is no cell to ask yet"
    if not trial.alive:
        return f"{method}: {trial.id} has ended; only its records are left"
    if trial.phase in get_args(PhaseName):
        return decide("operator", method, trial.phase, kept=trial.kept).reason
    return ""
