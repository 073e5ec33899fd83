"""What an operator does to a cell from the cockpit: pause, stop, keep, grade, shells, new runs."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cell.changes import KINDS
from cell.plain import plain
from cell.trials import Trial
from hudtui.acting.navigation import Navigating
from hudtui.acting.starting import ended, start_cell, start_run
from hudtui.frame.screens import DocScreen, MenuScreen
from hudtui.lines.spread import TIMES, grade_often, spread_lines
from hudtui.views import NOBODY
from hudtui.wire import Wire, WireError
from hudtui.wire.asking import refusal, runtime_of
from hudtui.wire.ssh import SshWire

_DONE = {
    "pause": "the agent waits · p lets it go on",
    "continue": "the agent goes on",
    "keep": "kept: it stays when it has finished, until H releases it",
    "release": "released: it goes as soon as its rollout is over",
    "stop": "stopped",
    "finish": "the agent phase is over; it is graded now",
}


_LOOK_AFTER_RUNS, _RUNS_LOOKED_AT = 0.5, 240  # seconds, and how often: what is wrong shows soon


def who_am_i() -> str:
    """Name the person at this terminal, for the lease and the journal."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return "".join(char for char in f"{user}@{socket.gethostname()}" if char.isalnum() or char in "@.-_")[:60]


class Operating(Navigating):
    """The actions that reach into cells. Each is refused with its reason where it cannot be."""

    def __init__(
        self,
        paths: Iterable[Path | str],
        *,
        wire: Wire | None = None,
        read_only: bool = False,
        who: str = "",
        prefix: str = "ctrl+right_square_bracket",
        greeting: str = "",
        **options: Any,
    ) -> None:
        super().__init__(paths, **options)
        self.wire: Wire = wire or SshWire()
        self.read_only, self.who, self.prefix = read_only, who or who_am_i(), prefix
        self.greeting = greeting

    @property
    def only_looks(self) -> str:
        """Say why this cockpit changes nothing."""
        return "this is a recording" if self.greeting else "this cockpit only looks (--read-only)"

    def refused(self, trial: Trial | None, method: str) -> bool:
        """Say on the footer why not, if not."""
        reason = refusal(trial, method, read_only=self.read_only)
        if reason and trial is not None and self.greeting:
            reason = f"{method}: this is a recording; there is no cell behind it"
        if reason:
            self.flash(reason)
        return bool(reason)

    def ask_cell(self, trial: Trial, method: str, said: str = "", **args: Any) -> None:
        """Ask the cell, and say what came of it."""
        self.run_worker(self._ask_cell([trial], method, said, args), group=f"ask {trial.path}")

    async def _ask_cell(self, trials: Sequence[Trial], method: str, said: str, args: dict[str, Any]) -> None:
        done, wrong = 0, ""
        for trial in trials:
            try:
                if (runtime := runtime_of(trial)) is None:
                    raise WireError("its record names no socket")
                if method in ("pause", "continue", "finish"):
                    args = {"who": self.who, **args}
                await self.wire.call(runtime, method, **args)
                done += 1
            except WireError as error:
                wrong = f"{trial.id}: {error}"
        words = said or _DONE.get(method, method)
        name = trials[0].id if len(trials) == 1 else f"{done} of {len(trials)} cells"
        self.look()
        self.flash(wrong or f"{name}: {words}")

    # ── one cell ──────────────────────────────────────────────────────────────────────────────

    def act_pause(self) -> None:
        """Pause the agent, or let it go on; the menu offers to freeze its processes."""
        trial = self.current.trial()
        method = "continue" if trial is not None and trial.state == "paused" else "pause"
        if self.refused(trial, method) or trial is None:
            return
        if method == "continue":
            self.ask_cell(trial, method)
            return
        options = (
            ("wait", "wait · what it asks for next waits, and so does its deadline"),
            ("freeze", "freeze · its processes stand still as well"),
        )
        self.choose(
            f"Pause {trial.id}", options, lambda how: self.ask_cell(trial, "pause", freeze=how == "freeze")
        )

    def act_keep(self) -> None:
        """Keep a cell beyond its end, or release it."""
        trial = self.current.trial()
        method = "release" if trial is not None and trial.kept else "keep"
        if not self.refused(trial, method) and trial is not None:
            over = method == "release" and trial.phase in ("finished", "closed")
            self.ask_cell(trial, method, "released: it goes now" if over else "")

    def act_finish(self) -> None:
        """End the agent phase of a person's cell, and grade it."""
        trial = self.current.trial()
        if self.refused(trial, "finish") or trial is None:
            return
        if trial.agent != "human":
            self.flash(f"finish: the agent of {trial.id} is {trial.agent}, not a person; x stops it")
            return
        yes = "finish: no more typing, the tests run now"
        self.confirm(f"Finish {trial.id}", "not yet", yes, partial(self.ask_cell, trial, "finish"))

    def act_grade(self) -> None:
        """The grade menu: what can be done now, and what is missing for the rest."""
        trial = self.current.trial()
        if trial is None:
            self.flash(NOBODY)
            return
        if self.greeting and self.refused(trial, "grade"):
            return
        reason = refusal(trial, "grade", read_only=self.read_only)
        options = (
            ("now", f"now{' · ' + reason.removeprefix('grade: ') if reason else ''}"),
            ("again", "again · a kept cell only: a fresh verification of the same world"),
            ("ten", "×10 · ten fresh verifications, and how far they lie apart"),
            # with one thing changed: recorded beside the score, which stays
            ("timeout=x4", "beside the score, with four times the verifier's time"),
            ("agent=still", "beside the score, with the agent's processes standing still"),
            ("network=public", "beside the score, with the verifier's way out leading anywhere"),
        )
        self.choose(f"Grade {trial.id}", options, partial(self._grade, trial))

    def _grade(self, trial: Trial, how: str) -> None:
        if how != "now" and not trial.kept:
            self.flash(f"grade: {trial.id} is not kept; H keeps a running cell")
        elif self.refused(trial, "grade"):
            pass
        elif how == "ten":
            self.run_worker(self._grade_often(trial), group=f"grade {trial.path}", exclusive=True)
        else:
            change = ["--with", how] if how in KINDS else []
            done = f"{trial.id} is graded: 6 Verdict shows what came of it"
            self.flash(start_cell(["grade", trial.path, *change], Path(trial.path).parent.parent, done=done))
            self.set_interval(_LOOK_AFTER_RUNS, self._tell_of_runs, repeat=_RUNS_LOOKED_AT)

    async def _grade_often(self, trial: Trial) -> None:
        def said(done: int) -> None:
            self.flash(f"{trial.id}: graded {done} of {TIMES} times …")

        results = await grade_often(trial.path, said)
        self.look()
        self.push_screen(DocScreen(f"{trial.id} graded {TIMES} times", spread_lines(results), wrapped=True))

    def choose(self, title: str, options: Sequence[tuple[str, str]], then: Callable[[str], object]) -> None:
        """Open a menu and do `then` with what was chosen."""

        def chosen(name: str | None) -> None:
            if name is not None:
                then(name)

        self.push_screen(MenuScreen(title, options), chosen)

    def confirm(self, title: str, no: str, yes: str, then: Callable[[], None]) -> None:
        """Ask before something that cannot be taken back; the cursor is on `no`."""
        self.choose(title, (("no", no), ("yes", yes)), lambda how: then() if how == "yes" else None)

    # ── stopping, also many ───────────────────────────────────────────────────────────────────

    def act_stop(self) -> None:
        """Stop the cell, or all marked ones; asked first."""
        marked = [trial for trial in self.fleet.listed() if trial.path in self.fleet.table.marks]
        if self.view == "fleet" and marked:
            live = [trial for trial in marked if not refusal(trial, "stop", read_only=self.read_only)]
            if not live:
                self.refused(marked[0], "stop")
                return
            self._stopping = live
            self.ask("confirm")
            self.prompt.placeholder = f"stop {len(live)} marked cells: type {len(live)} and enter"
            return
        trial = self.current.trial()
        if not self.refused(trial, "stop") and trial is not None:
            yes = f"stop it: {trial.task}, {trial.agent}"
            self.confirm(f"Stop {trial.id}", "leave it", yes, partial(self.ask_cell, trial, "stop"))

    _stopping: Sequence[Trial] = ()

    def confirmed(self, text: str) -> None:
        """The number of cells to stop was typed."""
        live, self._stopping = self._stopping, ()
        if text == str(len(live)) and live:
            self.run_worker(self._ask_cell(live, "stop", "", {}), group="stop")
        else:
            self.flash(f"nothing is stopped: {plain(text, limit=20) or 'nothing'} is not {len(live)}")

    # ── new runs ──────────────────────────────────────────────────────────────────────────────

    def run_task(self, words: str) -> None:
        """`:run TASK …`: start `cell run` into the folder that is looked at; it outlives the cockpit."""
        if self.read_only:
            self.flash(f"run: {self.only_looks}")
        else:
            self.flash(start_run(words, self.jobs_folder))
            self.set_interval(_LOOK_AFTER_RUNS, self._tell_of_runs, repeat=_RUNS_LOOKED_AT)

    def _tell_of_runs(self) -> None:
        for said in ended():
            self.flash(said)

    @property
    def jobs_folder(self) -> Path:
        """The jobs folder that is looked at: of a job or a trial, the one around it."""
        path = self._reader.paths[0] if self._reader.paths else Path("jobs")
        if self.snapshot.jobs and Path(self.snapshot.jobs[0].path) == path:
            return path.parent
        return path
