"""events.jsonl as it grows: read once, from where the last look ended.

The hash chain is not verified here (`cell.journal` does that); a line that is not one is skipped, and
a torn last line waits for its rest.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cell import events
from cell.plain import plain
from cell.trials.files import read_regular, stamp

_TURN = 4 << 20
_LONGEST = 1 << 20
_KEPT = 50_000

_decode = msgspec.json.Decoder(events.Line).decode


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """One thing worth a word in the strip of events: when, of what kind, and the words."""

    t: float
    kind: str
    text: str


class EventLog:
    """A fold over one events.jsonl. `refresh` is cheap when nothing was written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start()

    def _start(self) -> None:
        self._stamp = (0, 0, 0)
        self._offset = 0
        self._partial = b""
        self.lines: list[events.Line] = []
        self.phase = ""
        self.sessions = 0
        self.touched = False
        self.paused = False
        self.last: float | None = None

    @property
    def size(self) -> int:
        """Bytes read so far."""
        return self._offset

    def refresh(self) -> bool:
        """Take in what was written since; return whether anything was."""
        now = stamp(self.path)
        if now == self._stamp:
            return False
        if now[1] < self._offset or (self._stamp[2] and now[2] != self._stamp[2]):
            self._start()
        self._stamp = now
        while data := read_regular(self.path, limit=_TURN, offset=self._offset):
            self._offset += len(data)
            *whole, self._partial = (self._partial + data).split(b"\n")
            if len(self._partial) > _LONGEST:
                self._partial = b""
            for raw in whole:
                self._take(raw)
        return True

    def _take(self, raw: bytes) -> None:
        try:
            line = _decode(raw)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return
        self.last = line.t
        event = line.event
        if isinstance(event, events.PhaseChanged):
            self.phase = event.phase
        elif isinstance(event, events.SessionOpened):
            self.sessions += 1
        elif isinstance(event, events.Intervention):
            self.touched = True
        elif isinstance(event, events.Paused):
            self.paused = event.paused
        if len(self.lines) < _KEPT:
            self.lines.append(line)

    def recent(self, count: int = 3) -> tuple[Happening, ...]:
        """Return the last few events that a person would want to see, oldest first."""
        found: list[Happening] = []
        for line in reversed(self.lines):
            if said := describe(line.event):
                found.append(Happening(t=line.t, kind=said[0], text=said[1]))
                if len(found) == count:
                    break
        return tuple(reversed(found))


def describe(event: events.AnyEvent) -> tuple[str, str] | None:
    """Return (kind, words) for an event, None for one that is of no interest at a glance."""
    match event:
        case events.CellStarted():
            return "start", f"started · {plain(event.agent, limit=40)}"
        case events.PhaseChanged():
            return "phase", _PHASE_WORDS.get(event.phase, event.phase)
        case events.Intervention():
            return "touched", f"{event.principal}: {plain(event.what, limit=60)}"
        case events.Fault():
            return "fault", f"{plain(event.where, limit=30)}: {plain(event.message, limit=80)}"
        case events.VerdictGiven():
            rewards = " ".join(f"{plain(k, limit=20)} {v:.2f}" for k, v in event.rewards.items())
            return "verdict", f"{event.verdict} {rewards or plain(event.cause, limit=20)}".strip()
        case events.Lease():
            words = f"session {event.session}: " + (
                f"{plain(event.holder, limit=40)} has the keyboard"
                if event.holder
                else "the keyboard is the agent's"
            )
            return "lease", words
        case events.Paused():
            return "pause", "the agent waits" if event.paused else "the agent goes on"
        case events.Egress() if not event.allowed:
            place = f"{plain(event.host, limit=60)}:{event.port}" if event.port else "any host"
            return "deny", f"{place} {plain(event.reason, limit=80)}"
        case events.GateCall() if not event.allowed:
            return (
                "refused",
                f"{event.principal} {plain(event.method, limit=20)}: {plain(event.reason, limit=60)}",
            )
        case _:
            return None


def phase_word(phase: str) -> str:
    """Return a phase's name as a person reads it: between the agent's and the verifier's it is closed."""
    return "closed" if phase == "sealed" else phase


_PHASE_WORDS = {
    "starting": "starting",
    "agent": "agent works",
    "sealed": "agent phase closed",
    "verifier": "verifying",
    "finished": "finished",
    "closed": "closed",
}
