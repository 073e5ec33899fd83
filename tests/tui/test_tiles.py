"""Several terminals at once: what runs comes first, a session stays in its place, engines go."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudtui.views.tiles import KEYS_FIRST, LARGE, SMALL, STALE, due
from screenshots.invented import Cast, this_process, trial

from .conftest import Open


def many(jobs: Path, count: int = 12) -> None:
    sessions = [
        Cast(None, [(0.1, f"terminal {n}\r\n")], 0 if n % 3 == 0 else None) for n in range(1, count + 1)
    ]
    trial(jobs / "job", "task", "aaaaaaa", serve=this_process(), phase="agent", sessions=sessions)


def more(recording: Path) -> None:
    with recording.open("a") as file:
        file.write('[1.0, "o", "more"]\n')


async def test_four_in_a_square_and_thumbnails_of_the_rest(tmp_path: Path, cockpit: Open) -> None:
    many(tmp_path / "jobs")
    async with cockpit(tmp_path / "jobs", size=(150, 50)) as hud:
        await hud.press("w", "T")
        tiles = hud.app.sessions.tiles
        large = [pane.session.n for pane in tiles.large if pane.session]
        small = [pane.session.n for pane in tiles.small if pane.session]
        assert (large, small) == ([1, 2, 4, 5], [7, 8, 10, 11, 3, 6])
        assert (len(large), len(small)) == (LARGE, SMALL)
        for n in large:
            assert f"terminal {n}" in hud.screen
        assert {pane.size for pane in tiles.large} == {tiles.large[0].size}
        await hud.look()
        assert [pane.session.n for pane in tiles.large if pane.session] == large
        assert sum(not engine.closed for engine in hud.engines) == LARGE + SMALL
        await hud.press("1")
        assert sum(not engine.closed for engine in hud.engines) == 1, "Fleet shows one"


async def test_a_narrow_screen_has_one_column(tmp_path: Path, cockpit: Open) -> None:
    many(tmp_path / "jobs")
    async with cockpit(tmp_path / "jobs", size=(80, 24)) as hud:
        await hud.press("w", "T")
        shown = hud.app.sessions.tiles.shown
        assert [pane.session.n for pane in shown if pane.session] == [1, 2]
        assert {pane.size.width for pane in shown} == {76}
        await hud.press("T")
        assert hud.app.sessions.term.session is not None


async def test_one_tile_at_a_time_is_brought_up_to_date(tmp_path: Path, cockpit: Open) -> None:
    many(tmp_path / "jobs")
    async with cockpit(tmp_path / "jobs", size=(150, 50)) as hud:
        await hud.press("w", "T")
        tiles = hud.app.sessions.tiles
        while tiles.turn_next() is not None:
            tiles._rest = 0.0
        for pane in (*tiles.large, *tiles.small):
            assert pane.session is not None
            more(Path(pane.session.path))
        turned = []
        for _ in range(8 * (LARGE + SMALL)):
            tiles._rest = 0.0
            pane = tiles.turn_next()
            turned += [pane] if pane is not None else []
        assert len(turned) == LARGE + SMALL and set(turned) == {*tiles.large, *tiles.small}


@pytest.mark.parametrize(
    ("now", "rest", "typed", "worked", "drawn"),
    [
        (10.0, 0.0, 0.0, 9.99, True),
        (10.0, 10.1, 0.0, 0.0, False),
        (10.0, 0.0, 10.0 - KEYS_FIRST / 2, 9.99, False),
        (10.0, 0.0, 10.0 - KEYS_FIRST, 9.99, True),
        (10.0, 0.0, 10.0, 10.0 - STALE, True),
    ],
    ids=[
        "it is time",
        "it rests",
        "a key comes first",
        "the key is answered",
        "who types still sees it move",
    ],
)
def test_keys_come_first(now: float, rest: float, typed: float, worked: float, *, drawn: bool) -> None:
    assert due(now, rest=rest, typed=typed, worked=worked) == drawn


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_picture(size: tuple[int, int], jobs: Path, cockpit: Open, picture) -> None:
    async with cockpit(jobs, size=size) as hud:
        await hud.press("w", "T")
        picture(hud.app, f"tiles_{size[0]}x{size[1]}")
