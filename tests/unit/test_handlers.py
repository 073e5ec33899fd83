from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from cell import journal
from cell.describe import Spec
from cell.errors import Refused
from cell.events import Paused
from cell.handlers import Desk
from cell.sandbox import Plan, hold
from cell.workspace import Workspace


async def test_s6_without_a_sandbox_nothing_is_frozen(tmp_path: Path) -> None:
    with journal.Journal(tmp_path / "events.jsonl") as book:
        async with hold(Plan(root=None, hostname="")) as sandbox:
            workspace = Workspace(tmp_path, sandbox, book, {}, (), (), "/", ())
            desk = Desk(cast(Spec, None), tmp_path, -1, workspace)
            with pytest.raises(Refused, match="without a sandbox nothing can be frozen"):
                await desk._pause("operator", {"freeze": True}, b"")
            await desk._pause("operator", {"who": "ann"}, b"")
            await desk._pause("operator", {"who": "ann"}, b"")
            await desk._continue("operator", {}, b"")
            with pytest.raises(Refused, match="to be a number"):
                await desk._resize("operator", {"session": "1"}, b"")
    told = [line.event for line in journal.read(tmp_path / "events.jsonl")]
    assert [(e.paused, e.by, e.frozen) for e in told if isinstance(e, Paused)] == [
        (True, "operator ann", False),
        (False, "operator", False),
    ]
