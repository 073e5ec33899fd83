"""Views 5 and 7, and another allowlist: what a person sees, also of hostile, missing and growing records."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from cell.events import Egress, Intervention
from hudtui.lines.marks import mark_lines
from hudtui.panes.replay import ReplayPane
from hudtui.panes.timeline import place, rows, words
from hudtui.recordings.film import Film, Mark
from hudtui.views.egress import EgressView
from hudtui.views.identity import IdentityView
from hudtui.views.replay import ReplayView
from screenshots.invented import NOW, Cast, this_process, trial

from .conftest import EVIL, SIZES, Open
from .replay_keys import printed, replay
from .test_egress import told

HARBOR = Path(__file__).parents[1] / "fixtures/harbor-0.25.0/jobs"


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_picture(size: tuple[int, int], jobs: Path, cockpit: Open, picture) -> None:
    async with cockpit(jobs, size=size) as hud:
        await hud.press("j", "j", "j", "enter", "7", *"nnnnnn")
        picture(hud.app, f"replay_{size[0]}x{size[1]}")


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
        out.write(json.dumps([1.5, "i", EVIL.replace("\n", "")]) + "\n")
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
    told = "".join(text for text, _ in words([Mark(1.0, "input", "a long line that was typed")], 1.0, 40))
    assert "a long l" in told and "…" in told


def test_the_list_of_marks_knows_where_one_is() -> None:
    marks = [Mark(1.0, "mark", "a"), Mark(2.0, "mark", "b")]
    assert mark_lines(marks, 0.0)[1] == 0
    lines, at = mark_lines(marks, 2.5)
    assert (at, lines[1].text.startswith("▸")) == (1, True)


async def test_each_view_knows_its_name_and_its_panes(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        kinds = {"egress": EgressView, "identity": IdentityView, "replay": ReplayView}
        for name, kind in kinds.items():
            view = hud.app.views[name]
            assert isinstance(view, kind)
            assert view.panes()
        assert isinstance(replay(hud).term, ReplayPane)
        assert not replay(hud).term.turn(), "the view gives the turns, no timer of the pane"
