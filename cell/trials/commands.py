"""The commands of a trial, as rows: each session of its journal joined with the head of its recording.

What an agent without a terminal did is this list. Harbor's trials have one where an agent kept its
commands in `agent/command-N`. Nothing here raises; all text is neutralised.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cell import events
from cell.plain import plain
from cell.trials.events import EventLog
from cell.trials.files import entries, is_folder, mtime, read_regular

_HEAD = 64 << 10  # bytes of a recording that are looked at
_LINES = 400
_CONTROL = re.compile(
    r"\x1b\[[0-9;:?<=>!]*[ -/]*[@-~]"  # colours, cursor moves, modes
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[P_^X][^\x1b]*\x1b\\"  # titles, links, strings
    r"|\x1b[@-Z\\\-_=>()][0-9A-B]?"
)


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command, shell or terminal. `t` is when it began (epoch seconds), `ms` how long it took.

    `exit` and `signal` are None while it runs or where nobody wrote them down; `running` is only true
    for a cell that lives. `hits` and `denied` count its attempts to leave. `output` is the head of
    what it printed, a line each; `more` says that there is more.
    """

    n: int
    name: str
    command: str
    t: float | None = None
    phase: str = ""
    principal: str = ""
    user: str = ""
    tty: bool = False
    exit: int | None = None
    signal: str | None = None
    ms: float | None = None
    bytes_out: int = 0
    reason: str = ""
    running: bool = False
    hits: int = 0
    denied: int = 0
    output: tuple[str, ...] = ()
    more: bool = False


class CommandLog:
    """The commands of one trial, looked at repeatedly; what has ended is read once."""

    def __init__(self, trial: Path) -> None:
        self.trial = trial
        self._log = EventLog(trial / "cell/events.jsonl")
        self._ended: dict[int, Command] = {}
        self._from = 0

    def read(self, *, alive: bool = False) -> tuple[Command, ...]:
        """Return the commands in their order."""
        self._log.refresh()
        lines = self._log.lines
        if len(lines) < self._from:
            self._ended.clear()
        self._from = len(lines)
        hits = _hits(lines)
        closed = {line.event.n: line.event for line in lines if isinstance(line.event, events.SessionClosed)}
        found = [
            self._one(line, line.event, closed.get(line.event.n), hits, alive)
            for line in lines
            if isinstance(line.event, events.SessionOpened)
        ]
        return (*found, *_harbors(self.trial)) if found else _harbors(self.trial)

    def _one(
        self,
        line: events.Line,
        opened: events.SessionOpened,
        closed: events.SessionClosed | None,
        hits: dict[int, tuple[int, int]],
        alive: bool,
    ) -> Command:
        n = opened.n
        if n in self._ended:
            return self._ended[n]
        output, more = _head(self.trial / f"cell/sessions/{n}.cast", opened.cols if opened.tty else 0)
        made = Command(
            n=n,
            name=f"#{n}",
            command=plain(opened.command or "", limit=4000),
            t=line.t,
            phase=opened.phase,
            principal=plain(opened.principal, limit=20),
            user=plain(opened.user, limit=40),
            tty=opened.tty,
            exit=closed.exit if closed else None,
            signal=plain(closed.signal, limit=20) if closed and closed.signal else None,
            ms=closed.ms if closed else None,
            bytes_out=closed.bytes_out if closed else sum(len(text) for text in output),
            reason=plain(closed.reason, limit=200) if closed else "",
            running=alive and closed is None,
            hits=hits.get(n, (0, 0))[0],
            denied=hits.get(n, (0, 0))[1],
            output=output,
            more=more,
        )
        if closed is not None:
            self._ended[n] = made
        return made


def read(trial: Path, *, alive: bool = False) -> tuple[Command, ...]:
    """Return the commands of a trial in their order."""
    return CommandLog(trial).read(alive=alive)


def text_lines(text: str, cols: int = 0) -> tuple[str, ...]:
    """Return what a program printed as lines that may be shown: colours and cursor moves taken out.

    `cols` is the width of its terminal, 0 for none.
    """
    lines = _CONTROL.sub("", text).replace("\r\n", "\n").split("\n")
    shown = [plain(_seen(line.rstrip("\r"), cols), limit=2000) for line in lines[:_LINES]]
    while shown and not shown[-1]:
        shown.pop()
    return tuple(shown)


def _seen(line: str, cols: int) -> str:
    """Return what a person saw of a line with bare CRs: what was written last lies over the rest.

    But a shell goes on in the next row of its terminal with a blank behind the last column, and a CR.
    """
    seen = ""
    goes_on = False
    for part in line.split("\r"):
        seen = seen + part if goes_on else part
        if goes_on := cols > 0 and len(part) == cols + 1 and part.endswith(" "):
            seen = seen[:-1]
    return seen


def _hits(lines: Sequence[events.Line]) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for line in lines:
        event = line.event
        if isinstance(event, events.Egress) and event.session is not None:
            hits, denied = found.get(event.session, (0, 0))
            found[event.session] = (hits + 1, denied + (not event.allowed))
    return found


_decode = msgspec.json.Decoder(list[object]).decode


def _head(path: Path, cols: int) -> tuple[tuple[str, ...], bool]:
    data = read_regular(path, limit=_HEAD) or b""
    printed = []
    whole, _, rest = data.rpartition(b"\n")
    for raw in whole.split(b"\n")[1:]:
        try:
            event = _decode(raw)
        except (msgspec.DecodeError, RecursionError, ValueError):
            continue
        if len(event) == 3 and event[1] == "o" and isinstance(event[2], str):
            printed.append(event[2])
    text = "".join(printed)
    return text_lines(text, cols), bool(rest) or len(data) == _HEAD or text.count("\n") > _LINES


def _harbors(trial: Path) -> tuple[Command, ...]:
    found = []
    folders = [("", trial / "agent")]
    folders += [(f"{e.name}/", Path(e.path) / "agent") for e in entries(trial / "steps") if is_folder(e)]
    for prefix, agent in folders:
        for entry in sorted(entries(agent), key=lambda e: (len(e.name), e.name)):
            path = Path(entry.path)
            if not is_folder(entry) or not (entry.name == "setup" or entry.name.startswith("command-")):
                continue
            code = (read_regular(path / "return-code.txt", limit=20) or b"").strip()
            data = read_regular(path / "stdout.txt", limit=_HEAD) or b""
            asked = read_regular(path / "command.txt", limit=8000) or b""
            output = text_lines(data.decode("utf-8", "replace"))
            found.append(
                Command(
                    n=0,
                    name=plain(prefix + entry.name, limit=60),
                    command=plain(asked.decode("utf-8", "replace").strip(), limit=4000),
                    t=mtime(path / "command.txt") or mtime(path / "stdout.txt"),
                    phase="agent",
                    exit=int(code) if code.isdigit() and len(code) < 6 else None,
                    bytes_out=len(data),
                    output=output,
                    more=len(data) == _HEAD,
                )
            )
    return tuple(found)
