"""`cell keep` while a rollout runs: the cell is there when it is over, as it was, until it is released (O5)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from world import SOURCE

from cell import trials
from cell.serve import RUNTIME

from .conftest import until

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]
WAITS = (
    "exec:ssh -F $CELL_SSH_CONFIG agent 'echo mine > /root/mine; until [ -e /tmp/go ]; do sleep 0.1; done'"
)


def cell(*words: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "cell", *map(str, words)]
    return subprocess.run(
        argv, cwd=SOURCE, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL
    )


@pytest.fixture
def rollout(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """The trial of a rollout whose agent works until /tmp/go is there, and its runner."""
    jobs = tmp_path / "jobs"
    argv = ["run", SOURCE / "examples/tasks/hello-pass", "-a", WAITS, "--jobs-dir", jobs]
    runner = subprocess.Popen(
        [sys.executable, "-m", "cell", *map(str, argv)],
        cwd=SOURCE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert until(lambda: any(jobs.glob("*/*/cell/sessions/1.cast")), seconds=30)
    (cast,) = jobs.glob("*/*/cell/sessions/1.cast")
    trial = cast.parents[2]
    yield trial, runner
    if trials.read_trial(trial).alive:
        stopped = cell("stop", trial, "--json")
        assert json.loads(stopped.stdout)["stopped"] is True
    runner.communicate(timeout=60)


def test_o5_a_cell_that_was_asked_to_stay_stays_until_it_is_released(
    rollout: tuple[Path, subprocess.Popen[str]],
) -> None:
    trial, runner = rollout
    kept = cell("keep", trial, "--json")
    assert json.loads(kept.stdout) == {"cell": trial.name.rpartition("__")[2], "kept": True}
    cell("ssh", trial, "touch /tmp/go")
    _, said = runner.communicate(timeout=60)
    assert "stays up for an hour" in said
    found = trials.read_trial(trial)
    assert (found.state, found.alive, found.score, found.orphaned) == ("kept", True, 0.0, False)
    assert cell("ssh", trial, "cat /root/mine").stdout == "mine\n"
    assert cell("grade", trial).returncode == 0
    released = cell("keep", trial, "--release")
    assert released.returncode == 0, released
    assert until(lambda: not trials.read_trial(trial).alive), "nobody would end it for an hour"
    assert trials.read_trial(trial).state == "failed"
    assert until(lambda: not (RUNTIME / found.id).exists())


def test_o5_who_changes_their_mind_before_the_end_keeps_nothing(
    rollout: tuple[Path, subprocess.Popen[str]],
) -> None:
    trial, runner = rollout
    assert cell("keep", trial).returncode == 0
    assert cell("keep", trial, "--release").returncode == 0
    assert trials.read_trial(trial).alive, "its rollout goes on"
    cell("ssh", trial, "touch /tmp/go")
    _, said = runner.communicate(timeout=60)
    assert "stays up" not in said
    assert (trials.read_trial(trial).state, trials.read_trial(trial).alive) == ("failed", False)
