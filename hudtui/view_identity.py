"""View 5: what a cell is made of, and what of it is not what it should be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult

from cell.records import CellInfo
from cell.trials import Trial
from cell.trials_files import load_record, stamp
from hudtui.doc import Doc
from hudtui.identity_doc import cells_lines, identity_lines
from hudtui.views import HudView, Pane, titled

if TYPE_CHECKING:
    from hudtui.operating import Operating


class IdentityView(HudView):
    """One document."""

    name_ = "identity"

    def compose(self) -> ComposeResult:
        """The document."""
        yield Doc(id="identity-doc")

    def on_mount(self) -> None:
        """Nothing was read yet."""
        self.doc = self.query_one("#identity-doc", Doc)
        self._about: str | None = None
        self._read: dict[str, tuple[tuple[int, int, int], CellInfo | None]] = {}

    def panes(self) -> list[Pane]:
        """The document."""
        return [self.doc]

    def update(self) -> None:
        """Show the record as it is now; the reader stays where he is."""
        trial = self.hud.scoped
        about = trial.path if trial else ""
        keep, self._about = about == self._about, about
        if trial is None:
            every = [(each, self._info(each)) for each in self.hud.snapshot.trials]
            self.doc.show(cells_lines(every), keep=keep)
            titled(self.doc, "Identity", "1 Fleet, then enter on a cell")
            return
        self.doc.show(identity_lines(trial, self._info(trial)), keep=keep)
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
        if not operating.refused(trial, "fidelity") and trial is not None:
            operating.ask_cell(trial, "fidelity", "the fidelity check has run")
