"""The application: looks at the folders, knows what is in scope, and gives every key to its action."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from textual.app import App, ComposeResult, SystemCommand
from textual.containers import Container
from textual.screen import Screen
from textual.widgets import ContentSwitcher

from cell.plain import plain
from cell.trials import Reader, Snapshot, Trial
from cell.trials_files import load_object
from hudtui.actions import ACTIONS, MISSING, View, find, named
from hudtui.chrome import Bar, Tabs, footer_runs, header_runs, place_of
from hudtui.doc import line
from hudtui.engine import EngineFactory, TerminalEngine
from hudtui.fleet_rows import counted
from hudtui.look import ANSI_DARK, ANSI_LIGHT, DARK, LIGHT
from hudtui.prompt import Asked, Prompt
from hudtui.screens import DocScreen, bindings, help_lines
from hudtui.view_fleet import FleetView
from hudtui.view_sessions import SessionsView
from hudtui.view_verdict import VerdictView
from hudtui.views import HudView


def ghostty(cols: int, rows: int) -> TerminalEngine:
    """Make a real engine; the import costs 0.3 s and waits until a terminal is shown."""
    from hudtui.ghostty import GhosttyEngine

    return GhosttyEngine(cols, rows)


class HudApp(App[None]):
    """The read-only cockpit on one or more folders.

    `clock` gives epoch seconds. `poll` is the pause between two looks in seconds, 0 for none but the
    first (tests look by hand); `fps` how often terminals are drawn, 0 likewise.
    """

    CSS_PATH = "hud.tcss"
    TITLE = "hudtui"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-normal"), (180, "-wide")]  # noqa: RUF012

    def __init__(
        self,
        paths: Iterable[Path | str],
        *,
        engine: EngineFactory = ghostty,
        clock: Callable[[], float] = time.time,
        poll: float = 1.0,
        fps: float = 30.0,
        theme: str = DARK.name,
        start_filter: str = "",
    ) -> None:
        super().__init__()
        self.engine, self.clock, self.fps = engine, clock, fps
        self._poll, self._start_filter = poll, start_filter
        self._reader = Reader(paths, clock=clock)
        self.snapshot = Snapshot()
        self.scope: str | None = None
        self.view: View = "fleet"
        self._last: View = "fleet"
        self._looking = False
        self._copied, self._flashing = "", False
        for each in (DARK, LIGHT):
            self.register_theme(each)
        self.theme = theme
        self.ansi_theme_dark, self.ansi_theme_light = ANSI_DARK, ANSI_LIGHT
        for binding in bindings():
            self._bindings.key_to_bindings.setdefault(binding.key, []).append(binding)

    def compose(self) -> ComposeResult:
        """Header, view bar, views, prompt, footer."""
        yield Bar(id="header")
        yield Tabs(id="tabs")
        with ContentSwitcher(initial="fleet", id="views"):
            yield FleetView(id="fleet")
            yield SessionsView(id="sessions")
            yield VerdictView(id="verdict")
        with Container(id="bottom"):
            yield Bar(id="prompt-sign")
            yield Prompt(id="prompt")
            yield Bar(id="footer")

    def on_mount(self) -> None:
        """Look once, then again and again."""
        self.prompt = self.query_one(Prompt)
        self.fleet = self.query_one(FleetView)
        self.sessions = self.query_one(SessionsView)
        self.verdict = self.query_one(VerdictView)
        self._tabs = self.query_one(Tabs)
        self._tabs.show_view("fleet")
        self.look()
        if self._start_filter and (wrong := self.fleet.set_filter(self._start_filter)):
            self.flash(wrong)
        self.fleet.pane.focus()
        if self._poll:
            self.set_interval(self._poll, self._look_again)

    def on_resize(self) -> None:
        """What has room changes with the size."""
        for fit in (self.header, self._footer, self._update):
            self.call_after_refresh(fit)

    def _update(self) -> None:
        self.current.update()

    # ── looking ───────────────────────────────────────────────────────────────────────────────

    def look(self) -> None:
        """Read the folders now."""
        self._took(self._reader.scan())

    async def _look_again(self) -> None:
        if self._looking:
            return
        self._looking = True
        try:
            snapshot = await asyncio.to_thread(self._reader.scan)
        finally:
            self._looking = False
        if self.is_running:
            self._took(snapshot)

    def _took(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.fleet.looked(snapshot.trials)
        if self.scope is not None and self.scoped is None:
            self.flash(f"{plain(Path(self.scope).name)} is gone")
            self.scope = None
        self.header()
        self.current.update()

    @property
    def scoped(self) -> Trial | None:
        """The one cell that views 2 to 7 are about; None for all."""
        if self.scope is None:
            return None
        return next((trial for trial in self.snapshot.trials if trial.path == self.scope), None)

    @property
    def current(self) -> HudView:
        """The view in front."""
        return {"sessions": self.sessions, "verdict": self.verdict}.get(self.view, self.fleet)

    # ── around the views ──────────────────────────────────────────────────────────────────────

    def header(self) -> None:
        """Fill the header."""
        place = place_of(self.snapshot.jobs, self._reader.paths)
        counts = counted(self.snapshot.jobs)
        self.query_one("#header", Bar).show(header_runs(counts, place, self.scoped, self.size.width))

    def _footer(self) -> None:
        self._flashing = False
        self.query_one("#footer", Bar).show(footer_runs(self.view, self.size.width - 2))

    def flash(self, text: str) -> None:
        """Say something on the footer until the next key."""
        self._flashing = True
        self.query_one("#footer", Bar).show([(plain(text, limit=300), "warn")])

    def ask(self, asked: Asked, value: str = "") -> None:
        """Open the prompt over the footer."""
        self.query_one("#footer", Bar).display = False
        sign = self.query_one("#prompt-sign", Bar)
        sign.show([(":" if asked == "command" else "/", "primary bold")])
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
            self.prompt.wrong(self.fleet.set_filter(event.text))

    def on_prompt_given(self, event: Prompt.Given) -> None:
        """Do what was asked."""
        self.close_prompt()
        if event.asked == "command":
            self.command(event.text)
        elif event.asked == "search":
            self.verdict.search(event.text)
        elif wrong := self.fleet.set_filter(event.text):
            self.flash(wrong)

    def on_tabs_clicked(self, event: Tabs.Clicked) -> None:
        """Go to the clicked view."""
        self.action_key(event.key)

    # ── going somewhere ───────────────────────────────────────────────────────────────────────

    def go(self, view: View) -> None:
        """Bring a view to the front."""
        if view != self.view:
            self.current.leave()
            self._last, self.view = self.view, view
            self.query_one("#views", ContentSwitcher).current = view
            self._tabs.show_view(view)
        self.header()
        self._footer()
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
        """Do a line of `:`: `q`, a view's name, an action's name, `theme NAME`, or a filter for Fleet."""
        word, _, rest = text.partition(" ")
        if word in ("q", "quit"):
            self.exit()
        elif word == "theme" and rest in self.available_themes:
            self.theme = rest
        elif word == "fleet" and rest:
            self.go("fleet")
            self.flash(wrong) if (wrong := self.fleet.set_filter(rest)) else None
        elif action := named(f"view_{word}", self.view) or named(word.replace("-", "_"), self.view):
            self._do(action.name)
        elif word:
            self.flash(f"`{text}` is no command; ? lists the actions")

    # ── keys ──────────────────────────────────────────────────────────────────────────────────

    def action_key(self, key: str) -> None:
        """Do what the key means in the view in front."""
        if self.prompt.display and key in ("escape", "tab", "shift+tab"):
            if self.prompt.asked == "filter" and key == "escape":
                self.fleet.set_filter("")
            self.close_prompt()
            return
        action = find(key, self.view)
        if self._flashing:
            self._footer()
        if action is not None:
            if action.name != "copy":
                self._copied = ""
            self._do(action.name)

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
        """Go to the view, or say what is missing for it."""
        if name in MISSING:
            self.flash(MISSING[name])
        else:
            self.go(self._last if name == "last" else name)  # type: ignore[arg-type]

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
            return
        again = self._copied == trial.path
        self._copied = "" if again else trial.path
        self.copy_to_clipboard(trial.path if again else trial.id)
        self.flash(f"copied {trial.path}" if again else f"copied {trial.id} · c again copies the path")

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Fill the palette from the action table."""
        yield from (
            command for command in super().get_system_commands(screen) if command.title in ("Theme", "Quit")
        )
        for action in ACTIONS:
            if action.palette and self.view in action.views:
                title = action.label[0].upper() + action.label[1:]
                yield SystemCommand(title, action.help, lambda name=action.name: self._do(name))
