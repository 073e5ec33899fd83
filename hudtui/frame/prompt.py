"""The one line of input over the footer: filter, search, command line."""

from __future__ import annotations

from typing import Literal

from textual.message import Message
from textual.widgets import Input

Asked = Literal["filter", "search", "command", "confirm", "label"]

_HINTS: dict[Asked, str] = {
    "filter": "words, field~text, field:word, score<1; space is and, | or, ! not",
    "search": "find a text · then n and N go on",
    "command": "a view, an action, run TASK, theme NAME, q",
    "label": "a word, then a note · `fault …` is left out of one of the means · empty takes it away",
    "confirm": "type the number and enter",
}


class Prompt(Input):
    """Asks for one thing at a time; hidden in between."""

    class Typed(Message):
        """The text so far."""

        def __init__(self, asked: Asked, text: str) -> None:
            super().__init__()
            self.asked, self.text = asked, text

    class Given(Typed):
        """Enter was pressed."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, compact=True)
        self.asked: Asked = "command"
        self._last = ""
        self.display = False

    def ask(self, asked: Asked, value: str = "") -> None:
        """Show the line and take the keys."""
        self.asked = asked
        self.placeholder = _HINTS[asked] if not (asked == "search" and value) else f"{value} · again"
        self.display = True
        # a filter is gone on with; a search begins anew, and enter alone looks for the same again
        self._last = value if asked == "search" else ""
        with self.prevent(Input.Changed):
            self.value = "" if self._last else value
        self.cursor_position = len(self.value)
        self.set_class(False, "-wrong")
        # at once: what is typed next may be under way already
        self.screen.set_focus(self)

    def wrong(self, message: str) -> None:
        """Mark the text as one that is not understood (yet); "" takes the mark away."""
        self.set_class(bool(message), "-wrong")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Pass it on under our own name."""
        event.stop()
        if self.display:
            self.post_message(self.Typed(self.asked, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Likewise."""
        event.stop()
        self.display = False
        self.post_message(self.Given(self.asked, event.value.strip() or self._last))
