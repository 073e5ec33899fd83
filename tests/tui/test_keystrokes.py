"""What a terminal sends is cut into strokes, and nothing of it is lost."""

from __future__ import annotations

import pytest

from hudtui.keys.keyboard import _meant
from hudtui.keys.keystrokes import Stroke, Strokes


def cut(*pieces: bytes) -> list[tuple[str, bytes]]:
    strokes = Strokes()
    found = [one for piece in pieces for one in strokes.feed(piece)]
    return [(one.kind, one.data) for one in (*found, *strokes.flush())]


@pytest.mark.parametrize(
    "sent",
    [b"a", b"\x1b", b"\x1bx", b"\x1b]", b"\x1b[", b"\x1bO", b"\x1b[A", b"\x1bOP", b"\x1bO2P", b"\x1b[1;5C", b"\x1b\x7f",
     b"\x1b\x00", b"\x1b[[A", b"\x1b[97;5u", b"\xc3\xa9", "👩".encode(), b"\xff", "\x1bé".encode()],
)  # fmt: skip
def test_one_key_is_one_stroke_however_it_comes(sent: bytes) -> None:
    assert cut(sent) == [("key", sent)]
    if sent != b"\x1b":
        assert cut(*(sent[n : n + 1] for n in range(len(sent)))) == [("key", sent)]


@pytest.mark.parametrize(
    "sent", [b"\x1b[\x1b[A\xe2\x82(\x1b\x1bOA\x1b[2;\xff", b"\xc3(\xf5\x1b[12\x1b", bytes(range(256)) * 2]
)
def test_what_is_broken_is_handed_on_byte_for_byte(sent: bytes) -> None:
    assert b"".join(data for _, data in cut(sent)) == sent


def test_reports_and_pastes_are_no_keys() -> None:
    assert cut(b"\x1b[I\x1b[<0;3;4M\x1b[?2026;2$y\x1b[48;40;120;640;960t") == [
        ("report", b"\x1b[I"), ("report", b"\x1b[<0;3;4M"), ("report", b"\x1b[?2026;2$y"),
        ("report", b"\x1b[48;40;120;640;960t"),
    ]  # fmt: skip
    assert cut(b"a\x1b[200~x\x1b[3", b"1m\xffy\x1b[20", b"1~b") == [
        ("key", b"a"), ("paste", b"x\x1b[31m\xffy"), ("key", b"b"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "name"),
    [(b"\x1d", "ctrl+right_square_bracket"), (b"\x1b\x1d", "alt+ctrl+right_square_bracket"), (b"\x1b[24~", "f12"),
     (b"\x1b[93;5:1u", "ctrl+right_square_bracket"), (b"\x1b[97:65;2:1u", "shift+a"), (b"\x1bO2P", "shift+f1"),
     (b"\x1b ", "alt+space"), (b"\x1b1", "alt+1"), (b"\x1bx", "alt+x"), (b"[", "left_square_bracket")],
)  # fmt: skip
def test_what_keys_are_called(sent: bytes, name: str) -> None:
    assert [key for key, _ in _meant(Stroke("key", sent))] == [name]


def test_a_key_that_goes_up_means_nothing() -> None:
    assert _meant(Stroke("key", b"\x1b[97;1:3u")) == ()
    assert _meant(Stroke("key", b"\x1b[97;1:1u")) == (("a", "a"),)
    assert _meant(Stroke("key", b"\x1b[99999999999;5u")) == ()
