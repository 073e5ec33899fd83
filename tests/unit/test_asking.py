from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest

from cell import journal, rollout
from cell.errors import HarnessError
from cell.events import GateCall, PhaseChanged
from cell.sandbox import Sandbox
from cell.workspace import Workspace


def test_g4_what_is_allowed_is_in_the_journal_too(tmp_path: Path) -> None:
    changes: list[str] = []
    with journal.Journal(tmp_path / "events.jsonl") as book:
        workspace = Workspace(tmp_path, cast(Sandbox, None), book, {}, (), (), "/", ())
        workspace.changed = lambda: changes.append(workspace.phase)
        workspace.enter("agent", "runner")
        workspace.ask("agent", "session", "true")
    phase, call = (line.event for line in journal.read(tmp_path / "events.jsonl"))
    assert isinstance(phase, PhaseChanged) and isinstance(call, GateCall)
    assert (phase.phase, call.allowed, changes) == ("agent", True, ["agent"])


def test_a_journal_that_cannot_be_written_allows_nothing_and_ends_the_cell(tmp_path: Path) -> None:
    book = journal.Journal(tmp_path / "events.jsonl")
    read_only = os.open(tmp_path / "events.jsonl", os.O_RDONLY)
    os.dup2(read_only, book._fd)
    os.close(read_only)
    workspace = Workspace(tmp_path, cast(Sandbox, None), book, {}, (), (), "/", ())
    with pytest.raises(HarnessError):
        workspace.ask("viewer", "status")
    assert workspace.closing.is_set()
    assert "the journal failed" in workspace.why
    book.close()


def test_nothing_is_allowed_once_the_journal_is_closed(tmp_path: Path) -> None:
    book = journal.Journal(tmp_path / "events.jsonl")
    book.close()
    workspace = Workspace(tmp_path, cast(Sandbox, None), book, {}, (), (), "/", ())
    workspace.why = "it was stopped"
    with pytest.raises(HarnessError, match="the cell has ended: it was stopped"):
        workspace.ask("viewer", "status")


def test_the_names_of_a_rollout_are_had_from_it() -> None:
    assert callable(rollout.declared_limits)
    assert callable(rollout.overrides)
