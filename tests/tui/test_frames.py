"""Moments of a terminal, saved and come back to."""

from __future__ import annotations

import pyghostty
import pytest

from hudtui.engine.ghostty import GhosttyEngine


def text(engine: GhosttyEngine) -> list[str]:
    rows = engine.dirty()
    return ["".join(part for part, _ in rows[y]).rstrip() for y in sorted(rows)]


def test_a_terminal_becomes_what_another_was() -> None:
    first, second = GhosttyEngine(40, 6), GhosttyEngine(80, 24)
    first.forget()
    for n in range(500):
        first.feed(b"line %d\r\n" % n)
    first.feed(b"\x1b[31mred\x1b[0m \x1b[?25l")
    saved = first.snapshot()
    assert saved is not None
    assert len(saved) < 100_000, "a keyframe holds the screen, not its history"
    second.feed(b"something else\r\n" * 100)
    second.restore(saved)
    assert (second.cols, second.rows, second.history, second.cursor()) == (40, 6, 0, None)
    assert second.dirty() == first.dirty()
    second.feed(b"and on\x1b[6n")
    assert second.replies() == b"\x1b[6;11R"
    second.resize(50, 7)
    assert "red and on" in text(second)
    assert not second.find("something else", 1)
    first.close()
    second.close()


def test_the_alternate_screen_is_a_part_of_the_moment() -> None:
    first, second = GhosttyEngine(40, 6), GhosttyEngine(40, 6)
    first.feed(b"under\x1b[?1049h\x1b[2;1Hover")
    second.restore(first.snapshot() or b"")
    assert text(second)[1] == "over"
    second.feed(b"\x1b[?1049l")
    assert text(second)[0] == "under"
    first.close()
    second.close()


def test_there_is_no_moment_within_an_escape_sequence() -> None:
    engine = GhosttyEngine(40, 6)
    engine.feed(b"abc\x1b[3")
    assert engine.snapshot() is None
    engine.feed(b"1m")
    assert engine.snapshot() is not None
    engine.close()


@pytest.mark.parametrize("cut", [0, 60])
def test_what_is_no_snapshot_is_refused_and_nothing_changes(cut: int) -> None:
    engine = GhosttyEngine(40, 6)
    engine.feed(b"here")
    junk = (engine.snapshot() or b"")[:cut] or b"junk" * 50
    with pytest.raises(pyghostty.GhosttyError):
        engine.restore(junk)
    assert text(engine)[0] == "here"
    engine.close()
