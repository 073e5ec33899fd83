"""Cells for the bench. `standing` is one cell for all attacks of a file that leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from world import LiveCell, cell, make_cell

__all__ = ["cell", "make_cell", "standing"]


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCell]:
    """One cell in its agent phase, all as root, shared by a file."""
    live = LiveCell(tmp_path_factory.mktemp("standing") / "trial", env=(("DECLARED", "yes"),)).begin()
    yield live
    assert live.stop() == 0
