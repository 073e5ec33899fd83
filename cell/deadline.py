"""The agent's deadline: its declared seconds, those not counted in which it had to wait (promise O5)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from .outcome import read_info

_LOOK = 0.25  # seconds between looks while the agent waits, for what is written by another process


async def expired(trial: Path, seconds: float | None) -> None:
    """Return when the agent of `trial`, which begins now, has used up its `seconds`; None is for ever."""
    began = time.monotonic()
    while True:
        left = 3600.0 if seconds is None else seconds + waited(trial) - (time.monotonic() - began)
        if left <= 0:
            return
        await asyncio.sleep(max(left, _LOOK))


def waited(trial: Path) -> float:
    """Return for how many seconds the agent of `trial` has had to wait so far."""
    info = read_info(trial)
    return info.held.total(time.time()) if info is not None else 0.0
