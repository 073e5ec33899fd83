"""README's two commands, in a fresh clone and without a terminal: `make fresh` runs this, `make test` does not."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.live, pytest.mark.timeout(1800)]
SOURCE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("fresh") / "hudtui"
    subprocess.run(["git", "clone", "-q", SOURCE, folder], check=True)
    yield folder


def make(clone: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run make as a newcomer's shell would: nothing of this run's own settings."""
    mine = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CELL_", "PYTEST", "VIRTUAL"))
    }
    return subprocess.run(
        ["make", *words],
        cwd=clone,
        env={**mine, "CI": "true"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def test_make_demo_prints_one_verdict_line_for_each_example(clone: Path) -> None:
    done = make(clone, "demo")
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^[✓×■]▲? \w{7}  (\S+)", done.stdout, re.M)
    tasks = sorted(path.parent.name for path in clone.glob("examples/tasks/*/task.toml"))
    ran = sorted(
        path.name.rpartition("__")[0] for path in clone.glob("jobs/*/*__*") if (path / "result.json").exists()
    )
    assert sorted(lines) == ran
    assert set(ran) <= set(tasks)
    assert len(ran) >= 5
    totals = [json.loads(path.read_text()) for path in clone.glob("jobs/*/result.json")]
    assert [total["n_total_trials"] for total in totals] == [len(ran)]


def test_make_test_passes(clone: Path) -> None:
    """All of it is what `.ci/run` runs; here it is enough that the command works."""
    done = make(clone, "test", "ARGS=-q tests/unit/test_doctor.py tests/live/test_pid1.py")
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
