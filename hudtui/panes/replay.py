"""A terminal that shows any moment of a recording, and plays it."""

from __future__ import annotations

from pathlib import Path

from cell.trials.sessions import Session
from hudtui.panes.terminal import TerminalPane
from hudtui.recordings.cast import CastEvent, CastParser, Tail
from hudtui.recordings.film import Film
from hudtui.recordings.player import Player

_TAKE = 256 << 10
_BUDGET = 0.010
IDLE = 2.0
"""Longer silences are played in this many seconds."""


class ReplayPane(TerminalPane):
    """`now` is the moment that is shown, in seconds since the recording began."""

    film: Film | None = None
    player: Player | None = None
    now = 0.0
    playing = False
    speed = 1.0
    behind = False
    extent = 0.0
    """How long the session is at least: also silence is a part of it."""
    _wait = 0.0

    def play_session(self, session: Session) -> None:
        """Show the beginning of a session; the same one again changes nothing but its facts."""
        if self.session is not None and self.session.path == session.path:
            self.session = session
            return
        self.shut()
        self.session = session
        self._begin(session)

    def _begin(self, session: Session) -> None:
        self._tail, self._parser = Tail(Path(session.path)), CastParser()
        self.film = Film()
        size = (session.cols, session.rows) if session.tty else self._own_size() if self.size else (120, 40)
        self.player = Player(self.film, self._factory, size, plain=not session.tty)
        self.engine = self.player.engine
        self._fits = False
        self.now, self.extent, self.playing, self.following = 0.0, 0.0, False, True
        self._rows, self._drawn, self._cursor, self._top, self._left, self._used = {}, {}, None, 0, 0, 0
        self.load()
        self._settle(changed=True)
        self.refresh()

    def shut(self) -> None:
        """Show nothing."""
        if self.player is not None:
            self.player.close()
        self.session = self.film = self.player = self.engine = None
        self._rows, self._drawn, self._cursor = {}, {}, None
        self.playing = False
        self.refresh()

    def on_unmount(self) -> None:
        """Free the engines."""
        self.shut()

    def on_mount(self) -> None:
        """The view gives the turns, not a timer of our own."""

    def turn(self) -> bool:
        """Nothing by itself: see `load` and `work`."""
        return False

    # ── reading ───────────────────────────────────────────────────────────────────────────────

    def load(self) -> bool:
        """Take in more of the file, if there is more; say whether there was."""
        if self.film is None or self.session is None:
            return False
        data = self._tail.take(_TAKE)
        if self._tail.restarted:
            session = self.session
            self.shut()
            self.session = session
            self._begin(session)
            return True
        self.behind = self._tail.behind
        found: list[CastEvent] = self._parser.feed(data)
        self.film.add(found)
        return bool(found)

    def load_all(self, until: float) -> None:
        """Read on until the film reaches the moment `until`, or its end."""
        while self.film is not None and self.film.duration < until and self.load() and self.behind:
            pass

    # ── moments ───────────────────────────────────────────────────────────────────────────────

    @property
    def length(self) -> float:
        """How long the recording is, in seconds."""
        return max(self.film.duration, self.extent) if self.film else 0.0

    def seek(self, t: float) -> None:
        """Go to a moment."""
        if self.player is None:
            return
        self.load_all(t)
        self.now = max(0.0, min(t, self.length))
        self._wait = 0.0
        self.player.seek(self.now)
        self.work()

    def step(self, by: int) -> None:
        """Go on or back by so many pieces of output."""
        if self.player is None or self.film is None:
            return
        self.playing = False
        index = max(0, min(self.player.aim + by, len(self.film.events)))
        self.now = self.film.time(index - 1)
        self.player.seek_index(index)
        self.work()

    def tick(self, seconds: float) -> None:
        """Play on by so much time of the clock."""
        if not self.playing or self.player is None or self.film is None:
            return
        live = self.session is not None and self.session.running
        at_end = self.player.aim >= len(self.film.events)
        if self.now >= self.length or (live and at_end):
            self.now, self.playing = self.length, live
            self.player.seek(self.now)
            self.work()
            return
        ahead = (self.length if at_end else self.film.time(self.player.aim)) - self.now
        if ahead > IDLE * self.speed:
            # A silence is shortened: wait a moment, then be at its end.
            self._wait += seconds
            if self._wait < IDLE:
                return
            self.now += ahead
        else:
            self.now = min(self.now + seconds * self.speed, self.length)
        self._wait = 0.0
        self.player.seek(self.now)
        self.work()

    @property
    def waiting(self) -> float:
        """Seconds of silence that are being skipped, 0 if none."""
        if self._wait and self.player is not None and self.film is not None:
            at_end = self.player.aim >= len(self.film.events)
            return (self.length if at_end else self.film.time(self.player.aim)) - self.now
        return 0.0

    def work(self, budget: float = _BUDGET) -> bool:
        """Go towards the moment, then run ahead, for at most `budget` seconds; say if there is more to do."""
        player = self.player
        if player is None:
            return False
        if player.work(budget):
            player.engine.replies()
            self.following = True
            self._settle(changed=True)
        if player.arrived:
            player.scout(budget)
        return not (player.arrived and player.indexed)
