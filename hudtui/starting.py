"""Starting `cell run` from the cockpit, on its own feet."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cell.plain import plain


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
            subprocess.Popen(
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
    return plain(f"started: cell {shlex.join(words)}", limit=200)
