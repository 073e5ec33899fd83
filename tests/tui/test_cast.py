"""Recordings that grow, are torn, odd, replaced and gone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hudtui.recordings.cast import LINE_LIMIT, CastEvent, CastFeed, CastParser, RawFeed, Step

HEADER = b'{"version": 2, "width": 80, "height": 24}\n'


def whole(*events: list[object]) -> bytes:
    return HEADER + b"".join(json.dumps(event).encode() + b"\n" for event in events)


@pytest.mark.parametrize("size", [1, 2, 7, 64, 4096])
def test_events_are_the_same_however_the_bytes_are_cut(size: int) -> None:
    data = whole([0.1, "o", "héllo ☃\r\n"], [0.2, "i", "x"], [0.3, "r", "100x30"], [0.4, "m", "end exit=0"])
    parser = CastParser()
    found = [e for at in range(0, len(data), size) for e in parser.feed(data[at : at + size])]
    assert found == [
        CastEvent(0.1, "o", "héllo ☃\r\n"),
        CastEvent(0.2, "i", "x"),
        CastEvent(0.3, "r", "100x30"),
        CastEvent(0.4, "m", "end exit=0"),
    ]
    assert parser.header == {"version": 2, "width": 80, "height": 24}


def test_a_torn_last_line_waits_and_garbage_is_skipped() -> None:
    parser = CastParser()
    assert parser.feed(HEADER + b'[0.1, "o", "a"]\n[0.2, "o", "b') == [CastEvent(0.1, "o", "a")]
    assert parser.feed(b'c"]\n') == [CastEvent(0.2, "o", "bc")]
    assert parser.feed(b'nonsense\n[1]\n["x", 1, 2]\n{"a": 1}\n\n\xff\xfe\n[0.3, "o", "d", 9]\n') == [
        CastEvent(0.3, "o", "d")
    ]
    assert parser.skipped == 5


def test_an_endless_line_is_dropped_and_what_follows_is_not() -> None:
    parser = CastParser()
    parser.feed(HEADER)
    for _ in range(3):
        assert parser.feed(b"x" * LINE_LIMIT) == []
    assert parser.feed(b'x\n[0.1, "o", "a"]\n') == [CastEvent(0.1, "o", "a")]
    assert parser.skipped == 1


def test_a_cast_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "1.cast"
    feed = CastFeed(path)
    assert list(feed.poll(1000)) == []
    path.write_bytes(whole([0.1, "o", "a\n"], [0.2, "r", "100x30"], [0.3, "o", "b"], [0.4, "m", "mark"]))
    assert list(feed.poll(1000)) == [
        Step("feed", b"a\n"),
        Step("resize", size=(100, 30)),
        Step("feed", b"b"),
    ]
    assert feed.marks == [CastEvent(0.4, "m", "mark")]
    assert not feed.behind
    path.write_bytes(HEADER)
    list(feed.poll(1000))
    assert feed.restarted
    assert not feed.restarted
    path.unlink()
    assert list(feed.poll(1000)) == []


def test_a_turn_takes_no_more_than_it_may(tmp_path: Path) -> None:
    path = tmp_path / "1.cast"
    path.write_bytes(whole(*([0.1, "o", "x" * 50] for _ in range(100))))
    feed = CastFeed(path)
    printed = b""
    turns = 0
    while True:
        steps = list(feed.poll(512))
        printed += b"".join(step.data for step in steps)
        turns += 1
        if not feed.behind:
            break
    assert printed == b"x" * 5000
    assert turns > 10


@pytest.mark.parametrize(
    "size", ["0x10", "10x0", "9999x1", "axb", "10", "", "-1x5", "٣x٤", "100000x1", "1x1x1"]
)
def test_a_size_that_no_terminal_has_is_ignored(tmp_path: Path, size: str) -> None:
    path = tmp_path / "1.cast"
    path.write_bytes(whole([0.1, "r", size]))
    assert list(CastFeed(path).poll(1000)) == []


def test_output_without_a_terminal_gets_its_carriage_returns(tmp_path: Path) -> None:
    (tmp_path / "1.cast").write_bytes(whole([0.1, "o", "a\nb\n"]))
    assert list(CastFeed(tmp_path / "1.cast", plain=True).poll(1000)) == [Step("feed", b"a\r\nb\r\n")]
    (tmp_path / "oracle.txt").write_bytes(b"a\nb\n")
    assert list(RawFeed(tmp_path / "oracle.txt", plain=True).poll(1000)) == [Step("feed", b"a\r\nb\r\n")]
    assert list(RawFeed(tmp_path / "oracle.txt").poll(1000)) == [Step("feed", b"a\nb\n")]


def test_a_pipe_or_a_link_in_place_of_a_recording_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "1.cast")
    (tmp_path / "2.cast").symlink_to("/etc/passwd")
    assert list(CastFeed(tmp_path / "1.cast").poll(1000)) == []
    assert list(RawFeed(tmp_path / "2.cast").poll(1000)) == []


def test_half_a_surrogate_does_not_stop_it(tmp_path: Path) -> None:
    (tmp_path / "1.cast").write_bytes(HEADER + b'[0.1, "o", "\\ud800 a"]\n[0.2, "o", "b"]\n')
    printed = b"".join(step.data for step in CastFeed(tmp_path / "1.cast").poll(1000))
    assert printed.endswith(b"b")
