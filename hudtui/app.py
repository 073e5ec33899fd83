"""The application: the views, one over the other, between header and footer."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from textual import events
from textual.app import ComposeResult, SystemCommand
from textual.driver import Driver
from textual.screen import Screen

from hudtui import actions
from hudtui.acting.noting import Noting
from hudtui.frame.prompt import Prompt
from hudtui.keys.typed import Typed, readable
from hudtui.panes.chrome import Bar, Tabs, attached_runs
from hudtui.panes.drawing import Ground, GroundScreen, GroundSwitcher
from hudtui.panes.driven import DrivenPane
from hudtui.panes.selecting import SelectingPane
from hudtui.views import HudView
from hudtui.views.commands import CommandsView
from hudtui.views.egress import EgressView
from hudtui.views.fleet import FleetView
from hudtui.views.identity import IdentityView
from hudtui.views.replay import ReplayView
from hudtui.views.sessions import SessionsView
from hudtui.views.verdict import VerdictView

VIEW_CLASSES: tuple[type[HudView], ...] = (
    FleetView,
    SessionsView,
    CommandsView,
    EgressView,
    IdentityView,
    VerdictView,
    ReplayView,
)
"""The views that this version has; each knows its own name."""


def _collect_seldom() -> None:
    """Let the garbage collector look at what is new, and seldom at everything: that holds keys up.

    What stands at the first picture stays, and a full collection of the rest took 0.1 s, each second while
    terminals flooded. What they leave has no circles in it (`panes.drawing.Line`) and goes without one.
    """
    gc.freeze()
    gc.set_threshold(1_000, 10, 100)
    gc.enable()


class HudApp(Noting):
    """The cockpit on one or more folders."""

    CSS_PATH = "hud.tcss"
    TITLE = "hudtui"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-normal"), (180, "-wide")]  # noqa: RUF012

    def __init__(
        self,
        paths: Iterable[Path | str],
        *,
        start_session: int | None = None,
        watch_session: int | None = None,
        take: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(paths, **options)
        self._start_session, self._take = start_session, take
        self._watch_session = watch_session

    def compose(self) -> ComposeResult:
        """Header, view bar, views, prompt, footer."""
        yield Bar(id="header")
        yield Tabs(id="tabs")
        self.views = {made.name_: made for made in (kind(id=kind.name_) for kind in VIEW_CLASSES)}
        with GroundSwitcher(initial="fleet", id="views"):
            yield from self.views.values()
        with Ground(id="bottom"):
            yield Bar(id="prompt-sign")
            yield Prompt(id="prompt")
            yield Bar(id="footer")

    def get_default_screen(self) -> Screen[None]:
        """Return what is below everything."""
        return GroundScreen(id="_default")

    @property
    def sessions(self) -> SessionsView:
        """View 2."""
        return self.query_one(SessionsView)

    @property
    def verdict(self) -> VerdictView:
        """View 6."""
        return self.query_one(VerdictView)

    def on_mount(self) -> None:
        """Look once, then again and again."""
        self.query_one(Tabs).show_view("fleet")
        self.look()
        if self._start_filter and (wrong := self.fleet.set_filter(self._start_filter)):
            self.flash(wrong)
        self.fleet.pane.focus()
        if self.greeting:
            self.call_after_refresh(self.call_after_refresh, self.flash, self.greeting)
        self.call_after_refresh(_collect_seldom)
        if self._start_session is not None:
            self.call_after_refresh(self._attach_first, self._start_session)
        elif self._watch_session is not None:
            self.call_after_refresh(self._watch_first, self._watch_session)
        if self._poll:
            self.set_interval(self._poll, self._look_again)

    def _attach_first(self, number: int) -> None:
        """Begin in the terminal that was asked for, in the one trial there is."""
        trials = self.snapshot.trials
        if len(trials) != 1:
            self.flash(f"attach: {len(trials)} cells are here; --attach is about one")
            return
        self.scope = trials[0].path
        self.go("sessions")
        self.sessions.attach_number(trials[0], number, take=self._take)

    def _watch_first(self, number: int) -> None:
        """Begin with a look at the terminal that was asked for."""
        trials = self.snapshot.trials
        if len(trials) != 1:
            self.flash(f"watch: {len(trials)} trials are here; --watch is about one")
            return
        self.scope = trials[0].path
        self.go("sessions")
        if not self.sessions.choose_session(number):
            self.call_after_refresh(self.flash, f"watch: there is no session {number}")

    def on_resize(self) -> None:
        """What has room changes with the size; what is being said stays."""
        for fit in (self.header, self._fit_footer, self._update):
            self.call_after_refresh(fit)

    def _fit_footer(self) -> None:
        if not self._flashing:
            self.show_footer()

    def _update(self) -> None:
        self.current.update()

    # ── driving ───────────────────────────────────────────────────────────────────────────────

    @property
    def captured(self) -> bool:  # type: ignore[override]
        """Whether the keyboard is a cell's."""
        return self.sessions.term.captured and len(self.screen_stack) == 1

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While the keyboard is a cell's, no key is ours: not even those that Textual gives priority."""
        return not (self.is_running and self.captured) and super().check_action(action, parameters)

    def get_driver_class(self) -> type[Driver]:
        """Read the keyboard by ourselves: every key, as it is."""
        from hudtui.keys.keyboard import Keyboard

        return Keyboard

    async def on_event(self, event: events.Event) -> None:
        """Give a key to the cell whose keyboard we have, else to our own."""
        if not isinstance(event, Typed | events.Paste):
            await super().on_event(event)
        elif (term := self._driven) is not None:
            # at once, so that what was typed after a paste stays after it
            term.typed(event) if isinstance(event, Typed) else term.on_paste(event)
        elif isinstance(event, events.Paste):
            event.text = readable(event.text)
            await super().on_event(event)
        else:
            for key in event.named():
                key.set_sender(self)
                await super().on_event(key)

    @property
    def _driven(self) -> DrivenPane | None:
        """The terminal that has the keyboard; there is none before the first picture."""
        view = self.views.get("sessions")
        attached = isinstance(view, SessionsView) and view.attached is not None
        return self.sessions.term if attached and self.captured else None

    def on_driven_pane_keys_changed(self, event: DrivenPane.KeysChanged) -> None:
        """Pass on to our own terminal how the program inside wants its keys."""
        if (newer_keys := getattr(self._driver, "newer_keys", None)) is not None:
            newer_keys(event.flags)

    def show_footer(self) -> None:
        """While attached, the ways out."""
        super().show_footer()
        if self.sessions.attached is not None:
            self.query_one("#footer", Bar).show(attached_runs(self.prefix, self.size.width - 2))

    def on_bar_clicked(self, event: Bar.Clicked) -> None:
        """A click on `[detach]` leads out."""
        if event.text == "[detach]":
            self.sessions.act_detach()

    def on_selecting_pane_selected(self, event: SelectingPane.Selected) -> None:
        """Copy what was selected in a terminal."""
        self.copy_to_clipboard(event.text)
        self.flash(f"copied {len(event.text)} characters")

    def act_attach(self) -> None:
        """Go to the cell's terminals and take the keyboard of the one to watch."""
        trial = self.current.trial()
        if not self.refused(trial, "attach") and trial is not None:
            self.scope = trial.path
            self.go("sessions")
            self.sessions.act_attach()

    def act_shell(self) -> None:
        """Open a shell of our own in the cell."""
        self.sessions.shell(self.current.trial())

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Fill the palette from the action table."""
        yield from (
            command for command in super().get_system_commands(screen) if command.title in ("Theme", "Quit")
        )
        for action in actions.ACTIONS:
            if action.palette and self.view in action.views:
                title = action.label[0].upper() + action.label[1:]
                yield SystemCommand(title, action.help, lambda name=action.name: self._do(name))
