"""A cell's terminal beside a list: it follows the list's cursor, and is only watched."""

from __future__ import annotations

from pathlib import Path

from cell.trials import Trial
from cell.trials.sessions import read_sessions
from hudtui.panes.selecting import SelectingPane
from hudtui.views import titled
from hudtui.views.watching import latest, session_name, state_words


class BesidePane(SelectingPane):
    """Shows the session of a cell that a person wants to see. Hidden, it reads nothing."""

    remembers = False

    def show_trial(self, trial: Trial | None, session: str = "") -> None:
        """Watch the cell's session of that number, else the latest."""
        if trial is None or not self.display:
            self.watch_session(None)
            titled(self, "")
            return
        found = read_sessions(Path(trial.path), alive=trial.alive)
        chosen = next((each for each in found if session and str(each.n) == session), None) or latest(found)
        self.watch_session(chosen)
        name = f" · {session_name(chosen)}" if chosen else " · nothing was recorded"
        titled(self, f"{trial.id} {trial.task}{name}", state_words(self, chosen))
