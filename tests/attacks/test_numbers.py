"""The bench is whole: each row has its one test, each test its row."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from .rows import OPEN, ROWS


def numbered() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef) and (match := re.match(r"test_(\d{3})_", node.name)):
                found.setdefault(int(match[1]), []).append(f"{file.name}::{node.name}")
    return found


def test_each_row_has_a_test_and_each_test_a_row() -> None:
    found = numbered()
    assert sorted(ROWS.keys() - found.keys()) == [], "rows without a test"
    assert sorted(found.keys() - ROWS.keys()) == [], "tests without a row"
    assert not ROWS.keys() & OPEN.keys()
