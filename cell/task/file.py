"""The grammar of `task.toml`: typed reading, unknown keys, `${VAR}` values.

Everything raised here is a `TaskError` that names the file and the dotted key. Nothing of a
document is trusted: sizes are capped, and what an author wrote is neutralised before it is shown.
"""

from __future__ import annotations

import math
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from cell.errors import TaskError
from cell.plain import plain

MAX_BYTES = 1 << 20  # of one text file of a task
MAX_UNKNOWN = 50  # unknown keys listed one by one; the rest is counted

_Known = Mapping[str, Any]  # key → None for a value or a free table, else the keys of the table(s) below
_NETWORK: _Known = {"network_mode": None, "allowed_hosts": None}
_HEALTH: _Known = dict.fromkeys(
    ("command", "interval_sec", "timeout_sec", "start_period_sec", "start_interval_sec", "retries")
)
_ENVIRONMENT: _Known = {
    **_NETWORK,
    **dict.fromkeys(("build_timeout_sec", "docker_image", "os", "cpus", "memory_mb", "storage_mb", "gpus")),
    **dict.fromkeys(("gpu_types", "env", "skills_dir", "workdir", "allow_internet", "memory", "storage")),
    "tpu": dict.fromkeys(("type", "topology")),
    "mcp_servers": dict.fromkeys(("name", "transport", "url", "command", "args", "headers")),
    "healthcheck": _HEALTH,
}
_AGENT: _Known = {**_NETWORK, "timeout_sec": None, "user": None}
_VERIFIER: _Known = {
    **_AGENT,
    "env": None,
    "environment_mode": None,
    "environment": _ENVIRONMENT,
    "collect": dict.fromkeys(("command", "service", "timeout_sec", "user")),
}
_ARTIFACT: _Known = dict.fromkeys(("source", "destination", "exclude", "service"))
_ROOT: _Known = {
    **dict.fromkeys(("schema_version", "version", "metadata", "source", "multi_step_reward_strategy")),
    "task": {
        **dict.fromkeys(("name", "version", "description", "keywords")),
        "authors": dict.fromkeys(("name", "email")),
    },
    "agent": _AGENT,
    "verifier": _VERIFIER,
    "environment": _ENVIRONMENT,
    "solution": {"env": None},
    "artifacts": _ARTIFACT,
    "steps": {
        "name": None,
        "agent": _AGENT,
        "verifier": _VERIFIER,
        "min_reward": None,
        "healthcheck": _HEALTH,
        "artifacts": _ARTIFACT,
    },
}


@dataclass(frozen=True)
class Table:
    """One table of the document; `name` is its dotted path, empty for the root.

    Each reader returns the value under a key, checked, or its default when the key is absent.
    """

    file: Path
    name: str
    values: Mapping[str, Any]

    def key(self, key: str) -> str:
        """Return the dotted name of `key`, safe to show."""
        return plain(f"{self.name}.{key}" if self.name else key, limit=200)

    def fail(self, key: str, message: str) -> NoReturn:
        """Raise the TaskError of `key`."""
        raise TaskError(self.file, self.key(key), message)

    def _wrong(self, key: str, wanted: str) -> NoReturn:
        self.fail(key, f"must be {wanted}, not {_kind(self.values[key])}")

    def text(self, key: str, choices: tuple[str, ...] = ()) -> str | None:
        """Read text; with `choices`, one of them."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self._wrong(key, "text")
        if choices and value not in choices:
            wanted = ", ".join(f'"{choice}"' for choice in choices)
            self.fail(key, f'must be one of {wanted}, not "{plain(value, limit=60)}"')
        if "\0" in value:
            self.fail(key, "must not contain a NUL character")
        return value

    def number(self, key: str) -> float | None:
        """Read a finite number above 0."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self._wrong(key, "a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or number <= 0:
            self.fail(key, "must be a finite number above 0")
        return number

    def integer(self, key: str, *, least: int = 1) -> int | None:
        """Read a whole number of at least `least`; 4.0 is one too, as under Harbor."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong(key, "a whole number")
        if not least <= value < 1 << 63:
            self.fail(key, f"must be a whole number from {least} to 2^63-1")
        return value

    def flag(self, key: str) -> bool | None:
        """Read true or false."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            self._wrong(key, "true or false")
        return value

    def items(self, key: str) -> list[Any]:
        """Read a list of anything."""
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self._wrong(key, "a list")
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Read a list of text."""
        if key not in self.values:
            return None
        items = self.items(key)
        for number, item in enumerate(items):
            if not isinstance(item, str):
                self.fail(f"{key}[{number}]", f"must be text, not {_kind(item)}")
        return tuple(items)

    def table(self, key: str) -> Table | None:
        """Read a table."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self._wrong(key, "a table")
        return Table(self.file, self.key(key), value)

    def section(self, key: str) -> Table:
        """Read a table that is empty when absent."""
        return self.table(key) or Table(self.file, self.key(key), {})

    def tables(self, key: str) -> tuple[Table, ...]:
        """Read a list of tables."""
        found = []
        for number, item in enumerate(self.items(key)):
            if not isinstance(item, dict):
                self.fail(f"{key}[{number}]", f"must be a table, not {_kind(item)}")
            found.append(Table(self.file, self.key(f"{key}[{number}]"), item))
        return tuple(found)

    def user(self, key: str = "user") -> str | None:
        """Read a user, `user[:group]` or a numeric id."""
        value = self.values.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            if not 0 <= value < 1 << 31:
                self.fail(key, "must be a user id from 0 to 2147483647")
            return str(value)
        if value is not None and not isinstance(value, str):
            self._wrong(key, "a user's name or number")
        text = self.text(key)
        if text is not None and not text.strip():
            self.fail(key, "must not be empty")
        return text

    def megabytes(self, key: str) -> int | None:
        """Read `KEY_mb` or the old `KEY = "2G"`, in MiB; both must agree."""
        number, old = self.integer(f"{key}_mb"), self.text(key)
        if old is None:
            return number
        found = re.fullmatch(r"\s*([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*([GMK])\s*", old, re.IGNORECASE)
        size = int(float(found[1]) * {"G": 1024, "M": 1, "K": 1 / 1024}[found[2].upper()]) if found else 0
        if size < 1:
            self.fail(
                key, f'must be a size of at least 1 MiB, as "2G" or "512M", not "{plain(old, limit=40)}"'
            )
        if number is not None and number != size:
            self.fail(key, f"contradicts {self.key(key + '_mb')} ({size} MiB and {number} MiB)")
        return size

    def env(self, environ: Mapping[str, str], key: str = "env") -> tuple[tuple[str, str], ...]:
        """Read variables; a value that is exactly `${VAR}` or `${VAR:-default}` comes from `environ`."""
        table = self.section(key)
        return tuple((name, _variable(table, name, environ)) for name in table.values)


def read_text(path: Path) -> str:
    """Return the text of a regular UTF-8 file of at most 1 MiB, else raise TaskError."""
    try:
        # A fifo or a device would be read for ever: ask first.
        if not stat.S_ISREG(path.stat().st_mode):
            raise TaskError(path, "", "is not a regular file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise TaskError(path, "", "is missing") from None
    except (OSError, ValueError) as error:
        raise TaskError(path, "", f"cannot be read: {_reason(error)}") from None
    if len(data) > MAX_BYTES:
        raise TaskError(path, "", "is larger than 1 MiB")
    if b"\0" in data:
        raise TaskError(path, "", "is binary, not text")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TaskError(path, "", f"is not UTF-8 text (byte {error.start})") from None


def read(path: Path) -> Table:
    """Parse a `task.toml`; an empty file is a document of defaults."""
    try:
        values = tomllib.loads(read_text(path))
    except RecursionError:
        raise TaskError(path, "", "is not valid TOML: nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, and numbers beyond what int() reads
        raise TaskError(path, "", f"is not valid TOML: {plain(str(error), limit=200)}") from None
    return Table(path, "", values)


def unknown_keys(root: Table) -> tuple[str, ...]:
    """Return the dotted names of keys that Harbor's schema does not have, at most 50 and a count."""
    found = [plain(key, limit=200) for key in _unknown(root.values, _ROOT, "")]
    rest = len(found) - MAX_UNKNOWN
    return tuple(found if rest <= 0 else [*found[:MAX_UNKNOWN], f"… and {rest} more"])


def _variable(table: Table, name: str, environ: Mapping[str, str]) -> str:
    if not name or "=" in name or "\0" in name:
        table.fail(name or '""', "a variable's name must not be empty nor contain = or NUL")
    value = table.text(name) or ""
    found = re.fullmatch(r"\$\{([^}:]+)(?::-(.*))?\}", value)
    if not found:
        return value
    if found[1] in environ:
        return environ[found[1]]
    if found[2] is None:
        shown = plain(found[1], limit=60)
        table.fail(
            name,
            f"needs the variable {shown}, which is not set here (set it, or write ${{{shown}:-default}})",
        )
    return str(found[2])


def _unknown(values: Mapping[str, Any], known: _Known, prefix: str) -> Iterator[str]:
    for key, value in values.items():
        if key not in known:
            yield prefix + key
        elif (below := known[key]) is None:
            continue
        elif isinstance(value, dict):
            yield from _unknown(value, below, f"{prefix}{key}.")
        elif isinstance(value, list):
            for number, item in enumerate(value):
                if isinstance(item, dict):
                    yield from _unknown(item, below, f"{prefix}{key}[{number}].")


def _kind(value: object) -> str:
    # Only the kind is shown: a hexadecimal number may be too long for Python to print.
    kinds: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    kinds |= {dict: "a table", list: "a list"}
    return kinds.get(type(value), "a date or time")


def _reason(error: Exception) -> str:
    return plain(error.strerror or "unknown error") if isinstance(error, OSError) else plain(str(error))
