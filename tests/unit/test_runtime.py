from __future__ import annotations

import os
from pathlib import Path

import pytest

from cell import runtime


def test_s2_what_a_killed_process_left_is_swept_and_what_lives_is_not(tmp_path: Path) -> None:
    living = runtime.claim(tmp_path / "living")
    os.close(runtime.claim(tmp_path / "dead"))
    (tmp_path / "dead" / "agent.key").write_text("secret")
    (tmp_path / "young").mkdir()
    (tmp_path / "old").mkdir()
    os.utime(tmp_path / "old", (0, 0))
    assert runtime.sweep(tmp_path) == ["dead", "old"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["living", "young"]
    os.close(living)
    assert runtime.sweep(tmp_path / "nowhere") == []


def test_a_folder_belongs_to_one_cell(tmp_path: Path) -> None:
    held = runtime.claim(tmp_path / "a")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    with pytest.raises(FileExistsError):
        runtime.claim(tmp_path / "a")
    os.close(held)
