from __future__ import annotations

import ast
import sys
from pathlib import Path

from cell import launcher


def test_s9_it_is_one_file_of_the_standard_library() -> None:
    tree = ast.parse(Path(launcher.__file__).read_text("utf-8"))
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert names <= set(sys.stdlib_module_names) | {"__future__"}


def test_s9_nothing_is_imported_late() -> None:
    """After joining, an import would be looked for in the agent's root."""
    tree = ast.parse(Path(launcher.__file__).read_text("utf-8"))
    late = [
        node.lineno
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert late == []
