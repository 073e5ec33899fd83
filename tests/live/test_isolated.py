"""One trial's trouble is its own, and an interrupt at any moment leaves every trial with an end."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cell import kernel, trees, trials
from cell.serve import RUNTIME

from .test_run import (
    CELL,
    EXAMPLES,
    ROOT,
    jobs,
    run,
    started,
    task,
    trials_in,
    until,
    verdicts,
    working,
)

__all__ = ["jobs"]
pytestmark = pytest.mark.live

_DEEP = """import os
os.chdir({place!r})
for _ in range(3000):
    os.mkdir({name!r}); os.chdir({name!r})
"""


@pytest.mark.parametrize(("place", "name"), [("/tmp", "a"), ("/logs/artifacts", "b" * 200)])
def test_a_chain_of_folders_is_one_passing_trial_like_any_other(
    tmp_path: Path, jobs: Path, place: str, name: str
) -> None:
    deep = task(tmp_path / "tasks" / "deep")
    task(tmp_path / "tasks" / "plain")
    code = tmp_path / "deep.py"
    code.write_text(_DEEP.format(place=place, name=name))
    agent = (
        f'exec:grep -q deep "$CELL_TRIAL/config.json" && ssh -F "$CELL_SSH_CONFIG" agent python3 - < {code}'
    )
    try:
        done = run("run", tmp_path / "tasks", "-a", agent, "--jobs-dir", jobs, "--json")
        assert done.returncode == 0, done.stderr
        said = verdicts(done)
        assert {name: line["rewards"] for name, line in said.items()} == {
            "deep": {"reward": 1},
            "plain": {"reward": 1},
        }
        assert not Path(str(said["deep"]["trial"]), "cell", "root").exists(), "a clean pass leaves no root"
        assert deep.is_dir()
    finally:
        trees.remove(jobs)


def test_what_breaks_in_one_rollout_is_that_trials_fault_alone(tmp_path: Path, jobs: Path) -> None:
    breaks = task(tmp_path / "tasks" / "breaks")
    task(tmp_path / "tasks" / "fine")
    agent = f'exec:grep -q /breaks "$CELL_TRIAL/config.json" && rm -r {breaks}/tests; sleep 1'
    done = run("run", tmp_path / "tasks", "-a", agent, "--jobs-dir", jobs, "--json")
    assert done.returncode == 3, done.stderr
    said = verdicts(done)
    assert (said["breaks"]["verdict"], said["fine"]["verdict"]) == ("ungraded", "graded")
    (trial,) = (found for found in trials_in(jobs) if found.task == "breaks")
    assert (trial.state, trial.cause) == ("ungraded", "harness")
    assert Path(trial.path, "exception.txt").read_text()
    assert "Traceback" in Path(trial.path, "trial.log").read_text()
    assert "Traceback" not in done.stderr


def test_a_task_whose_name_is_no_text_is_refused_and_the_rest_runs(tmp_path: Path, jobs: Path) -> None:
    task(tmp_path / "tasks" / "fine")
    shutil.copytree(tmp_path / "tasks" / "fine", tmp_path / "tasks" / os.fsdecode(b"na\xffme"))
    done = run("run", tmp_path / "tasks", "-a", "nop", "--jobs-dir", jobs, "--json")
    assert done.returncode == 2
    assert verdicts(done)["fine"]["verdict"] == "graded"
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("cell: ")]
    assert "UTF-8" in line


def test_a_trial_that_could_not_begin_has_an_end_too(tmp_path: Path, jobs: Path) -> None:
    done = run("run", task(tmp_path / "t", '[agent]\nuser = "nobodyatall"\n'), "--jobs-dir", jobs)
    assert done.returncode == 2
    (trial,) = trials_in(jobs)
    assert (trial.state, trial.cause) == ("ungraded", "task")
    assert "nobodyatall" in Path(trial.path, "exception.txt").read_text()


# ── interrupts ────────────────────────────────────────────────────────────────────────────────


def serving(jobs: Path) -> list[int]:
    """Return the serving processes that complain into a trial below `jobs`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            log = os.readlink(folder / "fd" / "2")
            if b"cell.service" in (folder / "cmdline").read_bytes() and log.startswith(str(jobs)):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_at_any_moment_ends_every_trial(jobs: Path, times: int) -> None:
    """CHAOS says how often; each comes at another moment of five rollouts at once."""
    moments = random.Random(times)
    for _ in range(int(os.environ.get("CHAOS", "3"))):
        argv = [*CELL, "run", str(EXAMPLES), "-n", "5", "--jobs-dir", str(jobs)]
        argv += ["-a", 'exec:ssh -F "$CELL_SSH_CONFIG" agent "sleep 1"']
        runner = subprocess.Popen(
            argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        until(lambda: trials_in(jobs))
        time.sleep(moments.random() * 3)
        for _ in range(times):
            runner.send_signal(signal.SIGINT)
            time.sleep(moments.random() * 0.3)
        _, said = runner.communicate(timeout=100)
        assert b"Traceback" not in said, said
        if runner.returncode != 130:
            assert b"interrupted" not in said  # it was over before
        assert serving(jobs) == []
        for trial in trials_in(jobs):
            assert trial.state in ("ungraded", "passed", "failed"), (trial, said)
            for name in ("cell/verdict.json", "result.json"):
                assert Path(trial.path, name).exists(), (name, trial, said)
            if trial.cause == "operator":
                assert Path(trial.path, "exception.txt").exists()
            assert not trial.alive
            assert not (RUNTIME / trial.id).exists()
        (job,) = jobs.iterdir()
        assert json.loads((job / "result.json").read_text())["finished_at"]
        trees.remove(jobs)


def test_a_second_interrupt_says_that_all_cells_were_killed(jobs: Path) -> None:
    runner = started(jobs)
    until(lambda: working(jobs))
    (trial,) = trials_in(jobs)
    info = json.loads(Path(trial.path, "cell", "cell.json").read_text())
    runner.send_signal(signal.SIGSTOP)  # both come before it can do anything about the first
    runner.send_signal(signal.SIGINT)
    runner.send_signal(signal.SIGTERM)
    runner.send_signal(signal.SIGCONT)
    _, said = runner.communicate(timeout=30)
    assert runner.returncode == 130
    assert b"all cells killed" in said
    assert kernel.process(info["serve"]["pid"]) is None
    (trial,) = trials_in(jobs)
    assert (trial.state, trial.cause) == ("ungraded", "operator")
    assert not (RUNTIME / trial.id).exists()


# ── an operator and the runner ────────────────────────────────────────────────────────────────


def test_grading_is_refused_while_the_agent_works_and_overwrites_no_record(jobs: Path) -> None:
    runner = started(jobs)
    until(lambda: working(jobs))
    (trial,) = trials_in(jobs)
    refused = run("grade", trial.id, "--jobs-dir", jobs)
    assert refused.returncode == 2
    assert all(word in refused.stderr for word in ("cell ssh", "cell stop", "--seal"))
    assert trials.read_trial(trial.path).phase == "agent"
    done = run("grade", trial.id, "--seal", "--jobs-dir", jobs, "--json")
    _, _ = runner.communicate(timeout=60)
    assert runner.returncode == 0
    said = json.loads(done.stdout)
    assert {"trial", "task", "verdict", "rewards", "causes"} <= set(said)
    again = trials.read_trial(trial.path)
    assert again.verdict is not None
    assert again.verdict.rewards == said["rewards"]
    ran = [
        line
        for line in Path(trial.path, "cell/events.jsonl").read_text().splitlines()
        if "verifier_ran" in line
    ]
    assert len(ran) <= 1, "graded once, by the runner"
    over = run("grade", trial.id, "--jobs-dir", jobs)
    assert over.returncode == 2
    assert "--keep" in over.stderr


def test_a_cell_without_a_runner_says_so_and_when_stopped_has_a_verdict(jobs: Path) -> None:
    runner = started(jobs)
    until(lambda: working(jobs))
    (trial,) = trials_in(jobs)
    assert "nobody owns" not in run("ls", jobs).stdout
    runner.kill()
    runner.communicate()
    assert "nobody owns" in run("ls", jobs).stdout
    assert json.loads(run("ls", jobs, "--json").stdout)["orphaned"]
    assert run("stop", trial.id, "--jobs-dir", jobs).returncode == 0
    (trial,) = trials_in(jobs)
    assert (trial.state, trial.cause, trial.alive) == ("ungraded", "operator", False)


def test_ls_of_a_path_is_about_that_path(tmp_path: Path, jobs: Path) -> None:
    runner = started(jobs)
    until(lambda: working(jobs))
    (tmp_path / "other").mkdir()
    try:
        (trial,) = trials_in(jobs)
        assert trial.id in run("ls", "--jobs-dir", tmp_path / "other").stdout, "the control: it lives"
        assert run("ls", tmp_path / "other").stdout == ""
        missing = run("ls", tmp_path / "nosuch")
        assert (missing.returncode, missing.stdout) == (2, "")
        assert "nosuch" in missing.stderr
    finally:
        runner.send_signal(signal.SIGINT)
        runner.communicate(timeout=60)


@pytest.mark.parametrize("name", ["../../x", "a/b", "..", "", "a\nb"])
def test_a_jobs_name_is_one_folder(tmp_path: Path, name: str) -> None:
    done = run("run", EXAMPLES / "hello-pass", "--jobs-dir", tmp_path / "a" / "jobs", "--job-name", name)
    assert done.returncode == 2
    assert "--job-name" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_cells_that_stay_up_are_said_once(jobs: Path) -> None:
    done = run("run", EXAMPLES / "hello-pass", "--keep", "always", "--jobs-dir", jobs)
    assert done.returncode == 0
    (trial,) = trials_in(jobs)
    (line,) = [line for line in done.stderr.splitlines() if "stays up" in line]
    assert trial.id in line
    assert done.stdout.splitlines()[-1].startswith("1 trial · ")
    assert run("stop", trial.path).returncode == 0
    assert "stays up" not in run("run", EXAMPLES / "hello-pass", "--jobs-dir", jobs).stderr
