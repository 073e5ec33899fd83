"""The one thing that is other when a kept cell is graded beside its score. Pure.

timeout=x4       the verifier has four times its time
timeout=20m      or as much as that
agent=still      the agent's processes stand still meanwhile
network=public   the verifier's way out leads anywhere
"""

from __future__ import annotations

import argparse
import re

from .plain import plain
from .records import Record
from .words import seconds

KINDS = ("timeout=x4", "agent=still", "network=public")
"""What a menu offers."""


class Change(Record, frozen=True, kw_only=True):
    """`text` is how it is written; the rest is what it means. `times` and `sec` are about the timeout."""

    text: str
    times: float = 1.0
    sec: float | None = None
    still: bool = False
    public: bool = False

    def within(self, declared: float) -> float:
        """Return the verifier's time in seconds."""
        return declared * self.times if self.sec is None else self.sec


def parse(text: str) -> Change:
    """Read one change. Raises ValueError."""
    if text == "agent=still":
        return Change(text=text, still=True)
    if text == "network=public":
        return Change(text=text, public=True)
    if found := re.fullmatch(r"timeout=x([2-9]|[1-9][0-9])", text):
        return Change(text=text, times=float(found[1]))
    name, _, time = text.partition("=")
    if name == "timeout":
        try:
            return Change(text=text, sec=seconds(time))
        except argparse.ArgumentTypeError:
            pass
    raise ValueError(
        f"{plain(text, limit=40)!r} is no change: say timeout=x4, timeout=20m, agent=still or network=public"
    )
