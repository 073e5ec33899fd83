"""View 2: a cell's terminals and outputs, watched, and driven when asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from textual.app import ComposeResult
from textual.containers import Container

from cell.plain import plain
from cell.trials import Trial
from cell.trials_sessions import Session, read_sessions
from hudtui.attaching import Attaching
from hudtui.doc import line
from hudtui.driven import DrivenPane
from hudtui.fleet_rows import clock, duration
from hudtui.look import Run
from hudtui.screens import DocScreen
from hudtui.table import Column, Table
from hudtui.views import Pane, titled
from hudtui.watching import latest, session_name, state_words

_COLUMNS = (
    Column("state", "ST", 3),
    Column("name", "SESSION", 10),
    Column("command", "COMMAND", 20, grow=1),
    Column("exit", "EXIT", 6, right=True),
)
_WIDE = (
    Column("state", "ST", 3),
    Column("name", "SESSION", 12),
    Column("phase", "PHASE", 9),
    Column("user", "USER", 8),
    Column("size", "SIZE", 8),
    Column("command", "COMMAND", 16, grow=1),
    Column("exit", "EXIT", 6, right=True),
    Column("took", "TOOK", 7, right=True),
)
_ALL_CELLS = 40


class Row(msgspec.Struct, frozen=True):
    """A session and the cell it is of."""

    trial: Trial
    session: Session


class SessionsView(Attaching):
    """The list of sessions over the terminal of the chosen one."""

    name_ = "sessions"

    def compose(self) -> ComposeResult:
        """List and terminal."""
        with Container(id="sessions-body"):
            yield Table[Row](_columns, self._cells, lambda row: row.session.path, id="sessions-table")
            yield DrivenPane(self.hud.engine, fps=self.hud.fps, id="sessions-term")

    def on_mount(self) -> None:
        """Find the panes."""
        self.table: Table[Row] = self.query_one("#sessions-table", Table)
        self.term = self.query_one("#sessions-term", DrivenPane)
        self.term.prefix = self.operating.prefix
        self._about: str | None = None
        self._read: tuple[Trial | None, list[Row]] = (None, [])

    def panes(self) -> list[Pane]:
        """List and terminal."""
        return [self.table, self.term]

    def trial(self) -> Trial | None:
        """The cell in scope, else the one whose session is chosen."""
        row = self.table.current
        return self.hud.scoped or (row.trial if row else None)

    def enter(self) -> None:
        """Begin on the terminal: watching is what one comes here for."""
        self.update()
        (self.term if self.term.session else self.table).focus()

    def leave(self) -> None:
        """Stop reading what nobody looks at, and give the keyboard back."""
        self.term.release()
        self.term.watch_session(None)
        self._about = None

    def _cells(self, row: Row) -> list[list[Run]]:
        return [_CELLS[column.key](row) for column in self.table.columns]

    def update(self) -> None:
        """Read the sessions again; the choice stays, a new cell begins with its latest."""
        trial = self.hud.scoped
        rows = self._rows(trial)
        about = trial.path if trial else ""
        keep = None
        if self._about != about:
            self._about = about
            best = latest([row.session for row in rows])
            keep = best.path if best else ""
        self.table.empty = self._empty(trial)
        self.table.show(rows, keep=keep)
        titled(
            self.table,
            f"Sessions {len(rows)}" + (f" · {trial.id} {trial.task}" if trial else " of all cells"),
        )
        self._watch()

    def _rows(self, trial: Trial | None) -> list[Row]:
        if trial is None:
            live = [each for each in self.hud.snapshot.trials if each.state in ("running", "paused")]
            return [
                Row(each, session)
                for each in live[:_ALL_CELLS]
                if (session := latest(read_sessions(Path(each.path), alive=each.alive))) is not None
            ]
        if self._read[0] is not trial:
            found = read_sessions(Path(trial.path), alive=trial.alive)
            self._read = (trial, [Row(trial, session) for session in found])
        return self._read[1]

    def _empty(self, trial: Trial | None) -> str:
        if trial is None:
            return "nothing runs · 1 Fleet, then enter on a cell"
        return "no session was recorded" if trial.state != "running" else "no session yet"

    def _watch(self) -> None:
        row = self.table.current
        if self.attached is None:
            if self.term.session is None or row is None or row.session.path != self.term.session.path:
                self.told = ""
            self.term.watch_session(row.session if row else None)
        self.retitle()

    def running_terminals(self, trial: Trial) -> list[Session]:
        """See `Attaching`."""
        return [
            each for each in read_sessions(Path(trial.path), alive=trial.alive) if each.running and each.tty
        ]

    def retitle(self) -> None:
        """See `Attaching`."""
        if self.attached is not None:
            titled(self.term, *self.attached_words())
            return
        session = self.term.session
        row = self.table.current
        if session is None or row is None:
            titled(self.term, "Terminal")
            return
        held = self.held_words(row.trial, session.n) if session.running else ""
        below = " · ".join(part for part in (self.told or held, state_words(self.term, session)) if part)
        titled(self.term, f"{row.trial.id} {row.trial.task} · {session_name(session)}", below)

    def on_table_moved(self, event: Table.Moved) -> None:
        """Watch the session under the cursor."""
        event.stop()
        self._watch()

    def on_table_opened(self, event: Table.Opened) -> None:
        """As enter."""
        event.stop()
        self.act_open()

    def on_terminal_pane_changed(self, event: DrivenPane.Changed) -> None:
        """Say on the border what changed."""
        event.stop()
        self.retitle()

    def act_open(self) -> None:
        """Watch: the focus goes to the terminal."""
        if self.term.session is not None:
            self.term.focus()

    def choose_session(self, n: int) -> None:
        """Look at session `n`, if it is there."""
        found = [
            row.session.path for row in self.table.entries if isinstance(row, Row) and row.session.n == n
        ]
        if found:
            self.table.show(self.table.entries, keep=found[0])
            self._watch()

    def act_attach(self) -> None:
        """Take the keyboard of the chosen session."""
        row = self.table.current
        if row is None:
            self.hud.flash("attach: no session is chosen")
        else:
            self.attach(row.trial, row.session)

    def act_shell(self) -> None:
        """Open a shell of our own."""
        self.shell(self.trial())

    def search(self, text: str) -> None:
        """Find a text in the history of the terminal."""
        self._found(text, -1)

    def act_search(self) -> None:
        """Ask what to find."""
        self.hud.ask("search")

    def act_match_next(self) -> None:
        """Go to the next, older place of what was sought."""
        self._found(self.term.sought, -1)

    def act_match_previous(self) -> None:
        """Go to the place before, the newer one."""
        self._found(self.term.sought, 1)

    def _found(self, text: str, step: int) -> None:
        if not self.term.search(text, step) and text:
            self.hud.flash(f"{plain(text, limit=60)}: not in what this session printed")
        self.retitle()

    def act_follow(self) -> None:
        """Stay at the end of what is printed, or stay here."""
        self.term.follow(not self.term.following)
        self.retitle()

    def act_detail(self) -> None:
        """Say what is known of the session."""
        row = self.table.current
        if row is None:
            return
        found = []
        for name, value in msgspec.to_builtins(row.session).items():
            shown = f"{clock(value)} ({value})" if name == "started" and value else value
            found.append(line((f"{name:<10} ", "muted"), plain(str(shown), limit=1000), hang=11))
        self.app.push_screen(DocScreen(f"Session {row.session.name}", found, wrapped=True))

    def act_raw(self) -> None:
        """Show the session's record."""
        if (row := self.table.current) is not None:
            text = json.dumps(msgspec.to_builtins(row.session), indent=2, ensure_ascii=False)
            self.app.push_screen(DocScreen("Session JSON", [line(plain(one)) for one in text.splitlines()]))


def _columns(width: int) -> tuple[Column, ...]:
    return _WIDE if width >= 85 else _COLUMNS


def _state(row: Row) -> list[Run]:
    session = row.session
    if session.running:
        return [("●", "primary")]
    if session.exit == 0:
        return [("✓", "ok")]
    if session.exit is not None or session.signal:
        return [("×", "bad")]
    return [("•", "muted")]


def _exit(row: Row) -> list[Run]:
    session = row.session
    if session.signal:
        return [(session.signal[:6], "bad")]
    if session.exit is None:
        return [("…" if session.running else "", "muted")]
    return [(str(session.exit), "muted" if session.exit == 0 else "bad")]


def _took(row: Row) -> list[Run]:
    ms = row.session.ms
    if ms is None:
        return []
    return [
        (
            f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s" if ms < 60_000 else duration(ms / 1000),
            "muted",
        )
    ]


def _size(row: Row) -> list[Run]:
    session = row.session
    return [(f"{session.cols}×{session.rows}" if session.tty else "pipe", "muted")]


def _command(row: Row) -> list[Run]:
    session = row.session
    who: list[Run] = [(f"{row.trial.id} ", "link")] if session.principal == "" and not session.command else []
    return [*who, (session.command or ("shell" if session.tty and session.n else ""), "")]


_CELLS: Mapping[str, Callable[[Row], list[Run]]] = {
    "state": _state,
    "name": lambda row: [(f"{row.session.name}", "link")],
    "phase": lambda row: [(row.session.phase, "muted")],
    "user": lambda row: [(row.session.user, "muted")],
    "size": _size,
    "command": _command,
    "exit": _exit,
    "took": _took,
}
