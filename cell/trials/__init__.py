"""Trial folders, Harbor's and ours, read into frozen values.

The cockpit and `cell ls --json` show the same values from here. Folders may appear, grow, be torn and
vanish while they are read: nothing here raises on content, a missing folder is an empty one, and a
`Reader` keeps the last good value of a file that is torn at the moment. Reading changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from cell.plain import plain
from cell.records import Label, Process, Regrade, Verdict
from cell.trials import labels
from cell.trials.events import Happening
from cell.trials.files import entries, inner, is_folder, load_object, read_regular, stamp, when
from cell.verdict import Means, means

State = Literal["queued", "running", "paused", "kept", "passed", "failed", "ungraded", "stale"]
Kind = Literal["missing", "empty", "jobs", "job", "trial", "task", "terminal-bench"]

STALE_AFTER = 600.0
"""Seconds without a write after which a Harbor trial without result is called stale."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout as its folder tells it. Times are epoch seconds; what is not known is None or "".

    `alive` is about the serving process of a cell of ours; Harbor's trials never are. `orphaned`: it lives,
    but its runner does not, and nobody keeps it. `tests_passed`
    and `tests_total` are None when nobody reported tests. `activity` counts bytes that were recorded,
    so that two looks at a trial show how much happened in between.
    """

    path: str
    name: str
    id: str
    job: str
    task: str
    agent: str
    state: State
    origin: Literal["cell", "harbor"]
    model: str = ""
    phase: str = ""
    score: float | None = None
    tests_passed: int | None = None
    tests_total: int | None = None
    cause: str = ""
    certainty: str = ""
    summary: str = ""
    suspect: bool = False
    touched: bool = False
    alive: bool = False
    orphaned: bool = False
    kept: bool = False
    started: float | None = None
    finished: float | None = None
    last_activity: float | None = None
    activity: int = 0
    sessions: int = 0
    signature: str = ""
    substrate: str = ""
    warnings: tuple[str, ...] = ()
    recent: tuple[Happening, ...] = ()
    verdict: Verdict | None = None
    label: Label | None = None
    regrades: tuple[Regrade, ...] = ()

    @property
    def clean(self) -> bool:
        """True unless the trial failed, is ungraded or stale, or its verdict is in doubt."""
        failed = self.score is not None and self.score < 1.0
        return not (self.state in ("failed", "ungraded", "stale") or self.suspect or self.touched or failed)

    def age(self, now: float) -> float | None:
        """Return how long it took, or has been taking until `now`, in seconds."""
        if self.started is None:
            return None
        end = self.finished
        if end is None:
            end = (self.last_activity or self.started) if self.state == "stale" else now
        return max(0.0, end - self.started)

    def as_dict(self) -> dict[str, Any]:
        """Return the trial as JSON values."""
        value: dict[str, Any] = msgspec.to_builtins(self)
        return value


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of trials. `raw_mean` counts a finished trial without reward as 0, as Harbor does;
    `graded_mean` leaves it out; `firm_mean` leaves out what is suspect as well, `faultless_mean` what a
    person labelled a fault (`faults` of them)."""

    path: str
    name: str
    trials: tuple[Trial, ...] = ()
    total: int = 0
    queued: int = 0
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    raw_mean: float | None = None
    graded_mean: float | None = None
    firm_mean: float | None = None
    faultless_mean: float | None = None
    suspects: int = 0
    faults: int = 0
    started: float | None = None
    finished: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the job as JSON values, its trials included."""
        value: dict[str, Any] = msgspec.to_builtins(self)
        return value


class Roots(msgspec.Struct, frozen=True, kw_only=True):
    """What a path turned out to be, and the folders found there."""

    path: str
    kind: Kind
    jobs: tuple[str, ...] = ()
    trials: tuple[str, ...] = ()
    note: str = ""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything below the roots, as of one look."""

    roots: tuple[Roots, ...] = ()
    jobs: tuple[Job, ...] = ()

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials of all jobs, in the order of their folders."""
        return tuple(trial for job in self.jobs for trial in job.trials)


# ── finding ───────────────────────────────────────────────────────────────────────────────────


def is_trial(path: Path) -> bool:
    """Say whether the folder is a trial, Harbor's or ours."""
    if (path / "cell/cell.json").is_file() or (path / "trial.log").is_file():
        return True
    if any(inner(load_object(path / "config.json"), key) for key in ("trial_name", "task_name")):
        return True
    found = load_object(path / "result.json")
    return bool(inner(found, "trial_name") or inner(found, "task_name"))


def _is_job(path: Path) -> bool:
    return (path / "job.log").is_file() or inner(load_object(path / "config.json"), "job_name") is not None


def discover(path: Path | str) -> Roots:
    """Say what `path` is: task, trial, job, jobs folder, an old terminal-bench run, empty or missing."""
    return _discover(Path(path), is_trial)


def _discover(path: Path, trial: Callable[[Path], bool]) -> Roots:
    where = str(path)
    if not path.is_dir():
        return Roots(path=where, kind="missing", note="nothing is there yet")
    if (path / "task.toml").is_file():
        return Roots(path=where, kind="task", note="a task, not a job: run it with `cell run`")
    if (path / "task.yaml").is_file() and (path / "run-tests.sh").is_file():
        return Roots(
            path=where, kind="task", note="an old terminal-bench task; this version does not read it"
        )
    if (path / "run_metadata.json").is_file() and (path / "tb.lock").is_file():
        note = "an old terminal-bench run; this version does not read it"
        return Roots(path=where, kind="terminal-bench", note=note)
    if trial(path):
        return Roots(path=where, kind="trial", trials=(where,))
    folders = [Path(entry.path) for entry in entries(path) if is_folder(entry)]
    if _is_job(path) or any(trial(folder) for folder in folders):
        return Roots(path=where, kind="job", jobs=(where,))
    jobs = tuple(
        str(folder)
        for folder in folders
        if _is_job(folder) or any(trial(Path(entry.path)) for entry in entries(folder) if is_folder(entry))
    )
    if jobs:
        return Roots(path=where, kind="jobs", jobs=jobs)
    return Roots(path=where, kind="empty", note="no job has been run here yet")


def alive(process: Process | None) -> bool:
    """Say whether that very process lives: pid, start time and boot all match, and it is no zombie."""
    if process is None or process.pid <= 0:
        return False
    boot = read_regular("/proc/sys/kernel/random/boot_id", limit=64)
    found = read_regular(f"/proc/{process.pid}/stat", limit=4096)
    if boot is None or found is None or boot.decode("ascii", "replace").strip() != process.boot:
        return False
    fields = found.rpartition(b")")[2].split()
    return len(fields) > 19 and fields[0] not in (b"Z", b"X") and fields[19] == b"%d" % process.start


def match(trials: Iterable[Trial], wanted: str) -> list[Trial]:
    """Return the trials a person means by `wanted`: an id, a prefix of one, or part of a task's name.

    The first of these that finds any decides; more than one trial means that it was not unique.
    """
    every = list(trials)
    rules: tuple[Callable[[Trial], bool], ...] = (
        lambda trial: wanted in (trial.id, trial.name, trial.path),
        lambda trial: trial.id.startswith(wanted),
        lambda trial: wanted.casefold() in trial.task.casefold(),
    )
    for rule in rules if wanted else ():
        if found := [trial for trial in every if rule(trial)]:
            return found
    return []


# ── reading ───────────────────────────────────────────────────────────────────────────────────


def read_trial(path: Path | str, *, now: float | None = None) -> Trial:
    """Read one trial folder, whatever is in it."""
    moment = time.time() if now is None else now
    return Reader([], clock=lambda: moment).trial(Path(path))


def read_job(path: Path | str, *, now: float | None = None) -> Job:
    """Read a job folder with all its trials."""
    moment = time.time() if now is None else now
    return Reader([path], clock=lambda: moment).job(Path(path))


def fold(path: str, trials: Sequence[Trial], about: object = None) -> Job:
    """Count a job's trials. `about` is the job's own result.json, as far as it could be read."""
    counts: dict[str, int] = {}
    for trial in trials:
        counts[trial.state] = counts.get(trial.state, 0) + 1
    done = [trial for trial in trials if trial.finished is not None or trial.verdict is not None]
    both = _means(done)
    sound = [trial for trial in done if trial.label is None or trial.label.word != labels.FAULT]
    declared = inner(about, "n_total_trials")
    total = max(declared if isinstance(declared, int) else 0, len(trials))
    finished = when(inner(about, "finished_at"))
    queued = 0 if finished is not None else total - len(trials)
    if queued:
        counts["queued"] = queued
    return Job(
        path=path,
        name=plain(Path(path).name, limit=120),
        trials=tuple(trials),
        total=total,
        queued=queued,
        counts=counts,
        raw_mean=both.raw,
        graded_mean=both.graded,
        firm_mean=both.firm,
        faultless_mean=_means(sound).graded,
        suspects=both.suspects,
        faults=len(done) - len(sound),
        started=when(inner(about, "started_at")),
        finished=finished,
    )


def _means(trials: Iterable[Trial]) -> Means:
    return means(trial.verdict or Verdict(verdict="ungraded") for trial in trials)


class Reader:
    """Looks at the same paths again and again; what has not changed is not read again.

    `clock` gives the time in epoch seconds. Not for two threads at once.
    """

    def __init__(self, paths: Iterable[Path | str], *, clock: Callable[[], float] = time.time) -> None:
        from cell.trials.trial import TrialFolder

        self.paths = [Path(path) for path in paths]
        self.clock = clock
        self._folder = TrialFolder
        self._known: dict[str, TrialFolder] = {}
        self._jobs: dict[str, tuple[tuple[int, int, int], object]] = {}
        self._labels: dict[Path, tuple[tuple[int, int, int], dict[str, Label]]] = {}

    def scan(self) -> Snapshot:
        """Look once. About 1 ms per 30 finished trials that did not change."""
        roots = tuple(_discover(path, self._trial) for path in self.paths)
        jobs: dict[str, Job] = {}
        for root in roots:
            for job in root.jobs:
                jobs.setdefault(job, self.job(Path(job)))
            for single in root.trials:
                parent = str(Path(single).parent)
                if parent not in jobs:
                    jobs[parent] = fold(parent, [self.trial(Path(single))])
        seen = {trial.path for job in jobs.values() for trial in job.trials}
        self._known = {path: known for path, known in self._known.items() if path in seen}
        return Snapshot(roots=roots, jobs=tuple(jobs.values()))

    def job(self, path: Path) -> Job:
        """Read one job folder."""
        folders = [Path(entry.path) for entry in entries(path) if is_folder(entry)]
        said = self._said(path)
        trials = [self._read(f, said) for f in folders if self._trial(f)]
        return fold(str(path), trials, self._about(path))

    def trial(self, path: Path) -> Trial:
        """Read one trial folder."""
        return self._read(path, self._said(path.absolute().parent))

    def _read(self, path: Path, said: Mapping[str, Label]) -> Trial:
        known = self._known.get(str(path))
        if known is None:
            known = self._known[str(path)] = self._folder(path)
        trial, label = known.read(self.clock()), said.get(path.absolute().name)
        return trial if label is None else msgspec.structs.replace(trial, label=label)

    def _said(self, job: Path) -> Mapping[str, Label]:
        """Return what people said of the job's trials."""
        mark, (before, value) = stamp(labels.place(job)), self._labels.get(job, ((0, 0, 0), {}))
        if mark != before:
            value = labels.read(job)
            self._labels[job] = (mark, value)
        return value

    def _trial(self, path: Path) -> bool:
        return str(path) in self._known or is_trial(path)

    def _about(self, path: Path) -> object:
        file = path / "result.json"
        mark, (before, value) = stamp(file), self._jobs.get(str(path), ((0, 0, 0), None))
        if mark != before:
            found = load_object(file)
            value = value if found is None and mark[2] else found
            self._jobs[str(path)] = (mark, value)
        return value
