"""What each action of view 5 does, seen from outside; `test_actions` runs them by their keys."""

from __future__ import annotations

from hudtui.views.identity import IdentityView

from .checks import checks
from .conftest import Cockpit

CHECKS, does = checks()


def identity(hud: Cockpit) -> IdentityView:
    view = hud.app.views["identity"]
    assert isinstance(view, IdentityView)
    return view


@does("left", "right")
async def _(hud: Cockpit) -> None:
    await hud.press("right", "left")
    assert identity(hud).doc.scroll_offset.x == 0, "a wrapped document has no sides"


@does("search", "match_next", "match_previous")
async def _(hud: Cockpit) -> None:
    doc = identity(hud).doc
    await hud.press("slash")
    await hud.type("'s phase")
    await hud.press("enter")
    first = doc.cursor
    assert doc.lines[first].text == "Agent's phase"
    await hud.press("n")
    assert doc.cursor > first
    await hud.press("N")
    assert doc.cursor == first
    await hud.press("slash")
    await hud.type("zzzz")
    await hud.press("enter")
    assert "not here" in hud.footer


@does("fidelity")
async def _(hud: Cockpit) -> None:
    line = {"phase": "agent", "name": "TERM", "ok": True, "found": "xterm", "wanted": "xterm"}
    hud.wire.answer = [line, line | {"name": "core [x]", "ok": False, "found": "\x1b[2J", "wanted": "0"}]
    await hud.press("i")
    assert "1 of 2 are not as they should be" in hud.footer
    assert "× core [x]" in hud.screen
    assert "␛2J" in hud.screen
    hud.wire.wrong = "no"
    await hud.press("i")
    assert "fidelity: no" in hud.footer
    await hud.press("0", "i")
    assert "one cell must be in scope" in hud.footer
