"""A job: many rollouts, `n` at a time, in one folder; written as Harbor writes it, as it goes on."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from . import __version__, agents, harbor, placing, unfinished
from .errors import CellError, HarnessError, TaskError, UsageError
from .plain import plain
from .policy import peers
from .records import Verdict
from .rollout import Rollout, Settings
from .substrate import image as images
from .task import Task, discover, load, select

_LAST_LINES = 10


@dataclass
class Attempt:
    """One trial of a job and what came of it: a verdict, or an error that kept it from one."""

    task: Task
    trial: Path
    config: dict[str, Any]
    verdict: Verdict | None = None
    error: CellError | None = None
    kept: bool = False


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
    _silent: OSError | None = None
    folder: Path = Path()

    async def run(self) -> list[Attempt]:
        """Run all trials and return them. A cancellation cancels each of them, once, and waits for all.

        What goes wrong in one trial is that trial's: the others go on.
        """
        self._lay_out()
        gate = asyncio.Semaphore(self.concurrent)
        tasks = [asyncio.create_task(self._one(attempt, gate)) for attempt in self.trials]
        cancelled = False
        while not all(task.done() for task in tasks):
            try:
                # not gather: it is over with the first that was cancelled, while others still tear down
                await asyncio.wait(tasks)
            except asyncio.CancelledError:
                if not cancelled:
                    for task in tasks:
                        task.cancel()
                cancelled = True
        self._write(finished=True)
        if cancelled:
            raise asyncio.CancelledError
        if self._silent is not None:
            raise self._silent
        return self.trials

    def abandon(self) -> None:
        """End everything at once: kill the cells, and write down of each trial that it was interrupted."""
        placing.kill_all()
        self._results.clear()
        for attempt in self.trials:
            if attempt.trial.is_dir():
                unfinished.write_fault(attempt.task, attempt.trial, attempt.config, self.settings, None)
                self._collect(attempt)
        self._write(finished=True)

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
            interrupted = False
            try:
                await self._attempt(attempt)
            except asyncio.CancelledError:
                interrupted = True
            except CellError as error:
                attempt.error = error
            except OSError as error:
                attempt.error = HarnessError(f"{attempt.trial}: {error.strerror}")
            except Exception as error:  # noqa: BLE001 - the others go on
                said = f"{type(error).__name__}: {plain(str(error), limit=300)}"
                attempt.error = HarnessError(f"{said}; the trial's trial.log says where")
                with suppress(OSError), (attempt.trial / "trial.log").open("a", errors="replace") as log:
                    log.write(traceback.format_exc())
            if (attempt.error is not None or interrupted) and attempt.trial.is_dir():
                unfinished.write_fault(
                    attempt.task, attempt.trial, attempt.config, self.settings, attempt.error
                )
            self._collect(attempt)
            self._write()
            if interrupted:
                raise asyncio.CancelledError
            try:
                self.done(attempt)
            except OSError as error:  # nobody reads any more; the trials go on
                self._silent = self._silent or error

    async def _attempt(self, attempt: Attempt) -> None:
        attempt.trial.mkdir()
        for name in ("agent", "verifier", "artifacts"):
            (attempt.trial / name).mkdir()
        (attempt.trial / "trial.log").touch()
        harbor.write_json(attempt.trial / "config.json", harbor.sparse(attempt.config))
        lock = harbor.trial_lock(attempt.config, task_digest=_digest(attempt.task))
        harbor.write_json(attempt.trial / "lock.json", lock)
        image = await self._image(attempt.task)
        cell = attempt.trial.name.rpartition("__")[2]
        rollout = Rollout(attempt.task, attempt.trial, cell, attempt.config, self.settings, image)
        try:
            attempt.verdict = await rollout.run()
        finally:
            attempt.kept = rollout.kept

    def _collect(self, attempt: Attempt) -> None:
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
            self._images[task.path] = asyncio.create_task(_in_a_thread(lambda: self._export(task)))
        try:
            return await asyncio.shield(self._images[task.path])
        except HarnessError as error:
            # as a build that fails: whoever runs this has to do something before it can work
            raise UsageError(str(error)) from error

    def _export(self, task: Task) -> Any:
        log = self.folder / f"{task.short_name}.image.log"
        said = list[str]()

        def tell(line: str) -> None:
            if not said:
                self.tell(f"{task.short_name}: its image is made ready; how: {log}")
            said.append(plain(line))
            del said[1:-_LAST_LINES]
            with suppress(OSError), log.open("a", encoding="utf-8", errors="replace") as file:
                file.write(f"{plain(line)}\n")

        try:
            environment = task.environment
            limit = environment.build_timeout_sec
            found = images.resolve(environment, build_timeout_sec=limit, on_line=tell)
            cache = Path(platformdirs.user_cache_dir("hudtui")) / "images"
            return images.export(found, cache, on_line=tell), found.env, found.user, found.workdir
        except CellError:
            for line in said[1:]:
                self.tell(f"{task.short_name}: {line}")
            raise


async def _in_a_thread(act: Callable[[], Any]) -> Any:
    """As asyncio.to_thread, in a thread that no end of this process waits for: a build may take an hour."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if not future.done():
            future.set_result(result) if error is None else future.set_exception(error)

    def work() -> None:
        result, failed = None, None
        try:
            result = act()
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            failed = error
        with suppress(RuntimeError):  # the loop has gone
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=work, daemon=True).start()
    return await future


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
            _named(folder)
            task = load(folder.resolve(), oracle=agent == "oracle")
            peers.load(task.path)  # what its cell.toml says is wrong before anything starts, or never
            refusals = task.unsupported
        except TaskError as error:
            bad.append(error)
            continue
        except Exception as error:  # noqa: BLE001 - one task, however strange, keeps no other from running
            bad.append(TaskError(folder, "", f"cannot be read: {type(error).__name__}: {error}"))
            continue
        if refusals:
            bad.extend(refusals)
        else:
            good.append(task)
    return good, bad


def folder_name(text: str) -> str:
    """Return the name of a job as one folder below the jobs folder; UsageError when it is none."""
    bad = text in ("", ".", "..") or "/" in text or not text.isprintable() or len(os.fsencode(text)) > 200
    if bad:
        raise UsageError(f"--job-name {plain(text, limit=80)}: not the name of one folder in the jobs folder")
    return text


def _named(folder: Path) -> None:
    """TaskError for a folder whose name cannot be written down."""
    try:
        str(folder.resolve()).encode()
    except UnicodeEncodeError:
        raise TaskError(ascii(str(folder)), "", "the name of a task's folder must be UTF-8") from None


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
