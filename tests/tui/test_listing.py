"""The two views that are lists narrow and widen in the same way."""

from __future__ import annotations

from pathlib import Path

import pytest

from cell.trials import Trial
from hudtui.actions import View
from hudtui.views.listing import ListView

from .conftest import Open


@pytest.mark.parametrize(("view", "key"), [("fleet", "1"), ("egress", "4")])
async def test_what_narrows_a_list_is_cleared_one_thing_at_a_time(
    view: View, key: str, jobs: Path, cockpit: Open
) -> None:
    async with cockpit(jobs) as hud:
        await hud.press(key)
        shown = hud.app.views[view]
        assert isinstance(shown, ListView)
        whole = len(shown.table.entries)
        await hud.press("exclamation_mark")
        faults = len(shown.table.entries)
        assert shown.set_filter("nothingiscalledthis") == ""
        assert 0 < faults < whole and not shown.table.entries
        await hud.press("f")
        assert len(shown.table.entries) == faults, "the filter is off, and not lost"
        await hud.press("escape")
        assert (shown.filter_text, len(shown.table.entries)) == ("", faults)
        await hud.press("escape")
        assert len(shown.table.entries) == whole


@pytest.mark.parametrize("view", ["fleet", "egress"])
async def test_a_filter_that_is_none_changes_nothing(view: View, jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        shown = hud.app.views[view]
        assert isinstance(shown, ListView)
        assert shown.set_filter("score>=") and shown.filter_text == ""


async def test_a_column_sorts_and_again_turns_the_order(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        shown = hud.app.views["fleet"]
        assert isinstance(shown, ListView)
        shown.sort_by("cell")
        up = [row.id for row in shown.table.entries if isinstance(row, Trial)]
        shown.sort_by("cell")
        down = [row.id for row in shown.table.entries if isinstance(row, Trial)]
        assert up == sorted(up) and down == up[::-1] and len(up) > 1


async def test_a_menu_lies_over_what_it_is_about(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        shown = hud.app.fleet.trial()
        assert shown is not None
        await hud.press("S")
        assert "what needs attention first" in hud.screen
        assert shown.task in hud.screen
