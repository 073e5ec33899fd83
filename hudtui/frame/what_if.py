"""The screen of `what_if`: a line to edit over what it would do, as one types."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import Input

from cell.trials.egress import Hit
from hudtui.lines.what_if import edit, outcome, outcome_lines
from hudtui.panes.chrome import Bar
from hudtui.panes.doc import Doc


class WhatIfScreen(ModalScreen[None]):
    """`text` is the edit to begin with: entries more, `-entries` less."""

    BINDINGS = [  # noqa: RUF012
        Binding("escape,enter", "close", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("pagedown", "move(15)", show=False, priority=True),
        Binding("pageup", "move(-15)", show=False, priority=True),
    ]

    def __init__(self, hits: Sequence[Hit], text: str = "") -> None:
        super().__init__()
        self._hits, self._text = hits, text

    def compose(self) -> ComposeResult:
        """Line, document, footer."""
        yield Input(
            self._text, id="what-if-edit", compact=True, placeholder="host *.host 192.0.2.0/24:443 -host"
        )
        yield Doc(id="what-if-doc")
        yield Bar(id="detail-footer")

    def on_mount(self) -> None:
        """Say what the first edit would do."""
        line = self.query_one(Input)
        line.border_title = "What if allowed_hosts had also"
        line.cursor_position = len(self._text)
        line.focus()
        keys = (("↑ ↓", "scroll"), ("-host", "an entry less"), ("esc", "back"))
        self.query_one(Bar).show(
            [run for key, word in keys for run in ((key, "primary"), (f" {word}   ", "muted"))]
        )
        self._say(self._text)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say what this edit would do."""
        event.stop()
        self._say(event.value)

    def _say(self, text: str) -> None:
        change = edit(text)
        self.query_one(Doc).show(outcome_lines(outcome(self._hits, change), change))

    def action_close(self) -> None:
        """Go back; nothing was changed."""
        self.dismiss()

    def action_move(self, step: int) -> None:
        """Scroll the document."""
        self.query_one(Doc).scroll_relative(y=step, animate=False)
