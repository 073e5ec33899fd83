"""`cell run` from end to end: real cells, real engine, real faults. Named by promise where one is meant."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cell import journal, kernel, trials
from cell.serve import RUNTIME

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "tasks"
HARBOR = ROOT / "tests" / "fixtures" / "harbor-0.25.0"
CELL = [sys.executable, "-m", "cell"]


def run(*args: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CELL, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=110,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
    )


def verdicts(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, object]]:
    return {line["task"]: line for line in map(json.loads, done.stdout.splitlines())}


def until(what: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come to pass in time"
        time.sleep(0.02)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "jobs"
    yield folder
    for trial in trials_in(folder):  # what a failing test left alive
        if trial.alive:
            run("stop", trial.path)


def trials_in(folder: Path) -> list[trials.Trial]:
    return [trials.read_trial(path) for path in sorted(folder.glob("*/*__*"))]


def test_the_examples_end_as_their_readmes_say(jobs: Path) -> None:
    done = run("run", EXAMPLES, "-a", "oracle", "--jobs-dir", jobs, "--json")
    assert done.returncode == 3, done.stderr
    said = verdicts(done)
    rewards = {task: line["rewards"] for task, line in said.items()}
    assert rewards == {
        "hello-pass": {"reward": 1},
        "sum-fails": {"reward": 0},
        "no-reward": {},
        "serves-http": {"reward": 1},
        "multi-user": {"reward": 1},
    }
    assert said["no-reward"]["verdict"] == "ungraded"
    assert said["sum-fails"]["causes"][0]["cause"] == "agent"  # type: ignore[index]
    failed = next(trial for trial in trials_in(jobs) if trial.task == "sum-fails")
    assert (failed.tests_passed, failed.tests_total) == (2, 3)


def test_nop_passes_nothing(jobs: Path) -> None:
    said = verdicts(run("run", EXAMPLES / "hello-pass", "-a", "nop", "--jobs-dir", jobs, "--json"))
    assert said["hello-pass"]["rewards"] == {"reward": 0}


@pytest.mark.engine
def test_harbors_tasks_end_as_under_harbor(jobs: Path) -> None:
    """HARBOR.md: the same verdicts, and the same mean (2.5 of 9 with `steps`, which is refused here)."""
    done = run(
        "run", HARBOR / "tasks", "-a", "oracle", "--network", "no-network", "--jobs-dir", jobs, "--json"
    )
    assert "steps/task.toml: steps" in done.stderr
    said = verdicts(done)
    recorded = {
        trial.task: trial.verdict.rewards if trial.verdict else None
        for trial in trials.read_job(HARBOR / "jobs" / "demo-oracle").trials
    }
    recorded.pop("steps")
    assert {task: line["rewards"] for task, line in said.items()} == recorded
    exceptions = {
        trial.task: json.loads(Path(trial.path, "result.json").read_text())["exception_info"]
        for trial in trials_in(jobs)
    }
    kinds = {task: info and info["exception_type"] for task, info in exceptions.items()}
    assert kinds == {
        "atimeout": "AgentTimeoutError",
        "badreward": "VerifierOutputParseError",
        "fail": None,
        "multireward": None,
        "noreward": "RewardFileNotFoundError",
        "pass": None,
        "solvefail": None,
        "vtimeout": "VerifierTimeoutError",
    }


def test_r1_the_trial_folder_is_harbors_with_a_cell_folder(jobs: Path) -> None:
    run("run", EXAMPLES / "sum-fails", "--jobs-dir", jobs)
    (trial,) = (Path(found.path) for found in trials_in(jobs))
    expected = {
        "config.json",
        "lock.json",
        "result.json",
        "trial.log",
        "agent",
        "verifier",
        "artifacts",
        "cell",
    }
    assert expected <= {path.name for path in trial.iterdir()}
    assert {"cell.json", "events.jsonl", "verdict.json", "ssh_config", "sessions"} <= {
        path.name for path in (trial / "cell").iterdir()
    }
    assert journal.verify(trial / "cell" / "events.jsonl") is None
    harbor = json.loads(next((HARBOR / "jobs" / "demo-oracle").glob("fail__*/result.json")).read_text())
    assert set(json.loads((trial / "result.json").read_text())) == set(harbor)


def test_r2_two_runners_on_one_jobs_folder(jobs: Path) -> None:
    argv = [*CELL, "run", str(EXAMPLES / "hello-pass"), "--jobs-dir", str(jobs), "--job-name", "same"]
    both = [
        subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL) for _ in "12"
    ]
    assert [process.wait(60) for process in both] == [0, 0]
    assert sorted(path.name for path in jobs.iterdir()) == ["same", "same-2"]


def started(jobs: Path, *more: str) -> subprocess.Popen[bytes]:
    command = 'ssh -F "$CELL_SSH_CONFIG" agent "nohup sleep 600 >/dev/null 2>&1 & echo up; sleep 600"'
    return subprocess.Popen(
        [*CELL, "run", str(EXAMPLES / "hello-pass"), "-a", f"exec:{command}", "--jobs-dir", str(jobs), *more],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )


def working(jobs: Path) -> bool:
    return any("up" in path.read_text() for path in jobs.glob("*/*/agent/exec.txt"))


def namespace(trial: trials.Trial) -> int:
    info = json.loads(Path(trial.path, "cell", "cell.json").read_text())
    return next(space["inode"] for space in info["identity"]["namespaces"] if space["kind"] == "pid")


def test_ctrl_c_seals_grades_nothing_and_tears_down(jobs: Path) -> None:
    runner = started(jobs)
    until(lambda: working(jobs))
    (trial,) = trials_in(jobs)
    inside = namespace(trial)
    assert kernel.processes_in(inside)
    runner.send_signal(signal.SIGINT)
    _, said = runner.communicate(timeout=30)
    assert runner.returncode == 130
    assert b"nothing graded" in said
    assert kernel.processes_in(inside) == []
    (trial,) = trials_in(jobs)
    assert (trial.state, trial.cause) == ("ungraded", "operator")
    assert not (RUNTIME / trial.id).exists()


def test_r4_a_cell_outlives_its_runner_and_can_be_graded_and_stopped(jobs: Path) -> None:
    runner = started(jobs)
    until(lambda: working(jobs))
    runner.kill()
    runner.communicate()
    (trial,) = trials_in(jobs)
    assert trial.alive
    assert run("ssh", "--jobs-dir", jobs, trial.id, "echo still here").stdout == "still here\n"
    assert run("grade", trial.id, "--seal", "--jobs-dir", jobs).returncode == 0
    inside = namespace(trial)
    assert run("stop", trial.id[:4], "--jobs-dir", jobs).returncode == 0
    assert kernel.processes_in(inside) == []
    (trial,) = trials_in(jobs)
    assert (trial.alive, trial.state) == (False, "failed")


@pytest.mark.parametrize("victim", ["serve", "holder", "zygote", "runner"])
def test_s2_a_kill_at_any_moment_leaves_nothing(jobs: Path, victim: str) -> None:
    """CHAOS says how many times for each victim; each kill comes at another moment."""
    moments = random.Random(victim)
    for _ in range(int(os.environ.get("CHAOS", "3"))):
        runner = started(jobs)
        until(lambda: any(RUNTIME.iterdir()) and any(trial.alive for trial in trials_in(jobs)))
        time.sleep(moments.random() * 0.5)
        trial = next(trial for trial in trials_in(jobs) if trial.alive)
        info = json.loads(Path(trial.path, "cell", "cell.json").read_text())
        serve, inside = info["serve"]["pid"], namespace(trial)
        zygote = int(Path(f"/proc/{serve}/task/{serve}/children").read_text().split()[0])
        insiders = [pid for pid in kernel.processes_in(inside) if kernel.stat_fields(pid)]
        pid = {"serve": serve, "zygote": zygote, "holder": min(insiders), "runner": runner.pid}[victim]
        os.kill(pid, signal.SIGKILL)
        if victim == "runner":
            runner.wait(30)
            assert trials.read_trial(trial.path).alive
            assert run("stop", trial.path).returncode == 0
        runner.communicate(timeout=60)
        until(lambda inside=inside: kernel.processes_in(inside) == [])
        until(lambda trial=trial: not trials.read_trial(trial.path).alive)
        events = Path(trial.path, "cell", "events.jsonl")
        assert journal.verify(events) is None or list(journal.read(events))
        last = trials.read_trial(trial.path)
        assert last.state in ("ungraded", "stale"), last.state
        assert last.score is None
        shutil.rmtree(jobs)


def test_s6_without_a_sandbox_it_is_said_and_nothing_is_left(tmp_path: Path, jobs: Path) -> None:
    made, answer = [Path("/logs"), Path("/solution")], Path("/root/hello.txt")
    assert not any(path.exists() for path in [*made, answer])
    try:
        done = run("run", EXAMPLES / "hello-pass", "--unsandboxed", "--jobs-dir", jobs, "--json")
    finally:
        answer.unlink(missing_ok=True)
    (said,) = verdicts(done).values()
    assert said["rewards"] == {"reward": 1}
    assert said["causes"][0]["cause"] == "sandbox"  # type: ignore[index]
    assert "UNSANDBOXED" in done.stderr
    assert not any(path.exists() for path in made)
    refused_one = run(
        "run", HARBOR / "tasks" / "pass", "--unsandboxed", "--network", "no-network", "--jobs-dir", jobs
    )
    assert refused_one.returncode == 2
    assert "has an image" in refused_one.stderr


# ── bad input: one clear line, a status, nothing left ─────────────────────────────────────────


def task(
    folder: Path, toml: str = "", *, script: str = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"
) -> Path:
    shutil.copytree(EXAMPLES / "hello-pass", folder)
    (folder / "task.toml").write_text('[environment]\nnetwork_mode = "no-network"\n' + toml)
    (folder / "tests" / "test.sh").write_text(script)
    return folder


def refused(done: subprocess.CompletedProcess[str], *words: str, status: int = 2) -> None:
    assert done.returncode == status, done.stdout + done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("cell:")]
    assert all(word in line for word in words), line
    assert "Traceback" not in done.stderr


def test_a_binary_task_toml(tmp_path: Path, jobs: Path) -> None:
    folder = task(tmp_path / "t")
    (folder / "task.toml").write_bytes(b"\x00\xff\x1b[31m")
    refused(run("run", folder, "--jobs-dir", jobs), "task.toml")


def test_a_missing_instruction(tmp_path: Path, jobs: Path) -> None:
    folder = task(tmp_path / "t")
    (folder / "instruction.md").unlink()
    refused(run("run", folder, "--jobs-dir", jobs), "instruction.md")


def test_a_missing_test_script(tmp_path: Path, jobs: Path) -> None:
    folder = task(tmp_path / "t")
    (folder / "tests" / "test.sh").unlink()
    refused(run("run", folder, "--jobs-dir", jobs), "test.sh")


def test_i1_a_user_that_does_not_exist_is_a_task_error_naming_it(tmp_path: Path, jobs: Path) -> None:
    done = run("run", task(tmp_path / "t", '[agent]\nuser = "nobodyatall"\n'), "--jobs-dir", jobs)
    assert done.returncode == 2
    assert "agent.user" in done.stdout
    assert "nobodyatall" in done.stdout


@pytest.mark.parametrize(
    ("script", "reward"),
    [
        ("echo 1 > /logs/verifier/reward.txt\n", {"reward": 1}),
        ("#!/no/such/interpreter\n", {}),
        ("#!/bin/sh\nkill -9 $$\n", {}),
    ],
)
def test_odd_test_scripts(tmp_path: Path, jobs: Path, script: str, reward: dict[str, int]) -> None:
    folder = task(tmp_path / "t", script=script)
    (folder / "tests" / "test.sh").chmod(0o644)
    said = verdicts(run("run", folder, "--jobs-dir", jobs, "--json"))
    assert said["t"]["rewards"] == reward
    assert said["t"]["verdict"] == ("graded" if reward else "ungraded")


def test_a_jobs_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(run("run", EXAMPLES / "hello-pass", "--jobs-dir", tmp_path / "file"), "file")


def test_a_full_disk_is_never_a_score(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", small], check=True)
    try:
        fill = 'exec:ssh -F "$CELL_SSH_CONFIG" agent "head -c 5000000 /dev/zero > /fill; sleep 1"; true'
        done = run("run", EXAMPLES / "hello-pass", "-a", fill, "--jobs-dir", small / "jobs", "--json")
        assert done.returncode in (2, 3)
        assert "Traceback" not in done.stderr
        assert '"reward": 1' not in done.stdout
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_an_engine_that_is_unreachable(jobs: Path) -> None:
    done = run(
        *("run", HARBOR / "tasks" / "pass", "--network", "no-network", "--jobs-dir", jobs),
        env={"DOCKER_HOST": "unix:///nonexistent/engine.sock"},
    )
    assert done.returncode == 2, "as an image that cannot be built"
    assert "engine" in done.stdout.lower()
    done = run(
        *("run", HARBOR / "tasks" / "pass", "--network", "no-network", "--jobs-dir", jobs),
        env={"DOCKER_HOST": "tcp://127.0.0.1:9"},
    )
    assert done.returncode == 2
    assert "refused" in done.stdout
    assert "ConnectionPool" not in done.stdout


@pytest.mark.engine
def test_a_build_that_fails(tmp_path: Path, jobs: Path) -> None:
    folder = task(tmp_path / "t")
    (folder / "environment").mkdir(exist_ok=True)
    (folder / "environment" / "Dockerfile").write_text(
        "FROM debian:bookworm\nRUN echo broken-on-purpose && false\n"
    )
    done = run("run", folder, "--jobs-dir", jobs)
    assert done.returncode == 2
    assert "Dockerfile" in done.stdout


def test_a_network_that_is_not_the_declared_one_is_in_the_verdict(tmp_path: Path, jobs: Path) -> None:
    folder = task(tmp_path / "t")
    (folder / "task.toml").write_text("")
    for more, noted in ((["--network", "no-network"], True), ([], False)):
        said = verdicts(run("run", folder, *more, "--jobs-dir", jobs / str(noted), "--json"))
        assert said["t"]["verdict"] == "graded"
        (trial,) = trials_in(jobs / str(noted))
        assert trial.verdict is not None
        assert any("no-network" in note for note in trial.verdict.notes) == noted


def test_s9_modules_in_the_folder_where_cell_is_run_are_not_ours(jobs: Path, tmp_path: Path) -> None:
    left = tmp_path / "artifacts"
    left.mkdir()
    for name in ("asyncssh", "msgspec", "uvloop", "json", "cell", "marshal"):
        (left / f"{name}.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit('planted')\n"
        )
    task = ["run", str(EXAMPLES / "hello-pass"), "--jobs-dir", str(jobs), "--json"]
    line = [sys.executable, "-P", "-m", "cell", *task]
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=110, cwd=left, stdin=subprocess.DEVNULL
    )
    assert verdicts(done)["hello-pass"]["verdict"] == "graded", done
    assert not (tmp_path / "ran").exists()
    subprocess.run([sys.executable, "-c", "import uvloop"], cwd=left, capture_output=True)
    assert (tmp_path / "ran").exists(), "the positive control: they would run"
