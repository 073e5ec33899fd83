"""One rollout: open, serve, agent, seal, verify, conclude, close. The runner's side of a cell.

Killing the runner loses nothing: the cell goes on and its journal has it all. What is written here is
written as it happens.
"""

from __future__ import annotations

import asyncio
import os
import time
import traceback
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from . import agents, control, deadline, harbor, kernel, placing, trees
from .changes import Change
from .errors import CellError, Refused, TaskError
from .outcome import declared_limits, gather, given, overrides, read_info, write_verdict
from .policy import peers
from .policy.peers import Peer
from .records import Verdict
from .sandbox import Ended
from .serve import RUNTIME, PhaseSpec, Spec
from .task import Phase, Task
from .verdict import conclude
from .verdict.facts import AgentOutcome, FaultSeen

INTERRUPTED = "the runner was interrupted; nothing was graded"


@dataclass(frozen=True)
class Settings:
    """What the caller of `cell run` chose, the same for every rollout of a job."""

    agent: str = "oracle"
    network: str | None = None
    peers: tuple[Peer, ...] = ()
    pins: tuple[tuple[str, str], ...] = ()
    proxy_only: bool = False
    tls_only: bool = False
    keep: str = "never"
    sandboxed: bool = True
    unowned_sec: float = 3600.0
    tell: Callable[[str], None] = field(default=lambda line: None)


@dataclass
class Rollout:
    """One attempt at a task, in `trial` (which exists). `image` is (root, env, user, workdir) or None."""

    task: Task
    trial: Path
    cell: str
    config: dict[str, Any]
    settings: Settings
    image: tuple[Path, tuple[tuple[str, str], ...], str, str] | None
    spans: dict[str, harbor.Span] = field(default_factory=dict)
    started: float = field(default_factory=time.time)
    outcome: AgentOutcome = field(default_factory=AgentOutcome)
    fatal: list[FaultSeen] = field(default_factory=list)
    cancelled: str = ""
    grading: dict[str, Any] | None = None
    verdict: Verdict | None = None
    kept: bool = False
    _serve: asyncio.subprocess.Process | None = None
    _link: control.Link | None = None

    @property
    def runtime(self) -> Path:
        """Where the cell's sockets and keys are while it lives."""
        return RUNTIME / self.cell

    async def run(self) -> Verdict:
        """Run to the verdict; the trial folder is complete afterwards. TaskError is the caller's to tell.

        A cancellation (Ctrl-C) seals, grades nothing, tears down, and is raised again: it is heeded once,
        and what ends is waited for. Whatever else is raised is this trial's fault of the harness.
        """
        refused: TaskError | None = None
        try:
            link = await self._open()
            await self._agent(link)
            await self._grade(link)
        except TaskError as error:
            refused = error
            self._fault("task", error)
        except CellError as error:
            self._fault("serve", error)
        except asyncio.CancelledError:
            self.cancelled = INTERRUPTED
            self._log(self.cancelled)
        except Exception as error:  # noqa: BLE001 - this trial's fault, nobody else's
            self._log(traceback.format_exc())
            self._fault("serve", error)
        ending, late = asyncio.create_task(self._end()), False
        while not ending.done():
            try:
                await asyncio.wait({ending})
            except asyncio.CancelledError:
                late = True
        self.verdict = ending.result()
        if late or self.cancelled:
            raise asyncio.CancelledError
        if refused is not None:
            raise refused
        return self.verdict

    def _fault(self, where: str, error: Exception) -> None:
        said = str(error) if isinstance(error, CellError) else f"{type(error).__name__}: {error}"
        self._log(f"fault: {said}")
        self.fatal.append(FaultSeen(where=where, message=said, fatal=True))

    # ── phases ────────────────────────────────────────────────────────────────────────────────

    async def _open(self) -> control.Link:
        began = time.time()
        self._serve = await placing.start(self.spec(), self.trial)
        self._link = link = await control.Link.open(self.runtime, "runner")
        await agents.prepare(self.settings.agent, self.task, link)
        self.spans["environment_setup"] = harbor.Span(began, time.time())
        self._log("the cell is ready")
        return link

    async def _agent(self, link: control.Link) -> None:
        began, human = time.time(), self.settings.agent == "human"
        limit = None if human else self.task.agent.timeout_sec
        await link.call("begin")
        self._log(f"agent phase: {self.settings.agent}")
        if human:
            self.settings.tell(
                f"{self.cell} waits for you: `cell ssh {self.cell}`, then `cell finish {self.cell}`"
            )
        outcome = AgentOutcome(
            name=agents.name_of(self.settings.agent),
            timeout_sec=limit,
            output_file=agents.output_file(self.settings.agent),
        )
        work = asyncio.create_task(agents.run(self.settings.agent, self.task, self.trial, self.runtime))
        over = asyncio.create_task(self._sealed_by_another())
        late = asyncio.create_task(deadline.expired(self.trial, limit))
        reason = "the agent ended"
        try:
            done, _ = await asyncio.wait({work, over, late}, return_when=asyncio.FIRST_COMPLETED)
            if work in done:
                ended: Ended = work.result()
                outcome = msgspec.structs.replace(outcome, exit=ended.code, signal=ended.signal_name)
            elif over in done:
                reason = "finished by the human agent" if human else "closed by an operator"
            else:
                reason = f"the agent ran out of its {limit:g} seconds"
                outcome = msgspec.structs.replace(outcome, timed_out=True)
        finally:
            over.cancel()
            late.cancel()
            if not work.done():
                work.cancel()
            with suppress(asyncio.CancelledError, CellError):
                await work
            self.outcome = outcome
            self.spans["agent_execution"] = harbor.Span(began, time.time())
        self._log(reason)
        try:
            sealed = await link.call("seal", reason=reason)
            for note in sealed["notes"]:
                self._log(f"collect: {note}")
        except Refused:
            if not self._phase_is("sealed"):
                raise

    async def _sealed_by_another(self) -> None:
        """Return when somebody else ended the agent phase, or the cell has gone."""
        while not self._phase_is("sealed", "finished", "closed") and self.runtime.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.2)

    def _phase_is(self, *phases: str) -> bool:
        info = read_info(self.trial)
        return info is not None and info.phase in phases

    async def _grade(self, link: control.Link) -> None:
        began = time.time()
        self._log("verifier phase")
        self.grading = await grade(link, self.task)
        self.spans["verifier"] = harbor.Span(began, time.time())

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    async def _end(self) -> Verdict:
        told = False
        try:
            verdict = await asyncio.to_thread(self._concluded)
            keep = self.settings.keep == "always" or (self.settings.keep == "failed" and not verdict.clean)
            info = read_info(self.trial)
            asked = info is not None and info.kept  # while it ran, by an operator
            self.kept = (keep or asked) and not self.cancelled and not self.fatal and self._serve is not None
            with suppress(CellError, OSError, TimeoutError):
                async with asyncio.timeout(60):
                    await self._part(verdict)
                    told = True
        finally:
            if self._serve is not None and self.kept:
                placing.release(self._serve)
            elif self._serve is not None:
                await placing.finish(self._serve, told=told)
        await asyncio.to_thread(self._write_down, verdict)
        return verdict

    def _concluded(self) -> Verdict:
        facts = gather(
            self.trial,
            self.task,
            grading=self.grading,
            outcome=self.outcome,
            fatal=tuple(self.fatal),
            cancelled=self.cancelled,
            unsandboxed=not self.settings.sandboxed,
            networks=overrides(self.task, self.settings.network),
        )
        return conclude(facts)

    async def _part(self, verdict: Verdict) -> None:
        """Say the last words to the cell."""
        link = self._link
        if link is None:
            return
        if self.cancelled:
            # an answer may be under way to who asked and no longer listens: a fresh line, where none is
            await link.close()
            link = await control.Link.open(self.runtime, "runner")
        try:
            with suppress(CellError):
                if self.cancelled and self._phase_is("agent"):
                    await link.call("seal", reason=self.cancelled)
                elif not self.cancelled:
                    await link.call("conclude", verdict=msgspec.to_builtins(given(verdict)))
            if self.kept:
                await link.call("keep")
                await link.call("adopt", runner=None)
            else:
                await link.call("stop", why=self.cancelled)
        finally:
            await link.close()

    def _write_down(self, verdict: Verdict) -> None:
        write(self, verdict)
        if verdict.clean and not self.kept:
            trees.remove(self.trial / "cell" / "root", ignore_errors=True)

    def _log(self, line: str) -> None:
        stamp = time.strftime("%H:%M:%S")
        with (
            suppress(OSError),
            (self.trial / "trial.log").open("a", encoding="utf-8", errors="replace") as file,
        ):
            file.write(f"{stamp} {line}\n")

    def spec(self) -> Spec:
        """Return what the serving process must know."""
        task, image = self.task, self.image
        user, workdir = (image[2] or "root", image[3] or "/") if image else ("root", "/app")
        used = self.settings.network

        def phase(declared: Phase) -> PhaseSpec:
            return PhaseSpec(
                user=declared.user or user,
                key=f"{declared.name}.user" if declared.user else "environment (the image's USER)",
                network_declared=declared.network_mode,
                network_used=used or declared.network_mode,
                allowed_hosts=declared.allowed_hosts if used in (None, declared.network_mode) else (),
                network_key=declared.network_key,
            )

        return Spec(
            cell=self.cell,
            task=task.short_name,
            task_path=str(task.path),
            trial=str(self.trial),
            agent=agents.name_of(self.settings.agent),
            image_root=str(image[0]) if image else None,
            image_env=image[1] if image else (),
            env=task.environment.env,
            workdir=task.environment.workdir or workdir,
            agent_phase=phase(task.agent),
            verifier_phase=phase(task.verifier),
            runner=kernel.process(os.getpid()),
            sandboxed=self.settings.sandboxed,
            limits=declared_limits(task),
            warnings=task.warnings,
            unowned_sec=self.settings.unowned_sec,
            peers=peers.together(peers.load(task.path), self.settings.peers),
            pins=self.settings.pins,
            proxy_only=self.settings.proxy_only,
            tls_only=self.settings.tls_only,
        )


async def grade(link: control.Link, task: Task, change: Change | None = None) -> dict[str, Any]:
    """Have a sealed cell verify, with a `change` beside its score; return the Grading as JSON values."""
    declared = task.verifier.timeout_sec or 600.0
    result: dict[str, Any] = await link.call(
        "grade",
        await asyncio.to_thread(agents.archive, task.path / "tests"),
        timeout=declared if change is None else change.within(declared),
        env=dict(task.verifier.env),
        **({} if change is None else {"change": change.text}),
    )
    return result


def write(rollout: Rollout, verdict: Verdict) -> None:
    """Write what a finished trial has: verdict.json, result.json, the manifest, exception.txt."""
    trial, now = rollout.trial, time.time()
    write_verdict(trial, verdict)
    artifacts = trial / "artifacts"
    collected = artifacts / "logs" / "artifacts"
    status = "ok" if collected.is_dir() and any(collected.iterdir()) else "empty"
    artifacts.mkdir(exist_ok=True)
    harbor.write_json(artifacts / "manifest.json", harbor.artifacts_manifest(status))
    late = rollout.outcome.timeout_sec if rollout.outcome.timed_out else None
    exception = harbor.exception_of(verdict, at=now, agent_late_sec=late)
    if exception is not None:
        (trial / "exception.txt").write_text(exception["exception_traceback"], "utf-8", "replace")
    result = harbor.trial_result(
        trial_id=str(uuid.uuid4()),
        task_name=rollout.task.short_name,
        trial_dir=trial,
        config=rollout.config,
        checksum=rollout.task.digest.removeprefix("sha256:"),
        verdict=verdict,
        exception=exception,
        whole=harbor.Span(rollout.started, now),
        environment_setup=rollout.spans.get("environment_setup"),
        agent_execution=rollout.spans.get("agent_execution"),
        verifier=rollout.spans.get("verifier"),
    )
    harbor.write_json(trial / "result.json", result)
