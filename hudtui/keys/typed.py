"""A key as it was typed: its bytes, and the names it has."""

from __future__ import annotations

from textual import events

from hudtui.keys.keystrokes import Stroke

_SIDES = ("shift", "control", "alt", "super", "hyper", "meta")
_HELD = {f"{side}_{key}" for side in ("left", "right") for key in _SIDES}


class Typed(events.Event, bubble=False):
    """`meant` are the keys (name, character) that Textual makes of it: one, or none, or several."""

    def __init__(self, stroke: Stroke, meant: tuple[tuple[str, str | None], ...]) -> None:
        super().__init__()
        self.stroke, self.meant = stroke, meant

    @property
    def key(self) -> str:
        """The name of the key, if it is one that has a name."""
        return self.meant[0][0] if len(self.meant) == 1 else ""

    @property
    def character(self) -> str | None:
        """What it writes, if anything."""
        return self.meant[0][1] if len(self.meant) == 1 else None

    @property
    def alone(self) -> bool:
        """Whether nobody means anything by it: a key going up, or shift and its like going down."""
        return self.stroke.released or self.key in _HELD

    def named(self) -> list[events.Key]:
        """Return the keys as Textual's own."""
        return [events.Key(name, character) for name, character in self.meant]


def readable(pasted: str) -> str:
    """Return a paste as text: bytes that are none are shown as U+FFFD, and not written as they came."""
    return pasted.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
