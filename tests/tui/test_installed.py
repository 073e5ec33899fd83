"""First contact: `pip install .`, then the demo, from what was installed and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .test_demo import SHOW, WITHOUT

SOURCE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as pip installs it, from a copy: what is built leaves traces where it is built."""
    folder = tmp_path_factory.mktemp("installed")
    source, target = folder / "source", folder / "target"
    source.mkdir()
    for name in ("cell", "hudtui"):
        shutil.copytree(SOURCE / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(SOURCE / name, source)
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    argv += ["--retries", "0", "--target", str(target), str(source)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=170, check=False)
    if "No matching distribution found for setuptools" in done.stderr:
        missing = "needs setuptools, and no package index could be asked for it"
        pytest.fail(missing) if os.environ.get("CELL_MUST_WORK") == "1" else pytest.skip(missing)
    assert done.returncode == 0, done.stderr[-2000:]
    return target


def run(installed: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the installed package first, and this source tree nowhere."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(
        [sys.executable, "-P", *argv],
        cwd=installed.parent,
        env={**environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.timeout(300)
def test_the_demo_plays_from_what_was_installed(installed: Path) -> None:
    where = run(installed, "-c", "import cell, hudtui; print(cell.__file__, hudtui.__file__)").stdout.split()
    assert all(Path(one).is_relative_to(installed) for one in where), where
    done = run(installed, "-c", WITHOUT + SHOW)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "sum-fails" in done.stdout


@pytest.mark.timeout(300)
def test_everything_that_is_not_python_came_along(installed: Path) -> None:
    """A file of the source that the package forgets is missed only where there is no source."""
    ours = {
        path.relative_to(SOURCE)
        for name in ("cell", "hudtui")
        for path in (SOURCE / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }
    assert {str(path) for path in ours if not (installed / path).is_file()} == set()


@pytest.mark.timeout(300)
def test_both_commands_are_there(installed: Path) -> None:
    for name in ("cell", "hudtui"):
        done = run(installed, str(installed / "bin" / name), "--version")
        assert (done.returncode, name in done.stdout) == (0, True), done
