from __future__ import annotations

from pathlib import Path

import pytest

from cell.errors import TaskError
from cell.task.file import Table, read, unknown_keys

FILE = Path("task.toml")


def test_a_key_is_shown_without_escape_sequences() -> None:
    table = Table(FILE, "agent", {"\x1b[31mred\n": 1})
    assert table.key("\x1b[31mred\n") == "agent.␛[31mred␊"


def test_unknown_keys_are_listed_up_to_a_limit() -> None:
    table = Table(FILE, "", {f"key{number}": 1 for number in range(60)})
    keys = unknown_keys(table)
    assert (len(keys), keys[-1]) == (51, "… and 10 more")


def test_unknown_keys_of_lists_are_numbered() -> None:
    table = Table(FILE, "", {"steps": [{"name": "a"}, {"agent": {"odd": 1}}, 3], "metadata": {"x": 1}})
    assert unknown_keys(table) == ("steps[1].agent.odd",)


@pytest.mark.parametrize(
    ("text", "megabytes"),
    [("2G", 2048), ("512M", 512), ("1.5g", 1536), ("2048K", 2), (" 1 G ", 1024)],
)
def test_old_sizes(text: str, megabytes: int) -> None:
    assert Table(FILE, "environment", {"memory": text}).megabytes("memory") == megabytes


@pytest.mark.parametrize("text", ["", "G", "2", "2T", "1K", "-1G", "1e3M", "٢G"])
def test_sizes_that_are_not(text: str) -> None:
    with pytest.raises(TaskError, match="at least 1 MiB"):
        Table(FILE, "environment", {"memory": text}).megabytes("memory")


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("plain", "plain"),
        ("${A}", "1"),
        ("${A:-2}", "1"),
        ("${B:-2}", "2"),
        ("${B:-}", ""),
        ("${B:-a}b}", "a}b"),
        ("x${A}", "x${A}"),
        ("$A", "$A"),
        ("${A", "${A"),
    ],
)
def test_variables_are_replaced_only_as_whole_values(value: str, result: str) -> None:
    assert Table(FILE, "", {"env": {"X": value}}).env({"A": "1"}) == (("X", result),)


def test_an_empty_file_is_an_empty_document(tmp_path: Path) -> None:
    (tmp_path / "task.toml").write_text("")
    assert read(tmp_path / "task.toml").values == {}
