"""What the Fleet table says of a trial: pure, from `Trial` values to cells, sort keys and filter values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from cell.trials import Job, Trial
from cell.trials.events import phase_word
from hudtui.look import Run
from hudtui.panes.table import Column, Group

GLYPHS: Mapping[str, Run] = {
    "queued": ("○", "muted"),
    "running": ("●", "primary"),
    "paused": ("◐", "accent"),
    "kept": ("◐", "accent"),
    "passed": ("✓", "ok"),
    "failed": ("×", "bad"),
    "ungraded": ("■", "warn"),
    "stale": ("◆", "warn"),
}
COUNTED = ("running", "paused", "kept", "passed", "failed", "ungraded", "stale", "queued")
_RANK = {
    state: place for place, state in enumerate(("running", "paused", "kept", "failed", "ungraded", "passed"))
}

_CAUSE_ROLE = {"agent": "", "operator": "accent", "unknown": "muted"}

BARS = "▁▂▃▄▅▆▇█"

COLUMNS: tuple[Column, ...] = (
    Column("state", "ST", 3),
    Column("cell", "CELL", 8),
    Column("task", "TASK", 16, grow=3),
    Column("agent", "AGENT", 11),
    Column("score", "SCORE", 6, right=True),
    Column("tests", "TESTS", 5, right=True),
    Column("cause", "CAUSE", 16, grow=1),
    Column("egress", "EGRESS", 6, right=True),
    Column("deny", "DENY", 4, right=True),
    Column("life", "LIFE", 12),
    Column("age", "AGE", 6, right=True),
)
_NARROW = ("state", "cell", "task", "score", "cause", "age")


def columns(width: int) -> tuple[Column, ...]:
    """Return the columns that a table of `width` cells has room for."""
    if width < 95:
        return tuple(column for column in COLUMNS if column.key in _NARROW)
    if width < 114:
        return tuple(column for column in COLUMNS if column.key != "egress")
    return COLUMNS


def cells(
    trial: Trial,
    shown: Sequence[Column],
    now: float,
    life: Sequence[int] = (),
    tried: tuple[int, int] | None = None,
) -> list[list[Run]]:
    """Return a trial's cells, one list of runs per column. `tried` counts its hits and its denials."""
    found = []
    for column in shown:
        if column.key in ("egress", "deny"):
            found.append(_tried(trial, tried, denied=column.key == "deny"))
        else:
            found.append(_CELLS[column.key](trial, now, life))
    return found


def _tried(trial: Trial, tried: tuple[int, int] | None, *, denied: bool) -> list[Run]:
    if trial.origin == "harbor":
        return [("–", "muted")]
    count = (tried or (0, 0))[denied]
    return [(f"{count:,}", "muted" if not count else "bad bold" if denied else "")]


def state_runs(trial: Trial) -> list[Run]:
    """Return the glyph of a trial's state, with ▲ when its verdict is in doubt."""
    glyph = GLYPHS[trial.state]
    if trial.state in ("kept", "paused") and trial.score is not None:
        glyph = GLYPHS["kept"]
    return [glyph, ("▲", "warn")] if trial.suspect or trial.touched else [glyph]


def score_runs(trial: Trial) -> list[Run]:
    """Return the score: a number, `…` while it runs, `–` without one."""
    if trial.score is not None:
        role = "ok" if trial.score >= 1.0 else "bad" if trial.score <= 0.0 else "warn"
        return [(f"{trial.score:.2f}", role)]
    return [("…", "muted")] if trial.state in ("running", "paused") else [("–", "muted")]


def _tests(trial: Trial, now: float, life: Sequence[int]) -> list[Run]:
    return [] if trial.tests_total is None else [(f"{trial.tests_passed}/{trial.tests_total}", "")]


def _cause(trial: Trial, now: float, life: Sequence[int]) -> list[Run]:
    found = _why(trial)
    if trial.label is None:
        return found
    # a person's word comes before the cause that was concluded
    return [(trial.label.word, "accent"), *([(" · ", "muted"), *found] if found else [])]


def _why(trial: Trial) -> list[Run]:
    if trial.state == "paused":
        return [("paused", "accent")]
    if trial.orphaned:
        return [("nobody owns it", "warn")]
    if trial.agent == "human" and (trial.state, trial.phase) == ("running", "agent"):
        return [("waits for you", "accent"), (" · s", "muted")]
    if trial.state == "running":
        return [(phase_word(trial.phase), "muted")] if trial.phase not in ("", "agent") else []
    if trial.state == "stale" and not trial.cause:
        return [(trial.summary, "muted")]
    if not trial.cause:
        return [("touched", "accent")] if trial.touched else []
    return [(trial.cause, _CAUSE_ROLE.get(trial.cause, "warn")), (f" {trial.certainty}", "muted")]


def _life(trial: Trial, now: float, life: Sequence[int]) -> list[Run]:
    if trial.state not in ("running", "paused", "kept"):
        return []
    runs: list[Run] = []
    if life:
        top = max(life)
        bars = "".join(BARS[0 if not top else max(0, -(-7 * value // top))] for value in life[-6:])
        runs = [(bars.rjust(6, BARS[0]), "ok" if top else "muted"), (" ", "")]
    if trial.last_activity is not None:
        past = now - trial.last_activity
        runs.append((ago(past), "ok" if past < 60 else "warn"))
    return runs


def _age(trial: Trial, now: float, life: Sequence[int]) -> list[Run]:
    return [(duration(trial.age(now)), "muted")]


_CELLS: Mapping[str, Callable[[Trial, float, Sequence[int]], list[Run]]] = {
    "state": lambda trial, now, life: state_runs(trial),
    "cell": lambda trial, now, life: [(trial.id, "link")],
    "task": lambda trial, now, life: [(trial.task, "")],
    "agent": lambda trial, now, life: [(trial.agent, "muted")],
    "score": lambda trial, now, life: score_runs(trial),
    "tests": _tests,
    "cause": _cause,
    "life": _life,
    "age": _age,
}


def ago(seconds: float) -> str:
    """Say how long ago in at most four characters."""
    if seconds < 1.5:
        return "now"
    if seconds < 100:
        return f"{seconds:.0f}s"
    if seconds < 6000:
        return f"{seconds / 60:.0f}m"
    return f"{seconds / 3600:.0f}h" if seconds < 360000 else f"{seconds / 86400:.0f}d"


def duration(seconds: float | None) -> str:
    """Say a duration in at most six characters: `04:12`, `3h04m`, `12d`."""
    if seconds is None:
        return ""
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60:02}:{whole % 60:02}"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d"


def values(trial: Trial, now: float) -> dict[str, str | float | None]:
    """Return what the filter language sees of a trial."""
    return {
        "cell": trial.id,
        "task": trial.task,
        "agent": trial.agent,
        "state": " ".join(dict.fromkeys((trial.state, _graded(trial)))).strip(),
        "score": trial.score,
        "cause": trial.cause,
        "reason": trial.summary,
        "phase": phase_word(trial.phase),
        "status": trial.certainty,
        "label": " ".join(
            (*("suspect",) * trial.suspect, *("touched",) * trial.touched, *_label_words(trial))
        ),
        "sig": trial.signature,
        "job": trial.job,
        "tests": trial.tests_passed,
        "age": trial.age(now),
    }


def _label_words(trial: Trial) -> tuple[str, ...]:
    return () if trial.label is None else (trial.label.word, trial.label.note)


def _graded(trial: Trial) -> str:
    if trial.score is None:
        return trial.state
    return "passed" if trial.score >= 1.0 else "failed"


def order(
    trials: Sequence[Trial],
    by: str,
    down: bool,
    now: float,
    tried: Mapping[str, tuple[int, int]] | None = None,
) -> list[Trial]:
    """Return the trials sorted; without `by`, what needs attention first, newest first within.

    `tried` has the hits and denials of each trial, by its path.
    """
    counts = tried or {}
    if not by:
        return sorted(
            trials,
            key=lambda t: (_RANK.get(t.state, 9), not (t.suspect or t.touched), -(t.started or 0), t.path),
        )
    keys: Mapping[str, Callable[[Trial], object]] = {
        "state": lambda t: _RANK.get(t.state, 9),
        "cell": lambda t: t.id,
        "task": lambda t: (t.task, t.path),
        "agent": lambda t: t.agent,
        "score": lambda t: -1.0 if t.score is None else t.score,
        "tests": lambda t: -1 if t.tests_passed is None else t.tests_passed,
        "cause": lambda t: (t.cause or "~", t.certainty),
        "egress": lambda t: counts.get(t.path, (0, 0))[0],
        "deny": lambda t: counts.get(t.path, (0, 0))[1],
        "life": lambda t: t.last_activity or 0.0,
        "age": lambda t: t.age(now) or 0.0,
    }
    return sorted(trials, key=keys[by], reverse=down)  # type: ignore[arg-type]


GROUPS = ("", "cause", "signature", "task")


def grouped(trials: Sequence[Trial], by: str) -> list[Trial | Group]:
    """Return the trials under headings, the largest group first; `by` is one of GROUPS."""
    if not by:
        return list(trials)
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        name = {"cause": trial.cause, "signature": trial.signature, "task": trial.task}[by]
        groups.setdefault(name or "", []).append(trial)
    found: list[Trial | Group] = []
    for name, members in sorted(groups.items(), key=lambda item: (not item[0], -len(item[1]), item[0])):
        cell = "cell" if len(members) == 1 else "cells"
        found.append(Group(f"▼ {name or 'none'} · {len(members)} {cell}"))
        found += members
    return found


def job_line(jobs: Sequence[Job]) -> str:
    """Return both means, suspects and progress, as the footer of the table."""
    from cell.trials import fold

    job = jobs[0] if len(jobs) == 1 else fold("", [trial for each in jobs for trial in each.trials])
    parts = []
    if job.raw_mean is not None:
        parts.append(f"mean {job.raw_mean:.2f}")
    if job.graded_mean is not None:
        parts.append(f"graded {job.graded_mean:.2f}")
    if job.faults:
        mean = "–" if job.faultless_mean is None else f"{job.faultless_mean:.2f}"
        parts.append(f"without {job.faults} labelled fault{'s' * (job.faults > 1)} {mean}")
    if job.suspects and job.firm_mean is not None:
        parts.append(f"without suspects {job.firm_mean:.2f}")
        parts.append(f"suspect {job.suspects}")
    done = sum(trial.state not in ("running", "paused") for trial in job.trials)
    total = sum(each.total for each in jobs)
    if total and done < total:
        parts.append(f"{done}/{total} done")
    return " · ".join(parts)


def counted(jobs: Sequence[Job]) -> list[tuple[Run, int]]:
    """Return how many cells are in which state, as the header shows it."""
    counts: dict[str, int] = {}
    for job in jobs:
        for state, count in job.counts.items():
            counts[state] = counts.get(state, 0) + count
    return [
        (GLYPHS[state], counts.get(state, 0))
        for state in COUNTED
        if counts.get(state) or state in ("passed", "failed")
    ]


def event_runs(trials: Sequence[Trial]) -> list[Run]:
    """Return the last few events of all cells on one line."""
    happened = [(one.t, trial, one) for trial in trials for one in trial.recent]
    happened.sort(key=lambda item: (item[0], item[1].path))
    runs: list[Run] = []
    for t, trial, one in happened[-5:]:
        sign = GLYPHS[trial.state] if one.kind == "verdict" else GLYPHS["running"]
        role = {"fault": "bad", "refused": "bad", "touched": "accent"}.get(one.kind, "")
        runs += [
            (clock(t), "muted"),
            (" ", ""),
            sign,
            (f" {trial.id} ", "link"),
            (one.text, role),
            ("   ", ""),
        ]
    return runs


def clock(t: float) -> str:
    """Return the local time of day."""
    try:
        return datetime.fromtimestamp(t).strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "--:--:--"
