"""Looking at a living world from inside, as each phase's user, and judging what was seen."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from . import fidelity
from .fidelity import Check, Expected
from .identity import Person
from .records import CellInfo
from .sandbox import StartFailed
from .workspace import Role, Workspace

_PATIENCE = 20.0  # seconds
_LARGEST = 32 << 20  # bytes that a look may bring
# What names the harness, wherever it stands. The paths of this cell are added.
_WORDS = ("hudtui", "bwrap", "bubblewrap", "cell.service", "cell.serve", "CELL_")


async def inspect(workspace: Workspace, info: CellInfo) -> tuple[Check, ...]:
    """Return the fidelity lines of both phases. A look that fails is a line that failed."""
    lines: list[Check] = []
    places = (Path(info.task_path), workspace.folder, Path(__file__).parent)
    # one word after a slash could be anything's
    words = (*_WORDS, *(str(place) for place in places if len(place.parts) > 2))
    for phase in info.identity.phases:
        person = workspace.people[phase.phase]
        try:
            saw = await asyncio.wait_for(_look(workspace, phase.phase, person), _PATIENCE)
        except (StartFailed, TimeoutError, OSError, ValueError, EOFError) as error:
            lines.append(fidelity.failed(phase.phase, str(error) or type(error).__name__))
            continue
        expected = Expected(info.identity, phase, words)
        lines += fidelity.judge(saw, expected)
    return tuple(lines)


async def _look(workspace: Workspace, role: Role, person: Person) -> dict[str, bytes]:
    size = (fidelity.ROWS, fidelity.COLUMNS)
    env = workspace.environment(role, {}, term=fidelity.TERM)
    child = workspace.sandbox.spawn([["probe"]], who=person.who, env=env, cwd="/", terminal=size, probe=True)
    reading = None
    try:
        await child.started
        assert child.master is not None
        os.set_blocking(child.master, True)
        reading = asyncio.ensure_future(asyncio.to_thread(_all, child.master))
        data = await asyncio.shield(reading)
        await child.ended
    finally:
        if not child.ended.done():
            child.kill()
        if reading is not None:
            # the thread has let go of the descriptor before that can be another one's
            await asyncio.wait([reading])
        if child.master is not None:
            os.close(child.master)
    return _unpacked(data)


def _all(descriptor: int) -> bytes:
    data = b""
    with suppress(OSError):  # EIO: nobody has the terminal open any more
        while len(data) < _LARGEST and (piece := os.read(descriptor, 1 << 16)):
            data += piece
    return data


def _unpacked(data: bytes) -> dict[str, bytes]:
    """Return what `launcher.probe.packed` put together. Raises ValueError for what was cut off."""
    pieces, at = list[bytes](), 0
    while at < len(data):
        size, at = int.from_bytes(data[at : at + 4], "big"), at + 4
        if len(data) < at + size:
            raise ValueError("the look was cut off")
        pieces.append(data[at : at + size])
        at += size
    if not pieces or len(pieces) % 2:
        raise ValueError("the look was cut off")
    return {
        key.decode("utf-8", "replace"): value for key, value in zip(pieces[::2], pieces[1::2], strict=True)
    }
