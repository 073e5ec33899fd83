"""The timeline of a recording: how much was printed when, and what happened: drawn by pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message
from textual.strip import Strip

from cell.plain import plain
from hudtui.look import Run
from hudtui.panes.chrome import Bar
from hudtui.recordings.film import Film, Mark, MarkKind, bars, next_mark, span

SIGNS: dict[MarkKind, Run] = {
    "deny": ("×", "bad bold"),
    "typed": ("▲", "accent bold"),
    "phase": ("◆", "primary"),
    "end": ("■", "warn"),
    "mark": ("•", ""),
    "input": ("·", "muted"),
}
_HERE: Run = ("│", "primary bold")
_RANK: tuple[MarkKind, ...] = ("deny", "typed", "phase", "end", "mark", "input")


class Timeline(Bar):
    """Three rows: activity, marks, and in words what comes before and after. A click goes there."""

    class Clicked(Message):
        """The moment `share` (0 to 1) of the whole was clicked."""

        def __init__(self, share: float) -> None:
            super().__init__()
            self.share = share

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: list[list[Run]] = []

    def draw(self, rows: list[list[Run]]) -> None:
        """Show these rows."""
        if rows != self.rows:
            self.rows = rows
            self.refresh()

    @property
    def room(self) -> int:
        """How many columns there are."""
        return max(1, self.content_size.width)

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        runs = self.rows[y] if y < len(self.rows) else []
        return self.look.strip(runs, self.content_size.width).apply_style(self.rich_style)

    def on_click(self, event: events.Click) -> None:
        """Go to the moment under the pointer."""
        offset = event.get_content_offset(self)
        if offset is not None:
            self.post_message(self.Clicked(offset.x / self.room))


def place(t: float, length: float, width: int) -> int:
    """Return the column of a moment."""
    return min(width - 1, max(0, int(t / length * width))) if length > 0 else 0


def rows(film: Film, marks: Sequence[Mark], now: float, length: float, width: int) -> list[list[Run]]:
    """Return the three rows; where one is stands out on the first two, whatever else is there."""
    here = place(now, length, width)
    drawn = bars(film.activity(length, width))
    bar = drawn[here : here + 1]
    above: list[Run] = [(drawn[:here], "ok"), _HERE if bar == " " else (bar, "ok reverse")]
    above.append((drawn[here + 1 :], "muted"))
    signs: dict[int, MarkKind] = {}
    for mark in marks:
        at = place(mark.t, length, width)
        known = signs.get(at)
        if known is None or _RANK.index(mark.kind) < _RANK.index(known):
            signs[at] = mark.kind
    below: list[Run] = []
    last = -1
    for at in sorted({*signs, here}):
        below.append((" " * (at - last - 1), ""))
        if at in signs:
            sign, role = SIGNS[signs[at]]
            below.append((sign, f"{role} reverse".strip()) if at == here else (sign, role))
        else:
            below.append(_HERE)
        last = at
    return [above, below, words(marks, now, width)]


def words(marks: Sequence[Mark], now: float, width: int) -> list[Run]:
    """Say what was before and what comes next, and when."""
    before = next((mark for mark in reversed(marks) if mark.t <= now + 0.001), None)
    after = next_mark(marks, now, 1)
    room = max(10, (width - 30) // 2)
    runs: list[Run] = []
    if before is not None:
        runs += [
            SIGNS[before.kind],
            (f" {plain(before.text, limit=room)}", ""),
            (f" {span(now - before.t)} ago" if now - before.t > 0.05 else " now", "muted"),
            ("   ", ""),
        ]
    if after is not None:
        runs += [
            ("next ", "muted"),
            SIGNS[after.kind],
            (f" {plain(after.text, limit=room)}", ""),
            (f" in {span(after.t - now)}", "muted"),
        ]
    return runs
