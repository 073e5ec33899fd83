"""What a person says of a trial, and keeps of it. Nothing here reaches into a cell."""

from __future__ import annotations

from collections.abc import Sequence

from cell.errors import CellError
from cell.labelling import put
from cell.trials import Trial
from hudtui.operating import Operating


class Noting(Operating):
    """The actions that write beside a trial. A cockpit that only looks has none of them."""

    _labelling: Sequence[Trial] = ()

    def _meant(self, action: str) -> Sequence[Trial]:
        """Return the cells that an action is about: Fleet's marked ones, else the one in front."""
        if self.read_only:
            self.flash(
                f"{action}: this is a recording; nothing is kept of it"
                if self.greeting
                else f"{action}: this cockpit only looks (--read-only)"
            )
            return ()
        if self.view == "fleet":
            marked = [trial for trial in self.fleet.listed() if trial.path in self.fleet.table.marks]
            if marked:
                return marked
        trial = self.current.trial()
        if trial is None:
            self.flash(f"{action}: no cell is chosen; 1 Fleet, then enter")
        return () if trial is None else (trial,)

    def act_label(self) -> None:
        """Ask for a label: a word and a note."""
        self._labelling = self._meant("label")
        if not self._labelling:
            return
        labels = {(one.label.word, one.label.note) for one in self._labelling if one.label}
        known = " ".join(labels.pop()).strip() if len(labels) == 1 else ""
        self.ask("label", known)

    def labelled(self, text: str) -> None:
        """Label what was meant when it was asked."""
        meant, self._labelling = self._labelling, ()
        try:
            for trial in meant:
                label = put(trial.path, text, who=self.who)
        except CellError as error:
            self.flash(f"label: {error}")
            return
        self.look()
        name = meant[0].id if len(meant) == 1 else f"{len(meant)} cells"
        self.flash(f"{name}: {label.word} {label.note}".rstrip() if label.word else f"{name}: no label")
