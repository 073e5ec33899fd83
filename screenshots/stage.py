"""A real run to draw from: the examples as cells, some of whose agents stay until the curtain falls."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from screenshots.agent import STAYS

TOP = Path(__file__).resolve().parent.parent
DEMO = TOP / "hudtui/data/demo"
KEPT = (
    "config.json",
    "result.json",
    "cell/cell.json",
    "cell/verdict.json",
    "cell/events.jsonl",
    "cell/egress.jsonl",
)
FOLDERS = ("cell/sessions", "verifier", "artifacts", "agent")
_PATIENCE = 400.0


def can_run() -> bool:
    """Say whether cells can be made here."""
    return os.geteuid() == 0 and shutil.which("bwrap") is not None


def until(met: Callable[[], bool], seconds: float = _PATIENCE) -> None:
    """Wait for a file of another process to say so."""
    end = time.monotonic() + seconds
    while not met():
        if time.monotonic() > end:
            raise TimeoutError("the run does not get on; its output is above")
        time.sleep(0.2)


class Stage:
    """A run that is going on below `top`."""

    def __init__(self, top: Path) -> None:
        self.top, self.jobs, self.tasks, self.marks = top, top / "jobs", top / "tasks", top / "marks"

    def cell(self, *words: str) -> subprocess.Popen[bytes]:
        """Start `cell`, in the folder that has `tasks` and `jobs`."""
        return subprocess.Popen(
            [sys.executable, "-m", "cell", *words],
            cwd=self.top,
            env=os.environ | {"PYTHONPATH": str(TOP)},
            stdin=subprocess.DEVNULL,
        )

    def trial(self, task: str, *, alive: bool) -> Path:
        """Return a trial of the task that is running, or one that has ended."""
        found = sorted(path.parent for path in self.jobs.glob(f"*/{task}__*/cell"))
        return next(path for path in found if (path / "result.json").exists() is not alive)

    def curtain(self) -> None:
        """Let the agents end, and wait for their verdicts."""
        (self.marks / "curtain").touch()
        self.run.wait(_PATIENCE)


@contextmanager
def stage(top: Path) -> Iterator[Stage]:
    """Yield a run whose quick trials are over and whose others are at work."""
    made = Stage(top)
    made.marks.mkdir(parents=True)
    made.tasks.mkdir()
    for kind in ("tasks", "network"):
        for task in sorted((TOP / "examples" / kind).glob("*/task.toml")):
            copy = made.tasks / task.parent.name
            shutil.copytree(task.parent, copy)
            # long enough to be looked at
            text = re.sub(r"(?<=\[agent\]\n)timeout_sec = \d+", "timeout_sec = 1800", task.read_text())
            (copy / "task.toml").write_text(text)
    mirror = subprocess.Popen([sys.executable, str(TOP / "examples/network/mirror.py")])
    ways = [f"--resolve={name}.example=127.0.0.1" for name in ("mirror", "answers")]
    agent = f"exec:{sys.executable} {TOP / 'screenshots/agent.py'} {made.tasks} {made.marks}"
    name = time.strftime("%Y-%m-%d__%H-%M")
    made.run = made.cell(
        "run", "tasks", "-a", agent, "-k2", "-n6", *ways, "--jobs-dir=jobs", f"--job-name={name}"
    )
    try:
        until(lambda: len(list(made.marks.glob("*.plays"))) == len(STAYS) or made.run.poll() is not None)
        until(
            lambda: (
                len(list(made.jobs.glob("*/*/result.json"))) >= 14 - len(STAYS) or made.run.poll() is not None
            )
        )
        if made.run.poll() is not None:
            raise RuntimeError(f"cell run ended with {made.run.returncode}")
        yield made
    finally:
        made.run.terminate()
        made.run.wait(60)
        mirror.terminate()
        mirror.wait(10)


def keep(jobs: Path, target: Path = DEMO) -> int:
    """Copy the records of the run to `target`, without what is of this machine; returns their bytes."""
    shutil.rmtree(target, ignore_errors=True)
    for name in ("config.json", "result.json"):
        for file in jobs.glob(f"*/{name}"):
            _copied(jobs, file, target)
    for trial in sorted(jobs.glob("*/*__*")):
        for name in KEPT:
            if (trial / name).is_file():
                _copied(jobs, trial / name, target)
        for name in FOLDERS:
            for file in sorted((trial / name).rglob("*")):
                if file.is_file() and not file.is_symlink():
                    _copied(jobs, file, target)
    return sum(file.stat().st_size for file in target.rglob("*") if file.is_file())


def _copied(jobs: Path, file: Path, top: Path) -> None:
    target = top / file.relative_to(jobs)
    target.parent.mkdir(parents=True, exist_ok=True)
    text = file.read_text()
    if file.suffix == ".json":
        value = json.loads(text)
        if file.name == "cell.json":
            value |= {"serve": {"pid": 4194303, "start": 1, "boot": ""}, "runner": None, "sockets": {}}
        text = json.dumps(value, indent=2) + "\n"
    places = (
        (f"{jobs.parent}/", ""),
        (f"{TOP}/", ""),
        (sys.executable, "python3"),
        (os.uname().nodename, "here"),
    )
    for word, instead in places:
        text = text.replace(word, instead)
    target.write_text(text)
