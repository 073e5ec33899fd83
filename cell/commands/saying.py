"""How a command speaks: a line at a time, and a verdict as one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from cell.errors import CellError
from cell.plain import plain
from cell.records import Verdict
from cell.trials import Job
from cell.trials.labels import FAULT


def say(*words: object, file: Any = None) -> None:
    """Write one line, and have it read at once: where it goes may be a pipe that is followed."""
    to = file or sys.stdout
    to.write(" ".join(str(word) for word in words) + "\n")
    to.flush()


def coloured() -> bool:
    """Say whether standard output is a terminal that wants colour."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def verdict_line(
    trial: Path, task: str, verdict: Verdict | None, error: CellError | None, *, colour: bool = False
) -> str:
    """Return one verdict as a line: glyph, id, task, score, cause."""
    cell = trial.name.rpartition("__")[2]
    if verdict is None:
        glyph, tone, score, why = "■", "33", "—", str(error or "no verdict")
    else:
        reward = verdict.reward
        glyph, tone = ("■", "33") if reward is None else (("✓", "32") if reward >= 1 else ("×", "31"))
        if verdict.suspect or verdict.touched:
            glyph += "▲"
        score = "—" if reward is None else f"{reward:.2f}"
        first = verdict.causes[0] if verdict.causes else None
        why = f"{first.cause} {first.certainty}: {first.summary}" if first else verdict.fault
    mark = f"\x1b[{tone}m{glyph}\x1b[0m" if colour else glyph
    return f"{mark} {cell}  {plain(task, limit=40):<24} {score:>5}  {plain(why, limit=200)}".rstrip()


def means_line(job: Job) -> str:
    """Return a job's means as a line."""
    said = [job.name, f"{len(job.trials)} of {job.total} trials"]
    for name, mean in (
        ("mean", job.raw_mean),
        (f"without {job.suspects} suspect", job.firm_mean if job.suspects else None),
        ("over the graded", job.graded_mean),
        (
            f"without {job.faults} labelled {FAULT}{'s' * (job.faults > 1)}",
            job.faultless_mean if job.faults else None,
        ),
    ):
        said += [] if mean is None else [f"{name} {mean:.2f}"]
    return " · ".join(said)
