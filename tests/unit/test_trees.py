"""Trees of any shape are walked and removed; links are never followed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cell import pruning, trees
from cell.errors import TaskError
from cell.evidence import changed_programs
from cell.taken import _deleted
from cell.task.folder import digest
from cell.trials.files import entries

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def removed(tmp_path: Path) -> Iterator[None]:
    """What pytest keeps must be shallow: its own removal is not made for this."""
    yield
    for path in tmp_path.iterdir():
        if path.is_dir() and not path.is_symlink():
            trees.remove(path)


def chain(folder: Path, depth: int, name: str = "a", *, leaf: str = "leaf") -> None:
    """Make a chain of folders below `folder`, with a file at its end."""
    folder.mkdir(exist_ok=True)
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=at)
        down = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = down
    os.close(os.open(leaf, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=at))
    os.write(fd := os.open("data", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=at), b"x" * 8192)
    os.close(fd)
    os.close(at)


@pytest.mark.parametrize(("depth", "name"), [(3000, "a"), (3000, "a" * 200), (20000, "b")])
def test_a_chain_deeper_than_the_stack_and_longer_than_a_path_is_measured_and_removed(
    tmp_path: Path, depth: int, name: str
) -> None:
    folder = tmp_path / "deep"
    chain(folder, depth, name)
    assert trees.size(folder) >= 8192
    trees.remove(folder)
    assert list(tmp_path.iterdir()) == []


def test_few_descriptors_are_enough(tmp_path: Path) -> None:
    chain(tmp_path / "deep", 2000)
    for number in range(50):
        chain(tmp_path / "deep" / f"side{number}", 5)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = max(int(name) for name in os.listdir("/proc/self/fd")) + 8
    resource.setrlimit(resource.RLIMIT_NOFILE, (room, hard))
    try:
        assert trees.size(tmp_path / "deep") >= 51 * 8192
        trees.remove(tmp_path / "deep")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not (tmp_path / "deep").exists()


def test_what_links_lead_to_stays(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x" * 100_000)
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "link").symlink_to(outside)
    (folder / "inner" / "link").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "inner" / "fifo")
    (tmp_path / "top").symlink_to(folder)
    assert trees.size(folder) < 100_000
    with pytest.raises(OSError, match="top"):
        trees.remove(tmp_path / "top")
    assert (folder / "inner").is_dir()
    trees.remove(folder)
    assert not folder.exists()
    assert (outside / "precious").exists()


def test_many_names_in_one_folder_and_many_folders(tmp_path: Path) -> None:
    folder = tmp_path / "wide"
    folder.mkdir()
    for number in range(5000):
        (folder / f"d{number}").mkdir()
        (folder / f"d{number}" / "f").touch()
        (folder / f"f{number}").touch()
    trees.remove(folder)
    assert not folder.exists()


def test_names_that_are_no_text(tmp_path: Path) -> None:
    os.makedirs(os.fsencode(tmp_path) + b"/x/na\xffme/\xfe")
    trees.remove(tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_missing_folder_is_an_error_unless_errors_are_ignored(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        trees.remove(tmp_path / "missing")
    trees.remove(tmp_path / "missing", ignore_errors=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sets that flag")
def test_what_cannot_be_changed_can_still_be_removed(tmp_path: Path) -> None:
    folder = tmp_path / "fixed"
    (folder / "inner" / "deeper").mkdir(parents=True)
    (folder / "inner" / "file").touch()
    flagged = [folder / "inner" / "file", folder / "inner"]
    for path in flagged:
        if subprocess.run(["chattr", "+i", path], capture_output=True).returncode:
            pytest.skip("this file system has no such flag")
    with pytest.raises(PermissionError):  # the control: the flag holds
        flagged[0].unlink()
    trees.remove(folder)
    assert not folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="somebody else than root is needed")
def test_folders_that_their_owner_closed_are_removed_by_their_owner(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    code = (
        "import os, sys, shutil; from cell import trees\n"
        f"os.setuid(65534); os.makedirs({str(tmp_path / 'x/y/z')!r}); os.chmod({str(tmp_path / 'x/y')!r}, 0)\n"
        f"shutil.rmtree({str(tmp_path / 'x')!r}, ignore_errors=True)\n"
        f"assert os.path.exists({str(tmp_path / 'x')!r})  # the control\n"
        f"trees.remove({str(tmp_path / 'x')!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "x").exists()


def test_what_the_agent_changed_is_found_beside_a_chain_and_within_bounds(tmp_path: Path) -> None:
    upper = tmp_path / "upper"
    chain(upper, 3000)
    (upper / "usr" / "bin").mkdir(parents=True)
    (upper / "usr" / "bin" / "python3").touch()
    assert list(changed_programs([("/", upper)])) == ["/usr/bin/python3"]


def test_the_waste_of_a_deep_root_is_measured_and_removed(tmp_path: Path) -> None:
    chain(tmp_path / "root", 3000)
    waste = pruning.Waste(tmp_path / "root", "its cell died without a verdict", 0)
    pruning.remove(waste)
    assert not waste.path.exists()


def test_a_task_folder_that_is_too_deep_is_refused_in_one_line(tmp_path: Path) -> None:
    chain(tmp_path / "tests", 100)
    assert digest(tmp_path).startswith("sha256:")
    chain(tmp_path / "environment", 3000)
    with pytest.raises(TaskError, match="folders deep"):
        digest(tmp_path)


def test_a_deletion_is_found_beside_a_chain(tmp_path: Path) -> None:
    upper = tmp_path / "upper"
    chain(upper, 3000)
    assert list(_deleted((("/", upper),), "curl")) == []
    if os.geteuid() == 0:  # only root makes what an overlay calls a deletion
        (upper / "usr" / "bin").mkdir(parents=True)
        os.mknod(upper / "usr" / "bin" / "curl", 0o20000, os.makedev(0, 0))
        assert list(_deleted((("/", upper),), "curl")) == ["/usr/bin/curl"]


def test_a_folder_of_many_names_is_looked_at_in_part(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number}").touch()
    assert len(entries(tmp_path, 10)) == 10
    assert len(entries(tmp_path)) == 50
