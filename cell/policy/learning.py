"""What a phase needed of the network, learned from what it did, and written back into a task.

`cell run --learn` lets everything public pass and records it. The smallest declaration that would have
been enough is then one host a line; a phase that asked for nothing needs nothing. What is written keeps
every entry that the task has already: that nothing asked for one this time is no evidence against it.
"""

from __future__ import annotations

import difflib
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import tomlkit
from tomlkit.exceptions import TOMLKitError

from cell.errors import TaskError
from cell.events import AnyEvent, Egress
from cell.plain import plain
from cell.policy import entry, hosts

PHASES: tuple[Literal["agent", "verifier"], ...] = ("agent", "verifier")
Place = tuple[str, int]  # a host and a port
Needs = dict[str, tuple[Place, ...]]
Declared = tuple[str, tuple[str, ...]]  # a phase's mode and its list, as they are resolved


def needed(happened: Iterable[AnyEvent]) -> Needs:
    """Return, for each phase, where it was let through to on the internet, sorted.

    A name that was only asked for is none of them, nor one that leads nowhere, a peer, or what was refused.
    """
    found: dict[str, set[Place]] = {phase: set() for phase in PHASES}
    for event in happened:
        if not (isinstance(event, Egress) and event.allowed and event.way in ("proxy", "transparent")):
            continue
        if event.address:
            phase = "verifier" if event.phase == "verifier" else "agent"
            found[phase].add((event.host, event.port))
    return {phase: tuple(sorted(places)) for phase, places in found.items()}


def merged(many: Iterable[Needs]) -> Needs:
    """Return what several rollouts of one task needed together."""
    rows = list(many)
    return {phase: tuple(sorted({one for row in rows for one in row.get(phase, ())})) for phase in PHASES}


def smallest(places: Iterable[Place]) -> tuple[str, ...]:
    """Return the hosts: the smallest list that is enough."""
    return tuple(sorted({host for host, _ in places}))


def unasked(places: Iterable[Place], declared: Declared) -> tuple[str, ...]:
    """Return the entries of an allowlist that nothing asked for."""
    mode, listed = declared
    tried = list(places)
    return tuple(text for text in listed if mode == "allowlist" and not any(_covers(text, p) for p in tried))


def wanted(places: Iterable[Place], declared: Declared) -> tuple[str, ...] | None:
    """Return the list that a phase is to have, None where what it has is enough.

    A list keeps its entries; what none of them names is added, with its port where the list has the host
    with ports alone.
    """
    mode, listed = declared
    if mode != "allowlist":
        names = smallest(places)
        return None if mode == "no-network" and not names else names
    more: list[str] = []
    for host, port in places:
        if any(_covers(text, (host, port)) for text in (*listed, *more)):
            continue
        known = hosts.canonical(host)
        more.append(known.at(port) if any(entry(text).names(known) for text in listed) else known.text)
    return (*listed, *more) if more else None


def rewritten(text: str, needs: Mapping[str, tuple[Place, ...]], declared: Mapping[str, Declared]) -> str:
    """Return a task.toml that declares what `wanted` says of each phase; all else stays as it was written.

    Raises ValueError for what is not TOML, or where a phase is no table.
    """
    try:
        document: Any = tomlkit.parse(text)
    except TOMLKitError as error:
        raise ValueError(plain(str(error), limit=120)) from None
    for phase, places in needs.items():
        names = wanted(places, declared[phase])
        if names is None:
            continue
        table = document.setdefault(phase, tomlkit.table())
        if not hasattr(table, "keys"):
            raise ValueError(f"{phase} is not a table")
        table["network_mode"] = "allowlist" if names else "no-network"
        if not names:
            table.pop("allowed_hosts", None)
        elif "allowed_hosts" in table:
            # the list as it was written, with its comments
            before = declared[phase][1] if declared[phase][0] == "allowlist" else ()
            table["allowed_hosts"].extend(names[len(before) :])
        else:
            listed = tomlkit.array()
            listed.extend(names)
            table["allowed_hosts"] = listed.multiline(len(names) > 1)
    return tomlkit.dumps(document)


def change(
    file: Path, needs: Mapping[str, tuple[Place, ...]], declared: Mapping[str, Declared]
) -> tuple[str, str]:
    """Return (the file's text as it would be, the difference in unified format; empty if none).

    The file keeps the line ends that it has. Raises TaskError naming the file.
    """
    try:
        before = file.read_bytes().decode("utf-8")
        windows = "\r\n" in before and before.count("\r\n") == before.count("\n")
        if windows:
            before = before.replace("\r\n", "\n")
        after = rewritten(before, needs, declared)
    except (OSError, ValueError) as error:
        raise TaskError(file, "", f"cannot be changed: {error}") from None
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), str(file), str(file)
    )
    return after.replace("\n", "\r\n") if windows else after, "".join(lines)


def put(file: Path, text: str) -> None:
    """Write a task.toml, whole or not at all; where it is a link, what it leads to.

    Raises TaskError naming the file, which is then as it was.
    """
    there = file.resolve()
    fresh = there.with_name(f".{there.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        known = there.stat()
        fresh.write_bytes(text.encode("utf-8"))
        os.chown(fresh, known.st_uid, known.st_gid)
        fresh.chmod(known.st_mode & 0o7777)
        fresh.replace(there)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        why = f"cannot be written: {error.strerror}; make the change that is shown by hand"
        raise TaskError(file, "", why) from None


def _covers(text: str, place: Place) -> bool:
    one = entry(text)
    return one.port in (None, place[1]) and one.names(hosts.canonical(place[0]))
