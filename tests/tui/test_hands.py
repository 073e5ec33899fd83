"""What a terminal sends: keys, pastes and the pointer, in the modes that the program inside asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hudtui.engine import Mouse
from hudtui.engine.ghostty import GhosttyEngine
from hudtui.engine.hands import Hands


@pytest.fixture
def engine() -> Iterator[GhosttyEngine]:
    made = GhosttyEngine(80, 24)
    yield made
    made.close()


KEYS = {
    "a": b"a", "A": b"A", "1": b"1", "space": b" ", "question_mark": b"?", "plus": b"+", "minus": b"-",
    "é": "é".encode(), "日": "日".encode(), "grinning_face": "😀".encode(),
    "ctrl+a": b"\x01", "ctrl+c": b"\x03", "ctrl+q": b"\x11", "ctrl+p": b"\x10", "ctrl+z": b"\x1a", "ctrl+j": b"\n",
    "ctrl+h": b"\x08", "ctrl+at": b"\0", "ctrl+@": b"\0", "ctrl+space": b"\0", "ctrl+backslash": b"\x1c",
    "ctrl+right_square_bracket": b"\x1d", "ctrl+circumflex_accent": b"\x1e", "ctrl+underscore": b"\x1f",
    "ctrl+shift+a": b"\x01", "ctrl+alt+a": b"\x1b\x01", "alt+x": b"\x1bx", "alt+X": b"\x1bX",
    "alt+é": "\x1bé".encode(), "alt+full_stop": b"\x1b.", "alt+enter": b"\x1b\r", "alt+backspace": b"\x1b\x7f",
    "tab": b"\t", "shift+tab": b"\x1b[Z", "enter": b"\r", "escape": b"\x1b", "backspace": b"\x7f",
    "up": b"\x1b[A", "ctrl+left": b"\x1b[1;5D", "alt+left": b"\x1b[1;3D", "shift+up": b"\x1b[1;2A",
    "ctrl+shift+left": b"\x1b[1;6D", "home": b"\x1b[H", "end": b"\x1b[F", "pageup": b"\x1b[5~",
    "delete": b"\x1b[3~", "insert": b"\x1b[2~", "f1": b"\x1bOP", "f5": b"\x1b[15~", "f10": b"\x1b[21~",
    "f12": b"\x1b[24~", "shift+f1": b"\x1b[1;2P",
}  # fmt: skip


@pytest.mark.parametrize(("name", "sent"), KEYS.items(), ids=list(KEYS))
def test_a_key(name: str, sent: bytes, engine: GhosttyEngine) -> None:
    assert isinstance(engine, Hands)
    character = name if len(name) == 1 else None
    assert engine.key(name, character) == sent


def test_a_key_without_a_name_is_its_character(engine: GhosttyEngine) -> None:
    assert engine.key("some_unheard_of_sign", "ꙮ") == "ꙮ".encode()
    assert engine.key("nothing_at_all", None) == b""


def test_keys_follow_the_modes_of_the_program(engine: GhosttyEngine) -> None:
    engine.feed(b"\x1b[?1h")
    assert engine.key("up", None) == b"\x1bOA"
    engine.feed(b"\x1b[?1l\x1b[>1u")
    assert engine.key("ctrl+a", None) == b"\x1b[97;5u"
    assert engine.key("escape", None) == b"\x1b[27u"


def test_a_paste_is_bracketed_where_the_program_asked_and_cannot_leave_its_brackets(
    engine: GhosttyEngine,
) -> None:
    evil = "ls\nx\x1b[201~rm -rf\r"
    assert engine.paste(evil) == b"ls\rx [201~rm -rf\r"
    engine.feed(b"\x1b[?2004h")
    assert engine.paste(evil) == b"\x1b[200~ls\nx [201~rm -rf\r\x1b[201~"
    assert len(engine.paste("x" * 1_000_000)) == 1_000_012


def test_the_pointer_is_sent_only_where_the_program_listens(engine: GhosttyEngine) -> None:
    press = Mouse("press", 3, 4, 1)
    assert (engine.tracks_mouse, engine.mouse(press)) == (False, b"")
    engine.feed(b"\x1b[?1000h\x1b[?1006h")
    assert engine.tracks_mouse
    assert engine.mouse(press) == b"\x1b[<0;4;5M"
    assert engine.mouse(press._replace(action="release")) == b"\x1b[<0;4;5m"
    assert engine.mouse(Mouse("press", 3, 4, 4)) == b"\x1b[<64;4;5M"
    assert engine.mouse(Mouse("press", 3, 4, 5, ctrl=True)) == b"\x1b[<81;4;5M"
    assert engine.mouse(Mouse("motion", 5, 4)) == b"", "it asked for presses only"
    assert engine.mouse(Mouse("press", 80, 4, 1)) == b"", "that is beside the screen"
    engine.feed(b"\x1b[?1002h")
    engine.mouse(press)
    assert engine.mouse(Mouse("motion", 5, 4, 1)) == b"\x1b[<32;6;5M"


def test_questions_are_answered_once_and_the_clipboard_never(engine: GhosttyEngine) -> None:
    engine.feed(b"\x1b[6n\x1b]52;c;?\x07\x1b]0;title\x07\x1b[21t")
    assert engine.replies() == b"\x1b[1;1R"
    assert engine.replies() == b""


def test_a_text_is_found_in_the_history_and_shown(engine: GhosttyEngine) -> None:
    for n in range(1000):
        engine.feed(b"line %d\r\n" % n)
    assert engine.find("line 50", -1)
    first = engine.offset
    assert first <= 509 < first + 24
    for _ in range(10):
        assert engine.find("line 50", -1)
    assert engine.offset <= 50, "older and older"
    assert engine.find("line 50", 1)
    assert not engine.find("nowhere", -1)
    assert not engine.find("", -1)
