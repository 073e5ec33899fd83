"""The command `cell`: one function per subcommand; errors are one line, and an exit status."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from . import agents, arguments, cells, job, trials
from .errors import CellError, TaskError, UsageError
from .plain import plain
from .records import Verdict
from .rollout import Settings


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 done or all graded, 2 a task or usage error, 3 some ungraded or a fault."""
    args = arguments.parser().parse_args(argv)
    try:
        status = _COMMANDS[args.name](args)
        sys.stdout.flush()
        return status
    except CellError as error:
        print(f"cell: {plain(str(error))}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except KeyboardInterrupt:
        return 130


def print(*words: object, file: Any = None) -> None:
    """Write one line."""
    (file or sys.stdout).write(" ".join(str(word) for word in words) + "\n")


# ── run ───────────────────────────────────────────────────────────────────────────────────────


def _run(args: argparse.Namespace) -> int:
    agents.check(args.agent)
    job.require_root()
    good, bad = job.tasks_of(
        [Path(path) for path in args.tasks],
        include=args.include,
        exclude=args.exclude,
        agent=args.agent,
        network=args.network,
    )
    if args.unsandboxed:
        pictured = [t for t in good if t.environment.docker_image or t.environment.dockerfile]
        why = "this task has an image, which cannot be had without a sandbox"
        bad += [TaskError(t.path / "task.toml", "environment", why) for t in pictured]
        good = [t for t in good if t not in pictured]
    for error in bad:
        print(f"cell: {plain(str(error))}", file=sys.stderr)
    for task in good:
        for warning in task.warnings:
            print(f"cell: warning: {task.short_name}: {plain(warning)}", file=sys.stderr)
    if not good:
        if not bad:
            raise UsageError("no task was selected")
        return 2
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    run = job.Job(
        good,
        Settings(
            agent=args.agent,
            network=args.network,
            keep=args.keep,
            sandboxed=not args.unsandboxed,
        ),
        Path(args.jobs_dir).resolve(),
        args.job_name or job.default_name(),
        concurrent=args.n,
        attempts=args.k,
        tell=lambda line: print(f"cell: {line}", file=sys.stderr),
        done=lambda attempt: _tell(attempt, as_json=args.json, colour=colour),
    )
    if args.unsandboxed:
        print("cell: UNSANDBOXED: the agent works on this machine itself", file=sys.stderr)
    try:
        asyncio.run(_interruptible(run))
    except asyncio.CancelledError:
        print(
            f"cell: interrupted: sealed, nothing graded, all cells ended; records in {run.folder}",
            file=sys.stderr,
        )
        return 130
    if not args.json:
        print(_sum(run))
    if any(attempt.error is not None and attempt.error.exit_status == 2 for attempt in run.trials):
        return 2
    ungraded = any(attempt.verdict is None or attempt.verdict.verdict != "graded" for attempt in run.trials)
    return 3 if ungraded else (2 if bad else 0)


async def _interruptible(run: job.Job) -> None:
    """Run a job; the first Ctrl-C cancels it, the second ends this process at once."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    count = 0

    def interrupt() -> None:
        nonlocal count
        count += 1
        if count > 1:
            # the cells see their runner gone; they end when nobody owns them
            os._exit(130)
        print("cell: interrupted: sealing and tearing down; again to leave at once", file=sys.stderr)
        if task is not None:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    await run.run()


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
        print(json.dumps(said))
        sys.stdout.flush()
        return
    print(verdict_line(attempt.trial, attempt.task.short_name, verdict, attempt.error, colour=colour))
    sys.stdout.flush()


def verdict_line(
    trial: Path, task: str, verdict: Verdict | None, error: CellError | None, *, colour: bool = False
) -> str:
    """Return one verdict as a line: glyph, id, task, score, cause."""
    cell = trial.name.rpartition("__")[2]
    if verdict is None:
        glyph, tone, score, why = "■", "33", "—", str(error or "no verdict")
    else:
        reward = verdict.reward
        glyph, tone = ("■", "33") if reward is None else (("✓", "32") if reward >= 1 else ("×", "31"))
        if verdict.suspect or verdict.touched:
            glyph += "▲"
        score = "—" if reward is None else f"{reward:.2f}"
        first = verdict.causes[0] if verdict.causes else None
        why = f"{first.cause} {first.certainty}: {first.summary}" if first else verdict.fault
    mark = f"\x1b[{tone}m{glyph}\x1b[0m" if colour else glyph
    return f"{mark} {cell}  {plain(task, limit=40):<24} {score:>5}  {plain(why, limit=200)}".rstrip()


def _sum(run: job.Job) -> str:
    from .verdict import means

    said = means([attempt.verdict for attempt in run.trials if attempt.verdict is not None])
    raw = "—" if said.raw is None else f"{said.raw:.2f}"
    graded = "—" if said.graded is None else f"{said.graded:.2f}"
    return f"{len(run.trials)} trials · mean {raw} · over the {said.n_graded} graded {graded} · {run.folder}"


# ── the others ────────────────────────────────────────────────────────────────────────────────


def _plan(args: argparse.Namespace) -> int:
    from .task import load, network_refusals

    task = load(Path(args.task).resolve(), oracle=False)
    from .sandbox import Plan

    environment = task.environment
    built = f"built from {environment.dockerfile}" if environment.dockerfile else "composed system root"
    root = environment.docker_image or built
    plan = {
        "task": task.name,
        "root": str(root),
        "workdir": environment.workdir or "the image's WORKDIR, else /",
        "environment": sorted(name for name, _ in environment.env),
        "phases": {
            phase.name: {
                "user": phase.user or "the image's USER",
                "timeout_sec": phase.timeout_sec,
                "network": phase.network_mode,
                "because": phase.network_key,
                "allowed_hosts": list(phase.allowed_hosts),
            }
            for phase in (task.agent, task.verifier)
        },
        "bubblewrap": ["bwrap", *Plan("ROOT", "HOSTNAME").bwrap_options()],
        "warnings": list(task.warnings),
        "refused": [str(error) for error in (*task.unsupported, *network_refusals(task, args.network))],
    }
    if args.json:
        print(json.dumps(plan))
    else:
        for key, value in plan.items():
            shown = " ".join(value) if key == "bubblewrap" and isinstance(value, list) else value
            print(f"{key:<12} {plain(str(shown))}")
    return 2 if plan["refused"] else 0


def _ls(args: argparse.Namespace) -> int:
    paths = [Path(path) for path in args.paths]
    found = cells.known(paths or ([Path(args.jobs_dir)] if Path(args.jobs_dir).exists() else []))
    for trial in found:
        if args.json:
            print(json.dumps(trial.as_dict()))
        else:
            score = "—" if trial.score is None else f"{trial.score:.2f}"
            cause = f"{trial.cause} {trial.certainty}".strip()
            task, agent = plain(trial.task, limit=40), plain(trial.agent, limit=20)
            print(f"{trial.id:<8} {trial.state:<9} {score:>5}  {task:<28} {agent:<10} {cause}")
    return 0


def _on_cell(args: argparse.Namespace, act: Callable[..., Any]) -> Any:
    trial = cells.find(args.cell, Path(args.jobs_dir))

    async def call() -> Any:
        from .control import Link

        link = await Link.open(cells.runtime_of(trial), "operator")
        try:
            return await act(link, trial)
        finally:
            await link.close()

    return asyncio.run(call())


def _stop(args: argparse.Namespace) -> int:
    async def stop(link: Any, trial: trials.Trial) -> str:
        await link.call("stop")
        await cells.gone(trial)
        return trial.id

    print(f"stopped {_on_cell(args, stop)}")
    return 0


def _keep(args: argparse.Namespace) -> int:
    async def keep(link: Any, trial: trials.Trial) -> str:
        await link.call("release" if args.release else "keep")
        return trial.id

    print(("released " if args.release else "kept ") + str(_on_cell(args, keep)))
    return 0


def _grade(args: argparse.Namespace) -> int:
    from . import outcome, rollout
    from .task import load
    from .verdict import conclude
    from .verdictfacts import AgentOutcome

    async def grade(link: Any, trial: trials.Trial) -> tuple[Path, str, Verdict]:
        folder = Path(trial.path)
        info = outcome.read_info(folder)
        if info is None:
            raise UsageError(f"{folder}/cell/cell.json cannot be read")
        task = load(Path(info.task_path), oracle=False)
        if info.phase == "agent":
            await link.call("seal", reason="an operator grades")
        grading = await rollout.grade(link, task)
        used = info.identity.phases[0].network_used if info.identity.phases else None
        facts = outcome.gather(
            folder,
            task,
            grading=grading,
            outcome=AgentOutcome(name=info.agent),
            unsandboxed=not info.identity.sandboxed,
            networks=outcome.overrides(task, used),
        )
        verdict = conclude(facts)
        rollout.conclude_orphan(folder, task, info, verdict)
        return folder, trial.task, verdict

    folder, task, verdict = _on_cell(args, grade)
    if args.json:
        print(json.dumps({"trial": str(folder), **msgspec.to_builtins(verdict)}))
    else:
        print(
            verdict_line(
                folder, task, verdict, None, colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR")
            )
        )
    return 0 if verdict.verdict == "graded" else 3


def _ssh(args: argparse.Namespace) -> int:
    trial = cells.find(args.cell, Path(args.jobs_dir))
    cells.runtime_of(trial)
    sys.stdout.flush()
    os.execvp("ssh", ["ssh", "-F", f"{trial.path}/cell/ssh_config", "operator", *args.command])


def _attach(args: argparse.Namespace) -> int:
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


def _doctor(args: argparse.Namespace) -> int:
    from .doctor import main_doctor

    return main_doctor(args)


_COMMANDS = {
    "run": _run,
    "plan": _plan,
    "ls": _ls,
    "stop": _stop,
    "keep": _keep,
    "grade": _grade,
    "ssh": _ssh,
    "attach": _attach,
    "doctor": _doctor,
}
