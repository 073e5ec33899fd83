"""Views 5 and 7, and another allowlist: what a person sees, also of hostile, missing and growing records."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from cell import records
from cell.events import Egress, Intervention
from cell.records import CellInfo, Identity, Limit, Namespace
from hudtui.film import Film, Mark
from hudtui.identity_doc import CAPABILITIES, capabilities, ruler
from hudtui.replay_doc import mark_lines
from hudtui.replay_pane import ReplayPane
from hudtui.timeline import place, rows, words
from hudtui.view_egress import EgressView
from hudtui.view_identity import IdentityView
from hudtui.view_replay import ReplayView
from hudtui.what_if import edit, outcome, outcome_lines
from screenshots.invented import NOW, Cast, this_process, trial

from .conftest import Open
from .replay_keys import printed, replay
from .test_egress import hit, told

HARBOR = Path(__file__).parents[1] / "fixtures/harbor-0.25.0/jobs"
SIZES = ((80, 24), (120, 40), (200, 60))
EVIL = "\x1b[2J\x1b]0;owned\x07[red]markup[/red]\u202egnp.exe"


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize(
    ("name", "keys"),
    [("replay", "jjj\n7nnnnnn"), ("identity", "jjj\n5"), ("what-if", "4!Ge")],
    ids=["replay", "identity", "what-if"],
)
async def test_picture(
    name: str, keys: str, size: tuple[int, int], jobs: Path, cockpit: Open, picture
) -> None:
    named = {"\n": "enter", "!": "exclamation_mark"}
    async with cockpit(jobs, size=size) as hud:
        await hud.press(*(named.get(key, key) for key in keys))
        picture(hud.app, f"{name}_{size[0]}x{size[1]}")


# ── replay ────────────────────────────────────────────────────────────────────────────────────


def running(tmp_path: Path, *output: tuple[float, str], exit: int | None = None) -> Path:
    return trial(
        tmp_path / "jobs/job",
        "task",
        "aaaaaaa",
        serve=this_process(),
        phase="agent",
        took=100,
        sessions=(Cast("work [x]", output, exit=exit),),
    )


async def test_without_a_cell_in_scope_it_is_the_one_chosen_on_fleet(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        for _ in range(3):
            chosen = hud.app.fleet.trial()
            assert chosen is not None
            await hud.press("7")
            assert hud.app.scope is None
            assert f"{chosen.id} {chosen.task}" in hud.screen
            await hud.press("1", "j")


async def test_without_any_cell_it_says_how_to_choose_one(tmp_path: Path, cockpit: Open) -> None:
    async with cockpit(tmp_path) as hud:
        await hud.press("7")
        assert "Replay is about one cell" in hud.screen
        for key in ("space", "left", "right", "n", "N", "g", "G", "comma", "full_stop", "enter", "z", "tab"):
            await hud.press(key)
        assert "Replay is about one cell" in hud.screen


async def test_a_session_that_runs_is_as_long_as_it_has_run(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        await hud.press("enter", "7")
        assert "of 04:08" in hud.screen


async def test_harbors_trials_say_which_record_is_missing(cockpit: Open) -> None:
    async with cockpit(HARBOR / "demo-oracle") as hud:
        await hud.press("slash")
        await hud.type("task:solvefail")
        await hud.press("enter", "enter", "7")
        assert "cell/sessions/N.cast" in hud.screen
        assert "cell run" in hud.screen
        assert "2 Sessions" in hud.screen, "what was kept without times is elsewhere"
        await hud.press("5")
        assert "cell/cell.json" in hud.screen
        await hud.press("0")
        assert "Harbor keeps no identity" in hud.screen


async def test_a_live_session_is_followed_and_left_where_one_is(tmp_path: Path, cockpit: Open) -> None:
    path = running(tmp_path, (0.5, "one\r\n"))
    cast = path / "cell/sessions/1.cast"
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("enter", "7", "G")
        assert "live" in hud.screen
        with cast.open("a") as out:
            out.write(json.dumps([97.0, "o", "two\r\n"]) + "\n")
        replay(hud).advance(0.1)
        replay(hud).advance(0.1)
        assert printed(hud) == "one\ntwo\n"
        await hud.press("g")
        await hud.press("space")
        with cast.open("a") as out:
            out.write(json.dumps([98.0, "o", "three\r\n"]) + "\n")
        await hud.look()
        assert "three" not in printed(hud), "who looks at a moment keeps it"


async def test_a_recording_that_is_written_anew_begins_anew(tmp_path: Path, cockpit: Open) -> None:
    path = running(tmp_path, (0.5, "first\r\n" * 50))
    cast = path / "cell/sessions/1.cast"
    head = cast.read_text().split("\n")[0]
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("enter", "7", "G")
        assert "first" in printed(hud)
        cast.write_text(head + "\n" + json.dumps([0.1, "o", "anew\r\n"]) + "\n")
        await hud.look()
        await hud.press("G")
        assert printed(hud) == "anew\n"


async def test_marks_come_from_the_journal_too(tmp_path: Path, cockpit: Open) -> None:
    path = running(tmp_path, (0.5, "x"), (90.0, "y"))
    denied = Egress(
        hit=1,
        phase="agent",
        way="proxy",
        method="GET",
        host="evil.example",
        port=80,
        allowed=False,
        session=1,
    )
    other = Egress(
        hit=2,
        phase="agent",
        way="proxy",
        method="GET",
        host="other.example",
        port=80,
        allowed=False,
        session=7,
    )
    told(
        path,
        (NOW - 60, denied),
        (NOW - 50, other),
        (NOW - 40, Intervention(principal="operator", what="did")),
    )
    async with cockpit(tmp_path / "jobs", size=(200, 60)) as hud:
        await hud.press("enter", "7")
        assert "GET evil.example:80" in hud.screen
        assert "other.example" not in hud.screen, "what another session tried is not here"
        assert "did" in hud.screen
        await hud.press("n")
        assert replay(hud).term.now == pytest.approx(38.9)
        await hud.pilot.click("#replay-time", offset=(100, 1))
        assert 30 < replay(hud).term.now < 70


async def test_nothing_in_a_recording_reaches_the_screen_unparsed(tmp_path: Path, cockpit: Open) -> None:
    path = running(tmp_path, (0.5, "quiet"))
    with (path / "cell/sessions/1.cast").open("a") as out:
        out.write(json.dumps([1.0, "m", EVIL]) + "\n")
        out.write(json.dumps([1.5, "i", EVIL + "\r"]) + "\n")
        out.write('{"torn": \n[1, 2]\n[1e999, "o", "x"]\nnot json\n')
    told(path, (NOW - 60, Intervention(principal="operator", what=EVIL)))
    async with cockpit(tmp_path / "jobs", size=(200, 60)) as hud:
        await hud.press("enter", "7", "n", "n", "n")
        assert "\x1b" not in hud.screen
        assert "\u202e" not in hud.screen
        assert "[red]markup[/red]" in hud.screen
        await hud.press("enter")
        assert "work [x]" in hud.screen


async def test_the_moment_of_a_hit_without_session_is_what_ran_then(tmp_path: Path, cockpit: Open) -> None:
    path = running(tmp_path, (0.5, "x"), (90.0, "y"))
    denied = Egress(
        hit=1, phase="agent", way="transparent", method="TCP", host="192.0.2.1", port=80, allowed=False
    )
    told(path, (NOW - 60, denied), (NOW - 150, msgspec.structs.replace(denied, hit=2)))
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("4", "G", "t")
        assert replay(hud).term.now == pytest.approx(38.9)
        assert "session 1 is what ran then" in hud.footer
        await hud.press("4", "g", "t")
        assert "no recording covers that moment" in hud.footer


def test_the_timeline_shows_where_one_is_whatever_is_there() -> None:
    film = Film()
    marks = [Mark(2.0, "deny", "a"), Mark(2.0, "input", "b"), Mark(9.0, "end", "end")]
    for now in (0.0, 2.0, 9.9):
        for row in rows(film, marks, now, 10.0, 40)[:2]:
            assert len("".join(text for text, _ in row)) <= 40
    (_, below, _) = rows(film, marks, 5.0, 10.0, 40)
    assert "".join(text for text, _ in below) == " " * 8 + "×" + " " * 11 + "│" + " " * 15 + "■"
    assert (place(5.0, 0.0, 40), place(50.0, 10.0, 40), place(-1.0, 10.0, 40)) == (0, 39, 0)
    assert words([], 1.0, 40) == []


def test_the_list_of_marks_knows_where_one_is() -> None:
    marks = [Mark(1.0, "mark", "a"), Mark(2.0, "mark", "b")]
    assert mark_lines(marks, 0.0)[1] == 0
    lines, at = mark_lines(marks, 2.5)
    assert (at, lines[1].text.startswith("▸")) == (1, True)


# ── identity ──────────────────────────────────────────────────────────────────────────────────


def test_capabilities_have_names() -> None:
    assert capabilities("0000000000000000") == []
    assert capabilities("00000000a80425fb") == [
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "SETGID",
        "SETUID",
        "SETPCAP",
        "NET_BIND_SERVICE",
        "NET_RAW",
        "SYS_CHROOT",
        "MKNOD",
        "AUDIT_WRITE",
        "SETFCAP",
    ]
    assert len(capabilities("000001ffffffffff") or ()) == len(CAPABILITIES) == 41
    assert capabilities("8000000000000000") == ["#63"]
    assert capabilities("junk") is None
    assert capabilities("-1") is None
    assert capabilities("f" * 40) is None


def test_both_rulers_are_of_one_length() -> None:
    for ranges in ([(0, 0, 4294967295)], [(0, 1000, 1)], [(0, 100000, 1000), (1000, 1000, 1), (1001, 1, 9)]):
        inside, outside = ruler("uid", ranges)
        assert inside.text.rstrip() != ""
        assert len(inside.text) == len(
            outside.text.rstrip().removesuffix("every id, the same outside").rstrip() + "  "
        )
    assert "not recorded" in ruler("uid", [])[0].text
    assert "and 3 more" in ruler("uid", [(n * 10, n * 10 + 5, 2) for n in range(8)])[1].text


async def test_a_leak_is_said_in_red_and_evil_names_are_harmless(tmp_path: Path, cockpit: Open) -> None:
    path = running(tmp_path, (0.5, "x"))
    known = Identity(
        namespaces=(
            Namespace(kind="net", inode=1, shared=True),
            Namespace(kind=EVIL, inode=2, shared=False),
            Namespace(kind="time", inode=3, shared=True),
        ),
        hostname=EVIL,
        root=EVIL,
        seccomp=EVIL,
        full_id_map=False,
        limits=(Limit(name="memory", value="1 GiB", enforced=False, why=EVIL),),
        notes=(EVIL,),
    )
    file = path / "cell/cell.json"
    info = msgspec.json.decode(file.read_bytes(), type=CellInfo)
    file.write_bytes(records.encode(msgspec.structs.replace(info, identity=known)))
    async with cockpit(tmp_path / "jobs", size=(200, 60)) as hud:
        await hud.press("5")
        assert "shares net" in hud.screen
        await hud.press("1", "enter", "5")
        assert "1 shared with the machine: a leak" in hud.screen
        assert "shared, as in a container" in hud.screen
        assert "not enforced" in hud.screen
        assert "only the own id is mapped" in hud.screen
        assert "\x1b" not in hud.screen
        assert "\u202e" not in hud.screen
        file.write_text("{")
        await hud.look()
        assert "a leak" in hud.screen, "torn at the moment: what was known is still true"
        file.unlink()
        await hud.look()


# ── another allowlist ─────────────────────────────────────────────────────────────────────────


def test_an_edit_is_read_word_by_word() -> None:
    change = edit("a.example, +*.b.example -c.example 192.0.2.0/24:443 http://x + -")
    assert [each.text for each in change.more] == ["a.example", "*.b.example", "192.0.2.0/24:443"]
    assert change.less == ("c.example",)
    assert change.wrong == ("http://x must be a host, without scheme",)


def test_only_what_the_list_decided_is_decided_again() -> None:
    hits = [
        hit(host="a.b.example", rule="allowlist"),
        hit(host="b.example", rule="no-network"),
        hit(host="a.b.example", rule="address: private"),
        hit(host="a.b.example", port=80, rule="a.b.example:443"),
        hit(host="c.example", rule="c.example", allowed=True),
        hit(host="x.b.example", rule="x.b.example", allowed=True),
        hit(host="bad host", rule="allowlist"),
        hit(host="y.b.example", rule="owner"),
        hit(host="z.b.example", rule="limit"),
        hit(host="any host", port=0, rule="record limit"),
        hit(host="", rule="malformed"),
    ]
    found = outcome(hits, edit("*.b.example -c.example -x.b.example"))
    assert sorted(found.passing) == ["a.b.example:443", "a.b.example:80"]
    assert sorted(found.denied) == ["b.example:443", "bad host:443"]
    assert list(found.others) == ["a.b.example:443", ":443"]
    assert list(found.unknown) == ["y.b.example:443", "z.b.example:443", "any host"]
    said = "\n".join(one.text for one in outcome_lines(found, edit("*.b.example")))
    assert "would let 2 of 9 recorded denials through" in said
    assert "not known: no list was asked · 3" in said
    assert list(found.cut) == ["c.example:443"], "what another entry covers still passes"


async def test_each_view_knows_its_name_and_its_panes(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        kinds = {"egress": EgressView, "identity": IdentityView, "replay": ReplayView}
        for name, kind in kinds.items():
            view = hud.app.views[name]
            assert isinstance(view, kind)
            assert view.panes()
        assert isinstance(replay(hud).term, ReplayPane)
        assert not replay(hud).term.turn(), "the view gives the turns, no timer of the pane"
