"""An incident bundle: the records of one trial and a summary, as one file to hand on."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from . import trees
from .errors import CellError, UsageError
from .incident import FOLDERS, ROOT, cleaned, left_out, secrets, summary
from .records import CellInfo, encode
from .task import load
from .trials import Trial
from .trials.egress import EgressReader
from .trials.files import entries, is_folder, load_record, read_regular
from .trials.labels import place

_FILE, _WHOLE, _FILES = 64 << 20, 1 << 30, 100_000


@dataclass
class Bundle:
    """A bundle that was written: its place, how many files are in it, and what was changed and left out."""

    path: Path
    files: int = 0
    size: int = 0
    changed: list[str] = field(default_factory=list)
    omitted: list[str] = field(default_factory=list)


def free_name(folder: Path, trial: Trial) -> Path:
    """Return a name for a bundle that nothing has yet."""
    stem, count = Path(trial.path).name, 1
    while (path := folder / f"{stem}{f'-{count}' if count > 1 else ''}.bundle.tar.gz").exists():
        count += 1
    return path


def write(trial: Trial, out: Path, *, root: bool = False) -> Bundle:
    """Write the bundle of a trial, whole or not at all; with `root` also what the agent changed.

    Errors: UsageError when the file is there already, or cannot be written.
    """
    made = Bundle(out)
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with open(part, "xb", opener=_ours_alone) as file:
            with tarfile.open(fileobj=file, mode="w:gz") as archive:
                _fill(archive, trial, made, root=root)
            made.size = file.tell()
        # unlike a rename this replaces nothing
        os.link(part, out)
    except FileExistsError:
        raise UsageError(f"{out}: it is there already; say another one with --out") from None
    except OSError as error:
        raise UsageError(f"{out}: the bundle cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            part.unlink()
    return made


def _ours_alone(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _fill(archive: tarfile.TarFile, trial: Trial, made: Bundle, *, root: bool) -> None:
    folder = Path(trial.path).resolve()
    top, secret, whole = f"{folder.parent.name}/{folder.name}", _secrets(folder), 0
    for name, facts in _found(folder, made, root=root):
        if why := left_out(name, facts.st_mode, root=root):
            made.omitted.append(f"{name}: {why}")
            continue
        if made.files >= _FILES or whole >= _WHOLE:
            made.omitted.append(f"{name}: the bundle is full")
            continue
        data = read_regular(folder / name, limit=_FILE)
        if data is None:
            made.omitted.append(f"{name}: it cannot be read")
            continue
        if facts.st_size > _FILE:
            made.omitted.append(f"{name}: all after its first {_FILE >> 20} MiB")
        data, gone = cleaned(data, secret)
        made.changed += [f"{name}: {one}" for one in gone]
        _add(archive, f"{top}/{name}", data, facts.st_mtime)
        made.files += 1
        whole += len(data)
    hits = EgressReader()
    hits.scan([trial])
    denied, now = [hit for hit in hits.hits if not hit.allowed], time.time()
    text = summary(trial, denied, made.changed, made.omitted, now=now)
    clean, _ = cleaned(text.encode("utf-8", "replace"), secret)
    _add(archive, f"{top}/SUMMARY.txt", clean, now)
    if trial.label is not None:
        line, _ = cleaned(encode(trial.label) + b"\n", secret)
        _add(archive, place(folder.parent).name, line, trial.label.t)


def _secrets(folder: Path) -> dict[str, str]:
    """Return what is known here to be secret: of the caller's environment, and of what the task is given."""
    given: tuple[tuple[str, str], ...] = ()
    info = load_record(folder / "cell/cell.json", CellInfo)
    if info is not None:
        with suppress(CellError, OSError, ValueError):
            task = load(Path(info.task_path), oracle=False)
            given = (*task.environment.env, *task.verifier.env)
    return secrets(os.environ.items(), given)


def _found(folder: Path, made: Bundle, *, root: bool) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files of a trial by their relative names; what is no record is not entered."""
    for inner in ("", "cell/"):
        for entry in entries(folder / inner):
            name = f"{inner}{entry.name}"
            if not is_folder(entry):
                with suppress(OSError):
                    yield name, entry.stat(follow_symlinks=False)
            elif name == ROOT and not root:
                made.omitted.append(f"{name}: what the agent changed is taken only when it is asked for")
            elif name not in (*FOLDERS, ROOT, "cell"):
                made.omitted.append(f"{name}: no record")
    for wanted in (*FOLDERS, *((ROOT,) if root else ())):
        for name, facts in trees.files(folder / wanted, most=_FILES):
            if wanted != ROOT or not stat.S_ISCHR(facts.st_mode) or facts.st_rdev:
                yield f"{wanted}/{name}", facts
            else:
                # how an overlay says that a name of the layer below is gone
                made.omitted.append(f"{wanted}/{name}: the agent removed it")


def _add(archive: tarfile.TarFile, name: str, data: bytes, mtime: float) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(data), 0o644, int(mtime)
    archive.addfile(member, io.BytesIO(data))
