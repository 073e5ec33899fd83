"""Colours: one dark and one light theme of ours, and roles that every theme gives a style.

Pure code names roles (`ok`, `muted bold`); only here do they become colours, so every theme works.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from textual.color import Color, ColorParseError
from textual.strip import Strip
from textual.theme import Theme

DARK = Theme(
    name="hud-dark",
    dark=True,
    primary="#58a6ff",
    secondary="#79c0ff",
    accent="#d2a8ff",
    success="#7ee787",
    warning="#e3b341",
    error="#ff7b72",
    foreground="#d1d7e0",
    background="#0b0e14",
    surface="#0b0e14",
    panel="#151b23",
    variables={"border": "#30363d", "scrollbar": "#30363d", "scrollbar-background": "#0b0e14"},
)
LIGHT = Theme(
    name="hud-light",
    dark=False,
    primary="#0550ae",
    secondary="#0969da",
    accent="#6639ba",
    success="#116329",
    warning="#7d4e00",
    error="#b3201a",
    foreground="#1f2328",
    background="#ffffff",
    surface="#ffffff",
    panel="#eef1f4",
    variables={"border": "#c4cbd3", "scrollbar": "#c4cbd3", "scrollbar-background": "#ffffff"},
)

_NORMAL = [(48, 54, 61), (255, 123, 114), (126, 231, 135), (227, 179, 65), (88, 166, 255), (210, 168, 255)]
_BRIGHT = [
    (110, 118, 129),
    (255, 166, 158),
    (170, 242, 176),
    (240, 207, 122),
    (138, 192, 255),
    (226, 197, 255),
]
ANSI_DARK = TerminalTheme(
    (11, 14, 20),
    (209, 215, 224),
    [*_NORMAL, (86, 212, 221), (209, 215, 224)],
    [*_BRIGHT, (226, 197, 255), (143, 231, 236), (255, 255, 255)],
)
_NORMAL = [(31, 35, 40), (179, 32, 26), (17, 99, 41), (125, 78, 0), (5, 80, 174), (102, 57, 186)]
_BRIGHT = [(101, 109, 118), (207, 34, 46), (26, 127, 55), (154, 103, 0), (9, 105, 218), (130, 80, 223)]
ANSI_LIGHT = TerminalTheme(
    (255, 255, 255),
    (31, 35, 40),
    [*_NORMAL, (27, 124, 131), (110, 118, 129)],
    [*_BRIGHT, (49, 146, 170), (140, 149, 159)],
)
"""The sixteen colours that a program in a terminal names by number."""

Run = tuple[str, str]
"""A text and its roles, separated by spaces."""

_VARIABLES = {
    "primary": "primary",
    "link": "primary",
    "ok": "success",
    "bad": "error",
    "warn": "warning",
    "accent": "accent",
}


class Look:
    """The styles of one theme's roles."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        fore = _parse(variables.get("foreground"), "#ffffff")
        back = _parse(variables.get("background"), "#000000")
        self._styles: dict[str, Style] = {
            role: Style(color=_parse(variables.get(name), "#ffffff").rich_color)
            for role, name in _VARIABLES.items()
        }
        if fore.ansi is None and back.ansi is None:
            muted = back.blend(fore, 0.5)
            self._styles["muted"] = Style(color=muted.rich_color)
        else:
            self._styles["muted"] = Style(dim=True)
        self._styles["head"] = self._styles["muted"] + Style(bold=True)
        self._styles["bold"] = Style(bold=True)
        self._styles["reverse"] = Style(reverse=True)
        self._styles[""] = Style.null()

    def style(self, roles: str) -> Style:
        """Return the style of one or more roles; an unknown role has none."""
        found = self._styles.get(roles)
        if found is None:
            parts = [self._styles.get(role, Style.null()) for role in roles.split()]
            found = self._styles[roles] = Style.combine(parts)
        return found

    def strip(self, runs: Iterable[Run], width: int) -> Strip:
        """Return the runs as one line of exactly `width` cells."""
        segments = [Segment(text, self.style(role)) for text, role in runs if text]
        return Strip(segments).adjust_cell_length(width)


def _parse(text: str | None, default: str) -> Color:
    try:
        return Color.parse(text or default)
    except ColorParseError:
        return Color.parse(default)
