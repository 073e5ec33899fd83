from __future__ import annotations

import json
import os
import resource
import signal
from pathlib import Path
from typing import Any

import pytest

from cell.recording import Recording


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "1.cast"


def start(path: Path, **changes: Any) -> Recording:
    wanted: dict[str, Any] = {
        "cols": 80,
        "rows": 24,
        "command": "make",
        "tty": True,
        "n": 1,
        "principal": "agent",
        "phase": "agent",
        "user": "root",
        "term": "xterm",
    }
    return Recording(path, **(wanted | changes))


def events(path: Path) -> list[tuple[str, str]]:
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    times = [line[0] for line in lines[1:]]
    assert times == sorted(times)
    return [(code, text) for _, code, text in lines[1:]]


def test_the_header_is_asciicast_with_who_and_where(path: Path) -> None:
    start(path, cols=100, rows=30).close(exit=0)
    header = json.loads(path.read_bytes().splitlines()[0])
    assert header.pop("timestamp") > 1_600_000_000
    assert header == {
        "version": 2,
        "width": 100,
        "height": 30,
        "title": "make",
        "env": {"TERM": "xterm"},
        "cell": {"n": 1, "tty": True, "principal": "agent", "phase": "agent", "user": "root"},
    }


def test_a_session_in_order(path: Path) -> None:
    cast = start(path)
    cast.output(b"$ ")
    cast.typed(b"ls\r", "agent")
    cast.output(b"a\x1b[0m\r\n")
    cast.resize(120, 40)
    cast.marker("paused by operator")
    cast.close(exit=3)
    cast.close(exit=4)
    assert events(path) == [
        ("o", "$ "),
        ("i", "ls\r"),
        ("o", "a\x1b[0m\r\n"),
        ("r", "120x40"),
        ("m", "paused by operator"),
        ("m", "end exit=3"),
    ]
    assert (cast.bytes_out, cast.bytes_in, cast.fault) == (9, 3, "")


@pytest.mark.parametrize(
    ("how", "label"),
    [
        ({"exit": 0}, "end exit=0"),
        ({"signal": "KILL", "reason": "deadline"}, "end signal=KILL deadline"),
        ({"exit": 1, "signal": "TERM"}, "end signal=TERM"),
        ({"reason": "status lost"}, "end exit=? status lost"),
    ],
)
def test_the_end_says_how(path: Path, how: dict[str, Any], label: str) -> None:
    start(path).close(**how)
    assert events(path) == [("m", label)]


def test_each_line_is_on_disk_when_the_call_returns(path: Path) -> None:
    cast = start(path)
    for n in range(5):
        cast.output(b"x")
        assert path.read_bytes().count(b"\n") == n + 2
    cast.close()


def test_a_change_of_hands_is_marked_once_each_way(path: Path) -> None:
    cast = start(path)
    cast.typed(b"a", "agent")
    cast.typed(b"b", "operator")
    cast.typed(b"c", "operator")
    cast.typed(b"d", "agent")
    assert [e for e in events(path) if e[0] == "m"] == [("m", "typed by operator"), ("m", "typed by agent")]
    assert [text for code, text in events(path) if code == "i"] == ["a", "b", "c", "d"]
    cast.close()


def test_input_without_a_terminal_is_counted_only(path: Path) -> None:
    cast = start(path, tty=False, cols=0, rows=0, command=None)
    cast.typed(b"secret", "agent")
    cast.close(exit=0)
    assert events(path) == [("m", "end exit=0")]
    assert cast.bytes_in == 6
    header = json.loads(path.read_bytes().splitlines()[0])
    assert (header["width"], header["height"], header["title"]) == (80, 24, "")


TEXT = "naïve – 日本語 🙂 \x00\x1b]0;t\x07 end"


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_characters_split_across_calls_are_joined(path: Path, size: int) -> None:
    cast = start(path)
    data = TEXT.encode()
    for n in range(0, len(data), size):
        cast.output(data[n : n + size])
        cast.typed(data[n : n + size], "agent")
    cast.close(exit=0)
    assert "".join(text for code, text in events(path) if code == "o") == TEXT
    assert "".join(text for code, text in events(path) if code == "i") == TEXT


def test_any_bytes_can_be_recorded(path: Path) -> None:
    cast = start(path, command=os.fsdecode(b"echo \xff"))
    data = bytes(range(256)) + b"\xf0\x9f"
    cast.output(data)
    cast.marker(os.fsdecode(b"\xfe"))
    cast.close(exit=0)
    assert "".join(text for code, text in events(path) if code == "o") == data.decode("utf-8", "replace")
    assert ("m", "\\udcfe") in events(path)


def test_after_the_limit_one_marker_and_the_count_goes_on(path: Path) -> None:
    cast = start(path, limit=10)
    for _ in range(5):
        cast.output(b"abcd")
    cast.typed(b"q", "agent")
    cast.close(exit=0)
    assert events(path) == [
        ("o", "abcd"),
        ("o", "abcd"),
        ("o", "ab"),
        ("m", "truncated"),
        ("i", "q"),
        ("m", "end exit=0"),
    ]
    assert cast.bytes_out == 20
    assert repr(cast) == "<Recording 1.cast out=20 truncated>"


@pytest.mark.parametrize(("limit", "kept"), [(0, ""), (4, "abcd"), (1, "a"), (None, "abcdabcd")])
def test_the_limit_is_exact(path: Path, limit: int | None, kept: str) -> None:
    cast = start(path, limit=limit)
    cast.output(b"abcd")
    cast.output(b"abcd")
    cast.close(exit=0)
    assert "".join(text for code, text in events(path) if code == "o") == kept


def test_a_full_disk_stops_the_recording_and_nothing_else(path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    cast = start(path)
    cast.output(b"kept")
    size = path.stat().st_size
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
        cast.output(b"x" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    cast.output(b"more")
    cast.resize(1, 1)
    cast.close(exit=0)
    assert "stopped: no space left" in cast.fault
    assert events(path) == [("o", "kept")]
    assert cast.bytes_out == 108


def test_a_folder_that_is_not_there_is_a_fault_not_an_error(tmp_path: Path) -> None:
    cast = start(tmp_path / "no" / "1.cast")
    cast.output(b"x")
    cast.typed(b"x", "operator")
    cast.close(exit=0)
    assert cast.fault.startswith("cannot open the recording")
