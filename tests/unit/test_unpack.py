from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from cell import agents, visitor
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
