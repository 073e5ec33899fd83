"""Starting a serving process, and waiting for its end."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from . import kernel, limits, runtime
from .errors import HarnessError, TaskError
from .serve import RUNTIME, Spec

_serving = dict[asyncio.subprocess.Process, Path]()  # and where its sockets are


async def start(spec: Spec, trial: Path) -> asyncio.subprocess.Process:
    """Start a serving process and wait until it is ready.

    Errors: TaskError or HarnessError with what it said; nothing of it is left then.
    """
    (trial / "cell").mkdir(parents=True, exist_ok=True)
    serve = await _spawn(spec.cell, trial / "cell" / "serve.log")
    assert serve.stdin is not None
    assert serve.stdout is not None
    try:
        serve.stdin.write(msgspec.json.encode(spec))
        await serve.stdin.drain()
        serve.stdin.close()
        line = await serve.stdout.readline()
    except BaseException:
        await _kill(serve)
        raise
    said = (
        json.loads(line)
        if line.endswith(b"\n")
        else {"error": "the serving process died; see cell/serve.log"}
    )
    if "error" in said:
        await _gone(serve)
        if said.get("kind") == "task":
            raise TaskError("", "", said["error"])
        raise HarnessError(said["error"])
    return serve


async def finish(serve: asyncio.subprocess.Process, *, told: bool = True) -> None:
    """Wait for a serving process that was `told` to stop, or tell it; one that does not is killed."""
    if not told:
        with suppress(ProcessLookupError):
            serve.terminate()
    try:
        async with asyncio.timeout(20):
            await serve.wait()
    except TimeoutError:
        serve.kill()
    await _gone(serve)


def release(serve: asyncio.subprocess.Process) -> None:
    """Let a serving process outlive this one, whatever happens: its cell is kept."""
    _serving.pop(serve, None)


def kill_all() -> None:
    """Kill every serving process that was started here and not released; all inside dies with them."""
    for serve in _serving:
        with suppress(ProcessLookupError):
            serve.kill()
    end = time.monotonic() + 5
    while any(kernel.process(serve.pid) for serve in _serving) and time.monotonic() < end:
        time.sleep(0.01)
    _sweep()
    # what it started holds its lock for a moment longer
    while any(folder.exists() for folder in _serving.values()) and time.monotonic() < end:
        time.sleep(0.02)
        _sweep()


async def _spawn(cell: str, complaints: Path) -> asyncio.subprocess.Process:
    async def spawn() -> asyncio.subprocess.Process:
        with complaints.open("wb") as log:
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
        _serving[serve] = RUNTIME / cell
        return serve

    spawning = asyncio.create_task(spawn())
    try:
        return await asyncio.shield(spawning)
    except asyncio.CancelledError:
        # it may run already, and only this task will ever know its pid
        await _kill(await spawning)
        raise


async def _kill(serve: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        serve.kill()
    await _gone(serve)


async def _gone(serve: asyncio.subprocess.Process) -> None:
    await serve.wait()
    _serving.pop(serve, None)
    _sweep()


def _sweep() -> None:
    runtime.sweep(RUNTIME)
    limits.sweep()
