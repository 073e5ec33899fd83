"""One trial folder, looked at repeatedly: which files changed, what the trial is now."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cell.plain import plain
from cell.records import CellInfo, Regrade, Verdict
from cell.trials import STALE_AFTER, State, Trial, alive
from cell.trials.events import EventLog, Happening
from cell.trials.files import (
    entries,
    inner,
    is_folder,
    load_lines,
    load_object,
    load_record,
    stamp,
    when,
    word,
)
from cell.trials.harbor import signature_of, verdict_of

_WATCHED = ("config.json", "result.json", "cell/cell.json", "cell/verdict.json", "cell/regrades.jsonl")
_MOST_LOOKED_AT = 2000  # files of a folder that an agent or its verifier filled, at each look
_BAD_CAUSE = "result.json cannot be read"


class TrialFolder:
    """The last good reading of each file of one trial, and the trial made of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = EventLog(path / "cell/events.jsonl")
        self._stamps: tuple[tuple[int, int, int], ...] = ()
        self._config: dict[str, Any] = {}
        self._result: dict[str, Any] = {}
        self._info: CellInfo | None = None
        self._given: Verdict | None = None
        self._verdict: Verdict | None = None
        self._regrades: tuple[Regrade, ...] = ()
        self._signature = ""
        self._sessions = 0
        self._trial: Trial | None = None

    def read(self, now: float) -> Trial:
        """Return the trial as it is now (`now` in epoch seconds)."""
        stamps = tuple(stamp(self.path / name) for name in _WATCHED)
        changed = stamps != self._stamps
        logged = self.log.refresh()
        if not changed and not logged and self._trial is not None and self._settled(self._trial):
            return self._trial
        if changed:
            self._load(stamps)
        self._stamps = stamps
        self._trial = self._build(now)
        return self._trial

    def _settled(self, trial: Trial) -> bool:
        return trial.state in ("passed", "failed", "ungraded") and not trial.alive

    def _load(self, stamps: tuple[tuple[int, int, int], ...]) -> None:
        """Read again what changed. A torn file keeps its last good value, a removed one goes."""
        before = self._stamps or ((-1, 0, 0),) * len(_WATCHED)
        new = {name: mark for name, mark, old in zip(_WATCHED, stamps, before, strict=True) if mark != old}
        path = self.path
        if "config.json" in new:
            self._config = load_object(path / "config.json") or (
                self._config if new["config.json"][2] else {}
            )
        if "result.json" in new:
            self._result = load_object(path / "result.json") or (
                self._result if new["result.json"][2] else {}
            )
        if "cell/cell.json" in new:
            self._info = load_record(path / "cell/cell.json", CellInfo) or self._info
        if "cell/verdict.json" in new:
            found = load_record(path / "cell/verdict.json", Verdict)
            self._given = found or (self._given if new["cell/verdict.json"][2] else None)
        if "cell/regrades.jsonl" in new:
            self._regrades = tuple(load_lines(path / "cell/regrades.jsonl", Regrade))
        self._verdict = self._given
        if self._verdict is None and self._result:
            self._verdict = verdict_of(path, self._result)
        bad = self._verdict is not None and not self._verdict.clean
        self._signature = signature_of(path, self._verdict.fault) if bad and self._verdict else ""

    def _build(self, now: float) -> Trial:
        info, verdict, config, result = self._info, self._verdict, self._config, self._result
        lives = alive(info.serve) if info else False
        last, activity = self._activity()
        started = info.started if info else when(result.get("started_at"))
        if started is None:
            started = when(inner(result, "environment_setup", "started_at")) or self._born()
        state = self._state(now, lives, last)
        cause = verdict.causes[0] if verdict and verdict.causes else None
        passed = sum(test.status == "passed" for test in verdict.tests) if verdict and verdict.tests else None
        summary = cause.summary if cause else (verdict.fault if verdict else "")
        return Trial(
            path=str(self.path),
            name=plain(self.path.name, limit=120),
            id=plain(self.path.name.rpartition("__")[2] or self.path.name, limit=40),
            job=plain(self.path.parent.name, limit=120),
            task=plain(info.task if info else self._task(config, result), limit=120),
            agent=plain(info.agent if info else self._agent(config, result), limit=80),
            model=plain(_model(config, result), limit=80),
            state=state,
            origin="cell" if self._ours() else "harbor",
            phase=self._phase(state),
            score=verdict.reward if verdict else None,
            tests_passed=passed,
            tests_total=len(verdict.tests) if verdict and verdict.tests else None,
            cause=cause.cause if cause else "",
            certainty=cause.certainty if cause else "",
            summary=plain(self._stale_words(state) or summary, limit=300),
            suspect=verdict.suspect if verdict else False,
            touched=(verdict.touched if verdict else False) or self.log.touched,
            alive=lives,
            orphaned=lives and info is not None and not info.kept and not alive(info.runner),
            kept=bool(info and info.kept),
            started=started,
            finished=when(result.get("finished_at")),
            last_activity=last,
            activity=activity,
            sessions=self._sessions,
            signature=self._signature,
            substrate=plain(info.substrate, limit=40) if info else "",
            warnings=tuple(plain(text, limit=300) for text in info.warnings) if info else (),
            recent=self._recent(state, verdict, when(result.get("finished_at"))),
            verdict=verdict,
            regrades=self._regrades,
        )

    def _state(self, now: float, lives: bool, last: float | None) -> State:
        ended = bool(self._stamps[1][2]) if self._stamps else (self.path / "result.json").exists()
        if self._info is not None:
            if lives and self._info.kept and ended:
                return "kept"
            if not ended or (self._verdict is None and lives):
                if not lives:
                    return "stale"
                return "paused" if self.log.paused else "running"
        elif self._verdict is None:
            return "stale" if last is None or now - last > STALE_AFTER else "running"
        if self._verdict is None:
            return "ungraded"
        reward = self._verdict.reward
        if reward is None:
            return "ungraded"
        return "passed" if reward >= 1.0 else "failed"

    def _stale_words(self, state: State) -> str:
        if state == "stale":
            return "its cell is gone" if self._info else "no result, and nothing writes any more"
        if state == "ungraded" and self._verdict is None:
            return _BAD_CAUSE
        return ""

    def _ours(self) -> bool:
        """Say whether a cell wrote it, or will: its folder is there before the cell is."""
        environment = word(inner(self._config, "environment", "import_path"))
        return self._info is not None or environment.startswith("cell:") or (self.path / "cell").is_dir()

    def _phase(self, state: State) -> str:
        if self.log.phase or self._info:
            return self.log.phase or (self._info.phase if self._info else "")
        if state != "running":
            return "finished" if self._result else ""
        if self._ours():
            return "starting"
        return "verifier" if (self.path / "verifier/test-stdout.txt").exists() else "agent"

    def _activity(self) -> tuple[float | None, int]:
        """Return the newest write (epoch seconds) and the recorded bytes."""
        newest, size = 0.0, 0
        sessions = read_count = 0
        places = [self.path, self.path / "agent", self.path / "verifier", self.path / "cell"]
        for place in (*places, self.path / "cell/sessions"):
            for entry in entries(place, None if place.name == "sessions" else _MOST_LOOKED_AT):
                if is_folder(entry):
                    continue
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                newest = max(newest, found.st_mtime)
                size += found.st_size
                if place.name == "sessions":
                    sessions += 1
                elif place.name == "agent":
                    read_count += entry.name.endswith((".pane", "recording.cast", "oracle.txt", "exec.txt"))
        self._sessions = sessions or read_count
        return newest or None, size

    def _born(self) -> float | None:
        for name in ("config.json", "lock.json", ""):
            try:
                return os.lstat(self.path / name).st_mtime
            except OSError:
                continue
        return None

    def _task(self, config: Mapping[str, Any], result: Mapping[str, Any]) -> str:
        path = word(inner(config, "task", "path")) or word(inner(config, "task", "name"))
        return word(result.get("task_name")) or Path(path).name or self.path.name.rpartition("__")[0] or "?"

    def _agent(self, config: Mapping[str, Any], result: Mapping[str, Any]) -> str:
        # Harbor's config.json leaves out what is default, and its default agent is the oracle.
        return word(inner(result, "agent_info", "name")) or word(inner(config, "agent", "name"), "oracle")

    def _recent(self, state: State, verdict: Verdict | None, at: float | None) -> tuple[Happening, ...]:
        if found := self.log.recent():
            return found
        if verdict is None or at is None:
            return ()
        reward = verdict.reward
        return (Happening(t=at, kind="verdict", text=state if reward is None else f"{state} {reward:.2f}"),)


def _model(config: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    return word(inner(result, "agent_info", "model_info", "name")) or word(
        inner(config, "agent", "model_name")
    )
