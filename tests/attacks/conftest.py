"""Cells for the bench. `standing` is one cell for all attacks of a file that leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from world import LiveCell, cell, make_cell

from .internet import Internet, spec

__all__ = ["cell", "internet", "make_cell", "standing", "worlds"]


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCell]:
    """One cell in its agent phase, all as root, shared by a file."""
    live = LiveCell(tmp_path_factory.mktemp("standing") / "trial", env=(("DECLARED", "yes"),)).begin()
    yield live
    assert live.stop() == 0


@pytest.fixture(scope="session")
def internet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    """An internet in which everything answers, and a substrate on it."""
    made = Internet(tmp_path_factory.mktemp("internet"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def worlds(internet: Internet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LiveCell]]:
    """Cells on that internet, each made once for a file: `worlds(MODE, *HOSTS, more of its Spec)`."""
    made: dict[str, LiveCell] = {}

    def world(mode: str, *hosts: str, **overrides: Any) -> LiveCell:
        key = repr((mode, hosts, sorted(overrides.items())))
        if key not in made:
            trial: Path = tmp_path_factory.mktemp("worlds") / "trial"
            made[key] = internet.cell(trial, agent_phase=spec(mode, *hosts), **overrides)
        return made[key]

    yield world
    for live in made.values():
        assert live.stop() == 0
        assert not live.left()
