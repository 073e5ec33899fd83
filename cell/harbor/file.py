"""How Harbor names, dates and writes its files. Pure, but for `new_id` and `write_json`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import string
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from cell.errors import HarnessError

Json = dict[str, Any]

NO_TOKENS: Final = {
    "n_input_tokens": None,
    "n_cache_tokens": None,
    "n_output_tokens": None,
    "cost_usd": None,
}


class Span(NamedTuple):
    """When something began and ended, in seconds since the epoch; `finished` is None while it runs."""

    started: float
    finished: float | None


def new_id() -> str:
    """Return a cell's short id: seven letters and digits."""
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(7))


def trial_name(task_folder: str, cell_id: str) -> str:
    """Return the trial folder's name: 32 characters of the task's, `__`, the id."""
    return f"{task_folder[:32]}__{cell_id}"


def utc(t: float | None) -> str | None:
    """Return a time as trials have it: `2026-11-30T02:49:15.842890Z`."""
    return None if t is None else datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def local(t: float | None) -> str | None:
    """Return a time as jobs have it: local and without a zone."""
    return None if t is None else datetime.fromtimestamp(t).isoformat()


def digest(files: Iterable[tuple[str, bytes]]) -> str:
    """Return one SHA-256 (hex) over files, given as relative path and contents, in any order."""
    whole = hashlib.sha256()
    for name, data in sorted(files):
        whole.update(name.encode("utf-8", "surrogateescape") + b"\0" + hashlib.sha256(data).digest())
    return whole.hexdigest()


def write_json(path: Path, value: object) -> None:
    """Write `value` so that a reader sees the whole old file or the whole new one.

    Raises:
        HarnessError: it could not be written; the old file is as it was.
    """
    # Escaped to ASCII, for text from inside may hold half a surrogate pair.
    data = (json.dumps(value, indent=4, allow_nan=False) + "\n").encode()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise HarnessError(f"cannot write {path}: {error.strerror}") from error


def without(value: Json, assumed: Json) -> Json:
    """Return `value` less what is the same in `assumed`, table by table."""
    kept: Json = {}
    for key, item in value.items():
        if key in assumed and item == assumed[key]:
            continue
        if isinstance(item, dict) and isinstance(assumed.get(key), dict):
            kept[key] = without(item, assumed[key])
        else:
            kept[key] = item
    return kept
