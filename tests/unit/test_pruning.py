from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import msgspec
import pytest

from cell import pruning, trials
from cell.commands import cleaning
from cell.errors import UsageError
from cell.trials import Trial

OLD = time.time() - 86_400
GONE, THERE, USED, YOUNG = "a" * 64, "b" * 64, "c" * 64, "d" * 64


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    for name in (GONE, THERE, USED, YOUNG):
        (folder / name / "etc").mkdir(parents=True)
        (folder / name / "etc" / "os-release").write_bytes(b"x" * 10_000)
        (folder / f"{name}.lock").touch()
        if name != YOUNG:
            os.utime(folder / f"{name}.lock", (OLD, OLD))
    (folder / f".{GONE}.new").mkdir()
    os.utime(folder / f".{GONE}.new", (OLD, OLD))
    return folder


@pytest.fixture
def living(tmp_path: Path, cache: Path) -> Path:
    trial = tmp_path / "living"
    (trial / "cell" / "root").mkdir(parents=True)
    (trial / "cell" / "root" / "lower").symlink_to(cache / USED)
    return trial


def test_only_exports_whose_image_is_gone_and_that_nobody_uses_may_go(cache: Path, living: Path) -> None:
    found = pruning.exports(cache, {f"sha256:{THERE}"}, [living])
    assert {waste.path.name: waste.why for waste in found} == {
        GONE: "its image is gone",
        f".{GONE}.new": "an interrupted export",
    }
    assert max(waste.size for waste in found) >= 10_000
    for waste in found:
        pruning.remove(waste)
    assert sorted(path.name for path in cache.iterdir()) == sorted(
        [THERE, USED, YOUNG, *(f"{name}.lock" for name in (THERE, USED, YOUNG))]
    )


def test_without_a_cache_there_is_nothing(tmp_path: Path) -> None:
    assert pruning.exports(tmp_path / "none", set(), []) == []


def trial(folder: Path, **found: object) -> Trial:
    (folder / "cell" / "root" / "upper").mkdir(parents=True)
    return msgspec.structs.replace(trials.read_trial(folder), **found)  # type: ignore[arg-type]


def test_only_a_dead_trials_root_may_go_and_a_finished_ones_when_asked(tmp_path: Path) -> None:
    stale = trial(tmp_path / "a__1", state="stale", alive=False)
    failed = trial(tmp_path / "b__2", state="failed", alive=False)
    running = trial(tmp_path / "c__3", state="running", alive=True)
    kept = trial(tmp_path / "d__4", state="kept", alive=True)
    starting = trial(tmp_path / "e__5", state="running", alive=False)
    everything = [stale, failed, running, kept, starting]
    assert [waste.path for waste in pruning.roots(everything)] == [Path(stale.path, "cell", "root")]
    both = [waste.path for waste in pruning.roots(everything, finished=True)]
    assert both == [Path(stale.path, "cell", "root"), Path(failed.path, "cell", "root")]


def test_links_are_removed_and_what_they_lead_to_is_not(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "precious")
    pruning.remove(pruning.Waste(root, "", 0))
    assert not root.exists()
    assert (tmp_path / "precious").exists()


def test_a_hard_link_counts_once(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"x" * 100_000)
    alone = pruning.size(tmp_path)
    os.link(tmp_path / "one", tmp_path / "two")
    assert pruning.size(tmp_path) == alone > 0


def gc(folder: Path, *, yes: bool) -> argparse.Namespace:
    return argparse.Namespace(paths=[str(folder)], jobs_dir=str(folder), finished=False, yes=yes, json=False)


def test_the_command_removes_nothing_unasked_and_says_what_it_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    dead = trial(tmp_path / "a__1", state="stale", alive=False)
    monkeypatch.setattr(cleaning.cells, "known", lambda paths: [dead])
    with pytest.raises(UsageError, match="--yes"):
        cleaning.gc(gc(tmp_path, yes=False))
    said = capsys.readouterr()
    assert str(Path(dead.path, "cell", "root")) in said.out
    assert "exports of images stay" in said.err
    assert Path(dead.path, "cell", "root").is_dir()
    assert cleaning.gc(gc(tmp_path, yes=True)) == 0
    assert not Path(dead.path, "cell", "root").exists()
