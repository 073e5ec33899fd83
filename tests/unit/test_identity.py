from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cell import identity, layout
from cell.errors import TaskError
from cell.sandbox import Who


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "root" / "etc").mkdir(parents=True)
    (tmp_path / "root" / "etc" / "passwd").write_text(
        f"me:x:{os.getuid()}:{os.getgid()}::/home/me:/bin/bash\n"
    )
    (tmp_path / "root" / "etc" / "group").write_text("")
    descriptor = os.open(tmp_path / "root", os.O_PATH | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_i1_a_user_that_does_not_exist_is_a_task_error(root: int) -> None:
    with pytest.raises(TaskError, match=r"task.toml: agent.user: .*nobodyatall"):
        identity.resolve(root, "agent", "nobodyatall", "/", where=("task.toml", "agent.user"))


def test_t10_the_workdir_is_made(root: int, tmp_path: Path) -> None:
    person = identity.resolve(root, "agent", "me", "/place/deep", where=("", ""))
    assert (tmp_path / "root" / "place" / "deep").is_dir()
    assert person.who.uid == os.getuid()
    assert person.shells[0] == "/bin/bash"


@pytest.mark.parametrize("target", ["../outside", "/outside"])
def test_a_link_does_not_lead_out_of_the_root(root: int, tmp_path: Path, target: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "root" / "link").symlink_to(target)
    identity.make_directory(root, "/link/made", os.getuid(), os.getgid(), 0o755)
    assert list((tmp_path / "outside").iterdir()) == []


def test_lay_out_replaces_a_link_and_refuses_links_that_lead_out(root: int, tmp_path: Path) -> None:
    import io
    import tarfile

    (tmp_path / "outside").mkdir()
    (tmp_path / "root" / "solution").symlink_to(tmp_path / "outside")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo("a")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"x"))
    layout.lay_out(root, "solution", buffer.getvalue())
    assert (tmp_path / "root" / "solution" / "a").read_text() == "x"
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize(
    ("who", "fixed", "reason"),
    [
        (Who(0, 0, (0,)), None, ""),
        (Who(999, 999, (999, 5)), None, ""),
        (Who(1000, 0, (0,)), None, "user id 1000 is not mapped into the sandbox"),
        (Who(0, 500, (500,)), None, "group id 500 is not mapped into the sandbox"),
        (Who(0, 0, (0, 499, 500)), None, "group id 500 is not mapped into the sandbox"),
        (Who(0, 0, (0,)), frozenset(), ""),
        (Who(0, 0, (0, 7)), frozenset({7}), ""),
        (Who(0, 0, (0, 7)), frozenset(), "the kernel lets nobody choose groups there"),
        (Who(0, 0, (0,)), frozenset({7}), "the kernel lets nobody choose groups there"),
    ],
)
def test_i3_who_can_be_had_is_read_from_the_maps(who: Who, fixed: frozenset[int] | None, reason: str) -> None:
    users, groups = ((0, 100000, 1000),), ((0, 100000, 10), (10, 200000, 490), (999, 300000, 1))
    assert identity.impossible(who, users, groups, fixed) == reason
