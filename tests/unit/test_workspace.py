from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from cell import journal
from cell.errors import Refused
from cell.events import GateCall
from cell.sandbox import Sandbox
from cell.workspace import Workspace


def test_g4_a_refusal_is_in_the_journal_before_it_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with journal.Journal(path) as book:
        workspace = Workspace(tmp_path, cast(Sandbox, None), book, {}, (), (), "/", ())
        with pytest.raises(Refused, match="grade comes after the agent phase"):
            workspace.ask("runner", "grade", "x" * 1000, pid=7)
    (line,) = journal.read(path)
    assert isinstance(line.event, GateCall)
    assert (line.event.allowed, line.event.pid, len(line.event.detail)) == (False, 7, 500)
