"""A grading beside the score: the same verifier in the same world, with one thing changed and put back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from .border import Border
from .changes import Change, parse
from .errors import Refused
from .policy import Policy
from .workspace import Workspace

FOLDER = "regrades"
"""Below a trial's `cell`: for each such grading a folder with what its verifier left."""


def wanted(world: Workspace, border: Border | None, text: str) -> Change:
    """Return the change that is asked for. Raises Refused for what is none, or cannot be had here."""
    try:
        change = parse(text)
    except ValueError as error:
        raise Refused(str(error)) from None
    if world.phase != "finished" or not world.graded:
        raise Refused("something is changed only beside a score: there is no verdict yet")
    if change.still and not world.sandbox.pid_namespace:
        raise Refused("without a sandbox nothing can stand still: the processes are this machine's")
    if change.public and (border is None or world.ways is None or "verifier" not in world.ways):
        raise Refused("the verifier of this world has no way out that could lead anywhere")
    return change


def folder(trial: Path, attempt: int) -> Path:
    """Make and return the folder of one grading."""
    made = trial / "cell" / FOLDER / str(attempt)
    made.mkdir(parents=True, exist_ok=True)
    return made


@asynccontextmanager
async def changed(world: Workspace, border: Border | None, change: Change | None) -> AsyncIterator[None]:
    """Have it so while this lasts."""
    rules = border.rules["verifier"] if border is not None else None
    before = rules.policy if rules is not None else None
    try:
        if change is not None and change.still:
            await world.freezer.freeze(list)
        if change is not None and change.public and rules is not None:
            rules.policy = Policy("public", (), "this grading beside the score")
        yield
    finally:
        if rules is not None and before is not None and change is not None and change.public:
            rules.policy = before
        if change is not None and change.still:
            await world.freezer.thaw()
