"""The command line of `cell`, as a parser; what it means is in `cli`."""

from __future__ import annotations

import argparse
from typing import Any

from . import __version__


def parser() -> argparse.ArgumentParser:
    """Return the parser of `cell`; what it parses has the subcommand as `name`."""
    whole = argparse.ArgumentParser(
        prog="cell",
        description="Run AI agents in isolated worlds, and tell why each rollout ended as it did.",
        epilog="Try: sudo cell run examples/tasks -a oracle, then hudtui. "
        "Exit status: 0 all graded, 2 a task or usage error, 3 some ungraded, 130 interrupted.",
    )
    whole.add_argument("--version", action="version", version=f"cell {__version__}")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, said: str, *, cell: bool = False) -> Any:
        sub = commands.add_parser(name, help=said, description=said)
        sub.set_defaults(name=name)
        sub.add_argument("--jobs-dir", default="jobs", metavar="D", help="the jobs folder (default: jobs)")
        sub.add_argument("--json", action="store_true", help="one JSON object a line")
        if cell:
            sub.add_argument(
                "cell",
                metavar="CELL",
                help="a cell's id, a prefix of it, part of a task's name, or a trial folder",
            )
        return sub

    run = command("run", "Run an agent on tasks: a cell each, then a verdict each.")
    run.add_argument("tasks", nargs="+", metavar="TASKS", help="a task folder, or a folder of them")
    run.add_argument(
        "-a",
        "--agent",
        default="oracle",
        metavar="AGENT",
        help="nop, oracle, or exec:COMMAND, which gets CELL_SSH_CONFIG and CELL_INSTRUCTION",
    )
    run.add_argument(
        "--on",
        choices=["auto", "local"],
        default="auto",
        help="where cells live (this version: this machine)",
    )
    run.add_argument("-n", type=_positive, default=4, metavar="N", help="rollouts at a time (default: 4)")
    run.add_argument("-k", type=_positive, default=1, metavar="N", help="attempts at each task")
    run.add_argument(
        "-i", "--include", action="append", default=[], metavar="PATTERN", help="only tasks of this name"
    )
    run.add_argument(
        "-x", "--exclude", action="append", default=[], metavar="PATTERN", help="not tasks of this name"
    )
    run.add_argument("--job-name", metavar="NAME", help="the job's folder (default: the time)")
    run.add_argument(
        "--keep",
        choices=["never", "failed", "always"],
        default="never",
        help="leave cells as they were, to look at and grade again",
    )
    run.add_argument(
        "--network", choices=["no-network"], help="give every phase this network, and say so in the verdict"
    )
    run.add_argument(
        "--unsandboxed", action="store_true", help="DANGER: run on this machine itself, without a sandbox"
    )

    plan = command("plan", "Show what would be mounted, mapped and run; runs nothing.")
    plan.add_argument("task", metavar="TASK")
    plan.add_argument("--network", choices=["no-network"])
    listing = command("ls", "List cells and trials with their state and verdict.")
    listing.add_argument(
        "paths", nargs="*", metavar="PATH", help="jobs folders, jobs or trials (default: the jobs folder)"
    )
    command("stop", "End a living cell.", cell=True)
    keep = command("keep", "Keep a cell when its rollout ends.", cell=True)
    keep.add_argument("--release", action="store_true", help="keep it no longer")
    command("grade", "Verify a kept or orphaned cell, and give its verdict anew.", cell=True)
    ssh = command(
        "ssh",
        "Open a shell in a living cell (or run COMMAND), as its agent's user; it is recorded.",
        cell=True,
    )
    ssh.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    attach = command("attach", "Watch a terminal of a living cell.", cell=True)
    attach.add_argument(
        "session", nargs="?", type=_positive, metavar="N", help="the session's number (default: the latest)"
    )
    attach.add_argument("--watch", action="store_true", help="read-only, the agent never waits for you")
    command("doctor", "Tell what this machine can do, each line with its remedy.")
    return whole


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number
