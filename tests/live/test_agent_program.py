"""An `exec:` agent is a program on this machine; it lives no longer than its rollout's agent phase."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cell import trials

from .conftest import until

pytestmark = pytest.mark.live
SOURCE = Path(__file__).parents[2]
CELL = [sys.executable, "-m", "cell"]
TASK = SOURCE / "examples" / "tasks" / "hello-pass"


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def written(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def test_the_program_ends_with_a_runner_that_was_killed_and_the_cell_does_not(tmp_path: Path) -> None:
    pids, jobs = tmp_path / "pids", tmp_path / "jobs"
    # one that detached itself, one that types into the cell, and the program itself
    program = (
        f"setsid sh -c 'echo $$ >> {pids}; exec sleep 600' & "
        f'ssh -F "$CELL_SSH_CONFIG" agent "sleep 600" & echo $! >> {pids}; echo $$ >> {pids}; sleep 600'
    )
    argv = [*CELL, "run", str(TASK), "-a", f"exec:{program}", "--jobs-dir", str(jobs)]
    runner = subprocess.Popen(argv, cwd=SOURCE, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: len(written(pids)) == 3, seconds=30)
    found = written(pids)
    try:
        assert all(map(alive, found))
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait(10)
        assert until(lambda: not any(map(alive, found)))
        (trial,) = map(trials.read_trial, jobs.glob("*/*__*"))
        assert trial.alive
    finally:
        runner.kill()
        for path in jobs.glob("*/*__*"):
            subprocess.run([*CELL, "stop", str(path)], cwd=SOURCE, capture_output=True)


def test_the_program_ends_at_its_deadline_and_the_rollout_is_graded(tmp_path: Path) -> None:
    pids, jobs, task = tmp_path / "pids", tmp_path / "jobs", tmp_path / "late"
    subprocess.run(["cp", "-a", TASK, task], check=True)
    (task / "task.toml").write_text(
        '[environment]\nnetwork_mode = "no-network"\n[agent]\ntimeout_sec = 1.5\n'
    )
    program = f"setsid sh -c 'echo $$ >> {pids}; exec sleep 600' & echo $$ >> {pids}; sleep 600"
    argv = [*CELL, "run", str(task), "-a", f"exec:{program}", "--jobs-dir", str(jobs), "--json"]
    done = subprocess.run(argv, cwd=SOURCE, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert json.loads(done.stdout)["verdict"] == "graded"
    assert len(written(pids)) == 2
    assert not any(map(alive, written(pids)))
