"""A trial whose rollout gave no verdict gets one that says why, and what is there already stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cell import harbor, trials, unfinished
from cell.errors import CellError, HarnessError, TaskError
from cell.rollout import Settings
from cell.task import load

HELLO = Path(__file__).resolve().parents[2] / "examples" / "tasks" / "hello-pass"


@pytest.mark.parametrize(
    ("error", "cause", "kind"),
    [
        (HarnessError("the engine went away"), "harness", "HarnessError"),
        (TaskError("task.toml", "agent.user", "nobody is called so"), "task", ""),
        (None, "operator", "CancelledError"),
    ],
)
def test_why_a_trial_did_not_end_is_written(
    tmp_path: Path, error: CellError | None, cause: str, kind: str
) -> None:
    trial = tmp_path / "hello-pass__abcdefg"
    trial.mkdir()
    (trial / "trial.log").touch()
    task = load(HELLO, oracle=False)
    config = harbor.trial_config(
        task_path=str(task.path),
        source="tasks",
        name=trial.name,
        trials_dir=str(tmp_path),
        job_id="",
        agent="nop",
    )
    unfinished.write_fault(task, trial, config, Settings(), error)
    found = trials.read_trial(trial)
    assert (found.state, found.cause) == ("ungraded", cause)
    assert str(error or "interrupted") in (trial / "exception.txt").read_text()
    exception = json.loads((trial / "result.json").read_text())["exception_info"]
    assert not kind or exception["exception_type"] == kind
    before = (trial / "result.json").read_bytes()
    unfinished.write_fault(task, trial, config, Settings(), HarnessError("later"))
    assert (trial / "result.json").read_bytes() == before


def test_a_folder_that_has_gone_raises_nothing(tmp_path: Path) -> None:
    unfinished.write_fault(load(HELLO, oracle=False), tmp_path / "gone", {}, Settings(), None)
