"""What people said of the trials of a job: read from a file beside its folder, which stays as it was."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from cell.plain import plain
from cell.records import Label
from cell.trials.files import load_lines

FAULT = "fault"
"""The word that says: not the agent's doing. One of the means leaves these trials out."""

_WORD = re.compile(r"[a-z][a-z0-9_-]{0,23}")


def place(job: Path) -> Path:
    """Return where the labels of a job are: beside it, so that a folder of Harbor's is not touched."""
    job = job.resolve()
    return job.parent / f"{job.name}.labels.jsonl"


def parse(text: str) -> tuple[str, str]:
    """Read `WORD NOTE` as a person types it; both are empty where there is nothing. Raises ValueError."""
    word, _, note = text.strip().partition(" ")
    word = word.rstrip(":").casefold()
    if word and not _WORD.fullmatch(word):
        raise ValueError(
            f"{plain(word, limit=40)!r} is no label: a word of letters, digits, - and _ comes first, "
            f"then the note, as in `{FAULT} the mirror was down`"
        )
    return word, plain(note.strip(), limit=500)


def read(job: Path) -> dict[str, Label]:
    """Return the label of each trial that has one, by the name of its folder; a torn line is passed over."""
    found: dict[str, Label] = {}
    for label in load_lines(place(job), Label):
        if _WORD.fullmatch(label.word):
            note, who = plain(label.note, limit=500), plain(label.who, limit=60)
            found[label.trial] = msgspec.structs.replace(label, note=note, who=who)
        elif not label.word:
            found.pop(label.trial, None)
    return found
