"""What a person sees when folders are empty, torn, hostile, growing or gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from cell import records
from cell.events import Egress, PhaseChanged
from cell.records import Cause, CellInfo, Evidence, Verdict
from cell.trials import Trial
from hudtui.frame.screens import MenuScreen
from hudtui.lines import fleet as fleet_rows
from hudtui.lines.fleet import ago, columns, duration
from hudtui.lines.verdict import file_lines
from hudtui.look import DARK, LIGHT, Look
from hudtui.panes.chrome import footer_runs, place_of
from hudtui.panes.doc import line, wrap
from hudtui.panes.table import fit
from hudtui.views import HudView
from hudtui.views.watching import latest
from screenshots.invented import GONE, NOW, Cast, this_process, trial

from .conftest import EVIL, SIZES, Open

HARBOR = Path(__file__).parents[1] / "fixtures/harbor-0.25.0/jobs"


# ── pictures ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize(
    ("name", "keys"),
    [("fleet", "jjj"), ("sessions", "w"), ("commands", "\n3k"), ("verdict", "jjj\n")],
    ids=lambda v: v,
)
async def test_picture(
    name: str, keys: str, size: tuple[int, int], jobs: Path, cockpit: Open, picture
) -> None:
    async with cockpit(jobs, size=size) as hud:
        await hud.press(*("enter" if key == "\n" else key for key in keys))
        picture(hud.app, f"{name}_{size[0]}x{size[1]}")


@pytest.mark.parametrize("theme", [LIGHT.name, "nord", "textual-light", "ansi-dark"])
async def test_every_theme_shows_the_same_words(theme: str, jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        dark = hud.screen
    async with cockpit(jobs, theme=theme) as hud:
        assert hud.screen == dark


async def test_without_colour_the_signs_remain(
    jobs: Path, cockpit: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cockpit(jobs) as hud:
        coloured = hud.screen
        monkeypatch.setenv("NO_COLOR", "1")
        async with cockpit(jobs) as other:
            assert other.screen == coloured
    assert all(sign in coloured for sign in "●✓×■◆◐○▲")


# ── nothing, and something that comes and goes ────────────────────────────────────────────────


@pytest.mark.parametrize("there", [True, False])
async def test_an_empty_or_missing_folder_is_told_kindly(there: bool, tmp_path: Path, cockpit: Open) -> None:
    path = tmp_path / "jobs"
    if there:
        path.mkdir()
    async with cockpit(path, size=(80, 24)) as hud:
        assert ("no job has been run here yet" if there else "nothing is there yet") in hud.screen
        for key in ("j", "k", "g", "G", "enter", "w", "d", "y", "c", "n", "space", "2", "6", "J", "o", "z"):
            await hud.press(key)
        await hud.press("1")
        path.mkdir(exist_ok=True)
        trial(path / "job", "late", "aaaaaaa", verdict=Verdict(verdict="graded", rewards={"reward": 1.0}))
        await hud.look()
        assert "late" in hud.screen


async def test_a_task_is_no_job_and_says_so(cockpit: Open) -> None:
    async with cockpit(HARBOR.parent / "tasks/pass") as hud:
        assert "cell run" in hud.screen


async def test_harbors_finished_jobs_open(cockpit: Open) -> None:
    async with cockpit(HARBOR / "demo-oracle") as hud:
        assert "mean 0.28 · graded 0.42" in hud.screen
        await hud.press("slash")
        await hud.type("task:noreward")
        await hud.press("enter", "enter")
        assert hud.app.view == "verdict"
        assert "uv: command not found" in hud.screen
        await hud.press("0", "1", "escape", "slash")
        await hud.type("task:solvefail")
        await hud.press("enter", "w")
        assert hud.engines[-1].text == "oops\n"


async def test_a_cell_in_scope_that_vanishes_is_said(tmp_path: Path, cockpit: Open) -> None:
    path = trial(tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="agent")
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("w")
        shutil.rmtree(path)
        await hud.look()
        assert "is gone" in hud.footer
        assert hud.app.scope is None
        await hud.press("1")
        assert hud.listed == []


async def test_the_cursor_stays_on_its_cell_when_others_come(tmp_path: Path, cockpit: Open) -> None:
    job, passed = tmp_path / "jobs/job", Verdict(verdict="graded", rewards={"reward": 1.0})
    for n in range(5):
        trial(job, f"task-{n}", f"{n:07}", ago=1000 * n, verdict=passed)
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("j", "j")
        assert hud.chosen == "0000002"
        trial(job, "new", "9999999", serve=this_process(), phase="agent")
        await hud.look()
        assert hud.chosen == "0000002"
        assert hud.listed[0] == "9999999"


async def test_a_live_session_is_followed_from_its_first_byte(tmp_path: Path, cockpit: Open) -> None:
    shell = Cast(None, [(0.1, f"line {n}\r\n") for n in range(100)], exit=None, cols=80, rows=24)
    path = trial(
        tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="agent", sessions=[shell]
    )
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("enter")
        assert "line 99" in hud.screen
        assert "● live" in hud.screen
        cast = path / "cell/sessions/1.cast"
        with cast.open("a") as file:
            file.write('[9, "o", "more\\r\\n"]\n[9.1, "o", "to')
        hud.app.sessions.term.turn()
        await hud.press("0", "g")
        assert "more" in hud.engines[-1].text
        assert "line 0" in hud.screen
        with cast.open("a") as file:
            file.write('rn"]\n[10, "r", "100x30"]\n')
        hud.app.sessions.term.turn()
        assert hud.engines[-1].text.endswith("torn")
        assert (hud.engines[-1].cols, hud.engines[-1].rows) == (100, 30)
        assert "line 0" in hud.screen, "what is printed does not move who scrolled back"
        await hud.press("F")
        assert "torn" in hud.screen
        cast.write_text('{"version": 2}\n[1, "o", "afresh"]\n')
        hud.app.sessions.term.turn()
        hud.app.sessions.term.turn()
        assert hud.engines[-1].text == "afresh"
    assert all(engine.closed for engine in hud.engines)


async def test_leaving_a_terminal_frees_its_engine(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        await hud.press("w", "1")
        assert hud.engines
        # one may be Fleet's own, which shows the terminal of the cell it stands on
        assert sum(not engine.closed for engine in hud.engines) <= 1
    assert all(engine.closed for engine in hud.engines)


# ── hostile text ──────────────────────────────────────────────────────────────────────────────


async def test_no_text_from_inside_reaches_the_screen_unparsed(tmp_path: Path, cockpit: Open) -> None:
    cause = Cause(
        cause="agent",
        certainty="shown",
        summary=EVIL,
        evidence=(Evidence(kind="file", text=EVIL, ref="../../etc/passwd"),),
    )
    verdict = Verdict(
        verdict="graded",
        rewards={EVIL: 0.0, "other": 1.0},
        causes=(cause,),
        notes=(EVIL,),
        tests=(records.TestResult(name=EVIL, status="failed", message=EVIL),),
    )
    trial(
        tmp_path / "jobs/job",
        "evil",
        "aaaaaaa",
        agent=EVIL,
        verdict=verdict,
        output=EVIL * 3,
        sessions=[Cast(EVIL, [(0.1, "hi\n")], tty=False)],
        happened=[PhaseChanged(phase="agent", by=EVIL, reason=EVIL)],
    )
    async with cockpit(tmp_path / "jobs") as hud:
        for keys in (
            (),
            ("6",),
            ("enter",),
            ("w",),
            ("d",),
            ("escape", "escape", "y"),
            ("escape", "question_mark"),
        ):
            await hud.press(*keys)
            shown = hud.screen
            assert not any(char in shown for char in "\x1b\x07\u202e\r")
        await hud.press("escape", "1", "d")
        assert "[red]markup" in hud.screen


async def test_evidence_that_leads_out_of_the_trial_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    for ref in ("file:../../etc/passwd", "file:/etc/passwd:3", "file:link", "file:", "file:a\0b", "event:x"):
        _title, lines, _at = file_lines(tmp_path, ref)
        assert "root:" not in "\n".join(one.text for one in lines), ref


# ── sizes, tables, documents ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [(20, 6), (40, 10), (79, 23), (300, 100)])
async def test_any_size_will_do(size: tuple[int, int], jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs, size=size) as hud:
        await hud.press("j", "w", "1", "6", "1", "o", "z", "z", "d", "escape")
        assert all(len(row) <= size[0] for row in hud.screen.splitlines())


async def test_o4_ten_thousand_cells_are_a_list_like_any_other(tmp_path: Path, cockpit: Open) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as hud:
        one = trial(
            tmp_path / "job", "task", "aaaaaaa", verdict=Verdict(verdict="graded", rewards={"r": 1.0})
        )
        await hud.look()
        (found,) = hud.app.snapshot.trials
        many = [msgspec.structs.replace(found, path=f"{one}{n}", id=f"{n:07}") for n in range(10_000)]
        drawn: list[str] = []
        table = hud.app.fleet.table
        cells = table._cells
        table._cells = lambda row: (drawn.append(row.id), cells(row))[1]
        table.show(many)
        await hud.press("G")
        assert hud.chosen == "0009999"
        await hud.press("g")
        assert len(drawn) < 500, "only what is visible is ever formatted"


async def test_a_click_goes_to_a_row_and_on_the_heading_sorts(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        await hud.pilot.click("#fleet-table", offset=(12, 5))
        assert hud.chosen == hud.listed[3]
        await hud.pilot.click("#fleet-table", offset=(8, 1))
        assert hud.listed == sorted(hud.listed)
        await hud.pilot.click("#tabs", offset=(60, 0))
        assert hud.app.view == "verdict"


def test_a_filter_to_start_with(jobs: Path) -> None:
    from hudtui.app import HudApp

    assert HudApp([jobs], start_filter="cause:network")._start_filter == "cause:network"


@pytest.mark.parametrize(
    ("seconds", "short", "long"),
    [
        (0, "now", "00:00"),
        (48, "48s", "00:48"),
        (252, "4m", "04:12"),
        (11040, "3h", "3h04m"),
        (10**6, "12d", "11d"),
    ],
)
def test_times_in_words(seconds: float, short: str, long: str) -> None:
    assert (ago(seconds), duration(seconds)) == (short, long)


def test_a_cell_of_a_table_is_cut_to_its_width() -> None:
    assert fit([("abc", "ok")], 5) == [("abc", "ok"), ("  ", "")]
    assert fit([("abc", "ok")], 5, True) == [("  ", ""), ("abc", "ok")]
    assert "".join(text for text, _ in fit([("abc", ""), ("defg", "")], 5)) == "abcd…"
    assert "".join(text for text, _ in fit([("你好你好", "")], 4)) == "你 …"
    assert len(columns(80)) < len(columns(120))


def test_lines_are_broken_at_words_and_lose_nothing() -> None:
    one = line("  ", ("the quick brown fox", "ok"), " jumps over it", ref="file:x", hang=4)
    broken = wrap([one], 16)
    assert [each.text.rstrip() for each in broken] == [
        "  the quick",
        "    brown fox",
        "    jumps over",
        "    it",
    ]
    assert {each.ref for each in broken} == {"file:x"}
    assert "".join(each.text for each in wrap([line("x" * 100)], 30)).replace(" ", "") == "x" * 100


def test_the_footer_always_ends_with_help() -> None:
    for width in (10, 40, 80, 200):
        assert footer_runs("fleet", width)[-2:] == [("?", "primary"), (" help", "muted")]
    assert place_of([], []) == ""


def test_roles_have_styles_in_any_theme() -> None:
    for variables in (
        {},
        {"foreground": "ansi_white", "background": "ansi_black"},
        DARK.to_color_system().generate(),
    ):
        look = Look(variables)
        assert look.style("ok bold").bold
        assert look.style("nonsense") == look.style("")


def test_the_session_to_watch_first() -> None:
    assert latest([]) is None
    assert HudView.zoomed is False
    assert NOW > 0


def test_a_cell_whose_agent_is_a_person_says_that_it_waits() -> None:
    known = {"path": "/j/t__aaaaaaa", "name": "t__aaaaaaa", "id": "aaaaaaa", "job": "j", "task": "t"}
    one = Trial(**known, state="running", agent="human", phase="agent", origin="cell")
    assert fleet_rows._cause(one, 0.0, ())[0][0] == "waits for you"
    assert fleet_rows._cause(msgspec.structs.replace(one, agent="exec"), 0.0, ()) == []


@pytest.mark.parametrize(
    ("keys", "came"),
    [
        ("/paused\n", "/paused"),
        (":help\n", "Keys"),
        ("/agent\njj", "/agent"),
        ("/x:p\n", "no field is called"),
    ],
)
async def test_keys_typed_ahead_are_the_prompts(keys: str, came: str, jobs: Path, cockpit: Open) -> None:
    """`p` of a filter pauses no agent because it was typed too fast."""
    async with cockpit(jobs) as hud:
        await hud.at_once(keys)
        assert came in hud.screen
        assert not hud.wire.asked
        assert not isinstance(hud.app.screen, MenuScreen)


async def test_a_marked_row_has_a_sign_that_is_no_colour(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        before = hud.screen.count("•")
        await hud.press("space")
        assert hud.screen.count("•") == before + 1
        await hud.press("k", "space")  # a mark goes on to the next row
        assert hud.screen.count("•") == before


async def test_where_all_cells_are_shown_what_is_about_one_says_so(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        for view in ("3", "6"):
            await hud.press("0", view)
            if hud.app.current.trial() is None:
                for key in ("y", "c", "w", "r"):
                    await hud.press(key)
                    assert "no cell is chosen; 1 Fleet, then enter" in hud.footer, (view, key)
        assert hud.app.view == "verdict"


async def test_a_cell_whose_runner_has_died_says_so(tmp_path: Path, cockpit: Open) -> None:
    path = trial(tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="agent")
    async with cockpit(tmp_path / "jobs") as hud:
        assert "nobody owns it" not in hud.screen
        record = path / "cell/cell.json"
        info = msgspec.json.decode(record.read_bytes(), type=CellInfo)
        record.write_bytes(records.encode(msgspec.structs.replace(info, runner=GONE)))
        await hud.press("ctrl+r")
        assert "nobody owns it" in hud.screen
        await hud.press("d")
        assert "its runner has died; x stops it, or it ends by itself" in hud.screen


async def test_no_screen_says_that_a_phase_is_sealed(tmp_path: Path, cockpit: Open) -> None:
    verdict = Verdict(verdict="graded", rewards={"reward": 1.0})
    hit = Egress(hit=1, phase="sealed", way="proxy", method="GET", host="a.example", port=80, allowed=False)
    trial(tmp_path / "jobs/job", "task", "aaaaaaa", verdict=verdict, phase="closed", happened=[hit])
    async with cockpit(tmp_path / "jobs") as hud:
        for keys in (("enter",), ("4",), ("enter",), ("escape", "o"), ("3",)):
            await hud.press(*keys)
            assert "seal" not in hud.screen.casefold()
            assert "closed" in hud.screen or keys == ("3",)
