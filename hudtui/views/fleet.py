"""View 1: one row for each cell, and beside it what the chosen one says."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from textual.app import ComposeResult
from textual.timer import Timer

from cell.trials import Trial
from hudtui.frame.screens import DocScreen
from hudtui.lines.fleet import GROUPS, cells, columns, event_runs, grouped, job_line, order, values
from hudtui.lines.verdict import file_lines, verdict_lines
from hudtui.look import Run
from hudtui.panes.chrome import Bar
from hudtui.panes.doc import Doc
from hudtui.panes.drawing import Ground
from hudtui.panes.table import Group, Table
from hudtui.views import Pane, titled
from hudtui.views.beside import BesidePane
from hudtui.views.listing import ListView

_SETTLE = 0.12
"""Seconds that the cursor rests before the side panes read what it is on."""


class FleetView(ListView):
    """The table, filtered, grouped and sorted; the side panes follow its cursor."""

    name_ = "fleet"

    def compose(self) -> ComposeResult:
        """Table, terminal, verdict, strip of events."""
        with Ground(id="fleet-body"):
            yield Table[Trial](columns, self._cells, lambda trial: trial.path, id="fleet-table")
            with Ground(id="fleet-side", classes="box"):
                yield BesidePane(self.hud.engine, fps=self.hud.fps, id="fleet-term")
                yield Doc(id="fleet-doc")
        yield Bar(id="fleet-events")

    def on_mount(self) -> None:
        """Begin with no filter."""
        self.table: Table[Trial] = self.query_one("#fleet-table", Table)
        self.doc = self.query_one("#fleet-doc", Doc)
        self.term = self.query_one("#fleet-term", BesidePane)
        self.strip = self.query_one("#fleet-events", Bar)
        self.only_marked = False
        self.by = ""
        self._life: dict[str, deque[int]] = {}
        self._seen: dict[str, int] = {}
        self._timer: Timer | None = None
        self._beside: Trial | None = None
        self.strip.border_title = "Events"

    def panes(self) -> list[Pane]:
        """Table, terminal, verdict."""
        return [self.table, self.term, self.doc]

    def leave(self) -> None:
        """Stop reading what nobody looks at."""
        self.term.show_trial(None)

    def trial(self) -> Trial | None:
        """The cell under the cursor."""
        return self.table.current

    def _cells(self, trial: Trial) -> list[list[Run]]:
        life = self._life.get(trial.path, ())
        tried = self.hud.hits.counts.get(trial.path)
        return cells(trial, self.table.columns, self.hud.clock(), tuple(life), tried)

    # ── what is shown ─────────────────────────────────────────────────────────────────────────

    def looked(self, trials: Sequence[Trial]) -> None:
        """Remember how much each cell recorded since the last look."""
        for trial in trials:
            before = self._seen.get(trial.path)
            if trial.state in ("running", "paused", "kept"):
                life = self._life.setdefault(trial.path, deque(maxlen=6))
                life.append(0 if before is None else max(0, trial.activity - before))
            self._seen[trial.path] = trial.activity
        here = {trial.path for trial in trials}
        for gone in set(self._seen) - here:
            self._seen.pop(gone, None)
            self._life.pop(gone, None)

    def listed(self) -> list[Trial]:
        """Return the cells as the table lists them: filtered and sorted."""
        now = self.hud.clock()
        chosen = [
            trial
            for trial in self.hud.snapshot.trials
            if (not self.only_faults or not trial.clean)
            and (not self.only_marked or trial.path in self.table.marks)
            and (not self.filter_on or self._matches(values(trial, now)))
        ]
        return order(chosen, *self.sort, now, self.hud.hits.counts)

    def update(self) -> None:
        """Fill the table again; the cursor stays on its cell."""
        trials = self.listed()
        entries = grouped(trials, self.by)
        queued = sum(job.queued for job in self.hud.snapshot.jobs)
        if queued and not (self.filter_text or self.only_faults or self.only_marked):
            entries.append(Group("○", "muted", tail=f"{queued} more queued", at="task"))
        self.table.sorted_by = self.sort
        self.table.empty = self._empty()
        self.table.show(entries)
        titled(self.table, self._title(len(trials)), job_line(self.hud.snapshot.jobs))
        self.strip.show(event_runs(self.hud.snapshot.trials))
        self._follow_cursor()

    def _title(self, count: int) -> str:
        total = len(self.hud.snapshot.trials)
        parts = [f"Fleet {total}" if count == total else f"Fleet {count} of {total}"]
        if self.filter_text:
            parts.append(f"/{self.filter_text}" + ("" if self.filter_on else " (off)"))
        parts += ["faults"] * self.only_faults + ["marked"] * self.only_marked
        if self.table.marks:
            parts.append(f"{len(self.table.marks)} marked")
        if self.by:
            parts.append(f"by {self.by}")
        return " · ".join(parts)

    def _empty(self) -> str:
        if self.hud.snapshot.trials:
            return "nothing matches · esc shows all again"
        notes = [f"{root.path}: {root.note}" for root in self.hud.snapshot.roots if root.note]
        return (notes[0] if notes else "no cell yet") + " · this screen fills by itself"

    # ── what the side panes say ───────────────────────────────────────────────────────────────

    def _follow_cursor(self) -> None:
        trial = self.table.current
        self.hud.header()
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        moved = trial is None or self._beside is None or trial.path != self._beside.path
        if moved and self.hud.fps:
            self._timer = self.set_timer(_SETTLE, self._side)
        else:
            self._side()

    def _side(self) -> None:
        trial = self._beside = self.table.current
        if not self.query_one("#fleet-side").display:
            return
        if trial is None:
            self.doc.show([])
            self.term.show_trial(None)
            titled(self.doc, "")
            return
        lines = verdict_lines(trial, self.hud.clock(), brief=True)
        self.doc.show(lines, keep=self.doc.titled[0] == f"{trial.id} {trial.task}")
        titled(self.doc, f"{trial.id} {trial.task}")
        self.set_class(trial.alive, "alive")
        self.term.show_trial(trial)

    def on_table_moved(self, event: Table.Moved) -> None:
        """The side panes follow."""
        event.stop()
        self._follow_cursor()

    def on_doc_opened(self, event: Doc.Opened) -> None:
        """Open what the line names."""
        event.stop()
        self.act_open()

    # ── actions ───────────────────────────────────────────────────────────────────────────────

    @property
    def unsorted(self) -> str:
        """In what order the list is when nobody chose one."""
        return "what needs attention first"

    def narrowing(self) -> list[tuple[bool, Callable[[], None]]]:
        """Return that of the marks."""
        return [(self.only_marked, self.act_marked)]

    def act_open(self) -> None:
        """Open the cell: its sessions while it runs, else its verdict (ungraded: the first evidence)."""
        trial = self.table.current
        if trial is None:
            return
        if self.doc.has_focus and self.doc.current is not None and self.doc.current.ref:
            title, lines, at = file_lines(Path(trial.path), self.doc.current.ref)
            self.app.push_screen(DocScreen(title, lines, at=at))
            return
        self.hud.scope = trial.path
        self.hud.go("sessions" if trial.state in ("running", "paused") else "verdict")
        if trial.state == "ungraded":
            self.hud.verdict.to_evidence()

    def act_watch(self) -> None:
        """Go to the cell's sessions."""
        if (trial := self.table.current) is not None:
            self.hud.scope = trial.path
            self.hud.go("sessions")

    def act_match_next(self, step: int = 1) -> None:
        """Go to the next cell that the filter matches."""
        now = self.hud.clock()
        self._next_match(
            step, lambda entry: not isinstance(entry, Group) and self._matches(values(entry, now))
        )

    def act_match_previous(self) -> None:
        """Go to the match before."""
        self.act_match_next(-1)

    def act_group(self) -> None:
        """Group by the next criterion."""
        self.by = GROUPS[(GROUPS.index(self.by) + 1) % len(GROUPS)]
        self.update()

    def act_mark(self) -> None:
        """Mark the cell and go on to the next."""
        if key := self.table.current_key:
            self.table.marks ^= {key}
            self.table.move(1)
            self.update()

    def act_marked(self) -> None:
        """Only the marked cells."""
        if not self.only_marked and not self.table.marks:
            self.hud.flash("nothing is marked; space marks")
            return
        self.only_marked = not self.only_marked
        self.update()

    def act_detail(self) -> None:
        """Show the verdict in place: the side pane, or a screen where there is none."""
        trial = self.table.current
        if trial is None:
            return
        if self.query_one("#fleet-side").display and self.doc.display:
            self.doc.focus()
            return
        lines = verdict_lines(trial, self.hud.clock())
        self.app.push_screen(DocScreen(f"{trial.id} {trial.task}", lines, wrapped=True))
