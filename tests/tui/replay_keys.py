"""What each action of view 7 does, seen from outside; `test_actions` runs them by their keys."""

from __future__ import annotations

from hudtui.frame.screens import MenuScreen
from hudtui.views.replay import ReplayView

from .checks import checks
from .conftest import Cockpit, FakeEngine

CHECKS, does = checks()


def replay(hud: Cockpit) -> ReplayView:
    view = hud.app.views["replay"]
    assert isinstance(view, ReplayView)
    return view


def printed(hud: Cockpit) -> str:
    """Everything that the terminal was fed up to the moment that is shown."""
    player = replay(hud).term.player
    assert player is not None
    assert player.arrived
    assert isinstance(player.engine, FakeEngine)
    return player.engine.text


@does("play")
async def _(hud: Cockpit) -> None:
    view = replay(hud)
    await hud.press("space")
    assert "▶ playing" in hud.screen
    for _ in range(10):
        view.advance(1.0)
    assert "git log --oneline | head" in printed(hud)
    assert "91aa3c0" in printed(hud), "a silence is not waited for"
    await hud.press("space")
    assert "paused" in hud.screen
    before = view.term.now
    view.advance(1.0)
    assert view.term.now == before
    await hud.press("G", "space")
    assert view.term.now == 0.0, "from the end one plays from the beginning"


@does("seek_forward", "seek_back")
async def _(hud: Cockpit) -> None:
    await hud.press("right")
    assert replay(hud).term.now == 5.0
    assert "git log" in printed(hud)
    await hud.press("left", "left")
    assert replay(hud).term.now == 0.0
    assert "git log" not in printed(hud)


@does("far_forward", "far_back")
async def _(hud: Cockpit) -> None:
    await hud.press("pagedown", "ctrl+d")
    assert replay(hud).term.now == 120.0
    await hud.press("pageup", "ctrl+u")
    assert replay(hud).term.now == 0.0


@does("step", "step_back")
async def _(hud: Cockpit) -> None:
    await hud.press("full_stop")
    first = printed(hud)
    await hud.press("full_stop", "full_stop")
    assert printed(hud) == first + "gi"
    await hud.press("comma")
    assert printed(hud) == first + "g"


@does("begin", "end")
async def _(hud: Cockpit) -> None:
    for first, last in (("g", "G"), ("home", "end")):
        await hud.press(last)
        assert replay(hud).term.now == 548.0
        assert "logout" in printed(hud)
        await hud.press(first)
        assert replay(hud).term.now == 0.0
        assert "logout" not in printed(hud)


@does("mark_next", "mark_previous")
async def _(hud: Cockpit) -> None:
    for _ in range(4):
        await hud.press("n")
    assert "× CONNECT github.example:443 now" in hud.screen
    assert "response 403" in printed(hud) or "git clone" in printed(hud)
    await hud.press("j", "down", "k", "up", "N")
    assert "git clone https://github.example" in hud.screen
    await hud.press("g", "N")
    assert "first mark" in hud.footer
    await hud.press("G", "n")
    assert "last mark" in hud.footer


@does("faster", "slower")
async def _(hud: Cockpit) -> None:
    await hud.press("greater_than_sign", "greater_than_sign")
    assert "4×" in hud.screen
    for _ in range(9):
        await hud.press("less_than_sign")
    assert "0.25×" in hud.screen
    for _ in range(9):
        await hud.press("greater_than_sign")
    assert "16×" in hud.screen


@does("open")
async def _(hud: Cockpit) -> None:
    await hud.press("G", "enter")
    assert isinstance(hud.app.screen, MenuScreen)
    assert "ls -la /app" in hud.screen
    await hud.press("k", "enter")
    assert "session 1" in hud.screen
    assert replay(hud).term.now == 0.0
    await hud.press("enter", "escape")
    assert "session 1" in hud.screen
