from __future__ import annotations

import pytest

from cell.queries import without_queries

ASKED = [
    b"\x05",
    b"\x1b[c",
    b"\x1b[0c",
    b"\x1b[>c",
    b"\x1b[=c",
    b"\x1b[5n",
    b"\x1b[6n",
    b"\x1b[?6n",
    b"\x1b[?2026$p",
    b"\x1b[18t",
    b"\x1b[>0q",
    b"\x1b[?u",
    b"\x1b[1x",
    b"\x1b[1;1;1;1;2;2*y",
    b"\x1b]10;?\x07",
    b"\x1b]11;?\x1b\\",
    b"\x1b]4;1;?;2;?\x07",
    b"\x1b]52;c;?\x07",
    b"\x1bP$qm\x1b\\",
    b"\x1bP+q544e\x1b\\",
    b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\",
]
SHOWN = [
    b"plain text?\r\n",
    "grün € 漢".encode(),
    b"\x1b[31mred\x1b[0m",
    b"\x1b[2J\x1b[10;20H",
    b"\x1b[?1049h\x1b[?2004h\x1b[?25l",
    b"\x1b[>4;2m",
    b"\x1b[ q\x1b[2 q",
    b"\x1b[>1u\x1b[<u",
    b"\x1b]0;what is this?\x07",
    b"\x1b]8;;http://a/?\x1b\\link\x1b]8;;\x1b\\",
    b"\x1b]52;c;aGVsbG8=\x07",
    b"\x1b]11;#000000\x07",
    b"\x1b7\x1b8\x1bc",
    b"\xff\xfe\x1b[",
]


@pytest.mark.parametrize("asked", ASKED)
def test_o5_a_question_of_long_ago_is_not_asked_again(asked: bytes) -> None:
    assert without_queries(b"before" + asked + b"after") == b"beforeafter"


@pytest.mark.parametrize("shown", SHOWN)
def test_what_is_no_question_is_shown_as_it_was(shown: bytes) -> None:
    assert without_queries(shown) == shown
