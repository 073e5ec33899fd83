"""`cell gc` removes what nobody needs, after it was asked for, and nothing that a cell stands on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import LiveCell

pytestmark = pytest.mark.live
SOURCE = Path(__file__).parents[2]


def gc(where: Path, *more: str) -> subprocess.CompletedProcess[str]:
    # no engine: which images are gone cannot be told then, so every export stays
    env = {**os.environ, "DOCKER_HOST": "unix:///nonexistent.sock", "XDG_CACHE_HOME": str(where / "cache")}
    argv = [sys.executable, "-m", "cell", "gc", str(where), *more]
    return subprocess.run(argv, cwd=SOURCE, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_a_killed_cells_root_goes_and_a_living_ones_stays(
    tmp_path: Path, make_cell: Callable[..., LiveCell]
) -> None:
    dead, alive = make_cell(), make_cell()
    dead.inside("echo hours of work > /root/work")
    dead.kill()
    for cell in (dead, alive):
        (cell.trial / "config.json").write_text("{}")
    roots = [cell.trial / "cell" / "root" for cell in (dead, alive)]
    asked = gc(tmp_path)
    assert asked.returncode == 2
    assert "--yes" in asked.stderr
    assert "exports of images stay" in asked.stderr
    assert all(root.is_dir() for root in roots), "nothing goes unasked"
    done = gc(tmp_path, "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["path"] for line in done.stdout.splitlines()] == [str(roots[0])]
    assert [root.is_dir() for root in roots] == [False, True]
    assert alive.inside("echo still here") == "still here\n"
    assert (dead.trial / "cell" / "events.jsonl").exists(), "the records stay"
