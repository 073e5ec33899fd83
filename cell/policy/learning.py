"""What a phase needed of the network, learned from what it did, and written back into a task.

`cell run --learn` lets everything public pass and records it. The smallest declaration that would have
been enough is then one host a line; a phase that asked for nothing needs nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import tomlkit
from tomlkit.exceptions import TOMLKitError

from cell.errors import TaskError
from cell.events import AnyEvent, Egress
from cell.plain import plain
from cell.policy import hosts

PHASES: tuple[Literal["agent", "verifier"], ...] = ("agent", "verifier")
Needs = dict[str, tuple[str, ...]]


def needed(happened: Iterable[AnyEvent]) -> Needs:
    """Return, for each phase, the hosts that were let through to the internet, sorted.

    A name that was only asked for is none of them, nor is a peer, nor what was refused.
    """
    found: dict[str, set[str]] = {phase: set() for phase in PHASES}
    for event in happened:
        if isinstance(event, Egress) and event.allowed and event.way in ("proxy", "transparent"):
            phase = "verifier" if event.phase == "verifier" else "agent"
            found[phase].add(event.host)
    return {phase: tuple(sorted(names)) for phase, names in found.items()}


def merged(many: Iterable[Needs]) -> Needs:
    """Return what several rollouts of one task needed together."""
    rows = list(many)
    return {phase: tuple(sorted({name for row in rows for name in row.get(phase, ())})) for phase in PHASES}


def rewritten(text: str, needs: Mapping[str, tuple[str, ...]]) -> str:
    """Return a task.toml that declares exactly that for each phase; all else stays as it was written.

    Raises ValueError for what is not TOML, or where a phase is no table.
    """
    try:
        document: Any = tomlkit.parse(text)
    except TOMLKitError as error:
        raise ValueError(plain(str(error), limit=120)) from None
    for phase, names in needs.items():
        table = document.setdefault(phase, tomlkit.table())
        if not hasattr(table, "keys"):
            raise ValueError(f"{phase} is not a table")
        table["network_mode"] = "allowlist" if names else "no-network"
        if names:
            listed = tomlkit.array()
            listed.extend(_entry(name) for name in names)
            table["allowed_hosts"] = listed.multiline(len(names) > 1)
        else:
            table.pop("allowed_hosts", None)
    return tomlkit.dumps(document)


def change(file: Path, needs: Mapping[str, tuple[str, ...]]) -> tuple[str, str]:
    """Return (the file's text as it would be, the difference in unified format; empty if none).

    Raises TaskError naming the file.
    """
    try:
        before = file.read_text("utf-8")
        after = rewritten(before, needs)
    except (OSError, ValueError) as error:
        raise TaskError(file, "", f"cannot be changed: {error}") from None
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), str(file), str(file)
    )
    return after, "".join(lines)


def _entry(name: str) -> str:
    return hosts.canonical(name).text
