"""Who a phase's processes are, resolved in the root they will live in (promises I1–I3).

Users are resolved from the bytes of the root's own passwd and group files, outside and before
anything runs there: NSS would load libraries from a root that the agent may write.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from . import argv, kernel
from .argv import IdMap
from .errors import HarnessError, TaskError
from .sandbox import Sandbox, Who

SHELLS = ("/bin/bash", "/bin/sh")


@dataclass(frozen=True)
class Person:
    """A phase's user: its ids, its writable HOME, where it starts, and the shell a session gets.

    `has_workdir`: the folder where it starts was there when it was resolved.
    """

    phase: Literal["agent", "verifier"]
    name: str
    who: Who
    home: str
    workdir: str
    shells: tuple[str, ...]
    has_workdir: bool = True


def resolve(
    root: int, phase: Literal["agent", "verifier"], user: str, workdir: str, *, where: tuple[str, str]
) -> Person:
    """Resolve `user` (`user[:group]`, names or numbers, as Docker does) in the root `root`.

    `workdir` is made where it is missing, as Docker does; a user that is not root gets a HOME it can
    write. `where` is the file and the key to be named in a TaskError for a user that does not exist.
    """
    passwd, group = (kernel.read_in_root(root, f"/etc/{name}") for name in ("passwd", "group"))
    try:
        found = argv.resolve_user(user, passwd, group)
    except LookupError as error:
        raise TaskError(*where, str(error)) from None
    who = Who(found.uid, found.gid, tuple(found.groups))
    home = found.home or "/"
    if found.uid and not _writable(root, home, found.uid):
        home = f"/home/{found.name or found.uid}"
        make_directory(root, home, found.uid, found.gid, 0o700)
    elif not found.uid and not _is_directory(root, home):
        home = "/"
    if not _is_directory(root, workdir):
        make_directory(root, workdir, 0, 0, 0o755)
    shells = [found.shell] if found.shell and posixpath.basename(found.shell) in _INTERACTIVE else []
    return Person(
        phase,
        found.name or str(found.uid),
        who,
        home,
        workdir,
        tuple(dict.fromkeys((*shells, *SHELLS))),
        _is_directory(root, workdir),
    )


def require_possible(people: Iterable[Person], sandbox: Sandbox) -> None:
    """Raise HarnessError for a person whom no process of the sandbox can become (promise I3).

    Otherwise the cell would serve, and every session of that phase fail.
    """
    users, groups = sandbox.id_maps()
    for person in people:
        if reason := impossible(person.who, users, groups, sandbox.fixed_groups()):
            raise HarnessError(
                f"the {person.phase}'s user {person.name} cannot be had: {reason}",
                remedy="run where these ids are mapped, as root of the machine; see `cell doctor`",
            )


def impossible(who: Who, users: IdMap, groups: IdMap, fixed: frozenset[int] | None = None) -> str:
    """Say why nobody can become `who` where ids are mapped like this; "" when it can be.

    `fixed` are the supplementary groups that every process has, where none can be chosen.
    """
    if not _mapped(who.uid, users):
        return f"user id {who.uid} is not mapped into the sandbox"
    wanted = {who.gid, *who.groups}
    if missing := sorted(group for group in wanted if not _mapped(group, groups)):
        return f"group id {missing[0]} is not mapped into the sandbox"
    if fixed is not None and wanted != {who.gid, *fixed}:
        return "the kernel lets nobody choose groups there"
    return ""


def _mapped(number: int, mapping: IdMap) -> bool:
    return any(first <= number < first + count for first, _, count in mapping)


_INTERACTIVE = {"sh", "ash", "bash", "dash", "ksh", "zsh", "fish"}


def _is_directory(root: int, path: str) -> bool:
    try:
        descriptor = kernel.open_in_root(root, path, os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return False
    os.close(descriptor)
    return True


def _writable(root: int, path: str, uid: int) -> bool:
    if path == "/":
        return False
    try:
        descriptor = kernel.open_in_root(root, path, os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        facts = os.fstat(descriptor)
        return (facts.st_uid == uid and bool(facts.st_mode & stat.S_IWUSR)) or bool(
            facts.st_mode & stat.S_IWOTH
        )
    finally:
        os.close(descriptor)


def make_directory(root: int, path: str, uid: int, gid: int, mode: int) -> None:
    """Make `path` and its missing parents in a root, without following a link anywhere.

    The last one gets owner and mode; parents are root's. A path that cannot be had is left to fail
    where it is used.
    """
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    current = os.dup(root)
    try:
        with suppress(OSError):
            for index, part in enumerate(parts):
                last = index == len(parts) - 1
                try:
                    os.mkdir(part, 0o755, dir_fd=current)
                    made = True
                except FileExistsError:
                    made = False
                reached = "/" + "/".join(parts[: index + 1])
                following = kernel.open_in_root(root, reached, os.O_RDONLY | os.O_DIRECTORY)
                os.close(current)
                current = following
                if made and last:
                    os.fchown(current, uid, gid)
                    os.fchmod(current, mode)
    finally:
        os.close(current)
