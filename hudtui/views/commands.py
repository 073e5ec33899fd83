"""View 3: what was run in a cell, a row per command, and what the chosen one printed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from textual.app import ComposeResult

from cell.plain import plain
from cell.trials import Trial
from cell.trials.commands import Command, CommandLog
from cell.trials.events import phase_word
from hudtui.frame.screens import DocScreen
from hudtui.lines.fleet import clock, duration
from hudtui.look import Run
from hudtui.panes.doc import Doc, Line, line
from hudtui.panes.drawing import Ground
from hudtui.panes.table import Column, Table
from hudtui.views import NOBODY, HudView, Pane, titled
from hudtui.views.replay import ReplayView

_COLUMNS = (
    Column("time", "TIME", 8),
    Column("step", "STEP", 6),
    Column("command", "COMMAND", 20, grow=1),
    Column("exit", "EXIT", 5, right=True),
    Column("ms", "MS", 7, right=True),
    Column("bytes", "BYTES", 7, right=True),
    Column("net", "NET", 5, right=True),
)
_WIDE = (*_COLUMNS[:2], Column("phase", "PHASE", 9), Column("user", "USER", 9), *_COLUMNS[2:])


class CommandsView(HudView):
    """The commands of the cell in scope over the output of the chosen one."""

    name_ = "commands"

    def compose(self) -> ComposeResult:
        """Table over output."""
        with Ground(id="commands-body"):
            yield Table[Command](_columns, self._cells, lambda row: row.name, id="commands-table")
            yield Doc(id="commands-doc")

    def on_mount(self) -> None:
        """Find the panes."""
        self.table: Table[Command] = self.query_one("#commands-table", Table)
        self.doc = self.query_one("#commands-doc", Doc)
        self._log: CommandLog | None = None
        self._trial: Trial | None = None
        self._rows: tuple[Command, ...] = ()
        self.following = True

    def panes(self) -> list[Pane]:
        """Table and output."""
        return [self.table, self.doc]

    def trial(self) -> Trial | None:
        """The cell in scope, else the one chosen on Fleet."""
        return self.hud.scoped or self.hud.fleet.trial()

    def _cells(self, row: Command) -> list[list[Run]]:
        return [_CELLS[column.key](row) for column in self.table.columns]

    def update(self) -> None:
        """Read the commands again; the cursor stays, or follows the last one."""
        trial = self.trial()
        keep = None
        if trial is None:
            self._log, self._rows = None, ()
        else:
            if self._log is None or self._log.trial != Path(trial.path):
                self._log, self._trial, self.following = CommandLog(Path(trial.path)), None, True
            if trial is not self._trial:
                self._rows = self._log.read(alive=trial.alive)
            if self.following and self._rows:
                keep = self._rows[-1].name
        self._trial = trial
        self.table.empty = _missing(trial)
        self.table.show(self._rows, keep=keep)
        failed = sum(bool(row.exit) or bool(row.signal) for row in self._rows)
        about = f" · {trial.id} {trial.task}" if trial else ""
        titled(self.table, f"Commands {len(self._rows)}{about}" + (f" · {failed} failed" if failed else ""))
        self._beside()

    def _beside(self) -> None:
        row = self.table.current
        if row is None:
            self.doc.show([])
            titled(self.doc, "Output")
        else:
            self.doc.show(_output(row))
            titled(self.doc, f"{row.name} · {plain(row.command or 'shell', limit=80)}", _ending(row))

    def on_table_moved(self, event: Table.Moved) -> None:
        """Show the output of the command under the cursor."""
        event.stop()
        self.following = self.table.cursor >= len(self._rows) - 1
        self._beside()

    def on_table_opened(self, event: Table.Opened) -> None:
        """As enter."""
        event.stop()
        self.act_open()

    def act_open(self) -> None:
        """Show all that is known of the command, on a page of its own."""
        if (row := self.table.current) is not None:
            self.app.push_screen(DocScreen(f"Command {row.name}", _whole(row), wrapped=True))

    def act_watch(self) -> None:
        """Its terminal, under Sessions."""
        trial, row = self.trial(), self.table.current
        if trial is not None:
            self.hud.scope = trial.path
            self.hud.go("sessions")
            if row is not None:
                self.hud.sessions.choose_session(row.n)
        else:
            self.hud.flash(NOBODY)

    def act_replay(self) -> None:
        """Show the terminal at the moment the command began."""
        trial, row, view = self.trial(), self.table.current, self.hud.views["replay"]
        if trial is not None and row is not None and row.t and isinstance(view, ReplayView):
            view.show_moment(trial.path, row.n, row.t)
        else:
            self.hud.flash("no moment is known of this command")

    def act_raw(self) -> None:
        """Show the row as values."""
        if (row := self.table.current) is not None:
            text = json.dumps(msgspec.to_builtins(row), indent=2, ensure_ascii=False)
            self.app.push_screen(DocScreen("Command JSON", [line(plain(one)) for one in text.splitlines()]))

    def search(self, text: str) -> None:
        """Find a text in the commands and in what they printed, from the next one on."""
        self._sought = text
        self._find(1)

    _sought = ""

    def act_search(self) -> None:
        """Ask what to find."""
        self.hud.ask("search", self._sought)

    def act_match_next(self) -> None:
        """Go to the next command with it."""
        self._find(1)

    def act_match_previous(self) -> None:
        """Go to the one before."""
        self._find(-1)

    def _find(self, step: int) -> None:
        low = self._sought.casefold()
        if not low or not self._rows:
            return
        at = self.table.cursor
        for away in range(1, len(self._rows) + 1):
            row = self._rows[(at + step * away) % len(self._rows)]
            if low in row.command.casefold() or any(low in one.casefold() for one in row.output):
                self.following = False
                self.table.show(self._rows, keep=row.name)
                self._beside()
                self.doc.sought = self._sought
                self.doc.find(1)
                return
        self.hud.flash(f"{plain(self._sought, limit=60)}: in no command here, nor in what they printed")


def _missing(trial: Trial | None) -> str:
    if trial is None:
        return "no cell is chosen · 1 Fleet"
    if trial.origin == "harbor":
        return "Harbor kept no commands of this agent; `cell run` records each"
    return "nothing was run yet" if trial.alive else "nothing was run, or its journal is gone"


def _columns(width: int) -> tuple[Column, ...]:
    return _WIDE if width >= 95 else _COLUMNS


def _output(row: Command) -> list[Line]:
    found = [line(text) for text in row.output]
    if not found:
        found = [line(("it printed nothing" if not row.running else "nothing yet", "muted"))]
    if row.more:
        found.append(line(("… there is more; w shows all of it", "muted")))
    return found


def _whole(row: Command) -> list[Line]:
    facts = [
        ("command", row.command or "shell"),
        ("began", f"{clock(row.t)}" if row.t else ""),
        ("ended", _ending(row)),
        ("who", " as ".join(part for part in (row.principal, row.user) if part)),
        ("phase", phase_word(row.phase)),
        ("printed", f"{row.bytes_out:,} bytes"),
        ("network", f"{row.hits} attempts to leave, {row.denied} denied" if row.hits else ""),
    ]
    lines = [line((f"{name:<9}", "muted"), words, hang=9) for name, words in facts if words]
    return [*lines, line(), *_output(row)]


def _ending(row: Command) -> str:
    if row.running:
        return "● runs"
    took = f" after {_took(row.ms)}" if row.ms is not None else ""
    how = (
        f"signal {row.signal}"
        if row.signal
        else f"exit {row.exit}"
        if row.exit is not None
        else "no end known"
    )
    return how + took + (f" · {row.reason}" if row.reason else "")


def _took(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s" if ms < 60_000 else duration(ms / 1000)


def _time(row: Command) -> list[Run]:
    return [(time.strftime("%H:%M:%S", time.localtime(row.t)) if row.t else "", "muted")]


def _exit(row: Command) -> list[Run]:
    if row.running:
        return [("●", "primary")]
    if row.signal:
        return [(row.signal[:5], "bad")]
    return [] if row.exit is None else [(str(row.exit), "muted" if row.exit == 0 else "bad")]


def _bytes(row: Command) -> list[Run]:
    size = row.bytes_out
    shown = (
        f"{size}" if size < 10_000 else f"{size / 1000:.0f}k" if size < 10_000_000 else f"{size / 1e6:.0f}M"
    )
    return [(shown, "muted")]


def _net(row: Command) -> list[Run]:
    if not row.hits:
        return []
    return [(f"{row.hits}", "muted"), *([(f" ×{row.denied}", "bad")] if row.denied else [])]


_CELLS: Mapping[str, Callable[[Command], list[Run]]] = {
    "time": _time,
    "step": lambda row: [(row.name, "link")],
    "phase": lambda row: [(phase_word(row.phase), "muted")],
    "user": lambda row: [(row.user, "muted")],
    "command": lambda row: [(row.command or ("shell" if row.tty or not row.n else ""), "")],
    "exit": _exit,
    "ms": lambda row: [(f"{row.ms:.0f}" if row.ms is not None else "", "muted")],
    "bytes": _bytes,
    "net": _net,
}
