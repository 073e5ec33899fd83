"""The files of a task folder: a stable content digest, the links that must stay inside, near misses."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cell.errors import TaskError
from cell.plain import plain
from cell.task.file import MAX_BYTES

# What the runner copies from the folder into a world, file by file.
_COPIED = ("tests", "solution")
_DEEPEST = 200  # what packs a folder goes down by calling itself


def is_file(path: Path) -> bool:
    """Whether `path` is a regular file, links followed; a path that cannot be looked up is not."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def digest(folder: Path) -> str:
    """Return `sha256:<hex>` over every file's relative name, executable bit and bytes.

    Links count by their target's text, empty folders by their name. Raises TaskError for a file
    that cannot be read, and for a link in `tests/` or `solution/` that leads out of the folder: its
    target would be a file of the operator's machine.
    """
    total = hashlib.sha256()
    root = folder.resolve()
    for path in _walk(folder):
        name = path.relative_to(folder)
        try:
            mode = path.lstat().st_mode
            kind, content = _content(path, mode)
            if name.parts[0] in _COPIED:
                _check_copied(path, mode, root)
        except OSError as error:
            reason = plain(error.strerror or "unknown error")
            raise TaskError(path, "", f"cannot be read: {reason}") from None
        encoded = os.fsencode(name.as_posix())
        total.update(b"%s %d %d\n%s%s\n" % (kind, bool(mode & 0o100), len(encoded), encoded, content))
    return f"sha256:{total.hexdigest()}"


def near_misses(folder: Path) -> tuple[str, ...]:
    """Return one line for each thing that is valid but likely not what the author meant."""
    found = []
    if is_file(folder / "environment" / "docker-compose.yml"):
        found.append("environment/docker-compose.yml: not read; Harbor reads docker-compose.yaml")
    script = folder / "tests" / "test.sh"
    if is_file(script):
        try:
            with script.open("rb") as file:
                text = file.read(MAX_BYTES)
        except OSError:
            return tuple(found)
        first = text.partition(b"\n")[0]
        if not text.strip():
            found.append("tests/test.sh: is empty, so no reward will be written")
        elif not first.startswith(b"#!"):
            found.append("tests/test.sh: has no #! line")
        elif first.endswith(b"\r"):
            found.append("tests/test.sh: has Windows line endings, so its interpreter will not be found")
        if re.search(rb"\brewards\.json\b", text):
            found.append("tests/test.sh: mentions rewards.json; only reward.json and reward.txt are read")
    return tuple(found)


def ignore_files(folder: Path) -> tuple[Path, ...]:
    """Return the `.harborignore` files that would decide what of tests and solution is copied."""
    places = [folder, *(folder / part for part in _COPIED)]
    for part in _COPIED:
        with suppress(TaskError):
            places += [path for path in _walk(folder / part) if path.is_dir() and not path.is_symlink()]
    return tuple(sorted(place / ".harborignore" for place in places if is_file(place / ".harborignore")))


def _walk(folder: Path) -> Iterator[Path]:
    def broken(error: OSError) -> None:
        reason = plain(error.strerror or "unknown error")
        raise TaskError(str(error.filename), "", f"cannot be read: {reason}")

    found, places = list[Path](), [(folder, 0)]
    while places:
        place, depth = places.pop()
        if depth > _DEEPEST:
            raise TaskError(folder, "", f"is more than {_DEEPEST} folders deep")
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    found.append(place / entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        places.append((place / entry.name, depth + 1))
        except OSError as error:
            broken(error)
    return iter(sorted(found, key=lambda path: os.fsencode(path.relative_to(folder).as_posix())))


def _content(path: Path, mode: int) -> tuple[bytes, bytes]:
    if stat.S_ISLNK(mode):
        return b"link", os.fsencode(path.readlink())
    if stat.S_ISDIR(mode):
        return b"folder", b""
    if not stat.S_ISREG(mode):
        return b"special", b""
    with path.open("rb") as file:
        return b"file", hashlib.file_digest(file, "sha256").digest()


def _check_copied(path: Path, mode: int, root: Path) -> None:
    if stat.S_ISLNK(mode):
        # Not Path.resolve(): before 3.13 it raises for a loop of links, which is harmless here.
        if not Path(os.path.realpath(path)).is_relative_to(root):
            raise TaskError(path, "", "is a link that leads out of the task folder")
    elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise TaskError(path, "", "is neither a file, a folder nor a link")
