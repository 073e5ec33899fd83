"""Screens on top: a document in full (details, raw records, help) and a menu."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.binding import Binding, BindingsMap
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from hudtui import actions
from hudtui.actions import VIEWS, View, find, keys, shown
from hudtui.panes.chrome import Bar, footer_runs
from hudtui.panes.doc import Doc, Line, line


def bindings() -> list[Binding]:
    """Return one binding for each key of the action table; what it means is decided when it is pressed."""
    return [Binding(key, f"key('{key}')", show=False) for key in keys()]


class DocScreen(ModalScreen[None], inherit_bindings=False):
    """A document over the whole screen, with search."""

    def __init__(self, title: str, lines: Sequence[Line], *, at: int = 0, wrapped: bool = False) -> None:
        super().__init__()
        self._title, self._lines, self._at = title, lines, at
        self.doc = Doc(wrapped=wrapped, id="detail-doc")
        self._bindings = BindingsMap(bindings())

    def compose(self) -> ComposeResult:
        """Document, prompt, footer."""
        yield self.doc
        yield Input(id="detail-prompt", placeholder="find", compact=True)
        yield Bar(id="detail-footer")

    def on_mount(self) -> None:
        """Fill it."""
        self.doc.border_title = self._title.replace("[", r"\[")
        self.doc.show(self._lines)
        self.doc.focus()
        self.query_one(Input).display = False
        self.call_after_refresh(lambda: self.doc.move_to(self._at))

    def on_resize(self) -> None:
        """Fill the footer."""
        self.query_one(Bar).show(footer_runs("detail", self.size.width - 2))

    def action_key(self, key: str) -> None:
        """Do what the key means here."""
        prompt = self.query_one(Input)
        if prompt.has_focus and key == "escape":
            prompt.display = False
            self.doc.focus()
            return
        action = find(key, "detail")
        if action is not None:
            getattr(self, f"act_{action.name}")()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Search."""
        event.stop()
        self.doc.sought = event.value
        self.query_one(Input).display = False
        self.doc.focus()
        self.doc.refresh()
        if not self.doc.find(1) and event.value:
            self.app.bell()

    def act_close(self) -> None:
        """Go back."""
        self.dismiss()

    def act_search(self) -> None:
        """Ask what to find."""
        prompt = self.query_one(Input)
        prompt.display = True
        prompt.focus()

    def act_match_next(self) -> None:
        """Go to the next match."""
        self.doc.find(1)

    def act_match_previous(self) -> None:
        """Go to the match before."""
        self.doc.find(-1)

    def act_copy(self) -> None:
        """Copy the whole document."""
        self.app.copy_to_clipboard("\n".join(one.text for one in self._lines))
        self.query_one(Bar).show([(f"copied {len(self._lines)} lines", "ok")])

    def act_help(self) -> None:
        """Show the keys of this screen."""
        self.app.push_screen(DocScreen("Keys here", help_lines("detail"), wrapped=True))

    def act_down(self) -> None:
        """One line down."""
        self.doc.move(1)

    def act_up(self) -> None:
        """One line up."""
        self.doc.move(-1)

    def act_top(self) -> None:
        """To the first line."""
        self.doc.move_to(0)

    def act_bottom(self) -> None:
        """To the last line."""
        self.doc.move_to(-1)

    def act_half_down(self) -> None:
        """Half a page down."""
        self.doc.move(self.doc.page // 2)

    def act_half_up(self) -> None:
        """Half a page up."""
        self.doc.move(-self.doc.page // 2)

    def act_page_down(self) -> None:
        """A page down."""
        self.doc.move(self.doc.page)

    def act_page_up(self) -> None:
        """A page up."""
        self.doc.move(-self.doc.page)

    def act_left(self) -> None:
        """To the left."""
        self.doc.scroll_relative(x=-16, animate=False)

    def act_right(self) -> None:
        """To the right."""
        self.doc.scroll_relative(x=16, animate=False)


class MenuScreen(ModalScreen["str | None"]):
    """Choose one of a few; escape chooses none."""

    BINDINGS = [  # noqa: RUF012
        Binding("escape,q", "none", show=False),
        Binding("j", "move(1)", show=False),
        Binding("k", "move(-1)", show=False),
    ]

    def __init__(self, title: str, options: Sequence[tuple[str, str]], *, at: str = "") -> None:
        super().__init__()
        self._title, self._options, self._at = title, options, at
        self._chosen = False

    def compose(self) -> ComposeResult:
        """The list."""
        options = (Option(words, id=name) for name, words in self._options)
        yield OptionList(*options, id="menu", markup=False)

    def on_mount(self) -> None:
        """Put the cursor on the present choice."""
        menu = self.query_one(OptionList)
        menu.border_title = self._title.replace("[", r"\[")
        menu.highlighted = next((i for i, (name, _) in enumerate(self._options) if name == self._at), 0)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Chosen; a second enter before the menu has gone chooses nothing more."""
        if not self._chosen:
            self._chosen = True
            self.dismiss(event.option.id)

    def action_none(self) -> None:
        """Choose nothing."""
        if not self._chosen:
            self._chosen = True
            self.dismiss(None)

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        menu = self.query_one(OptionList)
        (menu.action_cursor_down if step > 0 else menu.action_cursor_up)()


def help_lines(view: View) -> list[Line]:
    """Return the keys of a view, from the action table."""
    here = [action for action in actions.ACTIONS if view in action.views]
    common = [action for action in here if set(VIEWS) <= set(action.views)]
    found: list[Line] = []
    groups = ((f"In {view.capitalize()}", [a for a in here if a not in common]), ("Everywhere", common))
    for title, listed in groups:
        if listed:
            found.append(line((title, "head")))
        for action in listed:
            names = " ".join(shown(key) for key in action.keys)
            found.append(
                line((f"  {names:<12}", "primary"), f"{action.label:<15}", (action.help, "muted"), hang=29)
            )
        found.append(line())
    if view == "fleet":
        found += [
            line(("Signs", "head")),
            line("  ", ("● ", "primary"), "running   ", ("✓ ", "ok"), "pass   ", ("× ", "bad"), "fail   "),
            line(
                "  ",
                ("■ ", "warn"),
                "ungraded  ",
                ("◆ ", "warn"),
                "stale  ",
                ("◐ ", "accent"),
                "paused or kept",
            ),
            line(
                "  ",
                ("▲ ", "warn"),
                "in doubt: suspect, or touched by an operator   ",
                ("○ ", "muted"),
                "queued",
            ),
        ]
    return found
