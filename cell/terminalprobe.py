"""What the terminal at hand can do, by asking it: mouse, keyboard protocol, colours.

The questions end with one that every terminal answers (who are you?), so that an answer that has not
come by then will not come. What it sends is read without echo and goes nowhere else.
"""

from __future__ import annotations

import os
import re
import select
import termios
import time
import tty
from dataclasses import dataclass

_MOUSE, _KEYBOARD, _COLOURS, _WHO = b"\x1b[?1006$p", b"\x1b[?u", b"\x1bP+q524742\x1b\\", b"\x1b[c"
_WHO_ANSWER = re.compile(rb"\x1b\[\?[\d;]*c")
_MOST = 4096  # bytes; a terminal that talks more is not answering


@dataclass(frozen=True)
class Abilities:
    """What a terminal said. Without `answered` it said nothing in time, and the rest is not known."""

    answered: bool = False
    mouse: bool = False
    keyboard: bool = False
    true_colour: bool = False


def understood(answer: bytes) -> Abilities:
    """Return what an answer means. Pure."""
    mouse = re.search(rb"\x1b\[\?1006;(\d)\$y", answer)
    return Abilities(
        answered=_WHO_ANSWER.search(answer) is not None,
        mouse=mouse is not None and mouse[1] in b"1234",
        keyboard=re.search(rb"\x1b\[\?\d+u", answer) is not None,
        true_colour=b"\x1bP1+r" in answer,
    )


def ask(source: int, target: int, *, seconds: float = 0.5) -> Abilities:
    """Ask the terminal that `source` reads from and `target` writes to; both are left as they were.

    Errors: none. Where they are no terminal, or no answer comes within `seconds`, nothing is known.
    """
    if not (os.isatty(source) and os.isatty(target)):
        return Abilities()
    try:
        before = termios.tcgetattr(source)
    except termios.error:
        return Abilities()
    answer, end = b"", time.monotonic() + seconds
    try:
        tty.setraw(source, termios.TCSANOW)
        os.write(target, _MOUSE + _KEYBOARD + _COLOURS + _WHO)
        while not _WHO_ANSWER.search(answer) and len(answer) < _MOST:
            left = end - time.monotonic()
            if left <= 0 or not select.select([source], [], [], left)[0]:
                break
            answer += os.read(source, _MOST)
    except (OSError, termios.error):
        return Abilities()
    finally:
        termios.tcsetattr(source, termios.TCSANOW, before)
    return understood(answer)
