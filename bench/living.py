"""Cells to measure, and what a process takes."""

from __future__ import annotations

import os
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from cell import control, kernel, placing
from cell.serve import RUNTIME, PhaseSpec, Spec

SHUT = PhaseSpec(user="root", key="bench", network_declared="no-network", network_used="no-network")


def spec(trial: Path, name: str, agent: PhaseSpec = SHUT, pins: tuple[tuple[str, str], ...] = ()) -> Spec:
    """Return a cell on this machine's own system, by default without a network."""
    return Spec(
        cell=name,
        task="bench",
        task_path="bench",
        trial=str(trial),
        agent="bench",
        image_root=None,
        image_env=(),
        env=(),
        workdir="/",
        agent_phase=agent,
        verifier_phase=SHUT,
        runner=kernel.process(os.getpid()),
        pins=pins,
    )


@asynccontextmanager
async def living(asked: Spec) -> AsyncIterator[Process]:
    """Yield the serving process of a cell in its agent phase."""
    trial = Path(asked.trial)
    trial.mkdir(parents=True)
    process = await placing.start(asked, trial)
    try:
        link = await control.Link.open(RUNTIME / asked.cell, "runner")
        await link.call("begin")
        yield process
        await link.close()
    finally:
        process.terminate()
        await process.wait()


def memory(pid: int) -> float:
    """Return the PSS of a process and of all below it, in MB."""
    pids = [pid]
    for one in pids:
        with suppress(OSError):
            pids += map(int, Path(f"/proc/{one}/task/{one}/children").read_text("ascii").split())
    return sum(own(one) for one in pids)


def own(pid: int) -> float:
    """Return the PSS of a process alone, in MB; 0 when it has gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
