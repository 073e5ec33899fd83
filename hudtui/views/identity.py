"""View 5: what a cell is made of, and what of it is not what it should be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
from textual.app import ComposeResult

from cell.fidelity import Check
from cell.records import CellInfo
from cell.trials import Trial
from cell.trials.files import load_record, stamp
from hudtui.lines.identity import cells_lines, fidelity_lines, fidelity_words, identity_lines
from hudtui.panes.doc import Doc
from hudtui.panes.drawing import Ground
from hudtui.views import HudView, Pane, titled
from hudtui.wire import WireError
from hudtui.wire.asking import refusal, runtime_of

if TYPE_CHECKING:
    from hudtui.acting.operating import Operating


class IdentityView(HudView):
    """One document; on a wide screen what was found from inside stands beside it."""

    name_ = "identity"

    def compose(self) -> ComposeResult:
        """The document."""
        with Ground(id="identity-body"):
            yield Doc(id="identity-doc")
            yield Doc(id="identity-checks")

    def on_mount(self) -> None:
        """Nothing was read yet."""
        self.doc = self.query_one("#identity-doc", Doc)
        self.beside = self.query_one("#identity-checks", Doc)
        self._about: str | None = None
        self._checks: dict[str, list[Check]] = {}
        self._read: dict[str, tuple[tuple[int, int, int], CellInfo | None]] = {}

    def panes(self) -> list[Pane]:
        """The documents."""
        return [self.doc, self.beside]

    def update(self) -> None:
        """Show the record as it is now; the reader stays where he is."""
        trial = self.hud.scoped
        about = trial.path if trial else ""
        keep, self._about = about == self._about, about
        self.beside.set_class(trial is None, "hidden")
        if trial is None:
            every = [(each, self._info(each)) for each in self.hud.snapshot.trials]
            self.doc.show(cells_lines(every), keep=keep)
            titled(self.doc, "Identity", "1 Fleet, then enter on a cell")
            return
        checks, wide = self._checks.get(trial.path), self.beside.display
        self.doc.show(identity_lines(trial, self._info(trial), checks, inside=not wide), keep=keep)
        self.beside.show(fidelity_lines(checks)[1:] if wide else [], keep=keep)
        titled(self.beside, "Fidelity · looked at from inside", fidelity_words(checks))
        titled(self.doc, f"Identity · {trial.id} {trial.task}", "cell/cell.json")

    def _info(self, trial: Trial) -> CellInfo | None:
        file = Path(trial.path) / "cell/cell.json"
        mark = stamp(file)
        known = self._read.get(trial.path)
        if known is None or known[0] != mark:
            info = load_record(file, CellInfo)
            # Torn at the moment: what was known is still true.
            known = self._read[trial.path] = (mark, info or (known[1] if known and mark[2] else None))
        return known[1]

    def search(self, text: str) -> None:
        """Find the text."""
        self.doc.sought = text
        if text and not self.doc.find(1):
            self.hud.flash(f"“{text}” is not here")
        self.doc.refresh()

    def act_search(self) -> None:
        """Ask what to find."""
        self.hud.ask("search", self.doc.sought)

    def act_match_next(self) -> None:
        """Go to the next match."""
        self.doc.find(1)

    def act_match_previous(self) -> None:
        """Go to the match before."""
        self.doc.find(-1)

    def act_fidelity(self) -> None:
        """Look from inside whether the world is what the record says."""
        trial, operating = self.hud.scoped, cast("Operating", self.app)
        if trial is None:
            self.hud.flash("fidelity: one cell must be in scope: 1 Fleet, then enter")
        elif reason := refusal(trial, "fidelity", read_only=operating.read_only):
            self.hud.flash(f"fidelity: {reason.removeprefix('fidelity: ')}")
        else:
            self.hud.flash("looking from inside …")
            self.run_worker(self._look_inside(trial), exclusive=True, group="fidelity")

    async def _look_inside(self, trial: Trial) -> None:
        operating = cast("Operating", self.app)
        try:
            if (runtime := runtime_of(trial)) is None:
                raise WireError("its record names no socket")
            told = await operating.wire.call(runtime, "fidelity")
            checks = msgspec.convert(told, list[Check])
        except (WireError, msgspec.ValidationError) as error:
            self.hud.flash(f"fidelity: {error}")
            return
        self._checks[trial.path] = checks
        self.hud.flash(f"{trial.id}: {fidelity_words(checks)}")
        self.update()
        if self.beside.display:
            return
        at = next((n for n, each in enumerate(self.doc.lines) if each.text.startswith("Fidelity")), 0)
        self.doc.move_to(-1)
        self.doc.move_to(at)
