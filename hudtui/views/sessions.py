"""View 2: a cell's terminals and outputs, watched, and driven when asked."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from textual.app import ComposeResult

from cell.plain import plain
from cell.trials import Trial
from cell.trials.files import load_object, read_regular
from cell.trials.sessions import Session, read_sessions
from hudtui.actions import shown
from hudtui.frame.screens import DocScreen
from hudtui.lines.fleet import clock
from hudtui.lines.sessions import CELLS, Row, columns
from hudtui.look import Run
from hudtui.panes.copying import CopyingPane
from hudtui.panes.doc import Doc, line
from hudtui.panes.drawing import Ground
from hudtui.panes.driven import DrivenPane
from hudtui.panes.table import Table
from hudtui.views import Pane, titled
from hudtui.views.attaching import Attaching
from hudtui.views.tiles import Tiles
from hudtui.views.watching import latest, session_name, state_words

_ALL_CELLS = 40


def instruction(trial: Path) -> str:
    """Return the instruction of a trial's task, as far as the task's folder is still there."""
    task = (load_object(trial / "cell/cell.json") or {}).get("task_path")
    if not isinstance(task, str):
        return ""
    data = read_regular(Path(task) / "instruction.md", limit=1 << 18)
    return data.decode("utf-8", "replace") if data else "the task's instruction.md is not there any more"


class SessionsView(Attaching):
    """The list of sessions over the terminal of the chosen one."""

    name_ = "sessions"

    def compose(self) -> ComposeResult:
        """List and terminal."""
        with Ground(id="sessions-body"):
            yield Table[Row](columns, self._cells, lambda row: row.session.path, id="sessions-table")
            with Ground(id="sessions-seat", classes="box"):
                yield CopyingPane(self.hud.engine, fps=self.hud.fps, id="sessions-term")
                yield Doc(wrapped=True, id="sessions-task")
        yield Tiles(self.hud.engine, fps=self.hud.fps, id="sessions-tiles")

    def on_mount(self) -> None:
        """Find the panes."""
        self.table: Table[Row] = self.query_one("#sessions-table", Table)
        self.term = self.query_one("#sessions-term", CopyingPane)
        self.term.prefix, self.term.obeys = self.operating.prefix, self.prefixed
        self.tiles = self.query_one(Tiles)
        self.instructed = self.query_one("#sessions-task", Doc)
        self._instructed: str | None = None
        self._about: str | None = None
        self._read: tuple[Trial | None, list[Row]] = (None, [])

    def panes(self) -> list[Pane]:
        """List and terminal, or the tiles."""
        return (
            [*self.tiles.shown]
            if self.tiled and self.tiles.shown
            else [self.table, self.term, self.instructed]
        )

    def trial(self) -> Trial | None:
        """The cell in scope, else the one whose session is chosen."""
        row = self.table.current
        return self.hud.scoped or (row.trial if row else None)

    def enter(self) -> None:
        """Begin on the terminal: watching is what one comes here for."""
        self.update()
        if self.tiled:
            self.tiles.focus_first()
        else:
            (self.term if self.term.session else self.table).focus()

    def leave(self) -> None:
        """Stop reading what nobody looks at, and give the keyboard back."""
        self.term.release()
        self.tiles.show_none()
        self.term.watch_session(None)
        self._about = None

    def _cells(self, row: Row) -> list[list[Run]]:
        return [CELLS[column.key](row) for column in self.table.columns]

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
        self._instruct(trial)
        self._watch()

    def _instruct(self, trial: Trial | None) -> None:
        """Show a person who is the agent what is asked of them, beside the terminal."""
        human = trial.path if trial is not None and trial.agent == "human" else ""
        if human != self._instructed:
            self._instructed = human
            text = instruction(Path(human)) if human else ""
            self.set_class(bool(human), "human")
            self.instructed.show([line(plain(one, limit=4000)) for one in text.splitlines()])

    def _rows(self, trial: Trial | None) -> list[Row]:
        if trial is None:
            live = [each for each in self.hud.snapshot.trials if each.state in ("running", "paused")]
            return [
                Row(each, session)
                for each in live[:_ALL_CELLS]
                if (session := latest(read_sessions(Path(each.path), alive=each.alive))) is not None
            ]
        if self._read[0] is not trial:
            found = read_sessions(Path(trial.path), alive=trial.alive, log=self.log_of(trial))
            self._read = (trial, [Row(trial, session) for session in found])
        return self._read[1]

    def _empty(self, trial: Trial | None) -> str:
        if trial is None:
            return "nothing runs · 1 Fleet, then enter on a cell"
        if trial.agent == "human" and trial.state == "running":
            return "you are the agent · s opens a shell as the agent, E finishes"
        return "no session was recorded" if trial.state != "running" else "no session yet"

    tiled = False

    def act_tiles(self) -> None:
        """Several terminals at once, or one and the list."""
        self.tiled = not self.tiled
        self.set_class(self.tiled, "tiled")
        if self.tiled:
            self.term.watch_session(None)
        else:
            self.tiles.show_none()
        self.update()
        if self.tiled:
            self.tiles.focus_first()
        else:
            self.term.focus()

    def _leave_tiles(self) -> None:
        """Go on with the session of the tile that has the focus."""
        if self.tiled:
            chosen = next((pane.session for pane in self.tiles.shown if pane.has_focus), None)
            self.act_tiles()
            if chosen is not None:
                self.table.show(self.table.entries, keep=chosen.path)
                self._watch()

    def back(self) -> bool:
        """Tiles go first."""
        if self.tiled:
            self.act_tiles()
            return True
        return super().back()

    def _watch(self) -> None:
        row = self.table.current
        if self.tiled:
            shown = [
                each for each in self.table.entries if isinstance(each, Row) and each.session.kind != "text"
            ]
            self.tiles.show_sessions([(each.trial, each.session) for each in shown])
            return
        if self.attached is None:
            if self.term.session is None or row is None or row.session.path != self.term.session.path:
                self.told, self._cut = "", None
            self.told = self.died_words() or self.told
            self.term.watch_session(row.session if row else None)
        self.retitle()

    def running_terminals(self, trial: Trial) -> list[Session]:
        """See `Attaching`."""
        return [
            each for each in read_sessions(Path(trial.path), alive=trial.alive) if each.running and each.tty
        ]

    def stay_on(self, trial: Trial, session: Session) -> None:
        """See `Attaching`."""
        shown = [row.session.path for row in self.table.entries if isinstance(row, Row)]
        if self.hud.scope != trial.path and session.path not in shown:
            self.hud.scope = trial.path
            self.update()
        self.table.show(self.table.entries, keep=session.path)
        self._watch()

    def retitle(self) -> None:
        """See `Attaching`."""
        prefix = f"{shown(self.term.prefix)} " if self.attached is not None else ""
        titled(self.instructed, "What is asked", f"{prefix}E finishes and grades")
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
        self._leave_tiles()
        if self.term.session is not None:
            self.term.focus()

    def choose_session(self, n: int) -> bool:
        """Look at session `n`; False if it is not there."""
        found = [
            row.session.path for row in self.table.entries if isinstance(row, Row) and row.session.n == n
        ]
        if found:
            self.table.show(self.table.entries, keep=found[0])
            self._watch()
        return bool(found)

    def act_attach(self) -> None:
        """Take the keyboard of the chosen session."""
        self._leave_tiles()
        row = self.table.current
        if row is None:
            self.hud.flash("attach: there is no session yet; s opens a shell")
        else:
            self.attach(row.trial, row.session)

    def act_shell(self) -> None:
        """Open a shell of our own."""
        if self.tiled:
            self.act_tiles()
        self.shell(self.trial())

    def search(self, text: str) -> None:
        """Find a text in the history of the terminal."""
        self._found(text, -1)

    def act_search(self) -> None:
        """Ask what to find."""
        self.hud.ask("search", self.term.sought)

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
