"""The cells of `world`, for the tests in this folder."""

from __future__ import annotations

from world import GOOD, PATH, LiveCell, cell, make_cell, phase, tests, until

__all__ = ["GOOD", "PATH", "LiveCell", "cell", "make_cell", "phase", "tests", "until"]
