"""Commands that lead into a living cell: ssh, attach."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from cell import cells
from cell.errors import UsageError


def ssh(args: argparse.Namespace) -> int:
    """Open a shell, or run a command, in a living cell."""
    trial = cells.find(args.cell, Path(args.jobs_dir))
    cells.runtime_of(trial)
    sys.stdout.flush()
    os.execvp("ssh", ["ssh", "-F", f"{trial.path}/cell/ssh_config", "operator", *args.command])


def attach(args: argparse.Namespace) -> int:
    """Watch a terminal of a living cell."""
    if not args.watch:
        raise UsageError("this version watches only: cell attach --watch CELL [N]")
    trial = cells.find(args.cell, Path(args.jobs_dir))
    if sys.stdout.isatty():
        # a terminal is shown what an engine parsed, never the bytes from inside
        os.execvp("hudtui", ["hudtui", trial.path])
    cells.runtime_of(trial)
    numbers = sorted(
        (
            int(path.stem)
            for path in Path(trial.path, "cell", "sessions").glob("*.cast")
            if path.stem.isdigit()
        ),
    )
    number = args.session or (numbers[-1] if numbers else 0)
    os.execvp("ssh", ["ssh", "-F", f"{trial.path}/cell/ssh_config", "viewer", f"watch {number}"])
