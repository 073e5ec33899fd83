"""What the verifier needed and the agent took away: deleted, or put something else in its place (V5).

The overlay's upper layers say so: a device of number 0 is a deletion, and anything that is no file
stands where a program or a system file was. Looked at from outside, link by link, by name only.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from . import kernel, trees

Diffs = Sequence[tuple[str, Path]]

# Opened by nearly every program: one of these that never answers stops whoever asks for a name.
_ASKED = (
    *("passwd", "group", "shadow", "nsswitch.conf", "hosts", "resolv.conf", "host.conf", "localtime"),
    *("ld.so.preload", "ld.so.cache", "ld.so.conf", "profile", "bash.bashrc", "environment", "services"),
)
# Where names and requests go, for all and for the user who verifies.
_ROUTES = tuple(f"/etc/{name}" for name in ("nsswitch.conf", "pip.conf", "gitconfig", "wgetrc", "npmrc"))
_OWN_ROUTES = (
    *(".curlrc", ".wgetrc", ".netrc", ".npmrc", ".gitconfig", ".pip/pip.conf", ".ssh/config"),
    *(".config/pip/pip.conf", ".config/curlrc", ".config/git/config", ".config/uv/uv.toml"),
)
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
_LINKS = 40  # as many as the kernel follows
_DEPTH = 4  # interpreters of interpreters, as the kernel has it
_MOST = 100_000
_PT_INTERP = 3


def on_the_way(diffs: Diffs, root: str, path: str) -> Iterator[str]:
    """Yield what the agent did to `path` (as inside) and to what leads there."""
    parts = _parts(path)
    for _ in range(_LINKS):
        for index, name in enumerate(parts):
            here = "/" + "/".join([*parts[:index], name])
            last = index == len(parts) - 1
            upper, opaque = _upper(diffs, here)
            try:
                now = os.lstat(root + here)
            except OSError:
                if upper is not None and _is_deletion(upper):
                    yield f"{here}: deleted by the agent"
                elif opaque:
                    yield f"{here}: gone, in a folder that the agent made anew"
                return
            if stat.S_ISLNK(now.st_mode):
                target = ""
                with suppress(OSError):
                    target = str(Path(root + here).readlink())
                if upper is not None:
                    yield f"{here}: made a link to {target} by the agent"
                parts = _parts(posixpath.join("/", *parts[:index], target, *parts[index + 1 :]))
                break
            if upper is not None and (said := _said(now.st_mode, last=last)):
                yield f"{here}: {said} by the agent"
            if not last and not stat.S_ISDIR(now.st_mode):
                return
        else:
            return


def for_start(diffs: Diffs, root: str, head: bytes, search: str) -> tuple[str, ...]:
    """Return what the agent did to what runs a script with this beginning, found in `search` (PATH)."""
    found: dict[str, None] = {}
    for program in _programs(head, root, search, _DEPTH):
        found |= dict.fromkeys(on_the_way(diffs, root, program))
    return tuple(found)


def for_folder(diffs: Diffs, root: str, path: str, *, known: bool) -> tuple[str, ...]:
    """Return what the agent did to a folder that was there (`known`) before it began."""
    found = tuple(on_the_way(diffs, root, path))
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(kernel.open_in_root(folder, path, os.O_PATH | os.O_DIRECTORY))
    except OSError as error:
        if known and not found:
            why = os.strerror(error.errno or 0)
            found = (f"{path}: {why}, and it was a folder before the agent began",)
    finally:
        os.close(folder)
    return found


def for_command(diffs: Diffs, root: str, command: str, search: str) -> tuple[str, ...]:
    """Return what the agent did to a command or a library that was not found."""
    found: dict[str, None] = {}
    for folder in search.split(":"):
        if folder.startswith("/"):
            found |= dict.fromkeys(on_the_way(diffs, root, posixpath.join(folder, command)))
    if ".so" in command:
        found |= dict.fromkeys(f"{path}: deleted by the agent" for path in _deleted(diffs, command))
    return tuple(found)


def asked_files(diffs: Diffs) -> tuple[str, ...]:
    """Return which files that programs ask for names are no files any more."""
    found = []
    for name in _ASKED:
        upper, _ = _upper(diffs, f"/etc/{name}")
        if upper is None or stat.S_ISREG(upper.st_mode):
            continue
        if _is_deletion(upper):
            found.append(f"/etc/{name}: deleted by the agent")
        else:
            said = "a link" if stat.S_ISLNK(upper.st_mode) else _KINDS.get(stat.S_IFMT(upper.st_mode), "")
            found.append(f"/etc/{name}: replaced with {said} by the agent")
    return tuple(found)


def rerouted(diffs: Diffs, root: str, home: str, laid: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return which files that say where names and requests go are the agent's.

    `laid` is what the harness wrote itself, by path. A verifier that asks a host by name asks whom these
    files name: in a world that it shares with the agent, that is the agent's to say.
    """
    found = [path for path, wanted in laid.items() if not as_laid(root, path, wanted)]
    own = (f"{home.rstrip('/')}/{name}" for name in _OWN_ROUTES)
    found += [path for path in (*_ROUTES, *own) if _upper(diffs, path)[0] is not None]
    return tuple(f"{path}: changed by the agent, and says where names or requests go" for path in found)


def still(
    root: str, laid: Mapping[str, bytes], files: Iterable[tuple[str, bytes]]
) -> list[tuple[str, bytes]]:
    """Return those of `files` (path, content) whose file in the world is no work of the agent's."""
    return [(path, data) for path, data in files if path in laid and as_laid(root, path, laid[path])]


def as_laid(root: str, path: str, wanted: bytes) -> bool:
    """Say whether a file of the world is still as the harness wrote it."""
    with suppress(OSError):
        opened = os.open(root + path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(opened, "rb") as file:
            return stat.S_ISREG(os.fstat(opened).st_mode) and file.read(len(wanted) + 1) == wanted
    return False


def _parts(path: str) -> list[str]:
    return [part for part in posixpath.normpath(path).split("/") if part]


def _said(mode: int, *, last: bool) -> str:
    kind = stat.S_IFMT(mode)
    if stat.S_ISDIR(mode) and not last:
        return "" if mode & 0o001 else f"given the mode {stat.S_IMODE(mode):04o}"
    if kind in _KINDS:
        return f"replaced with {_KINDS[kind]}"
    if not last:
        return "replaced with a file"
    return "changed" if mode & 0o111 else "changed, and not executable,"


def _upper(diffs: Diffs, path: str) -> tuple[os.stat_result | None, bool]:
    """Return what the upper layer has at `path`, and whether a folder above hides what was there."""
    mount, upper = max(
        (pair for pair in diffs if path == pair[0] or path.startswith(pair[0].rstrip("/") + "/")),
        key=lambda pair: len(pair[0]),
        default=("", None),
    )
    if upper is None:
        return None, False
    rest = _parts(path[len(mount.rstrip("/")) :])
    place, opaque = upper, False
    for name in rest[:-1]:
        place = place / name
        try:
            if not stat.S_ISDIR(os.lstat(place).st_mode):
                return None, opaque
            opaque = opaque or os.getxattr(place, "trusted.overlay.opaque", follow_symlinks=False) == b"y"
        except OSError:
            if not os.path.lexists(place):
                return None, opaque
    if not rest:
        return None, False  # a mount point itself
    try:
        return os.lstat(place / rest[-1]), opaque
    except OSError:
        return None, opaque


def _is_deletion(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _deleted(diffs: Diffs, wanted: str) -> Iterator[str]:
    for mount, upper in diffs:
        for below, status in trees.files(upper, most=_MOST):
            if posixpath.basename(below) == wanted and _is_deletion(status):
                yield posixpath.join(mount, below)


def _programs(head: bytes, root: str, search: str, depth: int) -> Iterator[str]:
    """Yield the paths of what the kernel runs for a file that begins so, and of what that needs."""
    if head.startswith(b"\x7fELF"):
        if loader := _loader(head):
            yield loader
        return
    named: list[str] = []
    if head.startswith(b"#!"):
        words = re.split(b"[\n\0]", head[2:], maxsplit=1)[0].decode("utf-8", "replace").split()
        named = words[:1]
        if words and posixpath.basename(words[0]) == "env":
            asked = [word for word in words[1:] if not word.startswith("-") and "=" not in word][:1]
            named += [f"{folder}/{asked[0]}" for folder in search.split(":") if asked]
    for program in named or ["/bin/sh"]:
        yield program
        inner = _head(root, program)
        if depth and inner.startswith((b"\x7fELF", b"#!")):
            yield from _programs(inner, root, search, depth - 1)


def _head(root: str, path: str) -> bytes:
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return kernel.read_in_root(folder, path, 1 << 12)
    except OSError:  # it is a folder
        return b""
    finally:
        os.close(folder)


def _loader(head: bytes) -> str:
    """Return the program interpreter that an ELF file of 64 bits names."""
    try:
        order = "<" if head[5] == 1 else ">"
        start, size, count = (
            *struct.unpack_from(order + "Q", head, 32),
            *struct.unpack_from(order + "HH", head, 54),
        )
        for number in range(count):
            kind, _, at, _, _, length = struct.unpack_from(order + "IIQQQQ", head, start + number * size)
            if kind == _PT_INTERP:
                return head[at : at + length].partition(b"\0")[0].decode("utf-8", "replace")
    except (struct.error, IndexError):
        pass
    return ""
