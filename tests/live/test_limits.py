"""Limits are the kernel's: a fork bomb and a hog (17) meet them, the harness and its records do not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cell import kernel, limits
from cell.machine import probe
from cell.records import Limit

from .conftest import GOOD, LiveCell, until

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        "memory" not in probe(Path(), lambda _bwrap: "").cgroups_writable,
        reason="no control group may be made on this machine: a cell says that it does not enforce limits",
    ),
]
SOURCE = Path(__file__).parents[2]


def limit(name: str, value: str) -> Limit:
    return Limit(name=name, value=value, enforced=False)


def enforced(cell: LiveCell) -> dict[str, bool]:
    return {one["name"]: one["enforced"] for one in cell.info["identity"]["limits"]}


def groups(cell: LiveCell) -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob(f"**/*{cell.id}"))


def test_17_a_fork_bomb_ends_at_the_limit_and_the_cell_goes_on(make_cell: Callable[..., LiveCell]) -> None:
    cell = make_cell(limits=(limit("pids", "64"),))
    assert enforced(cell) == {"pids": True}
    bomb = "for i in $(seq 400); do sleep 30 & done 2>/dev/null; true"
    cell.ssh(f"nohup sh -c '{bomb}' >/dev/null 2>&1 & sleep 0.5", timeout=30)
    assert len(kernel.processes_in(cell.pid_namespace)) <= 64
    # it is the operator's way out that must be left, not room inside
    assert cell.call("status", principal="operator")["phase"] == "agent"


def test_17_as_many_processes_start_where_no_limit_is_met(make_cell: Callable[..., LiveCell]) -> None:
    cell = make_cell(limits=(limit("pids", "600"),))
    cell.inside("for i in $(seq 100); do sleep 30 & done; true")
    assert until(lambda: len(kernel.processes_in(cell.pid_namespace)) > 100)


HOG = "python3 -c 'data = bytearray(400 << 20); print(len(data))'"


def test_17_a_hog_is_ended_at_the_limit_and_the_cell_is_graded(make_cell: Callable[..., LiveCell]) -> None:
    cell = make_cell(limits=(limit("memory_mb", "200"),))
    assert enforced(cell) == {"memory_mb": True}
    done = cell.ssh(HOG, timeout=60)
    assert done.returncode != 0
    assert done.stdout == ""
    assert (
        cell.inside("cat /proc/self/oom_score_adj").strip()
        == Path("/proc/self/oom_score_adj").read_text().strip()
    )
    assert cell.grade(GOOD)["rewards"] == {"reward": 1.0}


def test_17_the_same_hog_goes_well_with_room(make_cell: Callable[..., LiveCell]) -> None:
    assert make_cell(limits=(limit("memory_mb", "900"),)).inside(HOG).strip() == str(400 << 20)


def test_a_share_of_a_processor_is_a_share(make_cell: Callable[..., LiveCell]) -> None:
    cell = make_cell(limits=(limit("cpus", "0.25"),))
    assert enforced(cell) == {"cpus": True}
    busy = "import time; end = time.monotonic() + 2\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    used = float(cell.inside(f"python3 -c '{busy}'"))
    assert used < 1.2, "of 2 seconds, it had a quarter and what a period more allows"


def test_the_serving_process_is_outside_and_the_group_is_not_seen_inside(
    make_cell: Callable[..., LiveCell],
) -> None:
    cell = make_cell(limits=(limit("memory_mb", "300"), limit("pids", "300")))
    assert cell.id not in Path(f"/proc/{cell.process.pid}/cgroup").read_text()
    seen = cell.inside("cat /proc/self/cgroup /proc/1/cgroup")
    assert cell.id not in seen
    assert "hudtui" not in seen
    assert groups(cell), "the control"
    cell.stop()
    assert groups(cell) == []


def test_s2_the_group_of_a_killed_cell_is_swept(make_cell: Callable[..., LiveCell]) -> None:
    cell = make_cell(limits=(limit("memory_mb", "300"),))
    cell.kill()
    assert groups(cell), "the control: nobody was left who could"
    until(lambda: kernel.processes_in(cell.pid_namespace) == [])

    def swept() -> bool:
        limits.sweep()
        return not groups(cell)

    assert until(swept)


def test_what_a_task_declares_is_in_its_record(tmp_path: Path) -> None:
    task = tmp_path / "limited"
    subprocess.run(["cp", "-a", SOURCE / "examples/tasks/hello-pass", task], check=True)
    toml = (
        (task / "task.toml")
        .read_text()
        .replace("[environment]", "[environment]\ncpus = 1\nmemory_mb = 512\nstorage_mb = 100")
    )
    (task / "task.toml").write_text(toml)
    argv = [sys.executable, "-m", "cell", "run", str(task), "--jobs-dir", str(tmp_path / "jobs"), "--json"]
    done = subprocess.run(argv, cwd=SOURCE, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("jobs/*/*/cell/cell.json")
    told: dict[str, Any] = {one["name"]: one for one in json.loads(file.read_text())["identity"]["limits"]}
    assert {name: one["enforced"] for name, one in told.items()} == {
        "cpus": True,
        "memory_mb": True,
        "storage_mb": False,
        "pids": True,
    }
    assert "quota" in told["storage_mb"]["why"]
