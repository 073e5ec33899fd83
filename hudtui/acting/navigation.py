"""Going from view to view and from cell to cell, by key, by name and by the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from textual import events
from textual.widgets import ContentSwitcher

from cell.plain import plain
from cell.trials.files import load_object
from hudtui.acting.looking import Looking
from hudtui.actions import View, elsewhere, find, missed, named
from hudtui.frame.prompt import Asked, Prompt
from hudtui.frame.screens import DocScreen, help_lines
from hudtui.panes.chrome import Bar, Tabs
from hudtui.panes.doc import line
from hudtui.views import NOBODY


class Navigating(Looking):
    """Gives every key to its action: the view's own, else the one here."""

    _last: View = "fleet"
    _copied = ""

    @property
    def prompt(self) -> Prompt:
        """The one line of input."""
        return self.query_one(Prompt)

    # ── the prompt ────────────────────────────────────────────────────────────────────────────────

    def ask(self, asked: Asked, value: str = "") -> None:
        """Open the prompt over the footer."""
        self.query_one("#footer", Bar).display = False
        sign = self.query_one("#prompt-sign", Bar)
        sign.show([({"command": ":", "confirm": "?", "label": "l"}.get(asked, "/"), "primary bold")])
        sign.display = True
        self.prompt.ask(asked, value)

    def close_prompt(self) -> None:
        """Take the prompt away."""
        self.prompt.display = self.query_one("#prompt-sign", Bar).display = False
        self.query_one("#footer", Bar).display = True
        self.current.pane.focus()

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        """A filter works while it is typed."""
        if event.asked == "filter":
            self.prompt.wrong(self.current.set_filter(event.text))

    def on_prompt_given(self, event: Prompt.Given) -> None:
        """Do what was asked."""
        self.close_prompt()
        if event.asked == "command":
            self.command(event.text)
        elif event.asked == "search":
            self.current.search(event.text)
        elif event.asked == "confirm":
            self.confirmed(event.text)
        elif event.asked == "label":
            self.labelled(event.text)
        elif wrong := self.current.set_filter(event.text):
            self.flash(wrong)

    def confirmed(self, text: str) -> None:
        """Something dangerous was confirmed by typing."""

    def labelled(self, text: str) -> None:
        """A label was typed."""

    def run_task(self, words: str) -> None:
        """Start a run."""

    def on_tabs_clicked(self, event: Tabs.Clicked) -> None:
        """Go to the clicked view; not while the keyboard is a cell's."""
        if not self.captured:
            self.action_key(event.key)

    # ── going somewhere ───────────────────────────────────────────────────────────────────────

    def go(self, view: View) -> None:
        """Bring a view to the front."""
        if view != self.view:
            self.current.leave()
            self._last, self.view = self.view, view
            self.query_one("#views", ContentSwitcher).current = view
            self.query_one(Tabs).show_view(view)
        self.header()
        self.show_footer()
        self.current.enter()

    def neighbour(self, step: int) -> None:
        """Go to the cell before or after the one in scope, in the Fleet's list."""
        paths = [trial.path for trial in self.fleet.listed()]
        if self.scope in paths:
            at = paths.index(self.scope) + step
            if 0 <= at < len(paths):
                self.scope = paths[at]
                self.fleet.table.show(self.fleet.table.entries, keep=self.scope)
                self.header()
                self.current.enter()
            else:
                self.flash("that was the last one" if step > 0 else "that was the first one")
        else:
            self.flash("one cell must be in scope: 1 Fleet, then enter")

    def command(self, text: str) -> None:
        """Do a line of `:`: `q`, a view's name, an action's name, `theme NAME`, `egress FILTER`."""
        word, _, rest = text.partition(" ")
        if word in ("q", "quit"):
            self.exit()
        elif word == "theme" and rest in self.available_themes:
            self.theme = rest
        elif word == "run":
            self.run_task(rest)
        elif word in ("fleet", "egress") and rest:
            self.go(word)  # type: ignore[arg-type]
            self.flash(wrong) if (wrong := self.current.set_filter(rest)) else None
        elif action := named(f"view_{word}", self.view) or named(word.replace("-", "_"), self.view):
            self._do(action.name)
        elif words := elsewhere(lambda action: action.name == word.replace("-", "_")):
            self.flash(f":{word} · {words}")
        elif word:
            self.flash(f"`{text}` is no command; ? lists the actions")

    async def on_key(self, event: events.Key) -> None:
        """Give the prompt what was typed ahead: pressed before it had the keyboard, it has come back here."""
        if event.is_printable and event.character and self.prompt.display and self.focused is self.prompt:
            event.prevent_default()
            self.prompt.insert_text_at_cursor(event.character)

    # ── keys ──────────────────────────────────────────────────────────────────────────────────

    def action_key(self, key: str) -> None:
        """Do what the key means in the view in front."""
        if self.prompt.display and key in ("escape", "tab", "shift+tab"):
            if self.prompt.asked == "filter" and key == "escape":
                self.current.set_filter("")
            self.close_prompt()
            return
        action = find(key, self.view)
        if self._flashing:
            self.show_footer()
        if action is not None:
            if action.name != "copy":
                self._copied = ""
            self._do(action.name)
        elif words := missed(key):
            self.flash(words)

    def _do(self, name: str) -> None:
        if name.startswith("view_"):
            self._view(name.removeprefix("view_"))
            return
        doer = getattr(self.current, f"act_{name}", None) or getattr(self, f"act_{name}", None)
        if doer is not None:
            doer()

    def action_focus_next(self) -> None:
        """Tab belongs to the panes of the view."""
        self.action_key("tab")

    def action_focus_previous(self) -> None:
        """Shift+tab likewise."""
        self.action_key("shift+tab")

    def _view(self, name: str) -> None:
        """Go to the view."""
        self.go(self._last if name == "last" else cast("View", name))

    def act_scope_all(self) -> None:
        """All cells."""
        self.scope = None
        self.header()
        self.current.update()

    def act_back(self) -> None:
        """Undo what narrows, then go back to Fleet; on Fleet nothing."""
        if not self.current.back() and self.view != "fleet":
            self.scope = None
            self.go("fleet")

    def act_quit_here(self) -> None:
        """Leave from Fleet, elsewhere go back."""
        if self.view == "fleet":
            self.exit()
        else:
            self.act_back()

    def act_quit_now(self) -> None:
        """Leave."""
        self.exit()

    def act_refresh(self) -> None:
        """Look now."""
        self.look()

    def act_command(self) -> None:
        """Open the command line."""
        self.ask("command")

    def act_help(self) -> None:
        """Show the keys."""
        self.push_screen(DocScreen("Keys", help_lines(self.view), wrapped=True))

    def act_raw(self) -> None:
        """Show the trial as `--json` prints it, and its cell.json."""
        trial = self.current.trial()
        if trial is None:
            self.flash(NOBODY)
            return
        value = {"trial": trial.as_dict(), "cell": load_object(Path(trial.path) / "cell/cell.json")}
        text = json.dumps(value, indent=2, ensure_ascii=False)
        self.push_screen(
            DocScreen(f"{trial.id} JSON", [line(plain(one, limit=8000)) for one in text.split("\n")])
        )

    def act_copy(self) -> None:
        """Copy the cell's id; once more, the path of its folder."""
        trial = self.current.trial()
        if trial is None:
            self.flash(NOBODY)
            return
        again = self._copied == trial.path
        self._copied = "" if again else trial.path
        self.copy_to_clipboard(trial.path if again else trial.id)
        self.flash(f"copied {trial.path}" if again else f"copied {trial.id} · c again copies the path")
