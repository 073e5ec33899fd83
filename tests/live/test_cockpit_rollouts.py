"""Rollouts from the cockpit alone: run, be the agent, finish, keep, grade, stop, all by their keys (O1, V7)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from world import SOURCE

from cell import trials

from .conftest import until
from .desk import Desk

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]
TASK = SOURCE / "examples/tasks/hello-pass"
WORKS = "exec:ssh -tt -F $CELL_SSH_CONFIG agent sh"


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "jobs"
    folder.mkdir()
    yield folder
    for path in folder.glob("*/*__*"):  # what a failing test left alive
        if trials.read_trial(path).alive:
            argv = [sys.executable, "-m", "cell", "stop", str(path)]
            subprocess.run(argv, cwd=SOURCE, capture_output=True, timeout=60)
    # and the runners that the cockpit started end with their trials
    assert until(lambda: all(not runs(path) for path in folder.glob("*/*__*")), seconds=30)


def runs(path: Path) -> bool:
    info = json.loads((path / "cell/cell.json").read_text())
    return info["runner"] is not None and Path(f"/proc/{info['runner']['pid']}").exists()


@pytest.fixture
def desk(jobs: Path) -> Iterator[Desk]:
    made = Desk(jobs, who="ada")
    yield made
    made.close()


def found(jobs: Path) -> list[trials.Trial]:
    return [trials.read_trial(path) for path in sorted(jobs.glob("*/*__*"))]


def test_o1_a_person_is_the_agent_from_the_first_key_to_the_verdict(jobs: Path, desk: Desk) -> None:
    desk.sees("no job has been run here yet")
    desk.type(":").sees("run TASK")
    desk.type(f"run {TASK} -a human\r").sees("waits for you", seconds=60)
    desk.type("s").sees("A shell in")
    desk.type("\r").sees("YOUR SHELL in")
    desk.sees("hello.txt", seconds=20)  # the instruction, beside the shell
    desk.type("echo 'Hello, world!' > /root/hello.txt; echo made-$((40+2))\r").sees("made-42")
    desk.type("exit\r").sees("your shell has ended")
    desk.type("E").sees("Finish")
    desk.type("j\r").sees("the agent phase is over")
    desk.type("\x1b").sees("1.00", seconds=60)
    (trial,) = found(jobs)
    assert until(lambda: found(jobs)[0].state == "passed")
    assert not trial.touched, "it was the agent's own work"


def test_v7_keeping_grading_labelling_and_stopping_what_runs(jobs: Path, desk: Desk) -> None:
    desk.sees("no job has been run here yet")
    desk.type(":").sees("run TASK")
    desk.type(f"run {TASK} -k 2 -a '{WORKS}'\r")
    desk.sees("● 2", seconds=60)
    assert until(lambda: desk.watch() or len(list(jobs.glob("*/*/cell/sessions/1.cast"))) == 2)
    desk.sees(lambda screen: "starting" not in screen)
    # the one under the cursor: help it, hand it back, have it graded, and keep it
    desk.type("gH").sees("kept: it stays when it has finished")
    desk.type("a").sees("ATTACHED")
    desk.type("echo 'Hello, world!' > /root/hello.txt; echo helped-$((40+2))\r").sees("helped-42")
    desk.type("exit\r").sees(lambda screen: "ATTACHED" not in screen)
    desk.type("1").sees("o group")
    desk.sees("1.00", seconds=60)
    kept = next(one for one in found(jobs) if one.score is not None)
    assert (kept.score, kept.touched) == (1.0, True), "V7: the verdict says that somebody typed"
    verdict = json.loads((Path(kept.path) / "cell/verdict.json").read_text())
    assert verdict["touched"]
    assert until(lambda: any(one.state == "kept" for one in found(jobs)))
    # grade it beside its score, label it, and stop both
    desk.type("/kept\r").sees("Fleet 1 of 2")
    desk.type("r").sees("beside the score, with four times")
    desk.type("jjj\r").sees("started: cell grade")
    assert until(lambda: any(one.regrades for one in found(jobs)), seconds=60)
    desk.type("l").sees("a word, then a note")
    desk.type("helped by hand\r").sees("helped by hand")
    desk.type("\x1b").sees("─ Fleet 2 ─")
    desk.type("g  ").sees("2 marked")
    desk.type("x").sees("stop 2 marked cells: type 2")
    desk.type("2\r").sees("2 of 2 cells: stopped", seconds=60)
    assert until(lambda: not any(one.alive for one in found(jobs)))
    other = next(one for one in found(jobs) if one.id != kept.id)
    assert until(lambda: trials.read_trial(other.path).state == "ungraded")
    assert trials.read_trial(other.path).cause == "operator"
    assert trials.read_trial(kept.path).score == 1.0
