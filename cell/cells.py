"""Finding cells: by name, among those that live on this machine and those that left a folder (promise O6)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from . import trials
from .errors import UsageError
from .outcome import read_info
from .serve import RUNTIME


def living() -> list[Path]:
    """Return the trial folders of all cells that live on this machine."""
    found = []
    try:
        folders = sorted(RUNTIME.iterdir())
    except OSError:
        return []
    for folder in folders:
        try:
            found.append(Path((folder / "trial").read_text("utf-8")))
        except OSError:
            continue
    return found


def known(paths: list[Path], *, elsewhere: bool = True) -> list[trials.Trial]:
    """Return the trials below `paths`, and with `elsewhere` all living ones of this machine."""
    folders = dict.fromkeys(str(path) for path in living()) if elsewhere else dict[str, None]()
    for path in paths:
        # one trial has one name, whether it is found by a relative path, a link, or as a living one
        roots = trials.discover(path.resolve())
        folders.update(dict.fromkeys(roots.trials))
        for job in roots.jobs:
            folders.update(dict.fromkeys(trial.path for trial in trials.read_job(job).trials))
    return [trials.read_trial(folder) for folder in folders if Path(folder).is_dir()]


def find(wanted: str, jobs_dir: Path) -> trials.Trial:
    """Return the one trial called `wanted`: a path, an id, a prefix of one, or part of a task's name.

    Errors: UsageError when there is none, or more than one.
    """
    path = Path(wanted)
    if trials.is_trial(path):
        return trials.read_trial(path.resolve())
    everything = known([jobs_dir] if jobs_dir.exists() else [])
    for pool in ([trial for trial in everything if trial.alive], everything):
        found = trials.match(pool, wanted)
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(f"{trial.id} ({trial.task})" for trial in found[:8])
            raise UsageError(f"{wanted!r} is not unique: {names}")
    raise UsageError(f"there is no cell {wanted!r}; `cell ls` lists those there are")


async def gone(trial: trials.Trial) -> None:
    """Return when the cell's serving process has ended, and so all that hung on it."""
    info = trials.read_trial(trial.path)
    while info.alive:
        await asyncio.sleep(0.05)
        info = trials.read_trial(trial.path)


def runtime_of(trial: trials.Trial) -> Path:
    """Return where a living cell answers; UsageError when it does not live."""
    if not trial.alive:
        raise UsageError(
            f"the cell {trial.id} ({trial.task}) has ended ({trial.state}): only its records are left, in "
            f"{trial.path}; `cell run --keep always` leaves a cell up, to enter it and grade it again"
        )
    info = read_info(Path(trial.path))
    return RUNTIME / (info.cell if info is not None else trial.id)
