from __future__ import annotations

import os
import pty
import termios
import threading

import pytest

from cell.terminalprobe import Abilities, ask, understood

KITTY = b"\x1b[?1006;2$y\x1b[?0u\x1bP1+r524742=38\x1b\\\x1b[?62;c"
PLAIN = b"\x1b[?1006;0$y\x1bP0+r524742\x1b\\\x1b[?1;2c"


def test_what_is_answered_is_understood() -> None:
    assert understood(KITTY) == Abilities(answered=True, mouse=True, keyboard=True, true_colour=True)
    assert understood(PLAIN) == Abilities(answered=True)
    assert understood(b"\x1b[?1006;2$y") == Abilities(mouse=True)
    assert understood(b"typed meanwhile") == Abilities()


@pytest.mark.parametrize("answer", [KITTY, PLAIN])
def test_a_real_terminal_is_asked_and_left_as_it_was(answer: bytes) -> None:
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    asked = b""

    def terminal() -> None:
        nonlocal asked
        while not asked.endswith(b"\x1b[c"):
            asked += os.read(master, 1024)
        os.write(master, answer)

    other = threading.Thread(target=terminal)
    other.start()
    try:
        assert ask(slave, slave, seconds=10) == understood(answer)
    finally:
        other.join(10)
        after = termios.tcgetattr(slave)
        os.close(master)
        os.close(slave)
    assert after == before


def test_one_that_says_nothing_costs_only_the_time_it_is_given() -> None:
    master, slave = pty.openpty()
    try:
        assert ask(slave, slave, seconds=0.05) == Abilities()
    finally:
        os.close(master)
        os.close(slave)


def test_no_terminal_is_asked_nothing() -> None:
    reader, writer = os.pipe()
    try:
        assert ask(reader, writer) == Abilities()
        os.set_blocking(reader, False)
        with pytest.raises(BlockingIOError):
            os.read(reader, 1)
    finally:
        os.close(reader)
        os.close(writer)
