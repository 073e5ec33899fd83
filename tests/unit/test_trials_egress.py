"""Attempts to leave, read from journals that grow, tear and lie."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from cell import records
from cell.events import Egress, EgressEnd, Line, PhaseChanged
from cell.filters import parse
from cell.trials import Trial
from cell.trials.egress import EgressReader, by_host, denied_within, read, values


def attempt(hit: int, host: str = "pkg.example", **more: object) -> Egress:
    given = {"phase": "agent", "way": "proxy", "method": "CONNECT", "port": 443, "allowed": True} | more
    return Egress(hit=hit, host=host, **given)  # type: ignore[arg-type]


def journal(trial: Path, *told: tuple[float, object], mode: str = "ab") -> Path:
    (trial / "cell").mkdir(parents=True, exist_ok=True)
    file = trial / "cell/events.jsonl"
    with file.open(mode) as out:
        for n, (t, event) in enumerate(told, 1):
            out.write(records.encode(Line(seq=n, t=t, event=event)) + b"\n")  # type: ignore[arg-type]
    return file


def known(path: Path, **more: object) -> Trial:
    given = {"name": path.name, "id": "aaaaaaa", "job": "j", "task": "t", "agent": "a", "state": "running"}
    return Trial(path=str(path), **(given | {"origin": "cell"} | more))  # type: ignore[arg-type]


def test_an_attempt_is_joined_with_its_end(tmp_path: Path) -> None:
    journal(
        tmp_path / "task__abcdefg",
        (1.0, attempt(1)),
        (1.1, PhaseChanged(phase="sealed", by="runner")),
        (1.2, attempt(2, "evil.example", allowed=False, reason="not listed", status=403)),
        (1.5, EgressEnd(hit=1, status=200, sent=10, received=2000, ms=500.0, sni="pkg.example", ech=True)),
    )
    first, second = read(tmp_path / "task__abcdefg")
    assert (first.cell, first.task, first.t) == ("abcdefg", "task", 1.0)
    assert (first.status, first.sent, first.received, first.ms, first.open) == (200, 10, 2000, 500.0, False)
    assert first.sni == "pkg.example"
    assert (first.ech, second.ech, first.as_dict()["ech"]) == (True, False, True)
    assert (second.decision, second.status, second.open) == ("deny", 403, True)


def test_an_end_keeps_what_only_the_beginning_knew(tmp_path: Path) -> None:
    denied = attempt(1, allowed=False, status=403, sni="a.example")
    journal(tmp_path, (1.0, denied), (1.0, EgressEnd(hit=1, error="reset")))
    (hit,) = read(tmp_path)
    assert (hit.status, hit.sni, hit.error, hit.open) == (403, "a.example", "reset", False)


def test_torn_and_foreign_lines_are_passed_over(tmp_path: Path) -> None:
    file = journal(tmp_path, (1.0, attempt(1)))
    whole = records.encode(Line(seq=2, t=2.0, event=attempt(2)))
    file.write_bytes(
        file.read_bytes()
        + b'{"seq":9,"t":1.0,"event":{"kind":"egress"}}\n{"egress\n[1]\n'
        + b'{"t":1,"event":{"kind":"egress-end","hit":77}}\n'
        + whole[: len(whole) // 2]
    )
    assert [hit.hit for hit in read(tmp_path)] == [1]


def test_there_is_nothing_where_nothing_was_recorded(tmp_path: Path) -> None:
    assert read(tmp_path / "gone") == []


def test_text_from_inside_is_neutralised(tmp_path: Path) -> None:
    evil = "\x1b[2J\u202egnp\r\n"
    journal(
        tmp_path,
        (1.0, attempt(1, evil, path=evil, command=evil, sni=evil, reason=evil, rule=evil, method=evil)),
        (2.0, EgressEnd(hit=1, sni=evil, error=evil)),
    )
    (hit,) = read(tmp_path)
    shown = "".join(str(value) for value in hit.as_dict().values())
    assert shown.isprintable()
    assert "<202E>" in hit.host


def test_a_reader_takes_in_only_what_is_new(tmp_path: Path) -> None:
    one, two = tmp_path / "a__1111111", tmp_path / "b__2222222"
    journal(one, (1.0, attempt(1)), (3.0, attempt(2)))
    journal(two, (2.0, attempt(1)))
    reader = EgressReader()
    trials = [known(one), known(two, id="bbbbbbb"), known(tmp_path / "h", origin="harbor")]
    assert reader.scan(trials)
    assert [(hit.cell, hit.hit) for hit in reader.hits] == [("aaaaaaa", 1), ("bbbbbbb", 1), ("aaaaaaa", 2)]
    before = reader.hits
    assert not reader.scan(trials)
    assert reader.hits is before
    journal(two, (4.0, EgressEnd(hit=1, ms=9.0)), (5.0, attempt(2)))
    assert reader.scan(trials)
    assert [hit.ms for hit in reader.hits if hit.cell == "bbbbbbb"] == [9.0, 0.0]
    assert before != reader.hits, "what was handed out is never changed"
    assert reader.counts == {str(one): (2, 0), str(two): (2, 0)}
    assert reader.scan(trials[:1])
    assert {hit.cell for hit in reader.hits} == {"aaaaaaa"}


def test_a_journal_that_was_written_anew_is_read_anew(tmp_path: Path) -> None:
    journal(tmp_path, (1.0, attempt(1)), (1.0, attempt(2)))
    reader = EgressReader()
    reader.scan([known(tmp_path)])
    journal(tmp_path, (9.0, attempt(1, "other.example")), mode="wb")
    assert reader.scan([known(tmp_path)])
    assert [hit.host for hit in reader.hits] == ["other.example"]


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("decision:deny", True),
        ("decision:allow", False),
        ("host~evil phase:verifier", True),
        ("host:example", False),
        ("status:403 method:connect", True),
        ("port=443 ms<1", True),
        ("pip", True),
        ("EVIL", True),
        ("403", True),
        ("!pip", False),
        ("process~pip session=14", True),
        ("way:transparent | class:global", True),
        ("rule~nothing", False),
    ],
)
def test_the_filter_language_knows_a_hit(text: str, matches: bool, tmp_path: Path) -> None:
    told = attempt(
        1,
        "evil.example",
        allowed=False,
        phase="verifier",
        status=403,
        command="pip install x",
        session=14,
        address_class="global",
    )
    journal(tmp_path, (1.0, told))
    assert parse(text)(values(read(tmp_path)[0])) is matches


def test_denials_of_the_last_minute_are_counted(tmp_path: Path) -> None:
    journal(tmp_path, *((float(t), attempt(t, allowed=t % 2 == 0)) for t in range(1, 200)))
    assert denied_within(read(tmp_path), now=199.0) == 31
    assert denied_within(read(tmp_path), now=1000.0) == 0
    assert denied_within([], now=1.0) == 0


def test_hosts_are_added_up_over_all_cells(tmp_path: Path) -> None:
    journal(
        tmp_path,
        (1.0, attempt(1)),
        (1.0, EgressEnd(hit=1, sent=5, received=7)),
        (2.0, attempt(2, "evil.example", allowed=False, rule="none")),
        (3.0, attempt(3, "evil.example", allowed=False, rule="none", port=80, phase="verifier")),
    )
    evil, good = by_host(read(tmp_path))
    assert (evil.host, evil.hits, evil.denied, evil.ports, evil.last) == (
        "evil.example",
        2,
        2,
        (80, 443),
        3.0,
    )
    assert (evil.phases, evil.rules) == (("agent", "verifier"), ("none",))
    assert (good.denied, good.sent, good.received) == (0, 5, 7)


def test_an_address_of_six_is_written_in_brackets(tmp_path: Path) -> None:
    journal(tmp_path, (1.0, attempt(1, "2001:db8::1")), (1.0, attempt(2, "name.example", port=0)))
    assert [hit.place for hit in read(tmp_path)] == ["[2001:db8::1]:443", "name.example"]


def test_a_hit_travels_as_json(tmp_path: Path) -> None:
    journal(tmp_path, (1.0, attempt(1)))
    (hit,) = read(tmp_path)
    assert msgspec.json.decode(msgspec.json.encode(hit.as_dict()))["host"] == "pkg.example"
    assert time.time() > hit.t
