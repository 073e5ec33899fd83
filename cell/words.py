"""What one word of the command line may be: a time, numbers, who to be. Pure.

What `seconds`, `numbers` and `positive` raise, argparse tells the caller with the option's name.
"""

from __future__ import annotations

import argparse
import re
from typing import Any

from .errors import UsageError

ROLES = ("agent", "verifier", "root")


def own_words(words: list[str], options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return what a remainder says of ours, `--as WHO` and `--` at its front, and the command after it.

    Errors: UsageError for a WHO that does not exist.
    """
    found, rest = dict(options), list(words)
    while rest and rest[0].startswith("--"):
        option, given, value = rest.pop(0).partition("=")
        if option == "--":
            break
        key = {"--as": "role", "--jobs-dir": "jobs_dir"}.get(option)
        if key is None or (not given and not rest):
            raise UsageError(f"cell ssh: what is {option}? A COMMAND that begins with - comes after --")
        found[key] = value if given else rest.pop(0)
    if found["role"] not in ROLES:
        raise UsageError(f"--as is {', '.join(ROLES)}, not {found['role']!r}")
    return found, rest


def seconds(text: str) -> float:
    """Return a time in seconds."""
    found = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError("say 90s, 30m, 2h or 3d")
    return int(found[1]) * {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}[found[2]]


def numbers(text: str) -> list[int]:
    """Return whole numbers, as `1,2`."""
    return [positive(word) for word in text.split(",")]


def positive(text: str) -> int:
    """Return a whole number from 1 on."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)
