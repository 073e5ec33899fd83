from __future__ import annotations

from pathlib import Path

from cell import describe, outcome, rollout
from cell.task import load

TASKS = Path(__file__).parents[1] / "fixtures" / "harbor-0.25.0" / "tasks"


def test_a_network_that_the_caller_chose_is_told_for_each_phase() -> None:
    task = load(TASKS / "pass")
    assert [o.phase for o in outcome.overrides(task, "no-network")] == ["agent", "verifier"]
    assert outcome.overrides(task, None) == ()


def test_declared_limits_are_what_the_task_says_and_one_more(tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "t"
    shutil.copytree(TASKS / "pass", folder)
    (folder / "task.toml").write_text("[environment]\nmemory_mb = 512\nstorage_mb = 100\n")
    found = {limit.name: limit for limit in outcome.declared_limits(load(folder))}
    assert {name: limit.value for name, limit in found.items()} == {
        "memory_mb": "512",
        "storage_mb": "100",
        "pids": "8192",
    }
    # only a cell that stands can say that one is enforced
    assert not any(limit.enforced for limit in found.values())
    assert found["storage_mb"].why


def test_the_ssh_configuration_gives_each_principal_its_own_key(tmp_path: Path) -> None:
    text = describe.ssh_config("abcdefg", tmp_path)
    for principal in ("agent", "viewer", "operator"):
        assert f"{tmp_path}/{principal}.key" in text
    assert "runner" not in text


def test_settings_are_safe_by_default() -> None:
    assert rollout.Settings().sandboxed
    assert rollout.Settings().network is None
