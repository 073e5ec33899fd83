"""Whose fault it is. Every error a caller sees is one of these, and prints as one line.

- `TaskError`: the task's author must change something; names the file and the key.
- `UsageError`: the caller must change something; says the remedy.
- `HarnessError`: ours, or the machine's; never a score.
- `Refused`: the gate said no.
"""

from __future__ import annotations

from pathlib import Path


class CellError(Exception):
    """Base of all errors that are reported as one clear line instead of a traceback."""

    exit_status = 2


class TaskError(CellError):
    """The task declares something that is wrong or that this version does not do.

    Prints as `FILE: KEY: MESSAGE`; `key` is empty when the whole file is meant.
    """

    def __init__(self, file: Path | str, key: str, message: str) -> None:
        self.file, self.key, self.message = str(file), key, message
        super().__init__(": ".join(part for part in (self.file, key, message) if part))


class UsageError(CellError):
    """The command line or the machine's set-up is wrong; the message says what to do."""


class HarnessError(CellError):
    """Something of ours or of the machine failed. A rollout that meets it is ungraded."""

    exit_status = 3

    def __init__(self, message: str, *, remedy: str = "") -> None:
        self.remedy = remedy
        super().__init__(f"{message} ({remedy})" if remedy else message)


class Refused(CellError):
    """The gate refused a call; the message is the reason a person understands."""
