"""What was run in a cell, as rows: joined, counted, and never a byte that a screen would obey."""

from __future__ import annotations

from pathlib import Path

from cell.events import Egress
from cell.trials.commands import CommandLog, read, text_lines
from screenshots.invented import Cast, trial

HARBOR = Path(__file__).parents[1] / "fixtures/harbor-0.25.0/jobs"
DEMO = Path(__file__).parents[2] / "hudtui/data/demo"
EVIL = "\x1b[2J\x1b]0;owned\x07\x1bPq#0\x1b\\\u202egnp.exe\x07\x9b2J\n"


def hit(*, allowed: bool) -> Egress:
    return Egress(
        hit=1, phase="agent", way="proxy", method="GET", host="a.example", port=80, allowed=allowed, session=1
    )


def test_a_row_is_the_session_its_output_and_its_hits(tmp_path: Path) -> None:
    sessions = (
        Cast("make test", [(0.1, "cc main.c\r\n"), (2.0, "\x1b[31mfailed\x1b[0m\n")], 2, tty=False),
        Cast(None, [(0.1, "$ ")], None),
    )
    path = trial(
        tmp_path, "task", "aaaaaaa", sessions=sessions, happened=[hit(allowed=True), hit(allowed=False)]
    )
    first, second = read(path, alive=True)
    assert (first.n, first.command, first.exit, first.running) == (1, "make test", 2, False)
    assert first.output == ("cc main.c", "failed")
    assert (first.hits, first.denied, first.ms) == (2, 1, 2000.0)
    assert (second.command, second.running, second.exit) == ("", True, None)
    assert not read(path)[1].running, "in a cell that is gone nothing runs"


def test_a_log_that_grows_is_followed(tmp_path: Path) -> None:
    log = CommandLog(tmp_path / "task__aaaaaaa")
    assert log.read() == ()
    trial(tmp_path, "task", "aaaaaaa", sessions=[Cast("ls", [(0.1, "a\n")])])
    (row,) = log.read()
    assert row.output == ("a",)
    assert log.read()[0] is row, "what has ended is read once"


def test_nothing_that_was_printed_is_obeyed_by_a_screen(tmp_path: Path) -> None:
    path = trial(tmp_path, "task", "aaaaaaa", sessions=[Cast(EVIL, [(0.1, EVIL * 2)])])
    (row,) = read(path)
    shown = row.command + "".join(row.output)
    assert not any(char in shown for char in "\x1b\x07\u202e\x9b\n")
    assert "gnp.exe" in shown, "what is no control is there"


def test_lines_as_a_person_saw_them() -> None:
    assert text_lines("10 %\r20 %\rdone\r\nnext\r\n\r\n") == ("done", "next")
    assert len(text_lines("x\n" * 100_000)) == 400
    assert text_lines("$ 34567890 \r1234567890 \rab\rAB\r\n", 10) == ("AB",)
    wrapped = "$ 34567890 \r1234567890 \rab\r\n"
    assert text_lines(wrapped, 10) == ("$ 345678901234567890ab",), "as bash goes on in the next row"
    assert text_lines(wrapped) == ("ab",), "without a terminal there are no rows"
    assert text_lines("x" * 10_000_000)[0].endswith("…")


def test_a_long_output_says_that_there_is_more(tmp_path: Path) -> None:
    path = trial(tmp_path, "task", "aaaaaaa", sessions=[Cast("yes", [(0.1, "y\n" * 1000)])])
    (row,) = read(path)
    assert row.more
    assert len(row.output) == 400


def test_what_harbors_agents_kept(tmp_path: Path) -> None:
    folder = tmp_path / "trial/agent/command-1"
    folder.mkdir(parents=True)
    for name, text in (("command.txt", "pip list\n"), ("stdout.txt", "none\n"), ("return-code.txt", "1\n")):
        (folder / name).write_text(text)
    (row,) = read(tmp_path / "trial")
    assert (row.name, row.command, row.exit, row.output) == ("command-1", "pip list", 1, ("none",))
    for found in HARBOR.glob("*/*__*"):
        read(found)


def test_torn_and_hostile_files_are_no_reason_to_stop(tmp_path: Path) -> None:
    path = trial(tmp_path, "task", "aaaaaaa", sessions=[Cast("ls", [(0.1, "a\n")])])
    cast = path / "cell/sessions/1.cast"
    cast.write_bytes(b'{"version": 2}\nnot json\n[1,2]\n[0.1, "o", 7]\n[0.2, "o", "ok\\n"]\n[9, "o", "to')
    assert read(path)[0].output == ("ok",)
    cast.unlink()
    cast.symlink_to("/etc/passwd")
    assert read(path)[0].output == ()


def test_a_command_longer_than_its_terminal_is_whole() -> None:
    rows = [row for path in DEMO.glob("*/sum-fails__*") for row in read(path)]
    typed = [row.output[0] for row in rows if row.output and "PS1=" in row.output[0]]
    assert typed, "somebody typed a long line in the recorded job"
    for first in typed:
        assert first.startswith("bash-5.2# PS1='") and first.endswith("; clear")
