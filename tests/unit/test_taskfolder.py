from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cell.errors import TaskError
from cell.task.folder import digest, near_misses


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "task/tests").mkdir(parents=True)
    (tmp_path / "task/tests/test.sh").write_text("#!/bin/sh\n")
    (tmp_path / "task/task.toml").write_text("")
    return tmp_path / "task"


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda folder: (folder / "task.toml").write_text(" "),
    "name": lambda folder: (folder / "task.toml").rename(folder / "task.tom1"),
    "executable": lambda folder: (folder / "tests/test.sh").chmod(0o755),
    "new file": lambda folder: (folder / "tests/x").write_text(""),
    "new folder": lambda folder: (folder / "tests/x").mkdir(),
    "link": lambda folder: (folder / "tests/x").symlink_to("test.sh"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_digest_sees_every_change(folder: Path, change: str) -> None:
    before = digest(folder)
    assert before.startswith("sha256:")
    assert digest(folder) == before
    CHANGES[change](folder)
    assert digest(folder) != before


def test_the_digest_is_of_the_content_only(folder: Path) -> None:
    before = digest(folder)
    os.utime(folder / "task.toml", (0, 0))
    (folder / "tests/test.sh").chmod(0o600)
    assert digest(folder.rename(folder.with_name("moved"))) == before


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "/"])
def test_a_link_that_leads_out_is_refused_where_files_are_copied(folder: Path, target: str) -> None:
    (folder / "tests/link").symlink_to(target)
    with pytest.raises(TaskError, match="leads out of the task folder"):
        digest(folder)


def test_the_tests_folder_itself_may_not_lead_out(folder: Path) -> None:
    (folder / "tests").rename(folder.parent / "elsewhere")
    (folder / "tests").symlink_to("../elsewhere")
    with pytest.raises(TaskError, match="leads out of the task folder"):
        digest(folder)


def test_a_loop_of_links_is_only_a_pair_of_links(folder: Path) -> None:
    (folder / "tests/a").symlink_to("b")
    (folder / "tests/b").symlink_to("a")
    assert digest(folder)


def test_a_fifo_among_the_tests_is_refused_and_not_opened(folder: Path) -> None:
    os.mkfifo(folder / "tests/pipe")
    with pytest.raises(TaskError, match="neither a file, a folder nor a link"):
        digest(folder)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (b"#!/bin/sh\n", None),
        (b"#!/usr/bin/env python3\n# writes /logs/verifier/reward.json", None),
        (b"", "is empty"),
        (b"echo 1", "has no #! line"),
        (b"#!/bin/sh\r\necho 1\r\n", "Windows line endings"),
        (b"#!/bin/sh\n# /logs/verifier/rewards.json\n", "mentions rewards.json"),
    ],
)
def test_near_misses(folder: Path, script: bytes, says: str | None) -> None:
    (folder / "tests/test.sh").write_bytes(script)
    found = near_misses(folder)
    assert len(found) == (says is not None)
    assert says is None or says in found[0]


def test_a_compose_file_with_the_other_suffix_is_a_near_miss(folder: Path) -> None:
    (folder / "environment").mkdir()
    (folder / "environment/docker-compose.yml").write_text("")
    assert near_misses(folder) == (
        "environment/docker-compose.yml: not read; Harbor reads docker-compose.yaml",
    )
