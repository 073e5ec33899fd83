"""A person labels a trial: one line more beside the job. The trial's own folder is not touched."""

from __future__ import annotations

import os
import time
from pathlib import Path

from .errors import UsageError
from .records import Label, encode
from .trials.labels import parse, place


def put(trial: Path | str, text: str, *, who: str) -> Label:
    """Label a trial with `WORD NOTE`; an empty text takes its label away.

    Errors: UsageError when that is no label, or the file beside the job cannot be written.
    """
    folder = Path(trial).resolve()
    try:
        word, note = parse(text)
    except ValueError as error:
        raise UsageError(str(error)) from None
    label = Label(t=time.time(), trial=folder.name, word=word, note=note, who=who)
    file = place(folder.parent)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(file, flags, 0o644)
        try:
            # one write a line, so that two people lose nothing; a torn line of somebody's is ended first
            size = os.fstat(descriptor).st_size
            torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, b"\n" * bool(torn) + encode(label) + b"\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UsageError(f"{file}: the label cannot be written: {error.strerror}") from error
    return label
