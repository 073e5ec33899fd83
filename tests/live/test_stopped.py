"""V5: what an operator ended is the operator's doing, whatever broke while it was taken down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import until

pytestmark = pytest.mark.live
SOURCE = Path(__file__).parents[2]
AGENTS = {
    "agent": "ssh -tt -F $CELL_SSH_CONFIG agent 'while :; do date; sleep 0.1; done'",
    "verifier": "true",
}


def stopped(tmp_path: Path, phase: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The verdict and the journal of a rollout that an operator stops in a phase."""
    task, jobs = tmp_path / "task", tmp_path / "jobs"
    subprocess.run(["cp", "-a", SOURCE / "examples/tasks/hello-pass", task], check=True)
    started = tmp_path / "started"
    begins = f"ssh -F $CELL_SSH_CONFIG agent true; touch {started}; "
    (task / "tests/test.sh").write_text("#!/bin/sh\nsleep 30\necho 1 > /logs/verifier/reward.txt\n")
    argv = [sys.executable, "-m", "cell"]
    run = subprocess.Popen(
        [*argv, "run", str(task), "-a", f"exec:{begins}{AGENTS[phase]}", "--jobs-dir", str(jobs)],
        cwd=SOURCE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=os.environ,
    )  # fmt: skip
    try:
        assert until(started.exists)
        (file,) = jobs.glob("*/*/cell/cell.json")
        opened = '"kind":"session","n":2,'
        journal = file.parent / "events.jsonl"
        assert until(lambda: opened in journal.read_text())
        assert json.loads(file.read_bytes())["phase"] == phase
        cell = file.parents[1].name.rpartition("__")[2]
        stop = subprocess.run([*argv, "stop", cell, "--jobs-dir", str(jobs)], cwd=SOURCE, capture_output=True)
        assert stop.returncode == 0, stop
        run.wait(30)
    finally:
        run.kill()
        run.wait()
    lines = [json.loads(line)["event"] for line in journal.read_text().splitlines()]
    return json.loads((file.parent / "verdict.json").read_bytes()), lines


@pytest.mark.parametrize("phase", ["agent", "verifier"])
def test_a_cell_that_an_operator_stops_is_the_operators_doing_alone(tmp_path: Path, phase: str) -> None:
    verdict, journal = stopped(tmp_path, phase)
    assert verdict["verdict"] == "ungraded"
    assert [cause["cause"] for cause in verdict["causes"]] == ["operator"], verdict
    assert "journal" not in verdict["fault"]
    phases = [event["phase"] for event in journal if event["kind"] == "phase"]
    assert phases[-1] == "closed", "no phase comes after the end"
    assert "verifier" not in [event["kind"] for event in journal], "what was cut off says nothing"


def test_a_disk_that_the_agent_filled_is_the_agents_doing_and_told(tmp_path: Path) -> None:
    task, disk = tmp_path / "task", tmp_path / "disk"
    subprocess.run(["cp", "-a", SOURCE / "examples/tasks/hello-pass", task], check=True)
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "small", disk], check=True)
    try:
        fills = "ssh -F $CELL_SSH_CONFIG agent 'dd if=/dev/zero of=/root/full bs=1M; true'"
        argv = [sys.executable, "-m", "cell", "run", str(task), "-a", f"exec:{fills}"]
        done = subprocess.run(
            [*argv, "--jobs-dir", str(disk / "jobs")], cwd=SOURCE, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )  # fmt: skip
        (file,) = disk.glob("jobs/*/*/cell/verdict.json")
        verdict = json.loads(file.read_bytes())
        assert verdict["verdict"] == "ungraded", (verdict, done)
        assert [cause["cause"] for cause in verdict["causes"]] == ["agent"], verdict
        assert "the disk is full" in verdict["causes"][0]["summary"]
        assert not (file.parent / ".reserve").exists()
        assert (file.parents[1] / "result.json").stat().st_size
    finally:
        subprocess.run(["umount", disk], check=True)
