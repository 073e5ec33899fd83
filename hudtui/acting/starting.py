"""Starting `cell run` from the cockpit, on its own feet."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from cell.plain import plain

# What was started here and has not been seen to end, what it complains of, and what to tell if it went well.
_started: list[tuple[subprocess.Popen[bytes], IO[bytes], str]] = []
_FINE = (0, 3)  # all graded, some ungraded: Fleet shows it


def start_run(words: str, jobs: Path) -> str:
    """Start `cell run WORDS --jobs-dir JOBS`; return what to tell the person.

    The run outlives the cockpit. What it prints is kept in `JOBS/.hudtui-run.log`; `ended` has what it
    complains of.
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


def start_cell(words: Sequence[str], jobs: Path, *, done: str = "") -> str:
    """Start `cell WORDS`; as `start_run`. `done` is told when it has ended well."""
    # a file without a name, for this one alone: it outlives the cockpit as the run does
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 - read when it has ended
    try:
        jobs.mkdir(parents=True, exist_ok=True)
        with (jobs / ".hudtui-run.log").open("ab") as log:
            process = subprocess.Popen(
                # -P: no module is looked for in this folder, which may hold what an agent left
                [sys.executable, "-P", "-m", "cell", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=complaints,
                start_new_session=True,
                close_fds=True,
            )
    except OSError as error:
        complaints.close()
        return f"{words[0]}: {error.strerror}"
    _started.append((process, complaints, done))
    return plain(f"started: cell {shlex.join(words)}", limit=200)


def ended() -> list[str]:
    """Return what to tell of each that has ended, once; of runs that ended with verdicts there is nothing."""
    told = []
    for one in tuple(_started):
        process, complaints, done = one
        if process.poll() is None:
            continue
        _started.remove(one)
        with complaints:
            complaints.seek(0)
            lines = complaints.read(1 << 16).decode("utf-8", "replace").splitlines()
        if process.returncode not in _FINE:
            last = next((line for line in reversed(lines) if line.strip()), "")
            told.append(plain(last or f"exit status {process.returncode}", limit=200))
        elif done:
            told.append(done)
    return told
