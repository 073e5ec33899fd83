"""The verifier: a visitor in the agent's world, behind a wall of its own (promises H4, V1–V3).

It runs in a private view of the sandbox that has `/tests` and `/logs/verifier`, filled and read from
outside through descriptors, so that neither a planted file nor a replaced folder counts. What kills,
stops or limits it from outside its own tree is found by `interference`, and proved by verifying again
with the agent's processes held still.
"""

from __future__ import annotations

import asyncio
import io
import math
import os
import shutil
import signal
import tarfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from . import kernel
from .errors import HarnessError
from .events import VerifierRan
from .evidence import ProgramWatch
from .freeze import Freezer
from .identity import Person
from .interference import InterferenceWatch, agents
from .records import Record, TestResult
from .rewards import RewardFault, copy_tree, read_ctrf, read_rewards
from .sandbox import Ended, StartFailed
from .session import Input, Pipes
from .workspace import Workspace

_LOG_BYTES, _LOG_FILES = 1 << 30, 100_000
_TAIL = 64 << 10


class Grading(Record, frozen=True, kw_only=True):
    """What one verification gave. `rewards` is None where `fault` (Harbor's name, a message) says why.

    `interference` is what was done to it, `interference_outside` when the kernel says that processes of
    the agent did it, `interference_proved` when it went otherwise with those held still. `sure` says
    that no signal of theirs can have been missed.
    """

    attempt: int
    exit: int | None
    signal: str | None
    ms: float
    started: float
    stopped: str
    rewards: dict[str, float] | None
    reward_file: str
    fault: tuple[str, str] | None
    tests: tuple[TestResult, ...]
    notes: tuple[str, ...]
    programs: tuple[str, ...]
    interference: tuple[str, ...]
    interference_outside: bool
    interference_proved: bool
    sure: bool
    output: str

    @property
    def lowest(self) -> float:
        """The lowest of the rewards; below every reward where there is none."""
        return -math.inf if self.rewards is None else min(self.rewards.values(), default=0.0)


@dataclass
class _Output:
    """The verifier's client: keeps what it prints, in the trial and where the verifier itself can read it."""

    file: int
    inside: int
    tail: bytearray = field(default_factory=bytearray)

    async def output(self, data: bytes) -> None:
        for descriptor in (self.file, self.inside):
            with suppress(OSError):  # the verifier's own tmpfs may be full
                os.write(descriptor, data)
        self.tail += data
        del self.tail[:-_TAIL]

    async def errors(self, data: bytes) -> None:
        await self.output(data)

    async def read(self) -> Input:
        await self.gone()
        raise AssertionError

    async def gone(self) -> None:
        await asyncio.get_running_loop().create_future()


async def verify(
    workspace: Workspace, tests: bytes, *, env: Mapping[str, str], within: float, trial: Path, by: str
) -> Grading:
    """Run the tests (a tar of the tests folder), `within` so many seconds; once more if somebody interfered.

    The trial's `verifier/` is replaced by what this verification left. The phase goes to `verifier`
    and then to `finished`.
    """
    workspace.enter("verifier", by)
    try:
        first = await _once(workspace, tests, env=env, within=within, trial=trial)
        killed = first.signal is not None and not first.stopped and not first.sure
        if first.interference_outside or (first.lowest < 1 and (first.interference or killed)):
            held, freezer = len(agents(workspace.sandbox)), Freezer(workspace.sandbox)
            await freezer.freeze(list)
            try:
                second = await _once(workspace, tests, env=env, within=within, trial=None)
            finally:
                await freezer.thaw()
            first = weigh(first, second, held=held)
        return first
    finally:
        workspace.enter("finished", by)


def weigh(first: Grading, second: Grading, *, held: int) -> Grading:
    """Return the first verification with what a second one, with the agent's processes held, proves. Pure."""
    seen = first.interference or (f"the verifier was ended by SIG{first.signal}, not by the harness",)
    alone = f"with {held} processes of the agent held still"
    clean = not second.interference and (second.signal is None or bool(second.stopped))
    better = held > 0 and second.lowest > first.lowest
    if clean and (first.interference_outside or better):
        how = f"exit status {second.exit}" if second.signal is None else f"signal {second.signal}"
        told = f"{alone}, the same verification ended by itself ({how})"
        return msgspec.structs.replace(first, interference=(*seen, told), interference_proved=True)
    if first.interference_outside:
        return msgspec.structs.replace(first, interference=(*seen, f"{alone}, it went no better"))
    if held and first.sure:
        # it does the same when nobody can act on it: what was seen is its own doing
        note = f"{seen[0]}; {alone}, it went the same"
        return msgspec.structs.replace(first, interference=(), notes=(*first.notes, note))
    told = "the same verification with the agent's processes held still went no better"
    return msgspec.structs.replace(first, interference=(*seen, told))


async def _once(
    workspace: Workspace, tests: bytes, *, env: Mapping[str, str], within: float, trial: Path | None
) -> Grading:
    workspace.graded += 1
    attempt, started, begun = workspace.graded, time.time(), time.monotonic()
    person = workspace.people["verifier"]
    tests_mount = kernel.detached_tmpfs(mode=0o755, size=len(tests) * 2 + (64 << 20), files=_LOG_FILES)
    logs_mount = kernel.detached_tmpfs(mode=0o777, size=_LOG_BYTES, files=_LOG_FILES)
    logs = _readable(logs_mount)
    opened = [tests_mount, logs_mount, logs]
    try:
        _unpack(tests, tests_mount)
        os.fchown(logs, person.who.uid, person.who.gid)
        folder = trial / "verifier" if trial else None
        inside = os.open("test-stdout.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644, dir_fd=logs)
        file = _fresh(folder)
        opened += [inside, file]
        output = _Output(file, inside)
        async with AsyncExitStack() as around:
            watch = around.enter_context(ProgramWatch(workspace.diffs, workspace.root))
            if workspace.ways is not None:
                await around.enter_async_context(workspace.ways.for_verifier())
            ended, stopped, acted = await _run(
                workspace,
                person,
                env,
                [("/tests", tests_mount), ("/logs/verifier", logs_mount)],
                output,
                within=within,
                watch=watch,
            )
        found = read_rewards(logs)
        notes = list(found.notes)
        if acted.why_unsure:
            notes.append(f"signals to the verifier could not be traced: {acted.why_unsure}")
        seen = acted.sent or acted.suspected
        tests_told = read_ctrf(logs, notes)
        if folder is not None:
            notes += copy_tree(logs, folder, max_bytes=_LOG_BYTES, max_files=_LOG_FILES)
        fault = found if isinstance(found, RewardFault) else None
        grading = Grading(
            attempt=attempt,
            exit=ended.code,
            signal=ended.signal_name,
            ms=round((time.monotonic() - begun) * 1000, 3),
            started=started,
            stopped=stopped,
            rewards=None if isinstance(found, RewardFault) else dict(found.values),
            reward_file="" if isinstance(found, RewardFault) else found.file,
            fault=(fault.name, fault.message) if fault else None,
            tests=tests_told,
            notes=tuple(notes),
            programs=watch.found,
            interference=seen,
            interference_outside=bool(acted.sent),
            interference_proved=False,
            sure=acted.sure,
            output=bytes(output.tail).decode("utf-8", "replace"),
        )
        workspace.record(
            VerifierRan(
                attempt=attempt,
                exit=ended.code,
                signal=ended.signal_name,
                ms=grading.ms,
                stopped=stopped,
                evidence=(*watch.found, *seen),
            )
        )
        return grading
    finally:
        for descriptor in opened:
            os.close(descriptor)


async def _run(
    workspace: Workspace,
    person: Person,
    env: Mapping[str, str],
    view: list[tuple[str, int]],
    output: _Output,
    *,
    within: float,
    watch: ProgramWatch,
) -> tuple[Ended, str, InterferenceWatch]:
    with InterferenceWatch(workspace.sandbox) as acted:
        pipes = Pipes.make(merged=True)
        try:
            child = workspace.sandbox.spawn(
                [["/tests/test.sh"], ["/bin/sh", "/tests/test.sh"]],
                who=person.who.walled,
                env=workspace.environment("verifier", {}, declared=tuple(env.items())),
                cwd=person.workdir,
                stdio=pipes.theirs,
                view=view,
                no_core=True,
            )
        finally:
            pipes.lent()
        if workspace.ways is not None:
            workspace.ways.verifier_is(child)
        session = await workspace.prepare(
            child,
            output,
            principal="runner",
            command="/tests/test.sh",
            person=person,
            terminal=None,
            pipes=pipes,
            limit=1 << 24,
        )
        watch.view = child.mount_namespace
        acted.follow(child)
        stopped = ""
        driven = asyncio.create_task(workspace.drive(session))
        try:
            done, _ = await asyncio.wait([driven], timeout=within)
            if not done:
                stopped = f"timed out after {within:g} seconds"
                child.kill()
                await _end_tree(workspace, watch.view)
            ended = (await driven).ended
        except StartFailed as error:
            await output.output(f"the verifier could not be started: {error}\n".encode())
            ended, stopped = Ended(127, None), f"not started: {error}"
        finally:
            await _end_tree(workspace, watch.view)
    return ended, stopped, acted


def _tree(workspace: Workspace, view: int) -> list[int]:
    """Return every process that has the verifier's view, whatever its parent is now."""
    if not view or view in (workspace.sandbox.mount_namespace, kernel.namespace_of(os.getpid(), "mnt")):
        return []
    return kernel.processes_in(
        workspace.sandbox.pid_namespace or kernel.namespace_of(os.getpid(), "pid"), view
    )


async def _end_tree(workspace: Workspace, view: int) -> None:
    """Kill what is left of the verifier, until nothing is, or it cannot be killed (a stuck disk)."""
    for _ in range(500):
        living = [pid for pid in _tree(workspace, view) if kernel.process(pid)]
        if not living:
            return
        for pid in living:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.01)
    workspace.fault("verifier", f"{len(living)} of the verifier's processes could not be ended")


def _readable(mount: int) -> int:
    return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=mount)


def _fresh(folder: Path | None) -> int:
    if folder is None:
        return os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    return os.open(folder / "test-stdout.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def _unpack(tests: bytes, mount: int) -> None:
    target = f"/proc/self/fd/{mount}"
    try:
        with tarfile.open(fileobj=io.BytesIO(tests)) as archive:
            # "data": a link that leads out would be followed here, outside of every sandbox
            archive.extractall(target, filter="data")
    except (tarfile.TarError, OSError) as error:
        raise HarnessError(f"the tests could not be laid out: {error}") from error
    script = Path(target, "test.sh")
    if script.exists():
        script.chmod(script.stat().st_mode | 0o555)
