"""`hudtui TRIAL --watch N` begins with a look at that session, and asks the cell for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudtui.cli import parser
from screenshots.invented import Cast, this_process, trial

from .conftest import Open


async def test_the_session_that_was_asked_for_is_watched(tmp_path: Path, cockpit: Open) -> None:
    shells = [Cast(None, [(0.1, f"shell {n}\r\n")], exit=None) for n in (1, 2)]
    made = trial(
        tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="agent", sessions=shells
    )
    asked = parser().parse_args([str(made), "--watch", "2"])
    for number in (asked.watch, 1):
        async with cockpit(tmp_path / "jobs", watch_session=number) as hud:
            await hud.pilot.pause()
            session = hud.app.sessions.term.session
            assert session is not None
            assert session.n == number
            assert hud.wire.asked == []


async def test_a_session_that_is_not_there_is_said(tmp_path: Path, cockpit: Open) -> None:
    shells = [Cast(None, [(0.1, "shell\r\n")], exit=None)]
    trial(tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="agent", sessions=shells)
    async with cockpit(tmp_path / "jobs", watch_session=7) as hud:
        await hud.pilot.pause()
        assert "no session 7" in hud.screen


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"watch_session": 7}, "watch: there is no session 7"),
        ({"start_session": 7}, "attach: no such session runs; s opens a shell"),
        ({"start_filter": "nosuch:x"}, "nosuch"),
    ],
    ids=str,
)
async def test_what_is_wrong_with_the_command_line_stays_on_the_screen(
    options: dict[str, Any], said: str, tmp_path: Path, cockpit: Open
) -> None:
    shells = [Cast(None, [(0.1, "shell\r\n")], exit=None)]
    trial(tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="agent", sessions=shells)
    async with cockpit(tmp_path / "jobs", **options) as hud:
        await hud.pilot.pause()
        assert said in hud.footer
        await hud.pilot.resize_terminal(100, 30)
        await hud.pilot.pause()
        assert said in hud.footer
        await hud.press("j")
        assert "? help" in hud.footer
