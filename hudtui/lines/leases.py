"""Who has the keyboard of a session, as the journal tells it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cell import events
from cell.plain import plain


class Held(NamedTuple):
    """A lease: whose, and since when (epoch seconds)."""

    holder: str
    since: float


def leases(lines: Iterable[events.Line]) -> dict[int, Held]:
    """Return the sessions whose keyboard somebody has now."""
    found: dict[int, Held] = {}
    for line in lines:
        event = line.event
        if isinstance(event, events.Lease):
            if event.holder:
                found[event.session] = Held(plain(event.holder, limit=60), line.t)
            else:
                found.pop(event.session, None)
        elif isinstance(event, events.SessionClosed):
            found.pop(event.n, None)
    return found


def paused_words(lines: Iterable[events.Line]) -> str:
    """Say how the agent was made to wait, if it is still: paused, or frozen with all of its processes."""
    words = ""
    for line in lines:
        if isinstance(line.event, events.Paused):
            words = (
                ("FROZEN: nothing inside moves" if line.event.frozen else "PAUSED")
                if line.event.paused
                else ""
            )
    return words
