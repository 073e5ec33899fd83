"""Ten gradings of one kept cell: what they came to, and what stands beside a list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cell.changes import KINDS
from cell.records import Regrade, Verdict, encode
from hudtui.acting import operating
from hudtui.frame.sorting import ask_sort
from hudtui.lines import spread
from hudtui.lines.spread import grade_once, spread_lines
from hudtui.panes.copying import CopyingPane
from hudtui.views.beside import BesidePane
from screenshots.invented import Cast, this_process, trial

from .conftest import Open


def said(*results: str) -> str:
    return "\n".join(one.text for one in spread_lines(results))


def test_the_same_each_time_is_said() -> None:
    assert "always the same" in said(*["reward 1"] * 10)


def test_how_far_they_lie_apart_is_said() -> None:
    text = said(*["reward 1"] * 7, *["reward 0"] * 3)
    assert "2 different results" in text
    assert re.search(r" 7 × █{7}  reward 1", text)
    assert re.search(r" 3 × █{3}  reward 0", text)
    assert text.index("reward 1") < text.index("reward 0")


async def test_a_grading_that_is_refused_says_why(tmp_path: Path) -> None:
    assert (await grade_once(str(tmp_path / "nothing"))).startswith("not graded: ")


async def test_ten_gradings_from_the_menu(tmp_path: Path, cockpit: Open, monkeypatch) -> None:
    async def once(path: str) -> str:
        return "reward 1"

    monkeypatch.setattr(spread, "grade_once", once)
    trial(tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="finished", kept=True)
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("r", "j", "j", "enter")
        await hud.app.workers.wait_for_complete()
        await hud.pilot.pause()
        assert "aaaaaaa graded 10 times" in hud.screen
        assert "always the same" in hud.screen


@pytest.mark.parametrize("change", KINDS)
async def test_a_grading_with_one_thing_changed_is_started_from_the_menu(
    change: str, tmp_path: Path, cockpit: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(
        operating, "start_cell", lambda words, _, *, done: started.append(list(words)) or "started"
    )
    path = trial(tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="finished", kept=True)
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("r", *"jjj", *("j" * KINDS.index(change)), "enter")
        assert "started" in hud.footer
    assert started == [["grade", str(path), "--with", change]]


async def test_what_such_a_grading_gave_stands_beside_the_score(tmp_path: Path, cockpit: Open) -> None:
    failed = Verdict(verdict="graded", rewards={"reward": 0.0})
    path = trial(tmp_path / "jobs/job", "task", "aaaaaaa", verdict=failed)
    passed = Verdict(verdict="graded", rewards={"reward": 1.0}, notes=("\x1b[2J",))
    evil = Regrade(
        t=2.0, attempt=3, change="\x1b]0;x\x07", who="", verdict=Verdict(verdict="ungraded", fault="\x1b")
    )
    good = Regrade(t=1.0, attempt=2, change="timeout=x4", who="ada", verdict=passed)
    lines = (encode(good), b"torn", encode(evil))
    (path / "cell/regrades.jsonl").write_bytes(b"\n".join(lines))
    kept = path / "cell/regrades/2/verifier"
    kept.mkdir(parents=True)
    (kept / "test-stdout.txt").write_text("what it said with more time\n")
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("enter")
        assert re.search(r"with timeout=x4 +1\.00", hud.screen)
        assert "× 0.00" in hud.screen, "the score"
        assert "\x1b" not in hud.screen and "with ␛]0;x␇" in hud.screen
        hud.app.verdict.to_evidence()
        await hud.press("enter")
        assert "what it said with more time" in hud.screen
        assert [job.graded_mean for job in hud.app.snapshot.jobs] == [0.0]


async def test_what_stands_beside_the_fleet_keeps_one_screen(tmp_path: Path, cockpit: Open) -> None:
    shell = Cast(None, [(0.1, "beside\r\n")], exit=None)
    trial(tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="agent", sessions=[shell])
    async with cockpit(tmp_path / "jobs", size=(120, 40)) as hud:
        term = hud.app.fleet.term
        assert isinstance(term, BesidePane)
        assert "beside" in hud.screen
        await hud.press("w")
        assert term.engine is None, "what nobody looks at is not read"
        assert isinstance(hud.app.sessions.term, CopyingPane)
        await hud.press("1", "S", "j", "enter")
        assert hud.app.fleet.sort[0]
        assert callable(ask_sort)
