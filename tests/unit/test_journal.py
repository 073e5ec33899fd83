from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from cell import journal
from cell.errors import HarnessError
from cell.events import AnyEvent, CellStarted, Fault, GateCall, PhaseChanged, VerdictGiven
from cell.journal import Journal, Tail

EVENTS: list[AnyEvent] = [
    CellStarted(cell="abc", task="t", agent="oracle", substrate="local"),
    PhaseChanged(phase="agent", by="runner"),
    GateCall(principal="viewer", method="type", detail="\x1b[31m ü\u202e\n", allowed=False, reason="no"),
    VerdictGiven(verdict="graded", rewards={"reward": 1.0}),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def write(path: Path, events: list[AnyEvent] = EVENTS) -> None:
    with Journal(path) as book:
        for n, event in enumerate(events):
            book.append(event, t=float(n))


def test_what_is_appended_is_read_back_numbered_and_chained(path: Path) -> None:
    with Journal(path) as book:
        written = [book.append(event, t=1.5) for event in EVENTS]
        assert repr(book) == f"<Journal {path} seq=4>"
    assert list(journal.read(path)) == written
    assert [line.seq for line in written] == [1, 2, 3, 4]
    assert [line.prev for line in written] == ["", *(line.hash for line in written[:-1])]
    assert journal.verify(path) is None


def test_the_hash_is_over_the_json_without_it(path: Path) -> None:
    import hashlib
    import json

    write(path)
    for raw in path.read_text().splitlines():
        line = json.loads(raw)
        digest = line.pop("hash")
        body = json.dumps(line, separators=(",", ":"), ensure_ascii=False)
        assert hashlib.sha256(body.encode()).hexdigest() == digest


def test_reopening_continues_the_chain(path: Path) -> None:
    write(path)
    write(path)
    assert [line.seq for line in journal.read(path)] == list(range(1, 9))
    assert journal.verify(path) is None


@pytest.mark.parametrize("size", [10, 70_000, 300_000])
def test_reopening_finds_the_last_line_whatever_its_length(path: Path, size: int) -> None:
    write(path, [Fault(where="a", message="x" * size)])
    write(path, [Fault(where="b", message="y" * size)])
    write(path, [Fault(where="c", message="z")])
    assert [line.seq for line in journal.read(path)] == [1, 2, 3]
    assert journal.verify(path) is None


def test_a_file_cut_anywhere_is_readable_and_repaired(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    write(whole)
    data = whole.read_bytes()
    for cut in range(len(data)):
        path = tmp_path / "cut"
        path.write_bytes(data[:cut])
        kept = data[:cut].count(b"\n")
        torn = not data[:cut].endswith(b"\n") and cut > 0
        assert len(list(journal.read(path))) == kept
        assert (journal.verify(path) is not None) == torn
        write(path, EVENTS[:1])
        lines = list(journal.read(path))
        assert len(lines) == kept + torn + 1
        assert isinstance(lines[kept].event, Fault) == torn
        assert journal.verify(path) is None


def test_an_unreadable_last_line_is_kept_and_named(path: Path) -> None:
    write(path)
    with path.open("ab") as file:
        file.write(b"\0\0\0 not json\n")
    write(path, EVENTS[:1])
    events = [line.event for line in journal.read(path)]
    assert isinstance(events[4], Fault) and "line 5" in events[4].message
    assert (journal.verify(path) or "").startswith("seq 5: the line cannot be read")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda lines: [lines[0], lines[2], lines[3]], "seq 2: the line says it is 3"),
        (lambda lines: [lines[0], lines[1].replace(b"runner", b"viewer")], "seq 2: the line was changed"),
        (lambda lines: [*lines, lines[3]], "seq 5: the line says it is 4"),
        (lambda lines: [lines[0], lines[1].replace(b'"prev":"', b'"prev":"0')], "seq 2: it does not follow"),
        (lambda lines: [lines[0].replace(b"hash", b"hush")], "seq 1: the line cannot be read"),
        (lambda lines: [lines[0], b"{}\n"], "seq 2: the line cannot be read"),
        (lambda lines: [lines[0], lines[1][:-1] + b" \n"], "seq 2: the line was changed"),
    ],
)  # fmt: skip
def test_a_change_is_seen(path: Path, change, reason: str) -> None:
    write(path)
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    assert (journal.verify(path) or "").startswith(reason)


def test_a_kind_of_a_later_version_is_passed_over_and_still_verified(path: Path) -> None:
    class Later(Fault, tag="later"):
        more: int = 3

    with Journal(path) as book:
        book.append(Later(where="x", message="y"))
        book.append(EVENTS[0])
    assert [line.seq for line in journal.read(path)] == [2]
    assert journal.verify(path) is None


def test_text_that_is_not_utf8_is_written_all_the_same(path: Path) -> None:
    with Journal(path) as book:
        line = book.append(Fault(where="x", message=os.fsdecode(b"a\xff")))
    assert list(journal.read(path)) == [line]
    assert line.event == Fault(where="x", message="a\\udcff")


def test_a_second_writer_is_refused_until_the_first_closes(path: Path) -> None:
    with Journal(path), pytest.raises(HarnessError, match="another process"):
        Journal(path)
    Journal(path).close()


def test_a_closed_journal_or_a_missing_folder_is_a_harness_error(tmp_path: Path) -> None:
    book = Journal(tmp_path / "e")
    book.close()
    book.close()
    with pytest.raises(HarnessError):
        book.append(EVENTS[0])
    with pytest.raises(HarnessError, match="No such file"):
        Journal(tmp_path / "no" / "e")


def test_a_full_disk_leaves_the_file_whole_and_a_later_append_works(path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    book = Journal(path)
    try:
        book.append(EVENTS[0])
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, hard))  # the first 50 bytes still fit
        with pytest.raises(HarnessError, match="cannot write the journal"):
            book.append(EVENTS[1])
        assert path.stat().st_size == size
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert book.append(EVENTS[1]).seq == 2
    book.close()
    assert journal.verify(path) is None


def test_a_killed_writer_loses_at_most_the_line_being_written(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from cell.journal import Journal; from cell.events import Fault\n"
        "book = Journal(Path(sys.argv[1]))\n"
        "while True: print(book.append(Fault(where='x', message='y' * 5000)).seq, flush=True)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    for _ in range(50):
        child.stdout.readline()
    child.kill()
    said = 50 + len(child.stdout.read().splitlines())
    child.wait()
    child.stdout.close()
    assert len(list(journal.read(path))) >= said - 1
    write(path)
    assert journal.verify(path) is None


def test_tail_gives_each_line_once_as_it_becomes_whole(path: Path) -> None:
    tail = Tail(path)
    assert tail.poll() == []
    write(path)
    lines = list(journal.read(path))
    data = path.read_bytes()
    path.write_bytes(b"")
    got = []
    with path.open("ab", buffering=0) as file:
        for n in range(0, len(data), 7):
            file.write(data[n : n + 7])
            got += tail.poll()
    assert got == lines
    assert tail.poll() == []
    assert Tail(path, tail.offset).poll() == []


def test_tail_survives_a_repair_a_replacement_and_a_removal(path: Path) -> None:
    tail = Tail(path)
    write(path)
    with path.open("ab") as file:
        file.write(b'{"torn')
    assert len(tail.poll()) == 4
    assert tail.poll() == []
    write(path, EVENTS[:1])
    assert [line.seq for line in tail.poll()] == [5, 6]
    new = path.with_name("new")
    write(new, EVENTS[:2])
    new.replace(path)
    assert [line.seq for line in tail.poll()] == [1, 2]
    path.unlink()
    assert tail.poll() == []


def test_tail_reads_a_line_longer_than_a_poll(path: Path) -> None:
    write(path, [Fault(where="x", message="y" * (9 << 20)), *EVENTS])
    tail = Tail(path)
    seen = tail.poll()
    while more := tail.poll():
        seen += more
    assert [line.seq for line in seen] == [1, 2, 3, 4, 5]


def test_lines_are_immutable(path: Path) -> None:
    with Journal(path) as book, pytest.raises(AttributeError):
        book.append(EVENTS[0]).seq = 9  # type: ignore[misc]
    assert msgspec.structs.fields(journal.Line)
