"""Commands that lead into a living cell: ssh, attach, connect."""

from __future__ import annotations

import argparse
import getpass
import importlib.util
import os
import shlex
import sys
from pathlib import Path

from cell import cells, connect, trials
from cell.errors import UsageError
from cell.plain import plain
from cell.trials.sessions import read_sessions
from cell.words import own_words


def me(args: argparse.Namespace) -> str:
    """Return the caller's name, for the record: what they say, else their login."""
    try:
        return plain(args.who or os.environ.get("SUDO_USER") or getpass.getuser(), limit=40)
    except (KeyError, OSError):
        return "operator"


def ssh(args: argparse.Namespace) -> int:
    """Open a shell, or run a command, in a living cell."""
    given, command = own_words(args.command, {"role": args.role, "jobs_dir": args.jobs_dir})
    trial = cells.find(args.cell, Path(given["jobs_dir"]))
    cells.runtime_of(trial)
    return _ssh(trial, "-o", f"SetEnv=CELL_AS={given['role']}", "operator", *command)


def attach(args: argparse.Namespace) -> int:
    """Sit in a terminal of a living cell, or watch it."""
    trial = cells.find(args.cell, Path(args.jobs_dir))
    cells.runtime_of(trial)
    number = args.session or latest(trial, watch=args.watch)
    if sys.stdout.isatty() and not args.raw:
        # a terminal is shown what an engine parsed, never the bytes from inside
        take = ["--take"] if args.take and not args.watch else []
        who = ["--who", args.who] if args.who else []
        return _cockpit(trial.path, "--watch" if args.watch else "--attach", str(number), *take, *who)
    if args.watch:
        return _ssh(trial, "viewer", f"watch {number}")
    words = f"attach {number} --who {shlex.quote(me(args))}" + (" --take" if args.take else "")
    return _ssh(trial, *(("-t",) if sys.stdin.isatty() else ()), "operator", words)


def latest(trial: trials.Trial, *, watch: bool) -> int:
    """Return the number of the session that opened last among those that run; UsageError without one."""
    running = [one for one in read_sessions(Path(trial.path), alive=True) if one.running and one.n]
    found = [one for one in running if one.tty or watch]
    if not found:
        what = "no session runs" if not running else "no session has a terminal"
        raise UsageError(f"in {trial.id} {what} now; `cell ssh {trial.id}` opens one of your own")
    return found[-1].n


def relay(args: argparse.Namespace) -> int:
    """Carry bytes between stdin and stdout and a cell's socket."""
    trial = cells.find(args.cell, Path(args.jobs_dir))
    return connect.main(str(cells.runtime_of(trial) / f"{args.principal}.sock"))


def _cockpit(*words: str) -> int:
    if importlib.util.find_spec("hudtui") is None:
        raise UsageError("the cockpit is not installed here; --raw attaches by ssh alone")
    sys.stdout.flush()
    # -P: modules are not looked for in this folder, which may hold what an agent left
    os.execv(sys.executable, [sys.executable, "-P", "-m", "hudtui.cli", *words])


def _ssh(trial: trials.Trial, *words: str) -> int:
    sys.stdout.flush()
    os.execvp("ssh", ["ssh", "-F", f"{trial.path}/cell/ssh_config", *words])
