"""Starting a serving process, and waiting for its end."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import msgspec

from . import limits, runtime
from .errors import HarnessError, TaskError
from .serve import RUNTIME, Spec


async def start(spec: Spec, trial: Path) -> asyncio.subprocess.Process:
    """Start a serving process and wait until it is ready.

    Errors: TaskError or HarnessError with what it said; nothing of it is left then.
    """
    (trial / "cell").mkdir(parents=True, exist_ok=True)
    with (trial / "cell" / "serve.log").open("wb") as log:
        serve = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "cell.service",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            # -m looks for modules in its folder first: never in one that holds what an agent left
            cwd=Path(__file__).parents[1],
            start_new_session=True,
        )
    assert serve.stdin is not None
    assert serve.stdout is not None
    try:
        serve.stdin.write(msgspec.json.encode(spec))
        await serve.stdin.drain()
        serve.stdin.close()
        line = await serve.stdout.readline()
    except (OSError, asyncio.CancelledError):
        serve.kill()
        await serve.wait()
        raise
    said = (
        json.loads(line)
        if line.endswith(b"\n")
        else {"error": "the serving process died; see cell/serve.log"}
    )
    if "error" in said:
        await serve.wait()
        if said.get("kind") == "task":
            raise TaskError("", "", said["error"])
        raise HarnessError(said["error"])
    return serve


async def finish(serve: asyncio.subprocess.Process) -> None:
    """Wait for a serving process that was told to stop; one that does not is killed."""
    try:
        async with asyncio.timeout(20):
            await serve.wait()
    except TimeoutError:
        serve.kill()
        await serve.wait()
    runtime.sweep(RUNTIME)
    limits.sweep()
