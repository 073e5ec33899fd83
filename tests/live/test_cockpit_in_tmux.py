"""The cockpit as a person has it on another machine: in tmux, by its keys, resized while attached (O1, O5)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from world import SOURCE

from .conftest import LiveCell, until
from .driving import Seat

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


class Tmux:
    """A tmux server of its own with the cockpit in its one window."""

    def __init__(self, folder: Path, *words: str | Path, cols: int, rows: int, seats: list[Seat]) -> None:
        self.socket, self.seats = folder / "tmux", seats
        line = " ".join(f"'{word}'" for word in (sys.executable, "-m", "hudtui.cli", *words))
        environ = {
            "PATH": os.environ["PATH"],
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "HOME": str(folder),
        }
        size = ["-x", str(cols), "-y", str(rows)]
        subprocess.run(
            ["tmux", "-S", self.socket, "-f", "/dev/null", "new-session", "-d", *size, "-c", SOURCE, line],
            env=environ,
            check=True,
        )

    def do(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-S", self.socket, *words], capture_output=True, text=True, check=True)
        return done.stdout

    def keys(self, *names: str) -> Tmux:
        """Press keys, by tmux's names for them."""
        self.do("send-keys", *names)
        return self

    def type(self, text: str) -> Tmux:
        self.do("send-keys", "-l", text)
        return self

    @property
    def screen(self) -> str:
        for seat in self.seats:
            while seat.master >= 0 and not seat.read(0):
                break
        return self.do("capture-pane", "-p")

    def sees(self, what: str | Callable[[str], object], seconds: float = 20.0) -> str:
        met = what if callable(what) else lambda screen: what in screen
        end = time.monotonic() + seconds
        while not met(screen := self.screen):
            assert time.monotonic() < end, f"{what!r} is not on the screen:\n{screen}"
            time.sleep(0.02)
        return screen

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True, check=False)


@pytest.fixture
def agent(cell: LiveCell) -> Iterator[Seat]:
    seat = Seat(cell, "agent", "PS1='ready$ ' bash --norc --noprofile -i", cols=160, rows=40)
    seat.wait_for(b"ready$ ")
    yield seat
    seat.close()


@pytest.fixture
def tmux(cell: LiveCell, agent: Seat, tmp_path: Path) -> Iterator[Tmux]:
    made = Tmux(tmp_path, cell.trial, "--who", "ada", cols=80, rows=24, seats=[agent])
    yield made
    made.close()


def test_o1_a_person_in_tmux_watches_drives_and_leaves(cell: LiveCell, agent: Seat, tmux: Tmux) -> None:
    tmux.sees(cell.id)
    tmux.keys("Enter").sees("watching")
    tmux.keys("a").sees("ATTACHED")
    assert [event["holder"] for event in cell.events("lease")] == ["ada"]
    tmux.type("echo on-$((1+1)); cat -v").keys("Enter").sees("on-2")
    tmux.keys("C-c").sees("^C")
    tmux.type("stty -ixon; echo off-$((1+1)); cat -v").keys("Enter").sees("off-2")
    # what tmux itself, a shell and the cockpit would take for theirs
    tmux.keys("C-q", "C-p", "Escape", "F1", "M-x", "é", "Enter").sees("^Q^P^[^[OP^[xM-CM-)")
    tmux.keys("C-d").sees(lambda screen: screen.rstrip().rpartition("\n")[0].count("ready$") >= 2)
    tmux.keys("F12").sees("the keyboard is the agent's again")
    tmux.keys("a").sees("ATTACHED")
    tmux.keys("C-]", "d").sees("the keyboard is the agent's again")
    tmux.keys("Escape").sees("Fleet 1")
    tmux.keys("q")
    assert until(lambda: subprocess.run(["tmux", "-S", tmux.socket, "ls"], capture_output=True).returncode)
    agent.type(b"echo still-$((40+2))\r").wait_for(b"still-42")


def test_o5_a_window_that_is_resized_while_attached_changes_nothing_inside(
    cell: LiveCell, tmux: Tmux
) -> None:
    tmux.sees(cell.id)
    tmux.keys("Enter").sees("watching")
    tmux.keys("a").sees("ATTACHED")
    tmux.type("stty size; trap 'echo winch-$((1+1))' WINCH").keys("Enter").sees("40 160")
    for cols, rows in ((132, 43), (60, 15), (200, 60), (40, 10), (80, 24)):
        tmux.do("resize-window", "-x", str(cols), "-y", str(rows))
        tmux.sees(lambda screen, rows=rows: len(screen.splitlines()) == rows and "ATTACHED" in screen)
        tmux.type(f"echo at-{cols}-$((40+2))").keys("Enter").sees(f"at-{cols}-42")
    tmux.type("clear; stty size").keys("Enter").sees("40 160")
    assert "winch-2" not in tmux.screen
    assert '"r",' not in (cell.trial / "cell/sessions/1.cast").read_text()
    tmux.keys("C-]", "r").sees("session 1 is")
    tmux.type("stty size").keys("Enter").sees("winch-2")
