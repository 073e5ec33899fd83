"""The one table of actions: no key means two things, and every action does what it says by its key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hudtui import actions
from hudtui.actions import ACTIONS, EVERYWHERE, SCROLLED, VIEWS, Action
from hudtui.frame.screens import DocScreen, MenuScreen, help_lines
from hudtui.panes.terminal import TerminalPane

from . import egress_keys, identity_keys, noting_keys, reaching_keys, replay_keys
from .conftest import Cockpit, Open


@pytest.mark.parametrize("view", EVERYWHERE)
def test_no_key_has_two_meanings_in_one_view(view: actions.View) -> None:
    used = [key for action in ACTIONS if view in action.views for key in action.keys]
    assert sorted(used) == sorted(set(used))


@pytest.mark.parametrize("view", EVERYWHERE)
def test_every_action_of_a_view_is_in_its_help(view: actions.View) -> None:
    text = "\n".join(one.text for one in help_lines(view))
    for action in ACTIONS:
        if view in action.views:
            assert actions.shown(action.keys[0]) in text
            assert action.help in text


def test_every_action_has_words_and_a_doer() -> None:
    from hudtui.app import VIEW_CLASSES, HudApp

    doers = {kind.name_: kind for kind in VIEW_CLASSES} | {"detail": DocScreen}
    doers["attached"] = doers["sessions"]
    for action in ACTIONS:
        assert action.label
        assert action.help
        for view in action.views:
            name = f"act_{action.name}"
            outside = view != "detail" and (hasattr(HudApp, name) or action.name.startswith("view_"))
            assert hasattr(doers[view], name) or outside, f"{action.name} in {view}"


# What each action of each view does, seen from outside. Every entry of the table must be here.
Check = Callable[[Cockpit], Awaitable[None]]
CHECKS: dict[tuple[str, str], Check] = {}


def does(view: str, *names: str) -> Callable[[Check], Check]:
    def keep(check: Check) -> Check:
        for name in names:
            CHECKS[view, name] = check
        return check

    return keep


def test_every_action_of_every_view_is_checked() -> None:
    # What the keys after the prefix do is tested with a keyboard of somebody's: test_attach.
    wanted = {(view, action.name) for action in ACTIONS for view in action.views if view != "attached"}
    assert set(CHECKS) == wanted


def checks() -> list[tuple[str, str]]:
    """Every check of every view; one that is about two actions is run once."""
    found: dict[tuple[str, Check], tuple[str, str]] = {}
    for (view, name), check in CHECKS.items():
        found.setdefault((view, check), (view, name))
    return list(found.values())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.function is test_by_key:
        metafunc.parametrize(("view", "name"), checks())


async def test_by_key(view: str, name: str, jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        await enter(hud, view)
        await CHECKS[view, name](hud)


async def enter(hud: Cockpit, view: str) -> None:
    """Bring the view to the front, with something in it."""
    if view == "sessions":
        await hud.press("w")
    elif view == "verdict":
        await hud.press("j", "j", "j", "enter")
    elif view in ("egress", "identity"):
        await hud.press("enter", "4" if view == "egress" else "5")
    elif view == "replay":
        await hud.press("j", "j", "j", "enter", "7")
    elif view == "commands":
        await hud.press("enter", "3")
    elif view == "detail":
        await hud.press("j", "j", "j", "y")


def front(hud: Cockpit) -> str:
    return hud.app.view


# ── moving ────────────────────────────────────────────────────────────────────────────────────


def place(hud: Cockpit) -> int:
    screen = hud.app.screen
    if isinstance(screen, DocScreen):
        return screen.doc.cursor
    if front(hud) == "sessions":
        return hud.app.sessions.term._top
    pane = hud.app.current.pane
    assert not isinstance(pane, TerminalPane)
    return pane.cursor


async def long_session(hud: Cockpit) -> None:
    if front(hud) == "sessions":
        hud.engines[-1].feed(b"\n" * 300)
        hud.app.sessions.term.follow(True)
    elif front(hud) == "commands":
        await reaching_keys.many(hud)


MOVES = {
    "down": ("j", "down"),
    "up": ("k", "up"),
    "half_down": ("ctrl+d",),
    "half_up": ("ctrl+u",),
    "page_down": ("pagedown",),
    "page_up": ("pageup",),
}


def moving(name: str) -> Check:
    async def check(hud: Cockpit) -> None:
        await long_session(hud)
        forward = name.endswith("down")
        for key in MOVES[name]:
            await hud.press("g" if forward else "G")
            before = place(hud)
            await hud.press(key)
            assert (place(hud) > before) if forward else (place(hud) < before), key

    return check


for _view in SCROLLED:
    for _name in MOVES:
        CHECKS[_view, _name] = moving(_name)


async def ends(hud: Cockpit) -> None:
    await long_session(hud)
    for first, last in (("g", "G"), ("home", "end")):
        await hud.press(first)
        assert place(hud) == 0
        await hud.press(last)
        assert place(hud) > 5


for _view in SCROLLED:
    CHECKS[_view, "top"] = CHECKS[_view, "bottom"] = ends


@does("sessions", "left", "right")
async def _(hud: Cockpit) -> None:
    hud.engines[-1].resize(300, 36)
    await hud.press("right")
    assert hud.app.sessions.term._left == 16
    await hud.press("left")
    assert hud.app.sessions.term._left == 0


@does("verdict", "left", "right")
async def _(hud: Cockpit) -> None:
    await hud.press("left", "right")
    assert hud.app.verdict.doc.scroll_offset.x == 0, "a wrapped document has no sides"


@does("detail", "left", "right")
async def _(hud: Cockpit) -> None:
    screen = hud.app.screen
    assert isinstance(screen, DocScreen)
    await hud.press("right")
    assert screen.doc.scroll_offset.x >= 0
    await hud.press("left")
    assert screen.doc.scroll_offset.x == 0


# ── going somewhere ───────────────────────────────────────────────────────────────────────────


@does("fleet", "open")
async def _(hud: Cockpit) -> None:
    await hud.press("enter")
    assert front(hud) == "sessions", "a running cell is watched"
    await hud.press("escape", "j", "j", "j", "enter")
    assert front(hud) == "verdict"
    assert "e02b77a" in hud.screen
    await hud.press("escape", "G", "k", "k", "k", "k", "enter")
    assert hud.chosen == "1f4e8d3", "an ungraded one opens at its first evidence, if there is any"


@does("sessions", "open")
async def _(hud: Cockpit) -> None:
    await hud.press("tab")
    assert hud.app.sessions.table.has_focus
    await hud.press("k", "enter")
    assert hud.app.sessions.term.has_focus
    assert "session 2" in hud.screen


@does("verdict", "open")
async def _(hud: Cockpit) -> None:
    hud.app.verdict.to_evidence()
    await hud.press("enter")
    assert hud.app.verdict.file.display
    assert "uv: command not found" in hud.app.verdict.file.lines[hud.app.verdict.file.cursor].text
    await hud.press("escape")
    assert not hud.app.verdict.file.display


@does("fleet", "watch")
@does("verdict", "watch")
async def _(hud: Cockpit) -> None:
    await hud.press("w")
    assert front(hud) == "sessions"
    assert hud.app.scoped is not None


async def back(hud: Cockpit) -> None:
    before = front(hud)
    await hud.press("escape")
    assert front(hud) == "fleet"
    if before != "fleet":
        assert hud.app.scope is None
    await hud.press("exclamation_mark", "slash", "f", "enter", "escape")
    assert not hud.app.fleet.filter_text, "the filter goes first"
    assert hud.app.fleet.only_faults
    await hud.press("escape")
    assert not hud.app.fleet.only_faults
    await hud.press("escape")
    assert hud.app.is_running


@does("detail", "close")
async def _(hud: Cockpit) -> None:
    await hud.press("escape")
    assert not isinstance(hud.app.screen, DocScreen)
    await hud.press("y")
    assert isinstance(hud.app.screen, DocScreen)
    await hud.press("q")
    assert not isinstance(hud.app.screen, DocScreen)


async def scope_all(hud: Cockpit) -> None:
    await hud.press("0")
    assert hud.app.scope is None
    assert "all ›" not in hud.screen


def showing(view: str, key: str) -> Check:
    async def check(hud: Cockpit) -> None:
        await hud.press(key)
        assert front(hud) == view

    return check


async def last_view(hud: Cockpit) -> None:
    await hud.press("6", "2", "minus")
    assert front(hud) == "verdict"
    await hud.press("minus")
    assert front(hud) == "sessions"


async def neighbours(hud: Cockpit) -> None:
    order = hud.listed
    at = order.index(hud.app.scoped.id if hud.app.scoped else "")
    await hud.press("J")
    assert hud.app.scoped is not None
    assert hud.app.scoped.id == order[at + 1]
    assert order[at + 1] in hud.screen.splitlines()[2] + hud.screen.splitlines()[0]
    await hud.press("K")
    assert hud.app.scoped.id == order[at]
    for _again in range(at + 1):
        await hud.press("K")
    assert "first" in hud.footer


async def panes(hud: Cockpit) -> None:
    before = hud.app.focused
    await hud.press("tab")
    other = hud.app.focused
    await hud.press("shift+tab")
    assert hud.app.focused is before
    assert front(hud) in ("verdict", "identity", "replay") or other is not before


async def zoom(hud: Cockpit) -> None:
    chosen = hud.app.current.pane
    before = chosen.size
    await hud.press("z")
    assert chosen.has_focus
    assert chosen.size.height >= before.height
    assert [pane for pane in hud.app.current.panes() if pane.display and pane.size] == [chosen]
    await hud.press("z")
    assert chosen.size == before


async def raw(hud: Cockpit) -> None:
    await hud.press("y")
    assert isinstance(hud.app.screen, DocScreen)
    assert "JSON" in hud.screen


async def copy(hud: Cockpit) -> None:
    trial = hud.app.current.trial()
    assert trial is not None
    await hud.press("c")
    assert hud.app.clipboard == trial.id
    await hud.press("c")
    assert hud.app.clipboard == trial.path
    await hud.press("c")
    assert hud.app.clipboard == trial.id


@does("detail", "copy")
async def _(hud: Cockpit) -> None:
    await hud.press("c")
    assert hud.app.clipboard.startswith("{\n")


async def command(hud: Cockpit) -> None:
    await hud.press("colon")
    await hud.type("verdict")
    await hud.press("enter")
    assert front(hud) == "verdict"
    await hud.press("colon")
    await hud.type("fleet state:failed")
    await hud.press("enter")
    assert (front(hud), len(hud.listed)) == ("fleet", 3)
    await hud.press("colon")
    await hud.type("nonsense")
    await hud.press("enter")
    assert "no command" in hud.footer
    await hud.press("colon")
    await hud.type("theme hud-light")
    await hud.press("enter")
    assert hud.app.theme == "hud-light"
    await hud.press("colon", "q", "enter")
    assert hud.app._exit


async def refresh(hud: Cockpit) -> None:
    before = hud.app.snapshot
    await hud.press("ctrl+r")
    assert hud.app.snapshot is not before


async def helped(hud: Cockpit) -> None:
    await hud.press("question_mark")
    assert isinstance(hud.app.screen, DocScreen)
    assert "Keys" in hud.screen
    await hud.press("escape")


async def quit_here(hud: Cockpit) -> None:
    if front(hud) != "fleet":
        await hud.press("q")
        assert front(hud) == "fleet"
    await hud.press("q")
    assert hud.app._exit


async def quit_now(hud: Cockpit) -> None:
    await hud.press("ctrl+q")
    assert hud.app._exit


for _view in VIEWS:
    CHECKS[_view, "back"] = back
    CHECKS[_view, "scope_all"] = scope_all
    for _key, _name, _ in actions.TABS:
        _low = _name.casefold()
        CHECKS[_view, f"view_{_low}"] = showing(_low, _key)
    CHECKS[_view, "view_last"] = last_view
    CHECKS[_view, "pane_next"] = CHECKS[_view, "pane_previous"] = panes
    CHECKS[_view, "zoom"] = zoom
    CHECKS[_view, "raw"] = raw
    CHECKS[_view, "copy"] = copy
    CHECKS[_view, "command"] = command
    CHECKS[_view, "refresh"] = refresh
    CHECKS[_view, "help"] = helped
    CHECKS[_view, "quit_here"] = quit_here
    CHECKS[_view, "quit_now"] = quit_now
    if _view != "fleet":
        CHECKS[_view, "next_cell"] = CHECKS[_view, "previous_cell"] = neighbours
CHECKS["detail", "help"] = helped
CHECKS |= reaching_keys.CHECKS | noting_keys.CHECKS
for _view, _keys in (("egress", egress_keys), ("identity", identity_keys), ("replay", replay_keys)):
    CHECKS |= {(_view, name): check for name, check in _keys.CHECKS.items()}


# ── finding ───────────────────────────────────────────────────────────────────────────────────


@does("fleet", "filter")
async def _(hud: Cockpit) -> None:
    await hud.press("slash")
    await hud.type("cause:network")
    assert hud.listed == ["e02b77a"], "it filters while it is typed"
    await hud.press("enter")
    assert hud.app.fleet.table.has_focus
    assert "/cause:network" in hud.screen
    await hud.press("slash")
    assert hud.app.prompt.value == "cause:network"
    await hud.press("escape")
    assert len(hud.listed) == 11


@does("fleet", "filter_toggle")
async def _(hud: Cockpit) -> None:
    await hud.press("f")
    assert "no filter" in hud.footer
    await hud.press("slash")
    await hud.type("score<1")
    await hud.press("enter", "f")
    assert len(hud.listed) == 11
    assert "(off)" in hud.screen
    await hud.press("f")
    assert len(hud.listed) == 3


@does("fleet", "match_next", "match_previous")
async def _(hud: Cockpit) -> None:
    await hud.press("slash")
    await hud.type("score<1")
    await hud.press("enter", "f", "g", "n")
    assert hud.chosen == "e02b77a"
    await hud.press("n")
    assert hud.chosen == "77c0ab9"
    await hud.press("N")
    assert hud.chosen == "e02b77a"


@does("verdict", "search", "match_next", "match_previous")
async def _(hud: Cockpit) -> None:
    doc = hud.app.verdict.doc
    await hud.press("slash")
    await hud.type("test_case_1")
    await hud.press("enter")
    first = doc.cursor
    assert "test_case_1" in doc.lines[first].text
    await hud.press("n")
    assert doc.cursor == first + 1
    await hud.press("N")
    assert doc.cursor == first
    await hud.press("slash")
    await hud.type("zzzz")
    await hud.press("enter")
    assert "not here" in hud.footer


@does("detail", "search", "match_next", "match_previous")
async def _(hud: Cockpit) -> None:
    screen = hud.app.screen
    assert isinstance(screen, DocScreen)
    await hud.press("slash")
    await hud.type("test_case_1")
    await hud.press("enter")
    first = screen.doc.cursor
    assert "test_case_1" in screen.doc.lines[first].text
    await hud.press("n")
    assert screen.doc.cursor > first
    await hud.press("N")
    assert screen.doc.cursor == first


@does("fleet", "faults")
async def _(hud: Cockpit) -> None:
    await hud.press("exclamation_mark")
    assert hud.listed == ["e02b77a", "77c0ab9", "51d9c30", "1f4e8d3", "d44f3a8", "a0e7712"]
    await hud.press("exclamation_mark")
    assert len(hud.listed) == 11


@does("fleet", "group")
async def _(hud: Cockpit) -> None:
    await hud.press("exclamation_mark")
    for by in ("cause", "signature", "task"):
        await hud.press("o")
        assert f"by {by}" in hud.screen
        assert "▼" in hud.screen
    await hud.press("o")
    assert "▼" not in hud.screen


@does("fleet", "sort")
async def _(hud: Cockpit) -> None:
    await hud.press("S")
    assert isinstance(hud.app.screen, MenuScreen)
    await hud.press("j", "j", "enter")
    assert hud.listed == sorted(hud.listed)
    await hud.press("S", "enter")
    assert hud.listed == sorted(hud.listed, reverse=True)
    await hud.press("S", "escape")
    await hud.press("S", "k", "k", "enter")
    assert hud.listed[0] == "k3f9a1c"


@does("fleet", "mark", "marked")
async def _(hud: Cockpit) -> None:
    await hud.press("M")
    assert "nothing is marked" in hud.footer
    await hud.press("space", "space", "k", "k", "space", "M")
    assert hud.listed == ["b71e0d4"]
    await hud.press("M")
    assert len(hud.listed) == 11


# ── looking closer ────────────────────────────────────────────────────────────────────────────


@does("fleet", "detail")
async def _(hud: Cockpit) -> None:
    await hud.press("d")
    assert hud.app.fleet.doc.has_focus


@does("sessions", "detail")
async def _(hud: Cockpit) -> None:
    await hud.press("d")
    assert "principal" in hud.screen


@does("sessions", "search", "match_next", "match_previous")
async def _(hud: Cockpit) -> None:
    term = hud.app.sessions.term
    hud.engines[-1].feed(b"".join(b"line %d\n" % n for n in range(300)))
    await hud.press("slash")
    await hud.type("line 28")
    await hud.press("enter")
    assert "line 289" in hud.screen
    first = hud.engines[-1]._found
    await hud.press("n")
    assert hud.engines[-1]._found < first
    await hud.press("N")
    assert hud.engines[-1]._found == first
    await hud.press("slash")
    term.sought = ""
    await hud.type("zzzz")
    await hud.press("enter")
    assert "not in what this session printed" in hud.footer


@does("sessions", "tiles")
async def _(hud: Cockpit) -> None:
    await hud.press("T")
    assert "session 1" in hud.screen
    assert "session 3" in hud.screen
    assert not hud.app.sessions.term.session
    await hud.press("tab", "enter")
    assert not hud.app.sessions.tiled
    assert hud.app.sessions.term.has_focus
    await hud.press("T", "escape")
    assert (front(hud), hud.app.sessions.tiled) == ("sessions", False)
    await hud.press("T", "a")
    assert hud.app.captured


@does("sessions", "follow")
async def _(hud: Cockpit) -> None:
    await long_session(hud)
    await hud.press("g")
    assert not hud.app.sessions.term.following
    assert "scrolled back" in hud.screen
    await hud.press("F")
    assert hud.app.sessions.term.following
    await hud.press("F")
    assert not hud.app.sessions.term.following


async def test_the_palette_offers_the_same_actions(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        commands = {each.title: each for each in hud.app.get_system_commands(hud.app.screen)}
        wanted: list[Action] = [a for a in ACTIONS if a.palette and "fleet" in a.views]
        assert {a.label[0].upper() + a.label[1:] for a in wanted} <= set(commands)
        commands["Faults"].callback()
        await hud.pilot.pause()
        assert len(hud.listed) == 6
        await hud.press("ctrl+p")
        assert "Search for commands" in hud.screen


# ── where they do nothing ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("view", VIEWS)
async def test_a_key_of_another_view_says_where_it_belongs(
    view: actions.View, jobs: Path, cockpit: Open
) -> None:
    moving = {key for action in ACTIONS if not action.palette for key in action.keys}
    others = {
        key: action
        for action in ACTIONS
        if action.views not in (("attached",), ("detail",))
        for key in action.keys
        if actions.find(key, view) is None and key not in moving
    }
    assert others
    async with cockpit(jobs, size=(200, 60)) as hud:
        await enter(hud, view)
        for key, action in others.items():
            await hud.press(key)
            assert f"{actions.shown(key)} · " in hud.footer, key
            assert f"{action.label} is in " in hud.footer, key
            assert front(hud) == view


async def test_a_command_of_another_view_says_where_it_belongs(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        for word, said in (
            ("allow", ":allow · allow is in 4 Egress"),
            ("what-if", ":what-if · what if is in 4 Egress"),
            ("fly", "`fly` is no command"),
        ):
            await hud.press("colon")
            await hud.type(word)
            await hud.press("enter")
            assert said in hud.footer
