from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cell import identity


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "root" / "etc").mkdir(parents=True)
    (tmp_path / "root" / "etc" / "passwd").write_text(
        "root:x:0:0::/root:/bin/bash\nme:x:1234:1235::/nowhere:\n"
    )
    descriptor = os.open(tmp_path / "root", os.O_PATH | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_the_mode_is_the_last_ones_and_parents_are_open(root: int, tmp_path: Path) -> None:
    identity.make_directory(root, "/a/b/c", os.getuid(), os.getgid(), 0o700)
    modes = [stat.S_IMODE((tmp_path / "root" / path).stat().st_mode) for path in ("a", "a/b", "a/b/c")]
    assert modes == [0o755, 0o755, 0o700]


def test_what_is_there_is_left_as_it_is(root: int, tmp_path: Path) -> None:
    (tmp_path / "root" / "kept").mkdir(mode=0o711)
    identity.make_directory(root, "/kept", os.getuid(), os.getgid(), 0o700)
    assert stat.S_IMODE((tmp_path / "root" / "kept").stat().st_mode) == 0o711


def test_dots_do_not_climb_out(root: int, tmp_path: Path) -> None:
    identity.make_directory(root, "/../../climbed", os.getuid(), os.getgid(), 0o755)
    assert not (tmp_path / "climbed").exists()
    assert (tmp_path / "root" / "climbed").is_dir()


def test_a_link_inside_is_followed_inside(root: int, tmp_path: Path) -> None:
    (tmp_path / "root" / "real").mkdir()
    (tmp_path / "root" / "link").symlink_to("/real")
    identity.make_directory(root, "/link/made", os.getuid(), os.getgid(), 0o755)
    assert (tmp_path / "root" / "real" / "made").is_dir()


def test_a_path_through_a_file_is_left_to_fail_later(root: int, tmp_path: Path) -> None:
    (tmp_path / "root" / "file").write_text("kept")
    identity.make_directory(root, "/file/made", os.getuid(), os.getgid(), 0o755)
    assert (tmp_path / "root" / "file").read_text() == "kept"


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")
def test_i2_a_user_without_a_home_gets_one_that_it_owns(root: int, tmp_path: Path) -> None:
    person = identity.resolve(root, "agent", "me", "/", where=("", ""))
    made = (tmp_path / "root" / "home" / "me").stat()
    assert (person.home, person.who.uid, person.who.gid) == ("/home/me", 1234, 1235)
    assert (made.st_uid, made.st_gid, stat.S_IMODE(made.st_mode)) == (1234, 1235, 0o700)
    assert person.shells == ("/bin/sh", "/bin/bash")  # an empty field of passwd is /bin/sh


def test_root_whose_home_is_missing_lives_at_the_top(root: int) -> None:
    person = identity.resolve(root, "agent", "root", "/", where=("", ""))
    assert (person.name, person.home, person.who.uid) == ("root", "/", 0)
