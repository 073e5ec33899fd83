"""Commands that look and change nothing: plan, ls, commands, doctor."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from cell import cells
from cell.errors import UsageError
from cell.plain import plain
from cell.trials import Trial, read_job

from .saying import means_line, say


def plan(args: argparse.Namespace) -> int:
    """Show what would be done for a task; 2 when it would be refused."""
    from cell.task import load

    task = load(Path(args.task).resolve(), oracle=False)
    from cell.policy import peers
    from cell.sandbox import Plan

    environment = task.environment
    built = f"built from {environment.dockerfile}" if environment.dockerfile else "composed system root"
    root = environment.docker_image or built
    pictured = bool(environment.docker_image or environment.dockerfile)
    plan: dict[str, Any] = {
        "task": task.name,
        "root": str(root),
        "workdir": environment.workdir or ("the image's WORKDIR, else /" if pictured else "/app"),
        "environment": sorted(name for name, _ in environment.env),
        "phases": {
            phase.name: {
                "user": phase.user or ("the image's USER" if pictured else "root"),
                "timeout_sec": phase.timeout_sec,
                "network": args.network or phase.network_mode,
                "because": phase.network_key,
                "allowed_hosts": [] if args.network else list(phase.allowed_hosts),
            }
            for phase in (task.agent, task.verifier)
        },
        "peers": [str(peer) for peer in peers.load(task.path)],
        "bubblewrap": ["bwrap", *Plan("ROOT", "HOSTNAME").bwrap_options()],
        "warnings": list(task.warnings),
        "refused": [str(error) for error in task.unsupported],
    }
    if args.json:
        say(json.dumps(plan))
    else:
        for line in _readable(plan):
            say(plain(line))
    return 2 if plan["refused"] else 0


def _readable(plan: dict[str, Any]) -> list[str]:
    """Return a plan as lines for a person."""
    lines = []
    for key, value in plan.items():
        if key == "phases":
            for name, phase in value.items():
                limit = "no limit" if phase["timeout_sec"] is None else f"{phase['timeout_sec']:g} s"
                hosts = ", ".join(phase["allowed_hosts"]) or "nothing"
                network = phase["network"] + (f" to {hosts}" if phase["network"] == "allowlist" else "")
                lines.append(f"{name:<12} as {phase['user']}, {limit}, {network} ({phase['because']})")
        elif isinstance(value, list) and key in ("warnings", "refused"):
            lines += [f"{key:<12} {each}" for each in value] or [f"{key:<12} none"]
        else:
            shown = " ".join(value) if isinstance(value, list) else str(value)
            lines.append(f"{key:<12} {shown or 'nothing'}")
    return lines


def ls(args: argparse.Namespace) -> int:
    """List cells and trials."""
    paths = [Path(path) for path in args.paths]
    for path in paths:
        if not path.exists():
            raise UsageError(
                f"{path}: there is no such folder; `cell ls` without a PATH lists the jobs folder"
            )
    jobs = [Path(args.jobs_dir)] if Path(args.jobs_dir).exists() else []
    # of whole jobs it is said how they went; a living cell elsewhere is not one
    found = cells.known(paths or jobs, elsewhere=not (paths or args.means))
    if args.means:
        return _means(found, as_json=args.json)
    for trial in found:
        if args.json:
            say(json.dumps(trial.as_dict()))
        else:
            score = "—" if trial.score is None else f"{trial.score:.2f}"
            cause = f"{trial.cause} {trial.certainty}".strip()
            if trial.orphaned:
                cause = "nobody owns it: cell grade, cell stop, or it ends by itself"
            if trial.label is not None:
                cause += f" · {trial.label.word} {plain(trial.label.note, limit=60)}".rstrip()
            task, agent = plain(trial.task, limit=40), plain(trial.agent, limit=20)
            say(f"{trial.id:<8} {trial.state:<9} {score:>5}  {task:<28} {agent:<10} {cause}")
    return 0


def _means(found: Sequence[Trial], *, as_json: bool) -> int:
    for folder in dict.fromkeys(Path(trial.path).parent for trial in found):
        job = read_job(folder)
        about = {key: value for key, value in job.as_dict().items() if key != "trials"}
        say(json.dumps(about) if as_json else means_line(job))
    return 0


def commands(args: argparse.Namespace) -> int:
    """List what ran in a cell or trial."""
    from cell.trials.commands import read

    trial = cells.find(args.cell, Path(args.jobs_dir))
    for row in read(Path(trial.path), alive=trial.alive):
        if args.json:
            say(json.dumps({"trial": trial.path, **msgspec.to_builtins(row)}))
            continue
        how = "…" if row.running else (row.signal or ("?" if row.exit is None else str(row.exit)))
        took = "" if row.ms is None else f"{row.ms / 1000:.1f}s"
        said = row.command or ("a terminal" if row.tty else "a shell")
        say(f"{row.name:<5} {row.principal:<9} {row.user:<10} {how:>5} {took:>8}  {plain(said, limit=200)}")
        for line in row.output if args.output else ():
            say(f"      {line}")
    return 0


def doctor(args: argparse.Namespace) -> int:
    """Tell what this machine can do."""
    from cell.doctor import main_doctor

    return main_doctor(args)
