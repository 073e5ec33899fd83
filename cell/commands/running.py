"""`cell run`: a job from the command line, each verdict told as it is given."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import msgspec

from cell import agents, job
from cell.errors import TaskError, UsageError
from cell.plain import plain
from cell.policy import hosts, peers
from cell.policy.addresses import gives_credentials
from cell.rollout import Settings

from . import network
from .saying import coloured, say, verdict_line


def run(args: argparse.Namespace) -> int:
    """Run tasks; 0 all graded, 2 a task or usage error, 3 some ungraded, 130 interrupted."""
    agents.check(args.agent)
    if args.learn and args.network:
        raise UsageError("--learn opens the network of every phase; it goes without --network")
    if args.write and not args.learn:
        raise UsageError("--write applies what --learn found out; give both")
    name = job.folder_name(args.job_name) if args.job_name is not None else job.default_name()
    job.require_root()
    good, bad = job.tasks_of(
        [Path(path) for path in args.tasks],
        include=args.include,
        exclude=args.exclude,
        agent=args.agent,
    )
    if args.unsandboxed:
        pictured = [t for t in good if t.environment.docker_image or t.environment.dockerfile]
        why = "this task has an image, which cannot be had without a sandbox"
        bad += [TaskError(t.path / "task.toml", "environment", why) for t in pictured]
        good = [t for t in good if t not in pictured]
    for error in bad:
        say(f"cell: {plain(str(error))}", file=sys.stderr)
    for task in good:
        for warning in task.warnings:
            say(f"cell: warning: {task.short_name}: {plain(warning)}", file=sys.stderr)
        for peer in peers.load(task.path):
            said = f"its cell.toml hands a service of this machine to its world: {peer}"
            say(f"cell: {task.short_name}: {plain(said)}", file=sys.stderr)
    if not good:
        if not bad:
            raise UsageError("no task was selected")
        return 2
    colour = coloured()
    run = job.Job(
        good,
        Settings(
            agent=args.agent,
            network="public" if args.learn else args.network,
            peers=peers.from_options(args.peer),
            pins=_pins(args.resolve),
            proxy_only=args.proxy_only,
            tls_only=args.tls_only,
            keep=args.keep,
            sandboxed=not args.unsandboxed,
            tell=lambda line: say(f"cell: {line}", file=sys.stderr),
        ),
        Path(args.jobs_dir).resolve(),
        name,
        concurrent=args.n,
        attempts=args.k,
        tell=lambda line: say(f"cell: {line}", file=sys.stderr),
        done=lambda attempt: _tell(attempt, as_json=args.json, colour=colour),
    )
    if args.unsandboxed:
        say("cell: UNSANDBOXED: the agent works on this machine itself", file=sys.stderr)
    try:
        asyncio.run(_interruptible(run))
    except asyncio.CancelledError:
        say(
            f"cell: interrupted: nothing graded, all cells ended; records in {run.folder}",
            file=sys.stderr,
        )
        return 130
    unchanged = args.learn and not network.learned(run, write=args.write, as_json=args.json)
    if kept := [attempt.trial.name.rpartition("__")[2] for attempt in run.trials if attempt.kept]:
        which = f"cell {kept[0]} stays" if len(kept) == 1 else f"{len(kept)} cells stay"
        say(
            f"cell: {which} up for an hour, for `cell ssh`, `cell grade` and `cell stop`: "
            + ", ".join(kept[:8] + ["…"] * (len(kept) > 8)),
            file=sys.stderr,
        )
    if not args.json:
        say(_sum(run))
    wrong = any(attempt.error is not None and attempt.error.exit_status == 2 for attempt in run.trials)
    if wrong or unchanged:
        return 2
    ungraded = any(attempt.verdict is None or attempt.verdict.verdict != "graded" for attempt in run.trials)
    return 3 if ungraded else (2 if bad else 0)


def _pins(texts: list[str]) -> tuple[tuple[str, str], ...]:
    """Read `--resolve NAME[:PORT]=ADDRESS`. Raises UsageError."""
    found = []
    for text in texts:
        name, _, address = text.partition("=")
        try:
            host, port = hosts.authority(name, 0) if ":" in name else (hosts.canonical(name), 0)
            to = hosts.canonical(address)
            if host.ip is not None or to.ip is None:
                raise ValueError("must be NAME:PORT=ADDRESS or NAME=ADDRESS")
            if gives_credentials(to.ip):
                raise ValueError(f"{to} is a metadata address, which nothing opens")
        except ValueError as error:
            raise UsageError(f"--resolve {plain(text, limit=80)}: {error}") from None
        if not port and to.ip is not None and to.ip.is_loopback:
            warning = f"every port of {to} on this machine is open to who may reach {host}"
            say(f"cell: warning: --resolve {host}={to}: {warning}; name one: {host}:PORT", file=sys.stderr)
        found.append((host.at(port) if port else host.text, to.text))
    return tuple(found)


async def _interruptible(run: job.Job) -> None:
    """Run a job; the first Ctrl-C cancels it, the second ends this process at once."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    count = 0

    def interrupt() -> None:
        nonlocal count
        count += 1
        if count > 1:
            run.abandon()
            say(
                f"cell: left at once: nothing graded, all cells killed; records in {run.folder}",
                file=sys.stderr,
            )
            sys.stderr.flush()
            os._exit(130)
        say("cell: interrupted: tearing down; again to leave at once", file=sys.stderr)
        if task is not None:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        await run.run()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            if count:  # all has ended: one more of them is no reason to die without a word
                signal.signal(number, signal.SIG_IGN)


def _tell(attempt: job.Attempt, *, as_json: bool, colour: bool) -> None:
    verdict = attempt.verdict
    if as_json:
        causes = [msgspec.to_builtins(cause) for cause in verdict.causes] if verdict else []
        said = {
            "trial": str(attempt.trial),
            "task": attempt.task.short_name,
            "verdict": verdict.verdict if verdict else "ungraded",
            "rewards": verdict.rewards if verdict else {},
            "causes": causes,
            **({"error": str(attempt.error)} if attempt.error else {}),
        }
        say(json.dumps(said))
        sys.stdout.flush()
        return
    say(verdict_line(attempt.trial, attempt.task.short_name, verdict, attempt.error, colour=colour))
    sys.stdout.flush()


def _sum(run: job.Job) -> str:
    from cell.verdict import means

    said = means([attempt.verdict for attempt in run.trials if attempt.verdict is not None])
    raw = "—" if said.raw is None else f"{said.raw:.2f}"
    graded = "—" if said.graded is None else f"{said.graded:.2f}"
    count = "1 trial" if len(run.trials) == 1 else f"{len(run.trials)} trials"
    return f"{count} · mean {raw} · over the {said.n_graded} graded {graded} · {run.folder}"
