"""Taking the keyboard of a session, and our own shell: what the Sessions view does beyond watching."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast, get_args

from cell.trials import Trial
from cell.trials.events import EventLog
from cell.trials.sessions import Session, read_sessions
from hudtui.actions import find, shown
from hudtui.frame.screens import DocScreen, help_lines
from hudtui.lines.fleet import ago
from hudtui.lines.leases import Held, leases, paused_words
from hudtui.panes.copying import CopyingPane
from hudtui.panes.doc import line
from hudtui.panes.driven import DrivenPane
from hudtui.views import HudView
from hudtui.views.watching import how_it_ended
from hudtui.wire import OCCUPIED, TAKEN, Channel, Ending, Who, WireError
from hudtui.wire.asking import refusal, runtime_of

if TYPE_CHECKING:
    from hudtui.acting.operating import Operating


_FRAME: dict[str, str] = {"agent": "", "verifier": "-verifier", "root": "-root"}


class Attached(NamedTuple):
    """What the keyboard drives: a session of the agent's, or a shell of our own as `who`."""

    trial: Trial
    session: Session
    who: str
    own: bool = False


class Attaching(HudView):
    """`term` is the pane that can be driven."""

    term: CopyingPane
    attached: Attached | None = None
    told = ""
    """How the last attachment ended, shown until another session is looked at."""
    _cut: Attached | None = None
    """What the keyboard drove when the connection broke."""
    _log: EventLog | None = None
    _size_of_theirs: tuple[int, int] | None = None
    """The size that the agent gave its session, while we have given it ours."""

    @property
    def operating(self) -> Operating:
        """The application."""
        return cast("Operating", self.app)

    # ── who has the keyboard ──────────────────────────────────────────────────────────────────

    def held(self, trial: Trial, n: int) -> Held | None:
        """Return who has the keyboard of session `n`."""
        return leases(self.log_of(trial).lines).get(n)

    def log_of(self, trial: Trial) -> EventLog:
        """Return the trial's journal, read on from where the last look ended."""
        path = Path(trial.path) / "cell/events.jsonl"
        if self._log is None or self._log.path != path:
            self._log = EventLog(path)
        self._log.refresh()
        return self._log

    def held_words(self, trial: Trial, n: int) -> str:
        """Say who has the keyboard and since when; empty if nobody."""
        held = self.held(trial, n)
        return f"{held.holder} has the keyboard · {ago(self.hud.clock() - held.since)}" if held else ""

    # ── attach ────────────────────────────────────────────────────────────────────────────────

    def attach(self, trial: Trial | None, session: Session | None, *, take: bool = False) -> None:
        """Take the keyboard of the session; asked first if somebody has it."""
        if self.operating.refused(trial, "attach") or trial is None:
            return
        if session is None or not session.running:
            gone = f"{session.name} runs no more" if session else "no such session runs"
            self.hud.flash(f"attach: {gone}; s opens a shell")
        elif not session.tty:
            self.hud.flash(f"attach: {session.name} has no terminal, only pipes; s opens a shell beside it")
        elif not take and self.held(trial, session.n) is not None:
            self._ask_take(trial, session, self.held_words(trial, session.n))
        else:
            self.run_worker(self._take(trial, session, take), exclusive=True, group="attach")

    def attach_number(self, trial: Trial, number: int, *, take: bool = False) -> None:
        """Take the keyboard of session `number`."""
        found = [each for each in self.running_terminals(trial) if each.n == number]
        self.attach(trial, found[0] if found else None, take=take)

    def _ask_take(self, trial: Trial, session: Session, words: str) -> None:
        self.operating.confirm(
            "The keyboard is taken",
            "only watch",
            f"take it over: {words}",
            lambda: self.attach(trial, session, take=True),
        )

    async def _take(self, trial: Trial, session: Session, take: bool) -> None:
        try:
            if (runtime := runtime_of(trial)) is None:
                raise WireError("its record names no socket")
            channel = await self.operating.wire.attach(runtime, session.n, take=take, who=self.operating.who)
        except WireError as error:
            self.hud.flash(f"attach: {error}")
            return
        self._begin(Attached(trial, session, session.principal or "agent"), channel)

    def shell(self, trial: Trial | None) -> None:
        """Ask as whom, then open a shell of our own."""
        if self.operating.refused(trial, "shell") or trial is None:
            return
        options = [(who, _SHELLS[who]) for who in get_args(Who)]
        self.operating.choose(f"A shell in {trial.id}", options, partial(self._shell_as, trial))

    def _shell_as(self, trial: Trial, who: str) -> None:
        self._to_the_front(trial)
        self.call_after_refresh(lambda: self.run_worker(self._shell(trial, cast("Who", who))))

    def _to_the_front(self, trial: Trial) -> None:
        if self.hud.view != self.name_:
            self.hud.scope = trial.path
            self.hud.go(self.name_)

    async def _shell(self, trial: Trial, who: Who) -> None:
        for _ in range(100):
            if self.term.size:
                break
            await asyncio.sleep(0.01)  # the view came to the front just now and has no size yet
        cols, rows = self.term.room
        try:
            if (runtime := runtime_of(trial)) is None:
                raise WireError("its record names no socket")
            channel = await self.operating.wire.shell(runtime, who, cols, rows)
        except WireError as error:
            self.hud.flash(f"shell: {error}")
            return
        session = Session(n=0, name="own shell", kind="pane", path="", tty=True, cols=cols, rows=rows)
        self._begin(Attached(trial, session, who, own=True), channel)

    def _begin(self, attached: Attached, channel: Channel) -> None:
        self._to_the_front(attached.trial)
        if self.attached is not None:
            self._give_size_back(self.attached)
        self.attached, self.told = attached, ""
        self.set_class(True, "attached")
        for who, name in _FRAME.items():
            self.term.set_class(bool(name) and who == attached.who, name or "-agent")
        self.term.drive(channel, attached.session, own=attached.own)
        self.term.focus()
        self.retitle()
        self.hud.show_footer()

    def on_driven_pane_released(self, event: DrivenPane.Released) -> None:
        """Say how it ended; somebody who has the keyboard can be asked to give it."""
        event.stop()
        attached, self.attached = self.attached, None
        self.set_class(False, "attached")
        for name in _FRAME.values():
            if name:
                self.term.set_class(False, name)
        if attached is None:
            return
        self._give_size_back(attached)
        if attached.own:
            self.term.watch_session(None)
        self.hud.look()
        if not attached.own and self.hud.view == self.name_:
            self.stay_on(attached.trial, attached.session)
        self._cut = attached if event.ending.status is None and not event.asked else None
        self.told = self._ending(attached, event.ending, event.asked)
        self.retitle()
        self.hud.show_footer()
        if self.told:
            self.hud.flash(self.told)
        if event.ending.status == OCCUPIED and not event.asked and self.screen.is_active:
            words = event.ending.words.partition(";")[0] or "somebody else has it"
            self._ask_take(attached.trial, attached.session, words)

    def _ending(self, attached: Attached, ending: Ending, asked: bool) -> str:
        what = "your shell" if attached.own else f"session {attached.session.n}"
        if asked:
            left = "you left your shell: it has ended, with what ran in it"
            return left if attached.own else f"detached from {what}: the keyboard is the agent's again"
        if ending.status is None:
            return self.died_words() or f"detached: the connection to {attached.trial.id} was cut"
        if ending.status in (TAKEN, OCCUPIED):
            return f"detached: {ending.words.partition(';')[0] or 'the keyboard is taken'}"
        words = f" · {ending.words}" if ending.words else ""
        if not attached.own and not ending.status:  # that is how our channel ended
            return f"{what} has ended{self._how(attached)}"
        how = "by a signal" if ending.status < 0 else f"exit {ending.status}"
        return f"{what} has ended ({how}){words}"

    def _how(self, attached: Attached) -> str:
        n, trial = attached.session.n, Path(attached.trial.path)
        return next((how_it_ended(each) for each in read_sessions(trial) if each.n == n), "")

    def died_words(self) -> str:
        """Say that the cell whose connection was cut runs no more, once that is known."""
        if self._cut is None:
            return ""
        trial = self.now(self._cut.trial)
        return "" if trial.alive else f"detached: {trial.id} has died with all in it; its records are left"

    def now(self, trial: Trial) -> Trial:
        """Return the trial as it was at the last look."""
        return next((each for each in self.hud.snapshot.trials if each.path == trial.path), trial)

    def stay_on(self, trial: Trial, session: Session) -> None:
        """Go on with watching a session."""
        raise NotImplementedError

    # ── what the border says ──────────────────────────────────────────────────────────────────

    def retitle(self) -> None:
        """Write the border of the terminal again."""
        raise NotImplementedError

    def attached_words(self) -> tuple[str, str]:
        """Return title and subtitle while attached."""
        assert self.attached is not None
        trial, session, who, own = self.attached
        title = (
            f"YOUR SHELL in {trial.id} as {who}"
            if own
            else f"ATTACHED {trial.id} as {who} · session {session.n}"
        )
        prefix = shown(self.term.prefix)
        if self.term.prefixed:
            return title, f"{prefix} · d detach · z list · [ scroll · r my size · n p sessions · ? keys"
        if self.term.scrolling:
            return title, self.term.scroll_words
        size = f"{self.term.engine.cols}×{self.term.engine.rows}" if self.term.engine else ""
        human = trial.agent == "human"
        parts = [
            f"{prefix} d {'ends it' if own else 'detach'}",
            f"{prefix} E finish" if human else "F12",
            paused_words(self.log_of(trial).lines),
            "" if own else "agent waits",
            size,
        ]
        return title, " · ".join(part for part in parts if part)

    # ── keys after the prefix ─────────────────────────────────────────────────────────────────

    def prefixed(self, typed: str) -> None:
        """Do what a key means after the prefix."""
        key = "ctrl+right_square_bracket" if typed == self.term.prefix else typed
        action = find(key, "attached")
        if action is None:
            self.app.bell()
        else:
            name = f"act_{action.name}"
            (getattr(self, name, None) or getattr(self.app, name))()

    def act_detach(self) -> None:
        """Give the keyboard back."""
        self.term.release()

    def act_literal(self) -> None:
        """Send the prefix key itself."""
        self.term.literal()

    def act_scroll(self) -> None:
        """Scroll and copy; esc goes back to typing."""
        self.term.begin_scroll()
        self.retitle()

    def act_unlist(self) -> None:
        """Show the list of sessions beside the terminal, or take it away."""
        self.toggle_class("listed")

    def act_attached_help(self) -> None:
        """Show the keys of an attached terminal."""
        extra = [
            line(
                "Every other key goes into the cell. Shift and drag selects, also where the program listens."
            )
        ]
        self.app.push_screen(
            DocScreen("Keys while attached", [*help_lines("attached"), *extra], wrapped=True)
        )

    def act_take_size(self) -> None:
        """Give the session the size of this pane."""
        if self.attached is None or self.attached.own:
            return
        trial, session = self.attached.trial, self.attached.session
        if not refusal(trial, "attach"):
            cols, rows = self.term.room
            if self._size_of_theirs is None and self.term.engine is not None:
                self._size_of_theirs = self.term.engine.cols, self.term.engine.rows
            self.operating.ask_cell(
                trial,
                "resize",
                f"session {session.n} is {cols}×{rows} now",
                session=session.n,
                cols=cols,
                rows=rows,
            )

    def _give_size_back(self, attached: Attached) -> None:
        """Whoever leaves a session gives it the size that its program had chosen."""
        size, self._size_of_theirs = self._size_of_theirs, None
        if size is not None and not attached.own and not refusal(attached.trial, "attach"):
            cols, rows = size
            said = f"detached from session {attached.session.n}: it is {cols}×{rows} again"
            self.operating.ask_cell(
                attached.trial, "resize", said, session=attached.session.n, cols=cols, rows=rows
            )

    def act_session_next(self, step: int = 1) -> None:
        """Attach to the next session of the cell that has a terminal and runs."""
        if self.attached is None:
            return
        trial, now = self.attached.trial, self.attached.session.n
        others = self.running_terminals(trial)
        numbers = [each.n for each in others]
        if not others or numbers == [now]:
            self.hud.flash("there is no other session with a terminal")
            return
        at = (numbers.index(now) + step) % len(others) if now in numbers else 0
        self.attach(trial, others[at])

    def act_session_previous(self) -> None:
        """Attach to the session before."""
        self.act_session_next(-1)

    def running_terminals(self, trial: Trial) -> list[Session]:
        """Return the sessions of a cell that can be attached to."""
        raise NotImplementedError


_SHELLS: dict[Who, str] = {
    "agent": "as the agent · its user, environment and way out",
    "verifier": "as the verifier · its user and environment",
    "root": "as root · every means inside the cell",
}
