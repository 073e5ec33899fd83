"""Paused is not kept: the agent waits, its clock stops, its processes may stand still; then it goes on (O5)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from world import SOURCE

from cell import control, deadline, kernel, trials
from cell.errors import Refused
from cell.serve import RUNTIME

from .conftest import LiveCell, until
from .driving import Seat

pytestmark = pytest.mark.live


def test_o5_a_request_waits_during_a_pause_and_then_gets_its_answer(cell: LiveCell) -> None:
    assert cell.inside("echo before") == "before\n"
    cell.call("pause", principal="operator", who="ann")
    asked = [
        subprocess.Popen(cell.argv(f"echo {n} >> /tmp/order; echo answer {n}"), stdout=subprocess.PIPE)
        for n in range(1, 4)
        if until(lambda n=n: cell.call("status")["waiting"] == n - 1)
    ]
    assert until(lambda: cell.call("status")["waiting"] == 3)
    assert len(cell.events("session")) == 1
    assert cell.info["held"]["paused"] is True
    shell = subprocess.run(cell.argv("echo mine", principal="operator"), capture_output=True)
    assert shell.stdout == b"mine\n", "who paused it goes on working"
    cell.call("continue", principal="operator", who="ann")
    assert [one.communicate(timeout=20)[0] for one in asked] == [b"answer 1\n", b"answer 2\n", b"answer 3\n"]
    assert sorted(cell.inside("cat /tmp/order").split()) == ["1", "2", "3"]
    assert [(e["paused"], e["by"], e["frozen"]) for e in cell.events("pause")] == [
        (True, "operator ann", False),
        (False, "operator ann", False),
    ]
    assert "paused the agent" in [e["what"] for e in cell.events("intervention")]
    assert cell.info["held"]["sec"] > 0
    assert cell.call("status")["held_sec"] == pytest.approx(cell.info["held"]["sec"], abs=0.01)


def test_o5_frozen_processes_stand_still_whatever_they_fork_and_go_on(cell: LiveCell) -> None:
    cell.inside(
        "nohup sh -c 'while :; do sh -c \"sh -c true; echo x >> /tmp/count\"; done' >/dev/null 2>&1 & "
        "nohup sleep 4001 >/dev/null 2>&1 & echo $! > /tmp/own; kill -STOP $!"
    )
    own = int(cell.inside("cat /tmp/own"))
    size = "stat -c %s /tmp/count"
    first = cell.inside(size)
    assert until(lambda: cell.inside(size) != first), "the positive control: it works"
    shell = subprocess.Popen(
        cell.argv("cat", principal="operator"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert shell.stdin and shell.stdout
    shell.stdin.write(b"one\n")
    shell.stdin.flush()
    assert shell.stdout.readline() == b"one\n"
    cell.call("pause", principal="operator", freeze=True)

    def states() -> set[str]:
        shells = {e["pid"] for e in cell.events("session") if e["principal"] == "operator"}
        pids = set(kernel.processes_in(cell.pid_namespace)) - {min(kernel.processes_in(cell.pid_namespace))}
        return {(kernel.stat_fields(pid) or "X")[0] for pid in pids - shells}

    assert states() == {"T"}
    shell.stdin.write(b"two\n")
    shell.stdin.flush()
    assert shell.stdout.readline() == b"two\n", "an operator's own shell is spared"
    looking = subprocess.run(cell.argv(size, principal="operator"), capture_output=True).stdout
    again = subprocess.run(cell.argv(f"sleep 0.3; {size}", principal="operator"), capture_output=True).stdout
    assert looking == again
    cell.call("continue", principal="operator")
    assert until(lambda: cell.inside(size).encode() != looking), "it goes on"
    assert cell.inside(f"cut -d' ' -f3 /proc/{own}/stat") == "T\n", "what the agent stopped stays stopped"
    shell.communicate()
    assert [e["frozen"] for e in cell.events("pause")] == [True, False]


def test_o5_a_shell_with_a_job_does_not_notice_that_it_was_frozen(cell: LiveCell) -> None:
    agent = Seat(cell, "agent", "PS1='$ ' bash --norc -i", cols=160, rows=40)
    try:
        agent.wait_for(b"$ ")
        agent.type(b"echo $((40+2)); cat\r").wait_for(b"42\r\n")
        agent.type(b"ready\r").wait_for(b"ready\r\nready\r\n")
        shown = agent.seen
        for _ in range(5):
            cell.call("pause", principal="operator", freeze=True)
            cell.call("continue", principal="operator")
        agent.type(b"still-here\r").wait_for(b"still-here\r\nstill-here\r\n")
        assert agent.seen[len(shown) :] == b"still-here\r\nstill-here\r\n", "no word of a stopped job"
    finally:
        agent.close()


def test_o5_a_frozen_cell_that_is_sealed_is_thawed_and_graded(cell: LiveCell) -> None:
    # it grows, and starts a process each time; a file written anew would be empty at most moments
    cell.inside("nohup sh -c 'while :; do date >> /tmp/now; done' >/dev/null 2>&1 &")
    assert until(lambda: cell.ssh("cat /tmp/now").stdout)
    cell.call("pause", principal="operator", freeze=True)
    graded = cell.grade(
        "#!/bin/sh\na=$(wc -c < /tmp/now); for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2; "
        'test "$(wc -c < /tmp/now)" != "$a" && echo 1 > /logs/verifier/reward.txt; done; true\n'
    )
    assert graded["rewards"] == {"reward": 1.0}, graded
    assert [(e["paused"], e["by"]) for e in cell.events("pause")] == [(True, "operator"), (False, "cell")]


def test_g1_only_an_operator_pauses_and_only_the_agent_phase(cell: LiveCell) -> None:
    for principal in ("viewer", "runner"):
        with pytest.raises(Refused, match="may not pause"):
            cell.call("pause", principal=principal)
    cell.seal()
    with pytest.raises(Refused, match="phase agent"):
        cell.call("pause", principal="operator")
    assert not cell.events("pause")


# ── seen by `cell run` ────────────────────────────────────────────────────────────────────────


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cell", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=SOURCE,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


class Run:
    """A `cell run` of one example task that goes on while the test does something to it."""

    def __init__(self, jobs: Path, task: Path, *options: str) -> None:
        self.jobs = jobs
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cell", "run", str(task), "--jobs-dir", str(jobs), "--json", *options],
            cwd=SOURCE,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @property
    def trial(self) -> Path:
        found: list[Path] = []
        until(lambda: found.extend(self.jobs.glob("*/*__*/cell/cell.json")) or found)
        return found[0].parents[1]

    def events(self, kind: str) -> list[dict[str, object]]:
        lines = (self.trial / "cell/events.jsonl").read_text().splitlines()
        return [event for event in (json.loads(line)["event"] for line in lines) if event["kind"] == kind]

    def call(self, method: str, **args: object) -> object:
        async def ask() -> object:
            link = await control.Link.open(RUNTIME / self.trial.name.rpartition("__")[2], "operator")
            try:
                return await link.call(method, **args)
            finally:
                await link.close()

        return asyncio.run(ask())

    def until(self, kind: str) -> None:
        assert until(lambda: self.events(kind), seconds=20), kind

    def verdict(self) -> dict[str, object]:
        out, self.errors = self.process.communicate(timeout=100)
        assert out, self.errors
        return dict(json.loads((self.trial / "cell/verdict.json").read_text()))


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start(task: Path, *options: str) -> Run:
        runs.append(Run(tmp_path / f"jobs{len(runs)}", task, *options))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.terminate()
        run.process.communicate(timeout=30)
        for trial in trials.discover(run.jobs).jobs if run.jobs.exists() else ():
            for one in trials.read_job(trial).trials:
                if one.alive:
                    command("stop", one.path)


def hello(folder: Path, seconds: float) -> Path:
    shutil.copytree(SOURCE / "examples/tasks/hello-pass", folder)
    toml = (folder / "task.toml").read_text().replace("timeout_sec = 60", f"timeout_sec = {seconds}", 1)
    (folder / "task.toml").write_text(toml)
    return folder


def test_o5_a_pause_stops_the_deadline(tmp_path: Path, running: Callable[..., Run]) -> None:
    solve = (SOURCE / "examples/tasks/hello-pass/solution/solve.sh").read_text()
    (tmp_path / "solve.sh").write_text(solve)
    ssh = "ssh -F $CELL_SSH_CONFIG agent"
    agent = f"{ssh} true; until test -e {tmp_path}/go; do sleep 0.1; done; {ssh} sh -s < {tmp_path}/solve.sh"
    run = running(hello(tmp_path / "hello", 8), "-a", f"exec:{agent}")
    run.until("session")
    run.call("pause", who="ann")
    (tmp_path / "go").touch()
    assert until(lambda: deadline.waited(run.trial) > 10, seconds=20)
    assert run.process.poll() is None, "more than its eight seconds are over"
    assert len(run.events("session")) == 1, "the second request waits"
    run.call("continue", who="ann")
    verdict = run.verdict()
    assert verdict["verdict"] == "graded", verdict
    assert verdict["rewards"] == {"reward": 1.0}, verdict
    assert verdict["touched"] is True
    assert len(run.events("session")) == 3, "two of the agent, one of the verifier"


def test_cell_pause_and_continue_say_what_they_did(cell: LiveCell) -> None:
    for words, said, paused in (
        (("pause", "--who", "ann"), "paused", (True, False)),
        (("pause", "--freeze"), "frozen", (True, True)),
        (("continue",), "goes on; it waited for", (False, False)),
        (("pause", "--freeze"), "frozen", (True, True)),
        (("pause", "--continue"), "goes on", (False, False)),
    ):
        done = command(words[0], cell.trial, *words[1:])
        assert (done.returncode, said in done.stdout) == (0, True), done
        assert (cell.info["held"]["paused"], cell.info["held"]["frozen"]) == paused
    again = command("continue", cell.trial)
    assert again.returncode != 0
    assert "it is not paused" in again.stdout + again.stderr
    told = command("pause", cell.trial, "--json")
    assert json.loads(told.stdout)["held"]["paused"] is True
    assert cell.events("pause")[0]["by"] == "operator ann"


def test_o5_without_a_pause_the_same_agent_is_late(tmp_path: Path, running: Callable[..., Run]) -> None:
    run = running(hello(tmp_path / "hello", 4), "-a", "exec:ssh -F $CELL_SSH_CONFIG agent true; sleep 30")
    verdict = run.verdict()
    assert "4 seconds" in (run.trial / "trial.log").read_text()
    assert verdict["touched"] is False


def test_a_person_can_be_the_agent(tmp_path: Path, running: Callable[..., Run]) -> None:
    run = running(SOURCE / "examples/tasks/hello-pass", "-a", "human")
    run.until("phase")
    solve = (SOURCE / "examples/tasks/hello-pass/solution/solve.sh").read_bytes()
    assert until(lambda: run.events("phase")[-1]["phase"] == "agent")
    done = subprocess.run(
        [sys.executable, "-m", "cell", "ssh", str(run.trial), "--", "sh", "-s"],
        input=solve,
        capture_output=True,
        cwd=SOURCE,
        timeout=30,
    )
    assert done.returncode == 0, done
    finished = command("finish", run.trial, "--json")
    assert finished.returncode == 0, finished
    verdict = run.verdict()
    assert verdict["rewards"] == {"reward": 1.0}, verdict
    assert verdict["touched"] is False, "it was the agent's own work"
    assert "a person was the agent" in verdict["notes"]  # type: ignore[operator]
    assert not run.events("intervention")
    sealed = [event for event in run.events("phase") if event["phase"] == "sealed"]
    assert sealed[0]["reason"] == "finished by the human agent"
    assert os.fsencode(f"cell ssh {run.trial.name.rpartition('__')[2]}") in run.errors


def test_finish_is_for_people(cell: LiveCell) -> None:
    with pytest.raises(Refused, match="not a person"):
        cell.call("finish", principal="operator")
    assert cell.info["phase"] == "agent"
