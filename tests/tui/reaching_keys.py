"""What the actions that reach into a cell do in any view, and view 3; `test_actions` runs them by their keys."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from hudtui.actions import VIEWS
from hudtui.frame.screens import DocScreen, MenuScreen
from hudtui.views.commands import CommandsView

from .conftest import Cockpit

Check = Callable[[Cockpit], Awaitable[None]]
CHECKS: dict[tuple[str, str], Check] = {}


def asked(hud: Cockpit) -> list[tuple[str, str]]:
    """Which cell was asked for what."""
    return [(cell, what) for cell, what, _ in hud.wire.asked]


def lives(hud: Cockpit) -> bool:
    """Whether the cell that the view is about lives; if not, everything must be refused."""
    trial = hud.app.current.trial()
    assert trial is not None
    return trial.alive


async def refused(hud: Cockpit, key: str) -> None:
    before = hud.app.view
    await hud.press(key)
    assert "has ended; only its records are left" in hud.footer
    assert (hud.app.view, asked(hud)) == (before, [])


async def attach(hud: Cockpit) -> None:
    if not lives(hud):
        await refused(hud, "a")
        return
    await hud.press("a")
    assert asked(hud) == [("k3f9a1c", "attach")]
    assert (hud.app.view, hud.app.captured) == ("sessions", True)
    await hud.press("f12")
    assert not hud.app.captured


async def shell(hud: Cockpit) -> None:
    if not lives(hud):
        await refused(hud, "s")
        return
    await hud.press("s")
    assert isinstance(hud.app.screen, MenuScreen)
    await hud.press("escape", "s", "enter")
    assert asked(hud) == [("k3f9a1c", "shell")]
    assert "YOUR SHELL in k3f9a1c as agent" in hud.screen


async def pause(hud: Cockpit) -> None:
    if not lives(hud):
        await refused(hud, "p")
        return
    await hud.press("p", "escape")
    assert not asked(hud)
    await hud.press("p", "j", "enter")
    assert hud.wire.asked == [("k3f9a1c", "pause", {"freeze": True, "who": "ada@desk"})]
    assert "the agent waits" in hud.footer


async def keep(hud: Cockpit) -> None:
    if not lives(hud):
        await refused(hud, "H")
        return
    await hud.press("H")
    assert asked(hud) == [("k3f9a1c", "keep")]
    assert "H releases it" in hud.footer
    hud.wire.wrong = "refused: no"
    await hud.press("H")
    assert "refused: no" in hud.footer


async def grade(hud: Cockpit) -> None:
    await hud.press("r")
    assert isinstance(hud.app.screen, MenuScreen)
    assert "×10" in hud.screen
    assert "beside the score, with four times the verifier's time" in hud.screen
    await hud.press("enter")
    assert "grade" in hud.footer, "not now, and it says why"
    await hud.press("r", "j", "j", "enter")
    assert "is not kept" in hud.footer
    assert not asked(hud)


async def finish(hud: Cockpit) -> None:
    if not lives(hud):
        await hud.press("E")
        assert "finish: " in hud.footer
        assert "has ended" in hud.footer
        return
    await hud.press("E")
    assert "not a person" in hud.footer
    assert not asked(hud)


async def stop(hud: Cockpit) -> None:
    if not lives(hud):
        await refused(hud, "x")
        return
    await hud.press("x", "enter")
    assert not asked(hud), "the cursor is on: leave it"
    await hud.press("x", "j", "enter")
    assert asked(hud) == [("k3f9a1c", "stop")]


for _view in VIEWS:
    for _check in (attach, shell, pause, keep, grade, finish, stop):
        CHECKS[_view, _check.__name__] = _check


# ── view 3 ────────────────────────────────────────────────────────────────────────────────────


def commands(hud: Cockpit) -> CommandsView:
    view = hud.app.views["commands"]
    assert isinstance(view, CommandsView)
    return view


async def many(hud: Cockpit) -> None:
    """A cell with a hundred commands."""
    view = commands(hud)
    first = view._rows[0]
    view._rows = tuple(msgspec.structs.replace(first, name=f"#{n}") for n in range(100))
    view.table.show(view._rows)


def does(*names: str) -> Callable[[Check], Check]:
    def keep_(check: Check) -> Check:
        for name in names:
            CHECKS["commands", name] = check
        return check

    return keep_


@does("open")
async def _(hud: Cockpit) -> None:
    await hud.press("g", "j", "enter")
    assert isinstance(hud.app.screen, DocScreen)
    assert "make: *** [test] Error 1" in hud.screen
    assert "exit 2 after 2.1 s" in hud.screen


@does("watch")
async def _(hud: Cockpit) -> None:
    await hud.press("g", "j", "w")
    assert hud.app.view == "sessions"
    assert "session 2" in hud.screen


@does("replay")
async def _(hud: Cockpit) -> None:
    await hud.press("g", "j", "j", "t")
    assert hud.app.view == "replay"
    assert "session 3" in hud.screen
    await hud.press("3")
    view = commands(hud)
    view.table.show([msgspec.structs.replace(view._rows[0], t=0.0)])
    await hud.press("t")
    assert "no moment is known" in hud.footer


@does("search", "match_next", "match_previous")
async def _(hud: Cockpit) -> None:
    table = commands(hud).table
    await hud.press("slash")
    await hud.type("main.c")
    await hud.press("enter")
    assert table.cursor == 1
    assert "main.c" in hud.screen
    await hud.press("slash")
    await hud.type("app")
    await hud.press("enter")
    first = table.cursor
    await hud.press("n")
    assert table.cursor != first
    await hud.press("N")
    assert table.cursor == first
    await hud.press("slash")
    await hud.type("zzzz")
    await hud.press("enter")
    assert "in no command here" in hud.footer


@does("left", "right")
async def _(hud: Cockpit) -> None:
    await hud.press("tab", "left", "right")
    assert commands(hud).doc.scroll_offset.x >= 0
