"""Every action of the cockpit, once: its keys, its words, and where it applies.

Key bindings, the footer, the help screen and the palette are made from this table, and a test holds
that no key means two things in one view.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

View = Literal[
    "fleet", "sessions", "commands", "egress", "identity", "verdict", "replay", "detail", "attached"
]
VIEWS: tuple[View, ...] = (
    "fleet",
    "sessions",
    "commands",
    "egress",
    "identity",
    "verdict",
    "replay",
)
EVERYWHERE: tuple[View, ...] = (*VIEWS, "detail")
SCROLLED: tuple[View, ...] = tuple(view for view in EVERYWHERE if view != "replay")
"""Where one moves by lines; in Replay one moves in time."""


class Action(NamedTuple):
    """`name` is the method that does it (`act_NAME`); `footer` orders it there, 0 keeps it out."""

    name: str
    keys: tuple[str, ...]
    label: str
    help: str
    views: tuple[View, ...] = VIEWS
    footer: int = 0
    palette: bool = True


_FLEET: tuple[View, ...] = ("fleet",)
_SESSIONS: tuple[View, ...] = ("sessions",)
_VERDICT: tuple[View, ...] = ("verdict",)
_EGRESS: tuple[View, ...] = ("egress",)
_COMMANDS: tuple[View, ...] = ("commands",)
_IDENTITY: tuple[View, ...] = ("identity",)
_REPLAY: tuple[View, ...] = ("replay",)
_INSIDE: tuple[View, ...] = ("sessions", "commands", "egress", "identity", "verdict", "replay")
_SIDEWAYS: tuple[View, ...] = ("sessions", "commands", "egress", "identity", "verdict", "detail")
_LISTS: tuple[View, ...] = ("fleet", *_SIDEWAYS)
_SEARCHED: tuple[View, ...] = ("sessions", "commands", "identity", "verdict", "detail")
_FILTERED: tuple[View, ...] = ("fleet", "egress")
_DETAIL: tuple[View, ...] = ("detail",)
_ATTACHED: tuple[View, ...] = ("attached",)

ACTIONS: tuple[Action, ...] = (
    # going somewhere
    Action("open", ("enter",), "open", "running → its sessions, finished → its verdict", _FLEET, 1),
    Action("open", ("enter",), "open", "open what the line names", _VERDICT, 1),
    Action("open", ("enter",), "watch", "look at the session", _SESSIONS, 1),
    Action("open", ("enter",), "detail", "what is known of the hit; of a host: its hits", _EGRESS, 1),
    Action("open", ("enter",), "detail", "all that is known of the command, and its output", _COMMANDS, 1),
    Action("watch", ("w",), "watch", "its terminal, under Sessions", _COMMANDS, 2),
    Action("watch", ("w",), "watch", "the cell's terminals, read-only", ("fleet", "verdict"), 2),
    Action("back", ("escape",), "back", "clear the filter first, then go back"),
    Action("close", ("escape", "q"), "close", "back to where you were", _DETAIL, 1),
    Action("scope_all", ("0",), "all", "look at all cells", palette=True),
    Action("view_fleet", ("1",), "Fleet", "the table of cells"),
    Action("view_sessions", ("2",), "Sessions", "terminals and outputs"),
    Action("view_commands", ("3",), "Commands", "what was run, and what it printed"),
    Action("view_egress", ("4",), "Egress", "every attempt to leave, and what decided"),
    Action("view_identity", ("5",), "Identity", "what the cell is made of"),
    Action("view_verdict", ("6",), "Verdict", "reward, causes, tests, timeline"),
    Action("view_replay", ("7",), "Replay", "a recording at any moment"),
    Action("view_last", ("minus",), "last view", "go to the view before this one"),
    Action("next_cell", ("J",), "next cell", "the next cell of the list", _INSIDE, 6),
    Action("previous_cell", ("K",), "previous cell", "the cell before it in the list", _INSIDE),
    # moving
    Action("down", ("j", "down"), "down", "one line down", SCROLLED, palette=False),
    Action("up", ("k", "up"), "up", "one line up", SCROLLED, palette=False),
    Action(
        "top",
        ("g", "home"),
        "top",
        "to the first line (of a session: its first byte)",
        SCROLLED,
        palette=False,
    ),
    Action("bottom", ("G", "end"), "bottom", "to the last line", SCROLLED, palette=False),
    Action("half_down", ("ctrl+d",), "half down", "half a page down", SCROLLED, palette=False),
    Action("half_up", ("ctrl+u",), "half up", "half a page up", SCROLLED, palette=False),
    Action("page_down", ("pagedown",), "page down", "a page down", SCROLLED, palette=False),
    Action("page_up", ("pageup",), "page up", "a page up", SCROLLED, palette=False),
    Action("left", ("left",), "left", "to the left", _SIDEWAYS, palette=False),
    Action("right", ("right",), "right", "to the right", _SIDEWAYS, palette=False),
    Action("follow", ("F",), "follow", "stay at the end of what is printed", _SESSIONS, 3),
    Action("tiles", ("T",), "tiles", "several terminals at once", _SESSIONS, 4),
    Action("follow", ("F",), "follow", "stay at the last hit", _EGRESS, 6),
    Action("pane_next", ("tab",), "pane", "the next pane", footer=0, palette=False),
    Action("pane_previous", ("shift+tab",), "pane back", "the pane before", palette=False),
    Action("zoom", ("z",), "zoom", "this pane alone, and back", footer=7),
    # in time
    Action("play", ("space",), "play", "play on, or pause", _REPLAY, 1),
    Action("seek_back", ("left",), "5 s", "five seconds back", _REPLAY, 1),
    Action("seek_forward", ("right",), "5 s", "five seconds on", _REPLAY, 1),
    Action("step_back", ("comma",), "step", "to the output before", _REPLAY, 2),
    Action("step", ("full_stop",), "step", "to the next output", _REPLAY, 2),
    Action("mark_next", ("n", "j", "down"), "next mark", "the next denial, typed line, phase …", _REPLAY, 1),
    Action("mark_previous", ("N", "k", "up"), "mark before", "the mark before", _REPLAY),
    Action("far_forward", ("pagedown", "ctrl+d"), "minute", "a minute on", _REPLAY),
    Action("far_back", ("pageup", "ctrl+u"), "minute back", "a minute back", _REPLAY),
    Action("begin", ("g", "home"), "beginning", "to the first moment", _REPLAY),
    Action("end", ("G", "end"), "end", "to the last moment; of a session that runs: stay there", _REPLAY),
    Action("faster", ("greater_than_sign",), "faster", "play faster", _REPLAY, 6),
    Action("slower", ("less_than_sign",), "slower", "play slower", _REPLAY),
    Action("open", ("enter",), "session", "choose another recording of the cell", _REPLAY, 6),
    # finding
    Action(
        "filter", ("slash",), "filter", "words, field~text, field:word, field>=number; | ! ( )", _FILTERED, 5
    ),
    Action("search", ("slash",), "search", "find a text", _SEARCHED, 5),
    Action("filter_toggle", ("f",), "filter on/off", "the filter off and on again", _FILTERED),
    Action("match_next", ("n",), "next match", "the next match of the filter or search", _LISTS),
    Action("match_previous", ("N",), "match before", "the match before", _LISTS),
    Action("faults", ("exclamation_mark",), "faults", "only what is not a clean pass", _FLEET, 3),
    Action("faults", ("exclamation_mark",), "denied", "only what was denied", _EGRESS, 3),
    Action("group", ("o",), "group", "by cause, by signature, by task, off", _FLEET, 4),
    Action("group", ("o",), "by host", "one row for each host, or for each hit", _EGRESS, 4),
    Action("sort", ("S",), "sort", "by a column; again for the other direction", _FILTERED, 8),
    Action("mark", ("space",), "mark", "mark the cell, or take the mark away", _FLEET),
    Action("marked", ("M",), "only marked", "only the marked cells", _FLEET),
    # looking closer
    Action("detail", ("d",), "detail", "the verdict of the cell, in place", _FLEET, 8),
    Action("detail", ("d",), "detail", "what is known of the session", _SESSIONS, 5),
    Action("detail", ("d",), "detail", "what is known of the hit", _EGRESS),
    Action("raw", ("y",), "raw JSON", "the record as `--json` prints it", footer=9),
    Action("copy", ("c",), "copy", "the cell's id; again: the path of its folder", footer=10),
    Action("copy", ("c",), "copy", "everything that is shown here", _DETAIL, 6),
    Action("replay", ("t",), "terminal", "the terminal at that moment", _EGRESS, 2),
    Action("replay", ("t",), "replay", "the terminal when the command began", _COMMANDS, 3),
    Action("what_if", ("e",), "what if", "another allowlist: which recorded denials would pass", _EGRESS, 7),
    # reaching into a cell
    Action(
        "allow", ("A",), "allow", "let a denied host pass: once, or for the rest of the phase", _EGRESS, 2
    ),
    Action("fidelity", ("i",), "fidelity", "look from inside whether it is true", _IDENTITY, 1),
    Action("attach", ("a",), "attach", "take the keyboard of a session; asked if somebody has it", footer=2),
    Action("shell", ("s",), "shell", "a shell of your own: as agent, verifier or root"),
    Action("pause", ("p",), "pause", "the agent waits, or goes on"),
    Action("keep", ("H",), "keep", "keep a cell beyond its end, or release it"),
    Action("grade", ("r",), "grade", "grade now, again, ten times, or with one thing changed"),
    Action(
        "finish",
        ("E",),
        "finish",
        "end the agent phase that a person works in, and grade",
        (*VIEWS, "attached"),
    ),
    Action("stop", ("x",), "stop", "stop the cell, or the marked ones; asked first"),
    # what one says of a trial
    Action("label", ("l",), "label", "a word and a note, kept beside the job; the marked ones, if any are"),
    Action(
        "bundle",
        ("b",),
        "bundle",
        "one file to hand on: its records and a summary, no keys, no known secrets",
    ),
    # while attached: the key after the prefix
    Action("detach", ("d", "f12"), "detach", "give the keyboard back (F12 alone does it too)", _ATTACHED, 1),
    Action("unlist", ("z",), "list", "the list of sessions beside it, and back", _ATTACHED, 2),
    Action(
        "scroll",
        ("left_square_bracket",),
        "scroll",
        "scroll back; / finds, v marks a line, y copies, esc returns to typing",
        _ATTACHED,
        3,
    ),
    Action("session_next", ("n",), "next session", "attach to the next one", _ATTACHED, 4),
    Action("session_previous", ("p",), "session before", "attach to the one before", _ATTACHED),
    Action("take_size", ("r",), "take my size", "give the session the size of this pane", _ATTACHED, 5),
    Action("literal", ("ctrl+right_square_bracket",), "itself", "send the prefix key itself", _ATTACHED),
    Action("attached_help", ("question_mark",), "keys", "this list", _ATTACHED, 99),
    # the rest
    Action("command", ("colon",), "command", "a command line: a view, an action, `q`", palette=False),
    Action("refresh", ("ctrl+r",), "look again", "read the folders now"),
    Action("help", ("question_mark",), "help", "this list", EVERYWHERE, footer=99),
    Action("quit_here", ("q",), "quit", "leave (only on Fleet; elsewhere go back)", palette=False),
    Action("quit_now", ("ctrl+q",), "quit", "leave, from everywhere"),
)

SHOWN = {
    "enter": "⏎",
    "escape": "esc",
    "slash": "/",
    "exclamation_mark": "!",
    "question_mark": "?",
    "colon": ":",
    "minus": "-",
    "pagedown": "pgdn",
    "pageup": "pgup",
    "down": "↓",
    "up": "↑",
    "left": "←",
    "right": "→",
    "comma": ",",
    "full_stop": ".",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "left_square_bracket": "[",
    "ctrl+right_square_bracket": "ctrl+]",
    "f12": "F12",
}
"""How a key is written on the screen, where that differs from its name."""

TABS: tuple[tuple[str, str, bool], ...] = tuple(
    (str(n), name, name.casefold() in VIEWS)
    for n, name in enumerate(
        ("Fleet", "Sessions", "Commands", "Egress", "Identity", "Verdict", "Replay"), start=1
    )
)
"""The view bar: key, name, and whether this version has it."""


def keys() -> tuple[str, ...]:
    """Return every key of the table, once."""
    return tuple(dict.fromkeys(key for action in ACTIONS for key in action.keys))


def find(key: str, view: View) -> Action | None:
    """Return what the key means in the view."""
    for action in ACTIONS:
        if key in action.keys and view in action.views:
            return action
    return None


def named(name: str, view: View) -> Action | None:
    """Return the action of that name as the view has it."""
    for action in ACTIONS:
        if action.name == name and view in action.views:
            return action
    return None


def footer(view: View) -> tuple[tuple[str, str], ...]:
    """Return (key, label) of the view's footer, in order."""
    chosen = sorted((a for a in ACTIONS if a.footer and view in a.views), key=lambda a: a.footer)
    return tuple((shown(action.keys[0]), action.label) for action in chosen)


def shown(key: str) -> str:
    """Return how the key is written on the screen."""
    return SHOWN.get(key, key)


def elsewhere(found: Callable[[Action], bool]) -> str:
    """Say in which views the actions are that `found` knows; empty if there are none."""
    places: dict[str, dict[str, None]] = {}
    for action in filter(found, ACTIONS):
        for n, name, _ in TABS:
            if name.casefold() in action.views:
                places.setdefault(action.label, {})[f"{n} {name}"] = None
    return "; ".join(f"{label} is in {', '.join(where)}" for label, where in places.items())


def missed(key: str) -> str:
    """Say where a key has a meaning, for a view in which it has none. Keys that move say nothing."""
    if any(key in action.keys and not action.palette for action in ACTIONS):
        return ""
    words = elsewhere(lambda action: key in action.keys)
    return f"{shown(key)} · {words}" if words else ""
