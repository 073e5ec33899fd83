"""Reaching into cells from the cockpit: many at once, new runs, and what is refused before it is asked."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from cell.records import PhaseName
from cell.trials import read_trial
from hudtui.acting import navigation, operating, starting
from hudtui.acting.operating import who_am_i
from hudtui.app import VIEW_CLASSES
from hudtui.lines.sessions import columns
from hudtui.panes.driven import ChannelFeed
from hudtui.panes.selecting import Spot
from hudtui.views.attaching import Attaching
from hudtui.views.commands import CommandsView
from hudtui.views.fleet import FleetView
from hudtui.views.listing import ListView
from hudtui.views.sessions import SessionsView
from hudtui.views.verdict import VerdictView
from hudtui.wire.asking import refusal, runtime_of
from hudtui.wire.ssh import SshWire
from screenshots.invented import NOW, this_process, trial

from .conftest import Open

HARBOR = Path(__file__).parents[1] / "fixtures/harbor-0.25.0/jobs"


async def test_marked_cells_are_stopped_when_their_number_is_typed(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        await hud.press("g", "space", "space", "j", "space", "x")
        assert "stop 2 marked cells: type 2 and enter" in hud.screen
        await hud.press("3", "enter")
        assert "nothing is stopped: 3 is not 2" in hud.footer
        await hud.press("x", "escape")
        assert not hud.wire.asked
        await hud.press("x", "2", "enter")
        assert [(cell, what) for cell, what, _ in hud.wire.asked] == [
            ("k3f9a1c", "stop"),
            ("b71e0d4", "stop"),
        ]
        assert "2 of 2 cells: stopped" in hud.footer


async def test_marked_cells_that_have_ended_are_not_asked(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        await hud.press("G", "space", "x")
        assert "has ended" in hud.footer


@pytest.mark.parametrize(
    ("phase", "method", "said"),
    [
        ("agent", "attach", ""),
        ("agent", "pause", ""),
        ("agent", "grade", "grade comes after the agent phase"),
        ("verifier", "attach", "the verifier is running"),
        ("verifier", "shell", "the verifier is running"),
        ("finished", "pause", "pause is for the phase agent"),
        ("finished", "grade", "not kept"),
        ("finished", "stop", ""),
    ],
)
def test_the_gates_reasons_are_told_before_it_is_asked(
    phase: str, method: str, said: str, tmp_path: Path
) -> None:
    path = trial(tmp_path, "task", "aaaaaaa", serve=this_process(), phase=phase)  # type: ignore[arg-type]
    reason = refusal(read_trial(path), method)
    assert said in reason
    assert bool(reason) == bool(said)


def test_what_is_no_living_cell_of_ours_is_refused(tmp_path: Path) -> None:
    assert refusal(None, "stop") == "no cell is chosen"
    harbors = read_trial(next(iter(HARBOR.glob("*/pass__*"))))
    assert "Harbor's record" in refusal(harbors, "attach")
    gone = read_trial(trial(tmp_path, "task", "aaaaaaa"))
    assert "has ended" in refusal(gone, "attach")
    assert runtime_of(gone) is None
    for ours in ("cell", ""):
        begun = trial(tmp_path, "task", f"ccccc{ours:2.2}", agent="human", finished=False)
        shutil.rmtree(begun / "cell")
        config = {"environment": {"import_path": "cell:local"}, "agent": {"name": "human"}, "trial_name": "x"}
        (begun / "config.json").write_text(json.dumps(config))
        if ours:
            (begun / "cell").mkdir()
        starting_ = read_trial(begun, now=NOW)
        assert (starting_.state, starting_.phase, starting_.origin) == ("running", "starting", "cell")
        assert refusal(starting_, "attach").endswith("is starting; there is no cell to ask yet")
    alive = read_trial(trial(tmp_path, "task", "bbbbbbb", serve=this_process(), phase="agent"))
    assert runtime_of(alive) == Path("/run/cell/bbbbbbb")
    assert "--read-only" in refusal(alive, "attach", read_only=True)


async def test_a_cell_that_does_not_answer_is_told_in_words(tmp_path: Path) -> None:
    wire = SshWire()
    for asked in (
        wire.call(tmp_path, "pause"),
        wire.attach(tmp_path, 1, take=False, who="ada"),
        wire.shell(tmp_path, "root", 80, 24),
    ):
        with pytest.raises(operating.WireError, match="does not answer"):
            await asked


async def test_a_run_starts_beside_the_others(
    jobs: Path, cockpit: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, Path]] = []
    monkeypatch.setattr(
        operating, "start_run", lambda words, where: started.append((words, where)) or "started"
    )
    for path in (jobs, next(jobs.iterdir())):
        async with cockpit(path) as hud:
            await hud.press("colon")
            await hud.type("run tasks/hello -a oracle")
            await hud.press("enter")
            assert "started" in hud.footer
    assert started == [("tasks/hello -a oracle", jobs)] * 2


def test_a_run_is_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(starting, "_started", [])
    monkeypatch.setattr(starting.subprocess, "Popen", lambda argv, **options: asked.append((argv, options)))
    said = starting.start_run("'my task' -a oracle", tmp_path / "jobs")
    assert said.startswith("started: cell run 'my task' -a oracle --jobs-dir")
    ((argv, options),) = asked  # type: ignore[misc]
    assert argv[0] == sys.executable
    assert " ".join(argv).partition(" -m ")[2].startswith("cell run my task -a oracle")
    assert options["start_new_session"]
    starting._started[0][1].close()
    assert starting.start_run("", tmp_path).startswith("run: which task?")
    assert starting.start_run("'", tmp_path) == "run: No closing quotation"
    monkeypatch.setattr(starting.subprocess, "Popen", _full)
    assert starting.start_run("x", tmp_path) == "run: no space left"


def test_a_run_that_cannot_be_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "_started", [])
    (tmp_path / ".hudtui-run.log").write_text("an older run's words\n")
    starting.start_cell(["plan", str(tmp_path / "nowhere")], tmp_path)
    starting.start_cell(["--version"], tmp_path)
    starting.start_cell(["--version"], tmp_path, done="it is graded")
    for process, _, _ in starting._started:
        process.wait(30)
    said, graded = starting.ended()
    assert graded == "it is graded"
    assert "nowhere" in said and "older" not in said
    assert starting.ended() == []


def _full(*_: object, **__: object) -> None:
    raise OSError(28, "no space left")


def test_the_views_in_the_order_of_their_keys() -> None:
    assert VIEW_CLASSES[:3] == (FleetView, SessionsView, CommandsView)
    assert VerdictView in VIEW_CLASSES
    assert issubclass(SessionsView, Attaching)
    assert issubclass(FleetView, ListView)


def test_a_shell_of_our_own_prints_once() -> None:
    feed = ChannelFeed()
    feed.add(b"a")
    feed.add(b"b")
    assert [step.data for step in feed.poll(1)] == [b"ab"]
    assert list(feed.poll(1)) == []


def test_selected_cells_are_in_reading_order() -> None:
    assert min(Spot(2, 0), Spot(1, 9)) == Spot(1, 9)


def test_names() -> None:
    assert "@" in who_am_i()
    assert " " not in who_am_i()
    assert len(columns(80)) < len(columns(120))
    assert navigation.Navigating.__doc__


@pytest.mark.parametrize(
    ("phase", "said"), [("agent", "goes as soon as its rollout is over"), ("finished", "it goes now")]
)
async def test_what_becomes_of_a_released_cell_is_said(
    phase: PhaseName, said: str, tmp_path: Path, cockpit: Open
) -> None:
    trial(tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase=phase, kept=True)
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("H")
        assert hud.wire.asked == [("aaaaaaa", "release", {})]
        assert said in hud.footer
