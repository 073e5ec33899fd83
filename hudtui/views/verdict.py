"""View 6: reward, causes with their evidence, tests, phases, the verifier's output."""

from __future__ import annotations

from pathlib import Path

from textual.app import ComposeResult

from hudtui.frame.screens import DocScreen
from hudtui.lines.job import job_lines
from hudtui.lines.verdict import file_lines, verdict_lines
from hudtui.panes.doc import Doc
from hudtui.panes.drawing import Ground
from hudtui.views import NOBODY, HudView, Pane, titled


class VerdictView(HudView):
    """The verdict's document; what one of its lines names opens beside it."""

    name_ = "verdict"

    def compose(self) -> ComposeResult:
        """Document and opened file."""
        with Ground(id="verdict-body"):
            yield Doc(id="verdict-doc")
            yield Doc(id="verdict-file", wrapped=False)

    def on_mount(self) -> None:
        """No file is open."""
        self.doc = self.query_one("#verdict-doc", Doc)
        self.file = self.query_one("#verdict-file", Doc)
        self.file.display = False
        self._about: str | None = None

    def panes(self) -> list[Pane]:
        """Document and opened file."""
        return [self.doc, self.file]

    def update(self) -> None:
        """Show the verdict as it is now; the reader stays where he is."""
        trial = self.hud.scoped
        about = trial.path if trial else ""
        keep = about == self._about
        if not keep:
            self.close_file()
        self._about = about
        if trial is None:
            self.doc.show(job_lines(self.hud.snapshot.jobs), keep=keep)
            titled(self.doc, "Verdicts of all cells", "1 Fleet, then enter on a cell")
            return
        self.doc.show(verdict_lines(trial, self.hud.clock()), keep=keep)
        titled(self.doc, f"{trial.id} {trial.task}")

    def to_evidence(self) -> None:
        """Put the cursor on the first line that can be opened."""
        at = next((i for i, one in enumerate(self.doc.lines) if one.ref), None)
        if at is not None:
            self.doc.move_to(at)

    def close_file(self) -> bool:
        """Close the opened file; say whether one was open."""
        was = bool(self.file.display)
        self.file.display = False
        self.doc.focus() if was else None
        return was

    def back(self) -> bool:
        """Close the opened file first."""
        return super().back() or self.close_file()

    def on_doc_opened(self, event: Doc.Opened) -> None:
        """As enter."""
        event.stop()
        self.act_open()

    def act_open(self) -> None:
        """Open what the line names: beside the verdict, or over it on a small screen."""
        trial, chosen = self.hud.scoped, self.doc.current
        if trial is None or chosen is None or not chosen.ref or not self.doc.has_focus:
            return
        title, lines, at = file_lines(Path(trial.path), chosen.ref)
        if self.app.size.width < 110:
            self.app.push_screen(DocScreen(title, lines, at=at))
            return
        self.file.show(lines)
        titled(self.file, title, "esc closes")
        self.file.display = True
        self.call_after_refresh(self.file.move_to, at)

    def act_watch(self) -> None:
        """Go to the cell's sessions."""
        if self.hud.scoped is not None:
            self.hud.go("sessions")
        else:
            self.hud.flash(NOBODY)

    def act_search(self) -> None:
        """Ask what to find."""
        self.hud.ask("search", self.pane_doc.sought)

    @property
    def pane_doc(self) -> Doc:
        """The document with the focus."""
        return self.file if self.file.has_focus else self.doc

    def search(self, text: str) -> None:
        """Find the text in the focused document."""
        self.pane_doc.sought = text
        if text and not self.pane_doc.find(1):
            self.hud.flash(f"“{text}” is not here")
        self.pane_doc.refresh()

    def act_match_next(self) -> None:
        """Go to the next match."""
        self.pane_doc.find(1)

    def act_match_previous(self) -> None:
        """Go to the match before."""
        self.pane_doc.find(-1)
