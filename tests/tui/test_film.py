"""A recording with times: events, markers, activity; and an engine that is taken to any moment of it."""

from __future__ import annotations

import math
import random

import pytest

from hudtui.engine.ghostty import GhosttyEngine
from hudtui.recordings import player
from hudtui.recordings.cast import CastEvent
from hudtui.recordings.film import LONGEST, Film, Mark, bars, next_mark, span
from hudtui.recordings.player import Player

from .conftest import FakeEngine


def film(*events: tuple[float, str, str]) -> Film:
    made = Film()
    made.add(CastEvent(*event) for event in events)
    return made


def test_times_never_go_back_whatever_the_file_says() -> None:
    made = film((1.0, "o", "a"), (0.5, "o", "b"), (math.nan, "o", "c"), (1e300, "o", "d"), (-4.0, "o", "e"))
    assert made.times == [1.0] * 5
    assert film((LONGEST + 1, "o", "a")).duration == 0.0


def test_a_moment_is_after_all_that_happened_by_then() -> None:
    made = film((1.0, "o", "a"), (2.0, "r", "80x24"), (2.0, "o", "b"), (9.0, "o", "c"))
    assert [made.index(t) for t in (0.0, 1.0, 1.9, 2.0, 100.0)] == [0, 1, 1, 3, 4]
    assert [made.time(n) for n in (-1, 0, 3, 4)] == [0.0, 1.0, 9.0, 9.0]
    assert (made.size(0, 4), made.size(1, 3), made.size(3, 1)) == (3, 1, 0)


def test_activity_is_counted_where_it_was() -> None:
    made = film((0.0, "o", "abc"), (5.0, "o", "d"), (9.9, "o", "e"))
    assert made.activity(10.0, 2) == [3, 2]
    assert made.activity(10.0, 0) == []
    assert film().activity(10.0, 3) == [0, 0, 0]
    assert bars([0, 1, 100]) == " ▂█"
    assert bars([0, 0]) == "  "


def test_what_was_typed_is_told_by_lines_and_by_whom() -> None:
    made = film(
        (1.0, "i", "l"),
        (1.2, "i", "s\r"),
        (3.0, "m", "typed by operator"),
        (3.1, "i", "rm -rf x\r\n\r"),
        (4.0, "m", "typed by agent"),
        (4.1, "i", "cat"),
        (5.0, "m", "paused by operator"),
        (6.0, "m", "end exit=0"),
    )
    assert made.marks == [
        Mark(1.0, "input", "ls"),
        Mark(3.0, "typed", "typed by operator"),
        Mark(3.1, "typed", "rm -rf x"),
        Mark(4.1, "input", "cat"),
        Mark(5.0, "mark", "paused by operator"),
        Mark(6.0, "end", "end exit=0"),
    ]


def test_marks_are_neutralised() -> None:
    made = film((1.0, "m", "\x1b[2J\u202e"), (1.0, "i", "\x1b]0;x\x07\r"))
    assert all(mark.text.isprintable() for mark in made.marks)
    assert len(made.marks) == 2


def test_one_goes_from_mark_to_mark() -> None:
    marks = [Mark(1.0, "mark", "a"), Mark(2.0, "mark", "b"), Mark(2.0, "mark", "c"), Mark(3.0, "mark", "d")]
    assert next_mark(marks, 0.0, 1) == marks[0]
    assert next_mark(marks, 1.0, 1) == marks[1]
    assert next_mark(marks, 2.0, 1) == marks[3]
    assert next_mark(marks, 3.0, 1) is None
    assert next_mark(marks, 3.0, -1) == marks[2]
    assert next_mark(marks, 0.5, -1) is None


@pytest.mark.parametrize(("t", "text"), [(0, "00:00.0"), (192.45, "03:12.4"), (3792, "1:03:12")])
def test_a_time_is_said(t: float, text: str) -> None:
    assert span(t) == text


# ── the player ────────────────────────────────────────────────────────────────────────────────


def long_film(events: int = 600, step: float = 0.25) -> Film:
    return film(*((n * step, "o", f"{n}\r\n") for n in range(events)))


def play(made: Player, t: float) -> str:
    made.seek(t)
    while made.work(10.0):
        pass
    assert made.arrived
    assert isinstance(made.engine, FakeEngine)
    return made.engine.text.split("\n")[-2] if "\n" in made.engine.text else ""


def test_every_moment_is_the_same_from_wherever_one_comes() -> None:
    made = Player(long_film(), FakeEngine, (80, 24))
    while made.scout(10.0):
        pass
    assert made.keyframes == pytest.approx(30, abs=2), "one every five seconds"
    order = random.Random(7).choices(range(600), k=40)
    for n in order:
        assert play(made, n * 0.25) == str(n)
    assert play(made, 1e9) == "599"
    made.seek(-1)
    made.work(1.0)
    assert made.engine.text == ""  # type: ignore[attr-defined]
    made.close()


def test_a_seek_feeds_no_more_than_lies_behind_a_keyframe() -> None:
    made = Player(long_film(), FakeEngine, (80, 24))
    while made.scout(10.0):
        pass
    engine = made.engine
    assert isinstance(engine, FakeEngine)
    for t in (140.0, 3.0, 77.7, 0.0, 149.0):
        engine.fed.clear()
        play(made, t)
        assert len(engine.fed) <= 5 / 0.25 + 1


def test_without_keyframes_a_seek_goes_in_short_turns() -> None:
    made = Player(long_film(), FakeEngine, (80, 24))
    made.seek(149.0)
    assert made.work(0.0)
    assert not made.arrived
    assert play(made, 149.0) == "596"


def test_a_film_that_grows_is_played_on() -> None:
    rolls = long_film(10)
    made = Player(rolls, FakeEngine, (80, 24))
    assert play(made, 100.0) == "9"
    while made.scout(1.0):
        pass
    rolls.add([CastEvent(200.0, "o", "more\r\n")])
    assert not made.indexed
    assert play(made, 200.0) == "more"


def test_sizes_are_part_of_a_moment_and_junk_is_no_size() -> None:
    rolls = film((0.0, "o", "a"), (6.0, "r", "100x30"), (7.0, "r", "junk"), (12.0, "o", "b"))
    made = Player(rolls, FakeEngine, (80, 24))
    while made.scout(1.0):
        pass
    play(made, 12.0)
    assert (made.engine.cols, made.engine.rows) == (100, 30)
    play(made, 5.0)
    assert (made.engine.cols, made.engine.rows) == (80, 24)


def test_many_keyframes_are_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player, "_MOST", 20_000)
    made = Player(long_film(4000), FakeEngine, (80, 24))
    while made.scout(10.0):
        pass
    assert made.keyframes < 20
    assert play(made, 500.0) == "2000"


def test_output_without_a_terminal_gets_its_returns() -> None:
    made = Player(film((0.0, "o", "a\nb\n")), FakeEngine, (80, 24), plain=True)
    play(made, 1.0)
    assert made.engine.fed == [b"a\r\nb\r\n"]  # type: ignore[attr-defined]


def test_the_real_engine_plays_any_moment() -> None:
    rolls = Film()
    rolls.add(CastEvent(n * 0.1, "o", f"\x1b[3{n % 7}mline {n}\x1b[0m\r\n") for n in range(2000))
    made = Player(rolls, GhosttyEngine, (60, 20))
    while made.scout(10.0):
        pass
    for n in (1500, 3, 777, 1999):
        made.seek(n * 0.1)
        while made.work(1.0):
            pass
        shown = ["".join(text for text, _ in row).strip() for _, row in sorted(made.engine.dirty().items())]
        assert f"line {n}" in shown
        assert f"line {n + 1}" not in shown
    made.close()
