"""Commands that an operator gives a living cell: stop, keep, pause, continue, finish, grade."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cell import cells, trials
from cell.control import Link
from cell.errors import UsageError
from cell.records import CellInfo, Verdict

from .entering import me
from .saying import coloured, say, verdict_line

if TYPE_CHECKING:
    from cell.task import Task
    from cell.verdict.facts import Facts


def on_cell(args: argparse.Namespace, act: Callable[..., Any]) -> Any:
    """Return what `act` does on an operator's link to the cell that was named."""
    trial = cells.find(args.cell, Path(args.jobs_dir))

    async def call() -> Any:
        link = await Link.open(cells.runtime_of(trial), "operator")
        try:
            return await act(link, trial)
        finally:
            await link.close()

    return asyncio.run(call())


def stop(args: argparse.Namespace) -> int:
    """End a living cell, and wait until it has gone."""

    from cell import outcome, unfinished

    async def stop(link: Any, trial: trials.Trial) -> str:
        info = outcome.read_info(Path(trial.path))
        await link.call("stop")
        await cells.gone(trial)
        if (
            info is not None
            and not trials.alive(info.runner)
            and not Path(trial.path, "result.json").exists()
        ):
            # nobody else will say how it ended
            unfinished.stopped(Path(trial.path), info, "an operator stopped the cell, whose runner had gone")
        return trial.id

    stopped = on_cell(args, stop)
    say(json.dumps({"cell": stopped, "stopped": True}) if args.json else f"stopped {stopped}")
    return 0


def keep(args: argparse.Namespace) -> int:
    """Keep a cell, or keep it no longer."""

    async def keep(link: Any, trial: trials.Trial) -> str:
        await link.call("release" if args.release else "keep")
        return trial.id

    cell, how = on_cell(args, keep), "released" if args.release else "kept"
    say(json.dumps({"cell": cell, "kept": not args.release}) if args.json else f"{how} {cell}")
    return 0


def pause(args: argparse.Namespace) -> int:
    """Have the agent wait, or go on."""
    if args.resume:
        return resume(args)
    said = _told(args, "pause", freeze=args.freeze, who=me(args))
    if not args.json:
        how = "frozen: its processes stand still" if args.freeze else "paused: what it asks for next waits"
        say(f"{how}; `cell continue {said['cell']}` lets it go on")
    return 0


def resume(args: argparse.Namespace) -> int:
    """Let a paused agent go on."""
    said = _told(args, "continue", who=me(args))
    if not args.json:
        say(f"goes on; it waited for {said['held_sec']:.0f} seconds in all")
    return 0


def finish(args: argparse.Namespace) -> int:
    """End the phase of an agent that is a person."""
    said = _told(args, "finish", who=me(args))
    if not args.json:
        say(f"finished {said['cell']}; it is being graded")
    return 0


def _told(args: argparse.Namespace, method: str, **given: Any) -> dict[str, Any]:
    """Call a method, and return the status after it; with --json it is said."""

    async def call(link: Any, trial: trials.Trial) -> Any:
        await link.call(method, **given)
        return await link.call("status")

    said: dict[str, Any] = on_cell(args, call)
    if args.json:
        say(json.dumps(said))
    return said


def grade(args: argparse.Namespace) -> int:
    """Verify a cell and give its verdict anew; 3 when it stays ungraded. With a change: beside its score."""
    if args.change:
        return grade_beside(args)
    from cell import rollout, unfinished
    from cell.task import load
    from cell.verdict import conclude

    async def grade(link: Any, trial: trials.Trial) -> tuple[Path, str, Verdict]:
        folder = Path(trial.path)
        info = _info(folder)
        task = load(Path(info.task_path), oracle=False)
        if (given := await _runners(link, trial, info, seal=args.seal)) is not None:
            return folder, trial.task, given
        grading = await rollout.grade(link, task)
        verdict = conclude(_facts(folder, task, info, grading))
        unfinished.conclude_orphan(folder, task, info, verdict)
        return folder, trial.task, verdict

    folder, task, verdict = on_cell(args, grade)
    if args.json:
        say(json.dumps({"trial": str(folder), "task": task, **msgspec.to_builtins(verdict)}))
    else:
        say(verdict_line(folder, task, verdict, None, colour=coloured()))
    return 0 if verdict.verdict == "graded" else 3


def _info(folder: Path) -> CellInfo:
    from cell.outcome import read_info

    info = read_info(folder)
    if info is None:
        raise UsageError(f"{folder}/cell/cell.json cannot be read")
    return info


def _facts(folder: Path, task: Task, info: CellInfo, grading: dict[str, Any]) -> Facts:
    """Return what is known of a cell that is graded from here."""
    from cell import outcome
    from cell.verdict.facts import AgentOutcome

    used = info.identity.phases[0].network_used if info.identity.phases else None
    return outcome.gather(
        folder,
        task,
        grading=grading,
        outcome=AgentOutcome(name=info.agent),
        unsandboxed=not info.identity.sandboxed,
        networks=outcome.overrides(task, used),
    )


def grade_beside(args: argparse.Namespace) -> int:
    """Verify a kept cell with one thing changed; its score and its records stay. 3 when this is ungraded."""
    from cell import outcome, rollout
    from cell.changes import parse
    from cell.records import Regrade
    from cell.task import load
    from cell.verdict import conclude
    from cell.verdict.facts import NetworkOverride

    try:
        change = parse(args.change)
    except ValueError as error:
        raise UsageError(f"--with {error}") from None

    async def grade(link: Any, trial: trials.Trial) -> tuple[trials.Trial, Regrade]:
        folder = Path(trial.path)
        info = _info(folder)
        if trial.verdict is None:
            raise UsageError(f"{trial.id} has no verdict yet: what --with gives stands beside one")
        task = load(Path(info.task_path), oracle=False)
        grading = await rollout.grade(link, task, change)
        facts = _facts(folder, task, info, grading)
        if change.public:
            other = NetworkOverride(phase="verifier", declared=task.verifier.network_mode, used="public")
            facts = msgspec.structs.replace(facts, networks=(*facts.networks, other))
        within = change.within(task.verifier.timeout_sec or 600.0)
        verdict = conclude(msgspec.structs.replace(facts, verifier_timeout_sec=within))
        regrade = Regrade(
            t=time.time(), attempt=grading["attempt"], change=change.text, who=me(args), verdict=verdict
        )
        outcome.write_regrade(folder, regrade)
        return trial, regrade

    trial, regrade = on_cell(args, grade)
    if args.json:
        told = {"official": False, "change": change.text, "attempt": regrade.attempt}
        say(
            json.dumps(
                {"trial": trial.path, "task": trial.task, **told, **msgspec.to_builtins(regrade.verdict)}
            )
        )
    else:
        score = "ungraded" if trial.score is None else f"{trial.score:.2f}"
        line = verdict_line(Path(trial.path), trial.task, regrade.verdict, None, colour=coloured())
        say(f"{line}\nwith {change.text}, beside the score, which stays {score}")
    return 0 if regrade.verdict.verdict == "graded" else 3


async def _runners(link: Any, trial: trials.Trial, info: CellInfo, *, seal: bool) -> Verdict | None:
    """Return the verdict of a runner that lives, once it has given it; None when the caller is to grade.

    Errors: UsageError while the agent works, unless it is to `seal`, and while somebody else grades.
    """
    working, owned = info.phase in ("starting", "agent"), trials.alive(info.runner)
    if working and not seal:
        raise UsageError(
            f"the agent of {trial.id} is working, and grading would end that: look with "
            f"`cell ssh {trial.id}`, end it with `cell stop {trial.id}`, or say --seal to end its phase now"
        )
    if not working and owned:
        raise UsageError(
            f"the runner of {trial.id} is grading it (its phase is {info.phase}); `cell ls` tells"
        )
    if working:
        await link.call("seal", reason="an operator grades")
    while owned:
        found = trials.read_trial(trial.path)
        if found.finished is not None and found.verdict is not None:
            return found.verdict
        owned = trials.alive(info.runner)
        await asyncio.sleep(0.1)
    return None
