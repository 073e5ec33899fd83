"""Starting `cell run` from the cockpit, on its own feet."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cell.plain import plain

# What was started here and has not been seen to end: the process, its log, where its words begin.
_started: list[tuple[subprocess.Popen[bytes], Path, int]] = []
_FINE = (0, 3)  # all graded, some ungraded: Fleet shows it


def start_run(words: str, jobs: Path) -> str:
    """Start `cell run WORDS --jobs-dir JOBS`; return what to tell the person.

    The run outlives the cockpit. What it prints is kept in `JOBS/.hudtui-run.log`.
    """
    try:
        asked = shlex.split(words)
    except ValueError as error:
        return f"run: {error}"
    if not asked:
        return "run: which task? :run TASK [-a AGENT …]"
    if "--jobs-dir" not in asked:
        asked += ["--jobs-dir", str(jobs)]
    return start_cell(["run", *asked], jobs)


def start_cell(words: Sequence[str], jobs: Path) -> str:
    """Start `cell WORDS`; as `start_run`."""
    try:
        jobs.mkdir(parents=True, exist_ok=True)
        with (jobs / ".hudtui-run.log").open("ab") as log:
            begun = log.tell()
            process = subprocess.Popen(
                # -P: no module is looked for in this folder, which may hold what an agent left
                [sys.executable, "-P", "-m", "cell", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                close_fds=True,
            )
    except OSError as error:
        return f"{words[0]}: {error.strerror}"
    _started.append((process, jobs / ".hudtui-run.log", begun))
    return plain(f"started: cell {shlex.join(words)}", limit=200)


def failed() -> list[str]:
    """Return what to tell of each that has ended otherwise than with verdicts, once."""
    told = []
    for one in tuple(_started):
        process, log, begun = one
        if process.poll() is None:
            continue
        _started.remove(one)
        if process.returncode not in _FINE:
            words = plain(_last_line(log, begun) or f"exit status {process.returncode}", limit=200)
            told.append(f"{words} · more in {log.name}")
    return told


def _last_line(log: Path, begun: int) -> str:
    try:
        with log.open("rb") as file:
            file.seek(begun)
            lines = file.read(1 << 16).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")
