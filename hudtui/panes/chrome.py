"""The rows around the views: header, view bar, footer with its prompt, and the strip of events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.cells import cell_len
from textual import events
from textual.message import Message
from textual.strip import Strip

from cell.plain import plain
from cell.trials import Job, Trial
from hudtui.actions import TABS, View, footer, shown
from hudtui.look import Run
from hudtui.panes.drawing import Coloured
from hudtui.panes.table import fit


class Bar(Coloured):
    """One row of runs, cut at the right edge."""

    DEFAULT_CSS = "Bar { height: 1; }"

    class Clicked(Message):
        """A run was clicked; its text without the blanks around it."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.runs: list[Run] = []

    def show(self, runs: Iterable[Run]) -> None:
        """Show these runs."""
        new = list(runs)
        if new != self.runs:
            self.runs = new
            self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Find the run under the pointer."""
        offset, at = event.get_content_offset(self), 0
        for text, _role in self.runs:
            at += cell_len(text)
            if offset is not None and offset.x < at:
                self.post_message(self.Clicked(text.strip()))
                return

    def render_line(self, y: int) -> Strip:
        """Draw the row."""
        width = self.content_size.width
        return self.look.strip(fit(self.runs, width), width).apply_style(self.rich_style)


class Tabs(Bar):
    """The view bar; a click goes to the view."""

    class Clicked(Message):
        """The view with that key was clicked."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def show_view(self, view: View) -> None:
        """Mark the view that is shown."""
        runs: list[Run] = []
        for key, name, here in TABS:
            role = "primary bold" if name.casefold() == view else "" if here else "muted"
            number = "primary bold" if name.casefold() == view else "muted"
            runs += [(key, number), (f" {name} ", role)]
        self.show(runs)

    def on_click(self, event: events.Click) -> None:
        """Find the view under the pointer."""
        at = 0
        offset = event.get_content_offset(self)
        for key, name, _here in TABS:
            at += len(name) + 3
            if offset is not None and offset.x < at:
                self.post_message(self.Clicked(key))
                return


def footer_runs(view: View, width: int) -> list[Run]:
    """Return as many keys of the view as fit, the help always among them."""
    pairs = list(footer(view))
    *others, last = pairs
    room = width - sum(cell_len(part) for part in last) - 1
    runs: list[Run] = []
    for key, label in others:
        need = cell_len(key) + cell_len(label) + 3
        if need > room:
            break
        runs += [(key, "primary"), (f" {label}  ", "muted")]
        room -= need
    return [*runs, (last[0], "primary"), (f" {last[1]}", "muted")]


def attached_runs(prefix: str, width: int) -> list[Run]:
    """Return the footer of an attached terminal: the ways out first."""
    runs: list[Run] = [
        ("ATTACHED ", "accent bold"),
        (" [detach] ", "accent"),
        (" F12", "primary"),
        (" detach  ", "muted"),
    ]
    room = width - sum(cell_len(text) for text, _ in runs)
    runs += [(shown(prefix), "primary"), (" then  ", "muted")]
    room -= cell_len(shown(prefix)) + 7
    for key, label in footer("attached"):
        need = cell_len(key) + cell_len(label) + 3
        if need > room:
            break
        runs += [(key, "primary"), (f" {label}  ", "muted")]
        room -= need
    return runs


def place_of(jobs: Sequence[Job], paths: Sequence[Path]) -> str:
    """Name what is looked at: the one job there is, else the first folder and how many jobs it holds."""
    if len(jobs) == 1:
        path = Path(jobs[0].path)
        return plain(f"{path.parent.name}/{path.name}")
    name = paths[0].name if paths else ""
    return plain(f"{name} · {len(jobs)} jobs" if jobs else name)


def header_runs(
    counts: Sequence[tuple[Run, int]],
    place: str,
    scoped: Trial | None,
    width: int,
    *,
    denied: int | None = None,
) -> list[Run]:
    """Return the header: name, counts by state, denials of the last minute, the folder, the scope.

    `denied` is None where nothing ever tried to leave.
    """
    runs: list[Run] = [("hudtui  ", "primary bold")]
    for (glyph, role), count in counts:
        runs.append((f"{glyph} {count}  ", role))
    bar: Run = ("│ ", "muted")
    if denied is not None:
        runs += [bar, (f"deny {denied}/min  ", "bad" if denied else "muted")]
    if width >= 100 and place:
        runs += [bar, (f"{place}  ", "muted")]
    return [*runs, bar, (f"all › {scoped.id}" if scoped else "all", "")]
