"""A job: many rollouts, `n` at a time, in one folder; written as Harbor writes it, as it goes on."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from . import __version__, agents, harbor
from .errors import CellError, HarnessError, TaskError, UsageError
from .plain import plain
from .records import Verdict
from .rollout import Rollout, Settings
from .substrate import image as images
from .task import Task, discover, load, select


@dataclass
class Attempt:
    """One trial of a job and what came of it: a verdict, or an error that kept it from one."""

    task: Task
    trial: Path
    config: dict[str, Any]
    verdict: Verdict | None = None
    error: CellError | None = None


@dataclass
class Job:
    """A run of `cell run`: tasks × attempts. `tell` gets one line of progress at a time."""

    tasks: list[Task]
    settings: Settings
    jobs_dir: Path
    name: str
    concurrent: int = 4
    attempts: int = 1
    tell: Callable[[str], None] = lambda line: None
    done: Callable[[Attempt], None] = lambda attempt: None
    trials: list[Attempt] = field(default_factory=list)
    _images: dict[Path, asyncio.Task[Any]] = field(default_factory=dict)
    _results: list[dict[str, Any]] = field(default_factory=list)
    _started: float = field(default_factory=time.time)
    _id: str = field(default_factory=lambda: str(uuid.uuid4()))
    folder: Path = Path()

    async def run(self) -> list[Attempt]:
        """Run all trials and return them; a cancellation ends them one by one, cleanly."""
        self._lay_out()
        gate = asyncio.Semaphore(self.concurrent)
        tasks = [asyncio.create_task(self._one(attempt, gate)) for attempt in self.trials]
        try:
            await asyncio.gather(*tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        finally:
            self._write(finished=True)
        return self.trials

    def _lay_out(self) -> None:
        try:
            self.jobs_dir.mkdir(parents=True, exist_ok=True)
            self.folder = self._new_folder()
            for task in self.tasks:
                for _ in range(self.attempts):
                    self._new_trial(task)
            config = harbor.job_config(
                job_name=self.folder.name,
                agent=self.settings.agent,
                tasks=[str(task.path) for task in self.tasks],
                n_concurrent=self.concurrent,
                n_attempts=self.attempts,
                jobs_dir=str(self.jobs_dir),
            )
            harbor.write_json(self.folder / "config.json", config)
            locks = [harbor.trial_lock(a.config, task_digest=_digest(a.task)) for a in self.trials]
            lock = harbor.job_lock(
                locks, created=self._started, n_concurrent=self.concurrent, version=__version__
            )
            harbor.write_json(self.folder / "lock.json", lock)
            self._write()
        except OSError as error:
            raise UsageError(
                f"{self.jobs_dir}: cannot be written: {error.strerror}; choose another --jobs-dir"
            ) from error

    def _new_folder(self) -> Path:
        """Make the job's folder; a second runner in the same second gets another name, never the same."""
        for number in range(1, 1000):
            folder = self.jobs_dir / (self.name if number == 1 else f"{self.name}-{number}")
            try:
                folder.mkdir()
                return folder.resolve()
            except FileExistsError:
                continue
        raise UsageError(f"{self.jobs_dir}: a thousand jobs are called {self.name}")

    def _new_trial(self, task: Task) -> None:
        name = harbor.trial_name(task.short_name, harbor.new_id())
        config = harbor.trial_config(
            task_path=str(task.path),
            source=task.path.parent.name,
            name=name,
            trials_dir=str(self.folder),
            job_id=self._id,
            agent=agents.name_of(self.settings.agent),
            delete=self.settings.keep == "never",
        )
        self.trials.append(Attempt(task, self.folder / name, config))

    async def _one(self, attempt: Attempt, gate: asyncio.Semaphore) -> None:
        async with gate:
            try:
                attempt.trial.mkdir()
                for name in ("agent", "verifier", "artifacts"):
                    (attempt.trial / name).mkdir()
                (attempt.trial / "trial.log").touch()
                harbor.write_json(attempt.trial / "config.json", harbor.sparse(attempt.config))
                lock = harbor.trial_lock(attempt.config, task_digest=_digest(attempt.task))
                harbor.write_json(attempt.trial / "lock.json", lock)
                image = await self._image(attempt.task)
                rollout = Rollout(
                    attempt.task,
                    attempt.trial,
                    attempt.trial.name.rpartition("__")[2],
                    attempt.config,
                    self.settings,
                    image,
                )
                attempt.verdict = await rollout.run()
            except CellError as error:
                attempt.error = error
            except OSError as error:
                attempt.error = HarnessError(f"{attempt.trial}: {error.strerror}")
            if attempt.error is not None:
                self._failed(attempt)
            self._collect(attempt)
            self._write()
            self.done(attempt)

    def _failed(self, attempt: Attempt) -> None:
        """Leave a word in the folder of a trial that came to no verdict."""
        try:
            (attempt.trial / "exception.txt").write_text(f"{attempt.error}\n", "utf-8", "replace")
        except OSError:
            return

    def _collect(self, attempt: Attempt) -> None:
        import json

        try:
            self._results.append(json.loads((attempt.trial / "result.json").read_text("utf-8")))
        except (OSError, ValueError):
            return

    def _write(self, *, finished: bool = False) -> None:
        now = time.time()
        result = harbor.job_result(
            self._results,
            job_id=self._id,
            n_total=len(self.trials),
            started=self._started,
            updated=now,
            finished=now if finished else None,
            n_running=0 if finished else sum(1 for a in self.trials if a.trial.exists()) - len(self._results),
        )
        try:
            harbor.write_json(self.folder / "result.json", result)
        except HarnessError as error:
            self.tell(f"the job's result cannot be written: {error}")

    async def _image(self, task: Task) -> Any:
        """Return the exported image of a task, made once however many trials wait for it."""
        environment = task.environment
        if environment.docker_image is None and environment.dockerfile is None:
            return None
        if task.path not in self._images:
            self._images[task.path] = asyncio.create_task(asyncio.to_thread(self._export, task))
        return await asyncio.shield(self._images[task.path])

    def _export(self, task: Task) -> Any:
        def tell(line: str) -> None:
            self.tell(f"{task.short_name}: {plain(line)}")

        found = images.resolve(
            task.environment, build_timeout_sec=task.environment.build_timeout_sec, on_line=tell
        )
        cache = Path(platformdirs.user_cache_dir("hudtui")) / "images"
        return images.export(found, cache, on_line=tell), found.env, found.user, found.workdir


def _digest(task: Task) -> str:
    return task.digest.removeprefix("sha256:")


def tasks_of(
    paths: Sequence[Path],
    *,
    include: Sequence[str],
    exclude: Sequence[str],
    agent: str,
) -> tuple[list[Task], list[CellError]]:
    """Load the tasks below `paths`; return those that can be run, and why the others cannot."""
    good, bad = list[Task](), list[CellError]()
    found = [folder for path in paths for folder in discover(path)]
    for folder in select(found, include, exclude):
        try:
            task = load(folder.resolve(), oracle=agent == "oracle")
            refusals = task.unsupported
        except TaskError as error:
            bad.append(error)
            continue
        if refusals:
            bad.extend(refusals)
        else:
            good.append(task)
    return good, bad


def default_name() -> str:
    """Return a job's name as Harbor makes it."""
    return time.strftime("%Y-%m-%d__%H-%M-%S")


def require_root() -> None:
    """UsageError for a caller who is not root: the remedy, and what works instead."""
    if os.geteuid() != 0:
        raise UsageError(
            "cells on this machine need root (mounts, id maps, network namespaces): run `sudo cell run …`; "
            "`cell plan`, `cell ls`, `cell doctor` and `hudtui` work without"
        )
