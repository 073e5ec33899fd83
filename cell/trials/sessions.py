"""The terminals and outputs of a trial, ours and Harbor's, as one list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import msgspec

from cell import events
from cell.plain import plain
from cell.trials.events import EventLog
from cell.trials.files import entries, inner, is_folder, mtime, read_regular, stamp

_HEADER_LIMIT = 64 << 10


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to watch.

    `kind`: `cast` an asciicast, `pane` raw terminal bytes, `text` a program's plain output. `n` is
    the session's number in the cell, 0 where it has none. `exit` and `signal` are None while it
    runs or when nobody wrote them down; `running` is only ever true for a cell that lives.
    """

    n: int
    name: str
    kind: Literal["cast", "pane", "text"]
    path: str
    command: str = ""
    principal: str = ""
    phase: str = ""
    user: str = ""
    tty: bool = False
    cols: int = 80
    rows: int = 24
    started: float | None = None
    exit: int | None = None
    signal: str | None = None
    ms: float | None = None
    reason: str = ""
    running: bool = False
    size: int = 0


def read_sessions(trial: Path, *, alive: bool = False, log: EventLog | None = None) -> tuple[Session, ...]:
    """Return the trial's sessions in their order, then what Harbor's agents leave. Never raises."""
    log = log or EventLog(trial / "cell/events.jsonl")
    log.refresh()
    opened = {line.event.n: line for line in log.lines if isinstance(line.event, events.SessionOpened)}
    closed = {line.event.n: line.event for line in log.lines if isinstance(line.event, events.SessionClosed)}
    found: list[Session] = []
    for entry in entries(trial / "cell/sessions"):
        stem, _, kind = entry.name.partition(".")
        if kind == "cast" and stem.isascii() and stem.isdigit() and len(stem) < 10:
            found.append(_ours(Path(entry.path), int(stem), opened, closed, alive))
    found.sort(key=lambda session: session.n)
    return (*found, *_harbors(trial))


def _ours(
    path: Path,
    n: int,
    opened: dict[int, events.Line],
    closed: dict[int, events.SessionClosed],
    alive: bool,
) -> Session:
    session = _cast(path, n, f"#{n}")
    line = opened.get(n)
    values = msgspec.structs.asdict(session)
    if line is not None and isinstance(line.event, events.SessionOpened):
        event = line.event
        values.update(
            command=plain(event.command or "", limit=400) or session.command,
            principal=event.principal,
            phase=event.phase,
            user=plain(event.user, limit=40),
            tty=event.tty,
            started=line.t,
        )
    if end := closed.get(n):
        values.update(exit=end.exit, signal=end.signal, ms=end.ms, reason=plain(end.reason, limit=80))
    values["running"] = alive and end is None
    return Session(**values)


def _cast(path: Path, n: int, name: str) -> Session:
    header = _header(path)
    width, height, stamp = header.get("width"), header.get("height"), header.get("timestamp")
    tty = inner(header, "cell", "tty")
    return Session(
        n=n,
        name=name,
        kind="cast",
        path=str(path),
        command=plain(str(header.get("title") or ""), limit=400),
        principal=plain(str(inner(header, "cell", "principal") or ""), limit=20),
        phase=plain(str(inner(header, "cell", "phase") or ""), limit=20),
        user=plain(str(inner(header, "cell", "user") or ""), limit=40),
        tty=tty if isinstance(tty, bool) else True,
        cols=_size(width, 80),
        rows=_size(height, 24),
        started=float(stamp) if isinstance(stamp, (int, float)) else None,
        size=_bytes(path),
    )


def _header(path: Path) -> dict[str, object]:
    mark = stamp(path)
    if (known := _headers.get((str(path), mark[2]))) is not None:
        return known
    data = read_regular(path, limit=_HEADER_LIMIT) or b""
    try:
        value = json.loads(data.split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    if len(_headers) > 20_000:
        _headers.clear()
    return _headers.setdefault((str(path), mark[2]), value)


# A recording's first line is written once; a cell can have thousands of recordings.
_headers: dict[tuple[str, int], dict[str, object]] = {}


def _size(value: object, default: int) -> int:
    """A terminal's side in cells, kept within what an engine and a screen can bear."""
    return min(max(value, 1), 1000) if isinstance(value, int) and not isinstance(value, bool) else default


def _bytes(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _harbors(trial: Path) -> list[Session]:
    found: list[Session] = []
    folders = [("", trial / "agent")]
    folders += [(f"{e.name}/", Path(e.path) / "agent") for e in entries(trial / "steps") if is_folder(e)]
    for prefix, agent in folders:
        for entry in entries(agent):
            path, name = Path(entry.path), entry.name
            if is_folder(entry):
                if (name == "setup" or name.startswith("command-")) and mtime(
                    path / "stdout.txt"
                ) is not None:
                    found.append(_text(path / "stdout.txt", prefix + name, ""))
            elif name == "recording.cast":
                found.append(_cast(path, 0, prefix + "recording"))
            elif name.endswith(".pane"):
                found.append(_pane(path, prefix + name))
            elif name in ("oracle.txt", "exec.txt"):
                found.append(_text(path, prefix + name[:-4], "the agent's program"))
    return found


def _pane(path: Path, name: str) -> Session:
    # Harbor's terminus-2 runs its tmux at 160×40 and pipes the pane's raw bytes to this file.
    return Session(
        n=0, name=plain(name), kind="pane", path=str(path), tty=True, cols=160, rows=40, size=_bytes(path)
    )


def _text(path: Path, name: str, command: str) -> Session:
    return Session(
        n=0, name=plain(name), kind="text", path=str(path), command=command, started=None, size=_bytes(path)
    )
