"""What goes into an incident bundle, and what never does. Decides only; `bundle` writes it.

A trial's folder was in part filled by whoever worked inside. So: records by their names, regular files
only, and in what is taken the secrets of this machine that can be known are replaced.
"""

from __future__ import annotations

import json
import re
import stat
import time
from collections.abc import Iterable, Mapping, Sequence

from .plain import plain
from .trials import Trial
from .trials.egress import Hit

_RECORDS = ("config.json", "result.json", "lock.json", "trial.log", "exception.txt")
FOLDERS = ("agent", "verifier", "artifacts", "steps", "cell/sessions", "cell/regrades")
_OF_THE_CELL = ("cell.json", "events.jsonl", "verdict.json", "serve.log", "regrades.jsonl")
ROOT = "cell/root"
"""Where the agent's changes are; they are taken only when they are asked for."""

_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.I)
_SHORTEST = 8  # characters of a secret: a shorter one is found in everything
_PRIVATE_KEY = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"
    rb"(?:.{0,16384}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|.{0,16384})",
    re.S,
)
_SHOWN = 40  # of each: tests, denials, what was left out


def left_out(name: str, mode: int, *, root: bool) -> str:
    """Say why an entry of a trial's folder is not taken; empty where it is."""
    top, _, rest = name.partition("/")
    if name.startswith(f"{ROOT}/"):
        if not root:
            return "what the agent changed is taken only when it is asked for"
        if not re.match(rf"{ROOT}/(?:[^/]+/)?upper/", name):
            return "not what the agent changed"
    elif not (
        name in _RECORDS
        or any(name.startswith(f"{folder}/") for folder in FOLDERS)
        or (top == "cell" and rest in _OF_THE_CELL)
    ):
        return "no record"
    if stat.S_ISLNK(mode):
        return "a link"
    return "" if stat.S_ISREG(mode) else "a socket, pipe or device"


def secrets(*environments: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the values that may stand nowhere in a bundle, with the names of their variables."""
    return {
        value: name
        for environment in environments
        for name, value in environment
        if _SECRET.search(name) and len(value) >= _SHORTEST
    }


def cleaned(data: bytes, secret: Mapping[str, str]) -> tuple[bytes, tuple[str, ...]]:
    """Return the bytes of a file without secrets, and what was taken out of them."""
    found = []
    data, keys = _PRIVATE_KEY.subn(b"[a private key is not in this bundle]", data)
    if keys:
        found.append("a private key")
    for value, name in sorted(secret.items(), key=lambda one: -len(one[0])):
        instead = f"[the value of {name} is not in this bundle]".encode()
        written = (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
        for form in dict.fromkeys(written):
            if (raw := form.encode("utf-8", "surrogateescape")) in data:
                data = data.replace(raw, instead)
                found.append(f"the value of {name}")
    return data, tuple(dict.fromkeys(found))


def summary(
    trial: Trial, denied: Sequence[Hit], changed: Sequence[str], omitted: Sequence[str], *, now: float
) -> str:
    """Return SUMMARY.txt: what a person reads first. Nothing from inside is in it unparsed."""
    score = "no score" if trial.score is None else f"score {trial.score:g}"
    lines = [
        f"{trial.name} of {trial.job}",
        f"{trial.task} · {trial.agent}{f' ({trial.model})' if trial.model else ''} · {trial.state} · {score}",
        f"bundled {_when(now)}; begun {_when(trial.started)}, finished {_when(trial.finished)}",
    ]
    if trial.suspect or trial.touched:
        lines.append("in doubt: " + ", ".join(["suspect"] * trial.suspect + ["touched"] * trial.touched))
    if (label := trial.label) is not None:
        lines.append(f"labelled {label.word} by {label.who or 'somebody'}: {label.note}")
    verdict = trial.verdict
    if verdict is None:
        lines += ["", "There is no verdict (yet).", *([trial.summary] if trial.summary else [])]
    else:
        if verdict.fault:
            lines += ["", f"ungraded: {plain(verdict.fault, limit=500)}"]
        for cause in verdict.causes:
            lines += ["", f"{cause.cause}, {cause.certainty}: {plain(cause.summary, limit=500)}"]
            for one in cause.evidence:
                ref = f"  [{one.kind} {plain(one.ref, limit=200)}]" if one.ref else ""
                lines.append(f"  {plain(one.text, limit=500)}{ref}")
        for note in verdict.notes:
            lines.append(f"note: {plain(note, limit=500)}")
        failed = [test for test in verdict.tests if test.status != "passed"]
        if verdict.tests:
            lines += ["", f"Tests: {trial.tests_passed} of {trial.tests_total} passed"]
        lines += _few([f"{plain(one.name, limit=200)}: {plain(one.message, limit=300)}" for one in failed])
    if denied:
        lines += ["", f"Denied on the way out: {len(denied)}"]
        said = [
            f"{_when(hit.t)} {hit.phase} {plain(hit.place, limit=120)} {plain(hit.reason, limit=120)}"
            for hit in denied
        ]
        lines += _few(list(dict.fromkeys(said)))
    lines += ["", "Taken out of what is here (a journal that was changed no longer proves itself):"]
    lines += _few([plain(one, limit=300) for one in changed])
    lines += ["", "Left out:"]
    lines += _few([plain(one, limit=300) for one in omitted])
    lines += ["", f"To look at it: tar xzf THIS_FILE && hudtui {trial.job}", ""]
    return "\n".join(lines)


def _few(lines: Sequence[str]) -> list[str]:
    shown = [f"  {one}".rstrip() for one in lines[:_SHOWN]]
    more = [f"  … and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return [*shown, *more] or ["  nothing"]


def _when(t: float | None) -> str:
    try:
        return "–" if t is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(t))
    except (ValueError, OverflowError, OSError):
        return "–"
