from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from cell import launcher

MODULES = sorted(Path(launcher.__file__).parent.glob("*.py"))


def imports(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_s9_it_is_of_the_standard_library_and_itself(path: Path) -> None:
    for node in imports(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            names = [] if node.level == 1 else [node.module or ""]
        tops = {name.split(".")[0] for name in names if not name.startswith("cell.launcher.")}
        assert tops <= set(sys.stdlib_module_names) | {"__future__"}, f"line {node.lineno}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_s9_nothing_is_imported_late(path: Path) -> None:
    """After joining, an import would be looked for in the agent's root."""
    tree = ast.parse(path.read_text("utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert [node.lineno for function in functions for node in imports(function)] == []
