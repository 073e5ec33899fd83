from __future__ import annotations

import pytest

from cell import inspection
from cell.launcher import holding, probe


def test_a_look_travels_whole() -> None:
    saw = probe.look({b"TERM": b"x"})
    assert inspection._unpacked(probe.packed(saw)) == saw
    assert saw["/proc/self/status"].startswith(b"Name:") and saw["tests"].startswith(b"!")
    assert any(key.startswith("process ") for key in saw)


@pytest.mark.parametrize("cut", [0, 1, 3, 5, -1])
def test_a_look_that_was_cut_off_is_none(cut: int) -> None:
    data = probe.packed({"a": b"1", "b": b"22"})
    with pytest.raises(ValueError, match="cut off"):
        inspection._unpacked(data[:cut])


def test_what_cannot_be_read_is_told_by_its_errno() -> None:
    assert probe._read(b"/nowhere") == b"!2"
    assert probe._list(b"/proc/self/status") == b"!20"


def test_bubblewraps_own_words_are_told_when_it_did_not_start(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    file = tmp_path_factory.mktemp("said") / "errors"
    file.write_bytes(b"bwrap: no\xff luck\n")
    with file.open("rb") as opened:
        said = holding.Holder._said(opened.fileno())
    assert said.startswith("bubblewrap did not start the sandbox: bwrap: no")
