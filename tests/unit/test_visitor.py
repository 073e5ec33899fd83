from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from cell import visitor
from cell.errors import HarnessError


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def test_the_test_script_becomes_executable(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_PATH)
    visitor._unpack(tar((tarfile.TarInfo("test.sh"), b"#!/bin/sh\n")), descriptor)
    os.close(descriptor)
    assert (tmp_path / "test.sh").stat().st_mode & 0o111 == 0o111


def test_tests_that_lead_out_are_refused(tmp_path: Path) -> None:
    link = tarfile.TarInfo("out")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    descriptor = os.open(tmp_path, os.O_PATH)
    with pytest.raises(HarnessError, match="could not be laid out"):
        visitor._unpack(tar((link, b"")), descriptor)
    os.close(descriptor)
