from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from cell import agents, unpacking, visitor
from cell.errors import HarnessError


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, link
        tar.addfile(info)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "tests",
    [
        member("../out"),
        member("out", tarfile.SYMTYPE, "../outside"),
        member("out", tarfile.LNKTYPE, "../outside"),
        member("out", tarfile.CHRTYPE),
        b"not a tar",
    ],
)
def test_nothing_is_laid_out_elsewhere(tmp_path: Path, tests: bytes) -> None:
    (tmp_path / "outside").write_text("kept")
    (tmp_path / "in").mkdir()
    descriptor = os.open(tmp_path / "in", os.O_PATH)
    with pytest.raises(HarnessError, match="could not be laid out"):
        visitor._unpack(tests, descriptor)
    os.close(descriptor)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "outside"]
    assert list((tmp_path / "in").iterdir()) == []


def test_what_an_archive_holds_is_what_is_laid_out(tmp_path: Path) -> None:
    (tmp_path / "from" / "sub").mkdir(parents=True)
    (tmp_path / "from" / "test.sh").write_text("#!/bin/sh\n")
    (tmp_path / "from" / "sub" / "data").write_bytes(b"\x00\xff")
    (tmp_path / "to").mkdir()
    descriptor = os.open(tmp_path / "to", os.O_PATH)
    visitor._unpack(agents.archive(tmp_path / "from"), descriptor)
    os.close(descriptor)
    assert (tmp_path / "to" / "sub" / "data").read_bytes() == b"\x00\xff"
    assert os.access(tmp_path / "to" / "test.sh", os.X_OK)


def archive(*entries: tuple[str, bytes, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, kind, link in entries:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode, info.uid = kind, link, 0o6777, 12345
            tar.addfile(info)
    return buffer.getvalue()


HAS = hasattr(tarfile, "data_filter")
FILE, FOLDER, LINK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE


def test_links_that_stay_are_kept_and_bits_that_give_power_are_not(tmp_path: Path) -> None:
    unpacking.unpack(
        archive(("d", FOLDER, ""), ("d/f", FILE, ""), ("l", LINK, "d/f"), ("d/up", LINK, "../d")), tmp_path
    )
    assert (tmp_path / "l").read_bytes() == b"" and (tmp_path / "d/up").resolve() == tmp_path / "d"
    told = (tmp_path / "d/f").stat()
    assert (told.st_mode & 0o7777, told.st_uid) == (0o755, os.geteuid())


@pytest.mark.parametrize(
    "entries",
    [
        # by its letters it stays; on the disk it does not
        [("d", FOLDER, ""), ("d/a", LINK, "."), ("e", LINK, "d/a/../..")],
        # what the link leads to comes later
        [("e", LINK, "d/a/../.."), ("d", FOLDER, ""), ("d/a", LINK, "."), ("e/out", FILE, "")],
        [("e", LINK, "/"), ("e/out", FILE, "")],
        [("/abs", FILE, "")],
        [("pipe", tarfile.FIFOTYPE, "")],
    ],
)
def test_what_leads_out_by_a_detour_is_refused(tmp_path: Path, entries: list[tuple[str, bytes, str]]) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(tarfile.TarError):
        unpacking.unpack(archive(*entries), tmp_path / "in")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_it_is_the_same_where_python_has_no_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian 12 has Python 3.11.2."""
    (tmp_path / "from").mkdir()
    (tmp_path / "from/f").write_text("x")
    packed = agents.archive(tmp_path / "from")
    whole = tarfile.TarFile.extract

    def old(
        self: tarfile.TarFile, member: tarfile.TarInfo, path: str = "", set_attrs: bool = True, **more: object
    ) -> None:
        assert not more, "an argument that 3.11.2 does not know"
        whole(self, member, path, set_attrs, filter="fully_trusted") if HAS else whole(
            self, member, path, set_attrs
        )

    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    monkeypatch.setattr(tarfile.TarFile, "extract", old)
    (tmp_path / "to").mkdir()
    unpacking.unpack(packed, tmp_path / "to")
    assert (tmp_path / "to/f").read_text() == "x"
