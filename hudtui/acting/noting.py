"""What a person says of a trial, and keeps of it. Nothing here reaches into a cell."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from cell.errors import CellError
from cell.labelling import put
from cell.trials import Trial
from hudtui.acting.operating import Operating
from hudtui.views import NOBODY


class Noting(Operating):
    """The actions that write beside a trial. A cockpit that only looks has none of them."""

    _labelling: Sequence[Trial] = ()

    def _meant(self, action: str) -> Sequence[Trial]:
        """Return the cells that an action is about: Fleet's marked ones, else the one in front."""
        if self.read_only:
            self.flash(f"{action}: {self.only_looks}" + ("; nothing is kept of it" if self.greeting else ""))
            return ()
        if self.view == "fleet":
            marked = [trial for trial in self.fleet.listed() if trial.path in self.fleet.table.marks]
            if marked:
                return marked
        trial = self.current.trial()
        if trial is None:
            self.flash(f"{action}: {NOBODY}")
        return () if trial is None else (trial,)

    def act_bundle(self) -> None:
        """Ask what is to be in the bundle, and write it beside the job."""
        meant = self._meant("bundle")
        if not meant:
            return
        options = (
            ("records", "records · and a summary: no keys, no sockets, no secrets that are known here"),
            ("root", "also the files that the agent changed (cell/root)"),
        )
        name = meant[0].id if len(meant) == 1 else f"{len(meant)} cells"
        self.choose(f"Bundle {name}", options, partial(self._bundle, meant))

    def _bundle(self, trials: Sequence[Trial], how: str) -> None:
        self.run_worker(self._write_bundles(trials, root=how == "root"), group="bundle")

    async def _write_bundles(self, trials: Sequence[Trial], *, root: bool) -> None:
        # the cockpit itself also runs where no tree of an agent's can be walked
        from cell import bundle

        said = ""
        for trial in trials:
            self.flash(f"{trial.id}: bundling …")
            out = bundle.free_name(Path(trial.path).parent.parent, trial)
            try:
                made = await asyncio.to_thread(bundle.write, trial, out, root=root)
            except CellError as error:
                self.flash(f"bundle: {error}")
                return
            said = f"{made.files} files in {made.path}"
        self.flash(said if len(trials) == 1 else f"{len(trials)} bundles, the last: {said}")

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
