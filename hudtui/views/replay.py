"""View 7: a session's terminal at any moment, over the timeline of what happened."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from textual.app import ComposeResult

from cell import events
from cell.plain import plain
from cell.trials import Trial
from cell.trials.events import EventLog
from cell.trials.sessions import Session, read_sessions
from hudtui.frame.screens import MenuScreen
from hudtui.lines.hit import moment
from hudtui.lines.marks import mark_lines, missing_lines, told
from hudtui.panes.doc import Doc
from hudtui.panes.drawing import Ground
from hudtui.panes.replay import ReplayPane
from hudtui.panes.timeline import Timeline, rows
from hudtui.recordings.film import LONGEST, Mark, next_mark, span
from hudtui.views import HudView, Pane, titled
from hudtui.views.watching import latest, session_name

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_SEEK, _FAR = 5.0, 60.0


class ReplayView(HudView):
    """Terminal over timeline; on a wide screen the marks stand beside it."""

    name_ = "replay"

    def compose(self) -> ComposeResult:
        """Terminal, marks, timeline; a note where there is nothing to play."""
        with Ground(id="replay-body"):
            yield ReplayPane(self.hud.engine, fps=0, id="replay-term")
            yield Doc(id="replay-marks", wrapped=False)
        yield Doc(id="replay-note")
        yield Timeline(id="replay-time")

    def on_mount(self) -> None:
        """Nothing is played yet."""
        self.term = self.query_one("#replay-term", ReplayPane)
        self.note = self.query_one("#replay-note", Doc)
        self.time = self.query_one("#replay-time", Timeline)
        self.list = self.query_one("#replay-marks", Doc)
        self.marks: Sequence[Mark] = ()
        self._about = ""
        self._log: EventLog | None = None
        self._known: tuple[object, ...] = ()
        self._before = time.monotonic()
        self.note.display = False
        if self.hud.fps:
            self.set_interval(1 / self.hud.fps, self._frame)

    def panes(self) -> list[Pane]:
        """The terminal, or the note."""
        return [self.term, self.note]

    def trial(self) -> Trial | None:
        """The cell in scope, else the one chosen on Fleet."""
        return self.hud.scoped or self.hud.fleet.trial()

    # ── which session ─────────────────────────────────────────────────────────────────────────

    def enter(self) -> None:
        """Time begins when somebody looks."""
        self._before = time.monotonic()
        super().enter()

    def leave(self) -> None:
        """Nobody looks: play no more."""
        self.term.playing = False

    def update(self) -> None:
        """Take in what was recorded since; the moment stays."""
        trial = self.trial()
        found = self._sessions(trial)
        if trial is None or not found:
            self._nothing(trial)
            return
        playing = self.term.session
        session = next((each for each in found if playing and each.path == playing.path), None)
        if session is None:
            session = latest(found)
            assert session is not None
        self._about = trial.path
        self._show(True)
        self.term.play_session(session)
        self.term.load()
        self._draw()

    def _sessions(self, trial: Trial | None) -> list[Session]:
        if trial is None:
            return []
        found = read_sessions(Path(trial.path), alive=trial.alive)
        return [session for session in found if session.kind == "cast"]

    def _nothing(self, trial: Trial | None) -> None:
        self.term.shut()
        self._show(False)
        others = read_sessions(Path(trial.path)) if trial is not None else ()
        self.note.show(missing_lines(trial, others), keep=True)
        titled(self.note, "Replay" + (f" · {trial.id} {trial.task}" if trial else ""))

    def _show(self, there: bool) -> None:
        focused = self.pane.has_focus if self.note.display == there else False
        self.note.display = not there
        self.query_one("#replay-body").display = self.time.display = there
        self.term.display = there
        if focused:
            self.pane.focus()

    def show_moment(self, trial: str, n: int | None, t: float) -> None:
        """Show the terminal of session `n` (None: what ran then) of a trial at the time `t` (epoch)."""
        self.hud.scope = trial
        found = [each for each in self._sessions(self.hud.scoped) if each.started is not None]
        then = [each for each in found if (each.started or 0) <= t]
        session = next((each for each in found if each.n == n), None)
        if session is None:
            session = latest([each for each in then if _runs(each, t)]) or (then[-1] if then else None)
        if session is None:
            self.term.shut()
            self.hud.go("replay")
            self.hud.flash("no recording covers that moment")
            return
        self._about = trial
        self._show(True)
        self.term.play_session(session)
        self.hud.go("replay")
        self.term.seek(t - (session.started or t))
        self._draw()
        if session.n != n:
            self.hud.flash(f"no session of its own is known: {session_name(session)} is what ran then")

    # ── drawing ───────────────────────────────────────────────────────────────────────────────

    def _frame(self) -> None:
        now = time.monotonic()
        passed, self._before = now - self._before, now
        if self.hud.view == "replay" and self.term.player is not None and self.screen.is_active:
            self.advance(min(passed, 0.5))

    def advance(self, seconds: float) -> None:
        """Play on by `seconds` of the clock, and do a little of what is left to do."""
        term = self.term
        if term.behind or (term.playing and term.session is not None and term.session.running):
            term.load()
        was = (term.now, term.playing, term.length, term.waiting > 0)
        term.tick(seconds)
        term.work()
        if was != (term.now, term.playing, term.length, term.waiting > 0):
            self._draw()

    def _draw(self) -> None:
        term, session = self.term, self.term.session
        if session is None or term.film is None:
            return
        term.extent = _extent(session, self.hud.clock())
        self._gather(session)
        trial = self.trial()
        name = f"{trial.id} {trial.task} · " if trial is not None else ""
        when = f" · {moment((session.started or 0) + term.now)}" if session.started else ""
        titled(term, f"{name}{session_name(session)}{when}", session.command or "shell")
        state = "▶ playing" if term.playing else "paused"
        if term.waiting:
            state = f"▶ silence of {span(term.waiting)} is skipped"
        parts = [f"{span(term.now)} of {span(term.length)}", state, f"{term.speed:g}×"]
        if session.running:
            parts.append("● live")
        if term.film.full:
            parts.append("the rest is not shown: too much was printed")
        if term.behind:
            parts.append("reading …")
        self.time.border_title = " · ".join(parts)
        self.time.draw(rows(term.film, self.marks, term.now, term.length, self.time.room))
        if self.list.display:
            lines, at = mark_lines(self.marks, term.now)
            self.list.show(lines, keep=True)
            self.list.move_to(at)
            self.list.border_title = f"Marks {len(self.marks)}"

    def on_resize(self) -> None:
        """The timeline has another width."""
        self.call_after_refresh(self._draw)

    def _gather(self, session: Session) -> None:
        """Put the marks of the recording and of the journal in the order of their time."""
        assert self.term.film is not None
        path = Path(self._about) / "cell/events.jsonl"
        if self._log is None or self._log.path != path:
            self._log = EventLog(path)
        self._log.refresh()
        known = (
            session.path,
            len(self.term.film.marks),
            self._log.size,
            self.term.length,
            self.hud.hits.hits,
        )
        if len(known) == len(self._known) and all(
            a == b if a is not known[4] else a is b for a, b in zip(known, self._known, strict=True)
        ):
            return
        self._known = known
        found = list(self.term.film.marks)
        start, length = session.started, self.term.length
        if start is not None:
            for hit in self.hud.hits.hits:
                if hit.trial == self._about and not hit.allowed and hit.session in (None, session.n):
                    found.append(Mark(hit.t - start, "deny", f"{hit.method or hit.way} {hit.place}"))
            for each in self._log.lines:
                if isinstance(each.event, events.PhaseChanged):
                    found.append(Mark(each.t - start, "phase", told(each.event)))
                elif isinstance(each.event, events.Intervention):
                    found.append(Mark(each.t - start, "mark", plain(each.event.what, limit=120)))
        found = [mark for mark in found if 0 <= mark.t <= length + 0.001]
        self.marks = sorted(found, key=lambda mark: mark.t)

    # ── actions ───────────────────────────────────────────────────────────────────────────────

    def on_timeline_clicked(self, event: Timeline.Clicked) -> None:
        """Go to the clicked moment."""
        event.stop()
        self._go(event.share * self.term.length)

    def _go(self, t: float) -> None:
        self.term.seek(t)
        self._draw()

    def act_play(self) -> None:
        """Play, or pause; from the end: again from the beginning."""
        term = self.term
        if term.player is None:
            return
        live = term.session is not None and term.session.running
        if not term.playing and not live and term.now >= term.length:
            term.seek(0.0)
        term.playing = not term.playing
        self._before = time.monotonic()
        self._draw()

    def act_seek_forward(self) -> None:
        """Five seconds on."""
        self._go(self.term.now + _SEEK)

    def act_seek_back(self) -> None:
        """Five seconds back."""
        self._go(self.term.now - _SEEK)

    def act_far_forward(self) -> None:
        """A minute on."""
        self._go(self.term.now + _FAR)

    def act_far_back(self) -> None:
        """A minute back."""
        self._go(self.term.now - _FAR)

    def act_step(self) -> None:
        """To the next output."""
        self.term.step(1)
        self._draw()

    def act_step_back(self) -> None:
        """To the output before."""
        self.term.step(-1)
        self._draw()

    def act_begin(self) -> None:
        """To the beginning."""
        self._go(0.0)

    def act_end(self) -> None:
        """To the end; of a session that runs: stay there."""
        self.term.load_all(float("inf"))
        self._go(self.term.length)
        if self.term.session is not None and self.term.session.running:
            self.term.playing = True
            self._draw()

    def act_mark_next(self, step: int = 1) -> None:
        """To the next mark."""
        mark = next_mark(self.marks, self.term.now, step)
        if mark is None:
            self.hud.flash("that was the last mark" if step > 0 else "that was the first mark")
        else:
            self._go(mark.t)

    def act_mark_previous(self) -> None:
        """To the mark before."""
        self.act_mark_next(-1)

    def act_faster(self, step: int = 1) -> None:
        """Play faster."""
        at = max(0, min(SPEEDS.index(self.term.speed) + step, len(SPEEDS) - 1))
        self.term.speed = SPEEDS[at]
        self._draw()

    def act_slower(self) -> None:
        """Play slower."""
        self.act_faster(-1)

    def act_open(self) -> None:
        """Choose the session."""
        trial = self.trial()
        found = self._sessions(trial)
        if trial is None or not found:
            return
        options = [
            (each.path, f"{each.name:<5} {each.phase:<9} {plain(each.command or 'shell', limit=43)}")
            for each in found
        ]

        def chosen(path: str | None) -> None:
            session = next((each for each in found if each.path == path), None)
            if session is not None:
                self.term.play_session(session)
                self._draw()

        here = self.term.session.path if self.term.session else ""
        self.app.push_screen(MenuScreen("Session", options, at=here), chosen)


def _extent(session: Session, now: float) -> float:
    """Return how long a session has lasted, in seconds, as the journal and the clock say."""
    if session.ms is not None:
        return min(LONGEST, session.ms / 1000)
    if session.running and session.started is not None:
        return min(LONGEST, max(0.0, now - session.started))
    return 0.0


def _runs(session: Session, t: float) -> bool:
    if session.ms is None or session.started is None:
        return True
    return t <= session.started + session.ms / 1000
