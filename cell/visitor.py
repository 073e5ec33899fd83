"""The verifier: a visitor in the agent's world, behind a wall of its own (promises H4, V1–V3).

It runs in a private view of the sandbox that has `/tests` and `/logs/verifier`, filled and read from
outside through descriptors, so that neither a planted file nor a replaced folder counts. What kills,
stops or limits it from outside its own tree is found by `interference`, and proved by verifying again
with the agent's processes held still.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import tarfile
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from . import kernel, taken, trees, unpacking
from .errors import HarnessError
from .events import VerifierRan
from .evidence import ProgramWatch
from .freeze import Freezer
from .identity import Person
from .interference import InterferenceWatch, agents
from .rewards import RewardFault, copy_tree, read_ctrf, read_rewards
from .sandbox import Ended, StartFailed
from .session import Input, Pipes
from .verdict.clues import missing_commands
from .weighing import Grading, weigh
from .workspace import Workspace

_LOG_BYTES, _LOG_FILES = 1 << 30, 100_000
_TAIL = 64 << 10
_CLUES = 20  # missing commands that are looked for
_LITTLE = 1 << 20  # bytes


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


@dataclass(frozen=True)
class _Run:
    """How one run of the tests went; `failed` is the stage at which it could not be started."""

    ended: Ended
    stopped: str
    failed: str
    refused: str
    acted: InterferenceWatch

    @property
    def seen(self) -> tuple[str, ...]:
        """What was done to it."""
        acted = self.acted
        refused = (self.refused,) if self.refused else ()
        return (*acted.sent, *acted.unclear, *refused) or acted.suspected


async def verify(
    workspace: Workspace, tests: bytes, *, env: Mapping[str, str], within: float, trial: Path, by: str
) -> Grading:
    """Run the tests (a tar of the tests folder), `within` so many seconds; once more if somebody interfered.

    Where the verifier lacked memory or processes, those of the agent are ended before the second time.

    The trial's `verifier/` is replaced by what this verification left. The phase goes to `verifier`
    and then to `finished`.
    """
    workspace.enter("verifier", by)
    try:
        first = await _once(workspace, tests, env=env, within=within, trial=trial)
        if first.doubtful:
            held, freezer = len(agents(workspace.sandbox)), Freezer(workspace.sandbox)
            await freezer.freeze(list)
            try:
                if first.starved:
                    # what stands still keeps its memory and its place among the processes
                    await _end(workspace, lambda: sorted(agents(workspace.sandbox)), "the agent's")
                second = await _once(workspace, tests, env=env, within=within, trial=None)
            finally:
                await freezer.thaw()
            first = weigh(first, second, held=held)
        return first
    finally:
        workspace.enter("finished", by)


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
            run = await _run(
                workspace,
                person,
                env,
                [("/tests", tests_mount), ("/logs/verifier", logs_mount)],
                output,
                within=within,
                watch=watch,
                alone=trial is None,
            )
        if workspace.closing.is_set():  # whoever ended the cell ended the verifier
            raise HarnessError(f"the cell ended while it verified: {workspace.why}")
        acted = run.acted
        found = read_rewards(logs)
        notes = list(found.notes)
        if acted.why_unsure:
            notes.append(f"signals to the verifier could not be traced: {acted.why_unsure}")
        said = output.tail.decode("utf-8", "replace")
        changes = _taken(workspace, run, said, tests_mount, env)
        if full := _full(workspace):
            notes.append(full)
        tests_told = read_ctrf(logs, notes)
        if folder is not None:
            notes += copy_tree(logs, folder, max_bytes=_LOG_BYTES, max_files=_LOG_FILES)
        fault = found if isinstance(found, RewardFault) else None
        grading = Grading(
            attempt=attempt,
            exit=run.ended.code,
            signal=run.ended.signal_name,
            ms=round((time.monotonic() - begun) * 1000, 3),
            started=started,
            stopped=run.stopped,
            rewards=None if isinstance(found, RewardFault) else dict(found.values),
            reward_file="" if isinstance(found, RewardFault) else found.file,
            fault=(fault.name, fault.message) if fault else None,
            tests=tests_told,
            notes=tuple(notes),
            programs=(*watch.found, *_rerouted(workspace, person)),
            interference=run.seen,
            interference_outside=bool(acted.sent),
            interference_proved=False,
            sure=acted.sure,
            output=said,
            unclear=bool(acted.unclear or run.refused),
            starved=acted.starved or bool(run.refused),
            failed=run.failed,
            taken=changes,
        )
        workspace.record(
            VerifierRan(
                attempt=attempt,
                exit=grading.exit,
                signal=grading.signal,
                ms=grading.ms,
                stopped=grading.stopped,
                evidence=(*watch.found, *(text for _, text in changes), *run.seen),
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
    alone: bool,
) -> _Run:
    failed, refused, ways = "", "", workspace.ways
    with InterferenceWatch(workspace.sandbox, workspace.groups, alone=alone) as acted:
        pipes = Pipes.make(merged=True)
        try:
            child = workspace.sandbox.spawn(
                [["/tests/test.sh"], ["/bin/sh", "/tests/test.sh"]],
                who=person.who.walled,
                env=workspace.environment("verifier", {}, declared=tuple(env.items())),
                cwd=person.workdir,
                stdio=pipes.theirs,
                view=view,
                over=taken.still(workspace.root, workspace.laid, ways.over if ways else ()),
                no_core=True,
            )
        finally:
            pipes.lent()
        if ways is not None:
            ways.verifier_is(child)
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
            ended, stopped, failed = Ended(127, None), f"not started: {error}", error.stage
            if error.errno in (errno.EAGAIN, errno.ENOMEM):
                refused = f"the verifier could not be started: {os.strerror(error.errno)}"
        finally:
            await _end_tree(workspace, watch.view)
    return _Run(ended, stopped, failed, refused, acted)


def _taken(
    workspace: Workspace, run: _Run, said: str, tests: int, env: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return what the agent took away of what this verification needed, with what it was needed for."""
    diffs, root = workspace.diffs, workspace.root
    if not diffs:
        return ()
    search = workspace.environment("verifier", {}, declared=tuple(env.items())).get("PATH", "")
    found = [("files", text) for text in taken.asked_files(diffs)]
    if run.failed == "exec":
        with suppress(OSError), Path(f"/proc/self/fd/{tests}/test.sh").open("rb") as script:
            found += [("start", text) for text in taken.for_start(diffs, root, script.read(4096), search)]
    elif run.failed == "workdir":
        person = workspace.people["verifier"]
        gone = taken.for_folder(diffs, root, person.workdir, known=person.has_workdir)
        found += [("start", text) for text in gone]
    for miss in missing_commands(said)[:_CLUES]:
        found += [(miss.command, text) for text in taken.for_command(diffs, root, miss.command, search)]
    return tuple(dict.fromkeys(found))


def _full(workspace: Workspace) -> str:
    """Say that nothing can be written in the world any more."""
    for _, upper in workspace.diffs:
        with suppress(OSError):
            facts = os.statvfs(upper)
            if facts.f_bavail * facts.f_frsize < _LITTLE or (facts.f_files and not facts.f_favail):
                return "the disk below the world was full when the verifier ended"
    return ""


def _rerouted(workspace: Workspace, person: Person) -> tuple[str, ...]:
    """Return who else may have answered a verifier that has a way out."""
    if workspace.ways is None or "verifier" not in workspace.ways:
        return ()
    found = taken.rerouted(workspace.diffs, workspace.root, person.home, workspace.laid)
    return (*workspace.ways.lost, *found)


def _tree(workspace: Workspace, view: int) -> list[int]:
    """Return every process that has the verifier's view, whatever its parent is now."""
    if not view or view in (workspace.sandbox.mount_namespace, kernel.namespace_of(os.getpid(), "mnt")):
        return []
    return kernel.processes_in(
        workspace.sandbox.pid_namespace or kernel.namespace_of(os.getpid(), "pid"), view
    )


async def _end_tree(workspace: Workspace, view: int) -> None:
    """Kill what is left of the verifier."""
    await _end(workspace, lambda: _tree(workspace, view), "the verifier's")


async def _end(workspace: Workspace, those: Callable[[], list[int]], whose: str) -> None:
    """Kill some processes, until none is left, or one cannot be killed (a stuck disk)."""
    for _ in range(500):
        living = [pid for pid in those() if kernel.process(pid)]
        if not living:
            return
        for pid in living:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.01)
    workspace.fault("verifier", f"{len(living)} of {whose} processes could not be ended")


def _readable(mount: int) -> int:
    return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=mount)


def _fresh(folder: Path | None) -> int:
    if folder is None:
        return os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
    if folder.exists():
        trees.remove(folder)
    folder.mkdir()
    return os.open(folder / "test-stdout.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def _unpack(tests: bytes, mount: int) -> None:
    target = f"/proc/self/fd/{mount}"
    try:
        # a link that leads out would be followed here, outside of every sandbox
        unpacking.unpack(tests, Path(target))
    except (tarfile.TarError, OSError) as error:
        raise HarnessError(f"the tests could not be laid out: {error}") from error
    script = Path(target, "test.sh")
    if script.exists() and unpacking.inside(Path(target), "test.sh"):
        script.chmod(script.stat().st_mode | 0o555)
