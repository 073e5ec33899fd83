from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from cell import kernel, placing
from cell.describe import PhaseSpec, Spec
from cell.errors import HarnessError

PHASE = PhaseSpec(user="root", key="x", network_declared="no-network", network_used="no-network")


async def test_a_cell_that_cannot_be_placed_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    spec = Spec(
        cell="placing",
        task="t",
        task_path="/t",
        trial=str(tmp_path),
        agent="nop",
        image_root=str(tmp_path / "there is no such image"),
        image_env=(),
        env=(),
        workdir="/",
        agent_phase=PHASE,
        verifier_phase=PHASE,
        runner=kernel.process(os.getpid()),
    )
    with pytest.raises(HarnessError):
        await placing.start(spec, tmp_path)
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text("ascii").split()
    living = [pid for pid in children if b"cell.service" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert living == []
    await asyncio.sleep(0)
