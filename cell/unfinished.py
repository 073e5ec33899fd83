"""Verdicts of trials whose rollout gave none: it never began, was cut off, or has lost its runner."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from . import harbor, outcome
from .errors import CellError, TaskError
from .records import CellInfo, Verdict
from .rollout import INTERRUPTED, Rollout, Settings, write
from .task import Task, load
from .verdict import conclude
from .verdict.facts import AgentOutcome, Facts, FaultSeen


def write_fault(
    task: Task, trial: Path, config: dict[str, Any], settings: Settings, error: CellError | None
) -> None:
    """Write what a trial has whose rollout did not end: whose fault that was; None is an interruption.

    What is there already stays. Raises nothing: the disk may be what failed.
    """
    where = "task" if isinstance(error, TaskError) else "serve"
    faults = () if error is None else (FaultSeen(where=where, message=str(error), fatal=True),)
    verdict = conclude(Facts(faults=faults, cancelled=INTERRUPTED if error is None else ""))
    with suppress(CellError, OSError, ValueError):
        if not (trial / "result.json").exists():
            write(Rollout(task, trial, "", config, settings, None), verdict)
            return
    with suppress(OSError):
        if not (trial / "exception.txt").exists():
            (trial / "exception.txt").write_text(f"{error or INTERRUPTED}\n", "utf-8", "replace")


def conclude_orphan(trial: Path, task: Task, info: CellInfo, verdict: Verdict) -> None:
    """Write the verdict of a cell whose runner has gone, or that was graded again."""
    config = harbor.trial_config(
        task_path=str(task.path),
        source=task.path.parent.name,
        name=trial.name,
        trials_dir=str(trial.parent),
        job_id="",
        agent=info.agent,
    )
    write(
        Rollout(task, trial, info.cell, config, Settings(agent=info.agent), None, started=info.started),
        verdict,
    )


def stopped(trial: Path, info: CellInfo, why: str) -> Verdict | None:
    """Write the verdict of an orphaned cell that an operator ended; None when its task has gone."""
    try:
        task = load(Path(info.task_path), oracle=False)
    except CellError:
        return None
    facts = outcome.gather(trial, task, grading=None, outcome=AgentOutcome(name=info.agent), cancelled=why)
    verdict = conclude(facts)
    conclude_orphan(trial, task, info, verdict)
    return verdict
