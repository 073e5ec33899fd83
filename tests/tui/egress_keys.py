"""What each action of view 4 does, seen from outside; `test_actions` runs them by their keys."""

from __future__ import annotations

from cell.trials.egress import Hit, HostSum
from hudtui.frame.screens import DocScreen, MenuScreen
from hudtui.frame.what_if import WhatIfScreen
from hudtui.views.egress import EgressView

from .checks import checks
from .conftest import Cockpit

CHECKS, does = checks()


def egress(hud: Cockpit) -> EgressView:
    view = hud.app.views["egress"]
    assert isinstance(view, EgressView)
    return view


def hosts(hud: Cockpit) -> list[str]:
    """The hosts of the rows, as they are listed."""
    return [row.host for row in egress(hud).table.entries if isinstance(row, (Hit, HostSum))]


@does("open", "detail")
async def _(hud: Cockpit) -> None:
    await hud.press("k", "d")
    assert egress(hud).doc.has_focus
    assert "allowed by packages.example" in hud.screen
    await hud.press("escape", "o", "enter")
    assert set(hosts(hud)) == {"github.example"}, "the hits of the host that was denied most"
    assert '/host:"github.example"' in hud.screen


@does("left", "right")
async def _(hud: Cockpit) -> None:
    await hud.press("d", "right", "left")
    assert egress(hud).doc.scroll_offset.x == 0


@does("follow")
async def _(hud: Cockpit) -> None:
    assert "following" in hud.screen
    await hud.press("g")
    assert "F follows" in hud.screen
    await hud.press("F")
    assert egress(hud).table.cursor == len(hosts(hud)) - 1
    await hud.press("F")
    assert not egress(hud).following


@does("filter")
async def _(hud: Cockpit) -> None:
    await hud.press("slash")
    await hud.type("host~github decision:deny")
    assert hosts(hud) == ["github.example"] * 3, "it filters while it is typed"
    await hud.press("enter")
    assert egress(hud).table.has_focus
    await hud.press("slash")
    await hud.type(" nofield:x")
    assert len(hosts(hud)) == 3
    await hud.press("enter")
    assert "no field" in hud.footer
    await hud.press("slash", "escape")
    assert len(hosts(hud)) == 9
    await hud.press("colon")
    await hud.type("egress decision:allow")
    await hud.press("enter")
    assert len(hosts(hud)) == 4


@does("filter_toggle")
async def _(hud: Cockpit) -> None:
    await hud.press("f")
    assert "no filter" in hud.footer
    await hud.press("slash")
    await hud.type("psql")
    await hud.press("enter", "f")
    assert len(hosts(hud)) == 9
    assert "(off)" in hud.screen
    await hud.press("f")
    assert len(hosts(hud)) == 1


@does("match_next", "match_previous")
async def _(hud: Cockpit) -> None:
    await hud.press("g", "n")
    row = egress(hud).table.current
    assert isinstance(row, Hit)
    assert not row.allowed, "without a filter: the next denial"
    await hud.press("slash")
    await hud.type("metrics")
    await hud.press("enter", "f", "g", "n")
    assert egress(hud).table.current_key.endswith("#6")
    await hud.press("N")
    assert egress(hud).table.current_key.endswith("#6")


@does("faults")
async def _(hud: Cockpit) -> None:
    await hud.press("exclamation_mark")
    assert len(hosts(hud)) == 5
    assert "5 of 9" in hud.screen
    await hud.press("escape")
    assert len(hosts(hud)) == 9


@does("group")
async def _(hud: Cockpit) -> None:
    await hud.press("0", "o")
    assert hosts(hud)[:2] == ["github.example", "wheels.example"]
    assert "8 hosts" in hud.screen
    await hud.press("escape")
    assert len(hosts(hud)) == 17


@does("sort")
async def _(hud: Cockpit) -> None:
    await hud.press("S")
    assert isinstance(hud.app.screen, MenuScreen)
    await hud.press("j", "j", "j", "j", "enter")
    assert hosts(hud) == sorted(hosts(hud))
    await hud.press("S", "enter")
    assert hosts(hud) == sorted(hosts(hud), reverse=True)
    await hud.press("S", "escape", "F")
    assert hosts(hud)[0] == "packages.example"


@does("copy")
async def _(hud: Cockpit) -> None:
    await hud.press("c")
    assert hud.app.clipboard == "files.mirror.example"


@does("raw")
async def _(hud: Cockpit) -> None:
    await hud.press("y")
    assert isinstance(hud.app.screen, DocScreen)
    assert '"host": "files.mirror.example"' in hud.screen


@does("replay")
async def _(hud: Cockpit) -> None:
    egress(hud).set_filter("github")
    await hud.press("g", "t")
    assert hud.app.view == "replay"
    assert "session 3" in hud.screen
    assert "00:05.1 of" in hud.screen
    assert "× CONNECT github.example:443" in hud.screen
    await hud.press("minus")
    assert hud.app.view == "egress"


@does("what_if")
async def _(hud: Cockpit) -> None:
    egress(hud).set_filter("github")
    await hud.press("0", "g", "e")
    assert isinstance(hud.app.screen, WhatIfScreen)
    assert "would let 4 of 11 recorded denials through" in hud.screen
    await hud.type("*.example")
    assert "would let 9 of 11" in hud.screen
    assert "denied for another reason · 1" in hud.screen
    await hud.type(" -*.mirror.example http://x -")
    assert "must be a host, without scheme" in hud.screen
    await hud.press("down", "up", "pagedown", "pageup", "escape")
    assert hud.app.view == "egress"


@does("allow")
async def _(hud: Cockpit) -> None:
    await hud.press("A")
    assert "choose such a hit" in hud.footer
    egress(hud).set_filter("metrics")
    await hud.press("A")
    assert isinstance(hud.app.screen, MenuScreen)
    assert "metrics.example:443 once more" in hud.screen
    await hud.press("enter")
    assert hud.wire.asked[-1][1:] == (
        "allow",
        {"host": "metrics.example:443", "phase": "agent", "once": True, "who": "ada@desk"},
    )
    await hud.press("0")
    egress(hud).set_filter("wheels cell:e02b77a")
    await hud.press("A")
    assert "has ended" in hud.footer
