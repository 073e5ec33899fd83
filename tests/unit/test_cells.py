from __future__ import annotations

from pathlib import Path

import pytest

from cell import cells

JOBS = Path(__file__).parents[1] / "fixtures" / "harbor-0.25.0" / "jobs"


def test_a_living_cell_in_a_jobs_folder_named_by_a_relative_path_is_one_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trial = next((JOBS / "demo-oracle").glob("pass__*"))
    monkeypatch.setattr(cells, "living", lambda: [trial])
    monkeypatch.chdir(JOBS.parent)
    found = [known.path for known in cells.known([Path("jobs")])]
    assert found.count(str(trial)) == 1
    assert len(found) == len(set(found)) > 1
    name = trial.name.rpartition("__")[2]
    assert cells.find(name, Path("jobs")).path == str(trial)
