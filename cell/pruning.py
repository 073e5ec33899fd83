"""What may be thrown away: exports of images that are gone, and the roots of trials that nobody finished.

Everything is decided before anything is removed, and what cannot be told is kept.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from . import trees
from .trees import size
from .trials import Trial

_YOUNG = 3600.0  # seconds since a rollout last asked for an export; it may be about to use it


@dataclass(frozen=True)
class Waste:
    """A folder that may go: `why`, and how many bytes of disk it takes."""

    path: Path
    why: str
    size: int


def exports(cache: Path, present: Collection[str], living: Iterable[Path]) -> list[Waste]:
    """Return the exports in `cache` whose image is not among `present` and that no living cell stands on.

    `present` are the engine's image ids; `living` the trial folders of living cells.
    """
    known = {name.removeprefix("sha256:") for name in present}
    used = {_real(trial / "cell" / "root" / "lower") for trial in living}
    found = []
    for folder in _folders(cache):
        asked = _changed(cache / f"{folder.name}.lock") or _changed(folder)
        if folder.name in known or _real(folder) in used or time.time() - asked < _YOUNG:
            continue
        why = "an interrupted export" if folder.name.startswith(".") else "its image is gone"
        found.append(Waste(folder, why, size(folder)))
    return found


def roots(trials: Iterable[Trial], *, finished: bool = False) -> list[Waste]:
    """Return the roots of trials that died without a verdict; with `finished`, of all that do not live."""
    found = []
    for trial in trials:
        root = Path(trial.path, "cell", "root")
        if trial.alive or not root.is_dir() or root.is_symlink():
            continue
        over = trial.state in ("passed", "failed", "ungraded")
        if trial.state == "stale" or (finished and over):
            why = "what the agent changed" if over else "its cell died without a verdict"
            found.append(Waste(root, f"{why} ({trial.id}, {trial.task})", size(root)))
    return found


def remove(waste: Waste) -> None:
    """Remove a folder, never what its links lead to; OSError when it cannot be."""
    trees.remove(waste.path)
    if waste.why == "its image is gone":
        waste.path.with_name(f"{waste.path.name}.lock").unlink(missing_ok=True)


def _folders(cache: Path) -> list[Path]:
    try:
        return sorted(path for path in cache.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return []


def _real(path: Path) -> Path | None:
    try:
        return path.resolve(strict=True)
    except OSError:
        return None


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
