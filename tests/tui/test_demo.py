"""First contact: a recorded job, shown with nothing but a terminal, on a system that has no cells."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hudtui.cli import DEMO, GREETING
from hudtui.engine.ghostty import GhosttyEngine

from .conftest import Open

# What a system without Linux's namespaces, or a cockpit alone, cannot import.
WITHOUT = """
import sys
MISSING = {"uvloop", "docker", "asyncssh", "fcntl", "termios_", "h11"}
LINUX = {"kernel", "launcher", "launching", "machine", "sandbox", "seccomp", "session", "sshd", "serve", "control",
         "workspace", "child", "journal", "recording", "rollout", "job", "agents", "cells", "doctor", "runtime"}
class Guard:
    def find_spec(self, name, path=None, target=None):
        top, _, rest = name.partition(".")
        if top in MISSING or (top == "cell" and rest.partition(".")[0] in LINUX):
            raise ImportError(f"{name} is not to be had here")
sys.meta_path.insert(0, Guard())
"""
SHOW = """
import asyncio
from hudtui.app import HudApp
from hudtui.cli import DEMO
async def main():
    app = HudApp([DEMO], poll=0, fps=0, read_only=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        for key in ("enter", "2", "3", "6", "1", "a", "s"):
            await pilot.press(key)
        await pilot.pause()
        strips = app.screen._compositor.render_strips()
        print("\\n".join(strip.text.rstrip() for strip in strips))
asyncio.run(main())
"""


def test_it_works_where_no_cell_could_run() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + SHOW], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "sum-fails" in done.stdout
    assert "--read-only" in done.stdout


def test_the_guard_would_notice() -> None:
    """The positive control of the test above."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + "import cell.control"], capture_output=True, text=True, check=False
    )
    assert "is not to be had here" in done.stderr


async def test_the_recorded_job_is_whole(cockpit: Open) -> None:
    async with cockpit(DEMO, engine=GhosttyEngine, read_only=True) as hud:
        states = sorted(trial.state for trial in hud.app.snapshot.trials)
        assert states == ["failed"] * 2 + ["passed"] * 10 + ["ungraded"] * 2
        await hud.press("slash")
        await hud.type("task:hello-pass")
        await hud.press("enter", "w")
        assert "echo 'Hello, world!' > /root/hello.txt" in hud.screen
        await hud.press("3")
        assert "/tests/test.sh" in hud.screen
        assert "hello.txt is right" in hud.screen


async def test_the_recorded_job_has_what_a_newcomer_looks_for(cockpit: Open) -> None:
    async with cockpit(DEMO, engine=GhosttyEngine, read_only=True) as hud:
        denied = {hit.host for hit in hud.app.hits.hits if not hit.allowed}
        assert {"elsewhere.example", "packages.example", "answers.example"} <= denied
        assert any(trial.touched for trial in hud.app.snapshot.trials), "an operator took a keyboard"
        assert any(trial.suspect or trial.state == "failed" for trial in hud.app.snapshot.trials)
    assert sum(file.stat().st_size for file in DEMO.rglob("*") if file.is_file()) < 1_000_000


async def test_nothing_reaches_into_a_cell_read_only(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs, read_only=True) as hud:
        for key in ("a", "s", "p", "H", "E", "x"):
            await hud.press(key)
            assert "--read-only" in hud.footer, key
        await hud.press("colon")
        await hud.type("run examples/tasks")
        await hud.press("enter")
        assert "--read-only" in hud.footer
        assert not hud.wire.asked


@pytest.mark.parametrize(
    "file", sorted(path for path in DEMO.rglob("*") if path.is_file()), ids=lambda p: p.name
)
def test_it_names_no_machine(file: Path) -> None:
    text = file.read_text()
    top = Path(__file__).parents[2]
    for word in (
        str(top),
        f"{tempfile.gettempdir()}/{tempfile.gettempprefix()}",
        sys.prefix,
        ".sock",
        "site-packages",
    ):
        assert word not in text


async def test_the_first_line_of_the_demo_is_whole_and_true(cockpit: Open) -> None:
    async with cockpit(DEMO, engine=GhosttyEngine, read_only=True, greeting=GREETING, size=(80, 24)) as hud:
        await hud.pilot.pause()
        assert GREETING in hud.footer, "not cut, with the way out at its end"
        for key, view in (("enter", "verdict"), ("w", "sessions"), ("3", "commands"), ("7", "replay")):
            await hud.press(key)
            assert hud.app.view == view
            assert hud.listed[0] in hud.screen
            await hud.press("1", "0")
        await hud.press("question_mark")
        assert "In Fleet" in hud.screen


async def test_the_demo_says_that_it_is_a_recording(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs, read_only=True, greeting="a recorded job") as hud:
        for key in ("a", "p", "x", "s", "r"):
            await hud.press(key)
            assert "this is a recording" in hud.footer, key
        await hud.press("colon")
        await hud.type("run tasks")
        await hud.press("enter")
        assert "run: this is a recording" in hud.footer
