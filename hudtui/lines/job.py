"""What the Verdict view says when it is about all cells: each job's means, causes and labels. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from cell.trials import Job
from hudtui.lines.fleet import job_line
from hudtui.lines.verdict import CAUSE_ROLES
from hudtui.panes.doc import Line, line


def job_lines(jobs: Sequence[Job]) -> list[Line]:
    """Return what the Verdict view says when it is about all cells: means and causes."""
    found: list[Line] = []
    for job in jobs:
        done = [trial for trial in job.trials if trial.state not in ("running", "paused")]
        found.append(line((job.name, "bold"), (f"   {len(done)}/{job.total} done", "muted")))
        if means := job_line([job]):
            found.append(line(f"  {means}"))
        causes: dict[tuple[str, str], int] = {}
        for trial in job.trials:
            if trial.cause and not trial.clean:
                causes[trial.cause, trial.certainty] = causes.get((trial.cause, trial.certainty), 0) + 1
        labels: dict[str, int] = {}
        for trial in job.trials:
            if trial.label is not None:
                labels[trial.label.word] = labels.get(trial.label.word, 0) + 1
        for (cause, certainty), count in sorted(causes.items(), key=lambda item: -item[1]):
            role = CAUSE_ROLES.get(cause, "warn bold")
            found.append(line(f"  {count:>5} × ", (f"{cause:<9}", role), (f" {certainty}", "muted")))
        for word, count in sorted(labels.items(), key=lambda item: -item[1]):
            found.append(line(f"  {count:>5} × ", (word, "accent bold"), (" labelled", "muted")))
        found.append(line())
    return found or [line(("no job yet", "muted"))]
