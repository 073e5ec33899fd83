"""The serving process of one cell: outlives the runner and the cockpit, owns the world and its records.

Started by `rollout` (or by hand, for debugging) through `service`, with a `Spec` on stdin, it says one
line on stdout, `{"ready": true}` or `{"error": …, "kind": …}`, and then answers on its sockets until
it is told to stop, its sandbox dies, or nobody has owned it for a while. However it ends, its mounts and
its sandbox end with it: they hang on this process alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from . import argv, describe, kernel, limits, runtime, sshd, trees
from .border import Border, Role, Rules
from .describe import PhaseSpec, Spec
from .egress.allotment import Full
from .errors import CellError, HarnessError, TaskError
from .events import CellStarted
from .handlers import Desk
from .identity import Person, make_directory, require_possible, resolve
from .journal import Journal
from .launching import Launcher
from .sandbox import Plan, Sandbox, hold
from .substrate import root as roots
from .ways import Ways
from .workspace import Workspace

__all__ = ["RUNTIME", "SYSTEM_CACHE", "Cell", "PhaseSpec", "Spec", "main"]

RUNTIME = Path("/run/hudtui")
SYSTEM_CACHE = Path("/var/cache/hudtui/system")
_RESERVE = 1 << 20  # bytes


class Cell:
    """One cell from its first mount to its last record."""

    def __init__(self, spec: Spec, launcher: Launcher) -> None:
        self.spec = spec
        self.launcher = launcher
        self.folder = Path(spec.trial, "cell")
        self.runtime = RUNTIME / spec.cell
        self.hostname = secrets.token_hex(6)
        self._root_fd = -1
        self.laid: dict[str, bytes] = {}

    # ── start and end ─────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def up(self) -> AsyncIterator[Desk]:
        """Yield the desk when sessions may come; at exit all of it is gone."""
        async with AsyncExitStack() as stack:
            (self.folder / "sessions").mkdir(parents=True, exist_ok=True)
            self._reserve(stack)
            journal = stack.enter_context(Journal(self.folder / "events.jsonl"))
            limiting = self._limit(stack)
            root = self._root(stack)
            people = self._people(root.path)
            plan = Plan(
                str(root.path) if self.spec.sandboxed else None, self.hostname, suid_mounts=root.mounts
            )
            enforced = await limiting
            self.spec = msgspec.structs.replace(self.spec, limits=enforced.limits)
            usual = limits.protect(self.launcher.process.pid)
            sandbox = await stack.enter_async_context(hold(plan, self.launcher))
            require_possible(people.values(), sandbox)
            sandbox.oom_score_adj = usual
            ways = await self._ways(stack, sandbox)
            workspace = Workspace(
                self.folder,
                sandbox,
                journal,
                people,
                self.spec.image_env,
                self.spec.env,
                str(root.path),
                root.diffs,
                human=self.spec.agent == "human",
                ways=ways,
                laid=self.laid,
                groups=enforced.groups,
            )
            desk = Desk(self.spec, self.folder, self._root_fd, workspace)
            if ways is not None:
                desk.border = self._border(ways, workspace)
                await ways.serve(desk.border)
            workspace.changed = desk.publish
            self._runtime(stack)
            doors = sshd.listen(workspace, self.runtime, desk.handlers(), desk.grants)
            paths = await stack.enter_async_context(doors)
            desk.info = describe.info(
                self.spec, sandbox, people, paths, hostname=self.hostname, ends=ways.ends if ways else None
            )
            (self.folder / "ssh_config").write_text(
                describe.ssh_config(self.spec.cell, self.runtime), "utf-8"
            )
            workspace.record(
                CellStarted(
                    cell=self.spec.cell, task=self.spec.task, agent=self.spec.agent, substrate="local"
                )
            )
            desk.publish()
            try:
                yield desk
            finally:
                for session in list(workspace.sessions.values()):
                    session.stop("the cell ended")
                with suppress(TimeoutError):
                    async with asyncio.timeout(5):
                        await workspace.quiet()
                with suppress(CellError):
                    workspace.enter("closed", "cell", workspace.why)

    async def _ways(self, stack: AsyncExitStack, sandbox: Sandbox) -> Ways | None:
        """Make the ends of the ways out, and say inside where they are, before anything runs there."""
        if not self.spec.sandboxed:
            return None
        try:
            ways = await Ways.make(
                sandbox,
                describe.policies(self.spec),
                self.spec.peers,
                proxy_only=self.spec.proxy_only,
                tls_only=self.spec.tls_only,
                pins=dict(self.spec.pins),
            )
        except OSError as error:
            raise HarnessError(f"the ends of the ways out cannot be made: {error}") from error
        stack.push_async_callback(ways.close)
        self._write("etc/hosts", argv.hosts_file(self.hostname, ways.hosts()))
        if ways.ends.resolver:
            self._write("etc/resolv.conf", ways.ends.resolver.encode() + b"\n")
        return ways

    def _border(self, ways: Ways, workspace: Workspace) -> Border:
        rules: dict[Role, Rules] = {
            role: Rules(policy) for role, policy in describe.policies(self.spec).items()
        }
        return Border(
            workspace.sandbox,
            ways.owners(workspace.sandbox, lambda: limits.members(workspace.groups)),
            rules,
            phase=lambda: workspace.phase,
            sessions=workspace.session_pids,
            record=workspace.record,
            written=lambda: workspace.journal.size,
            most=self.spec.egress_bytes,
        )

    def _reserve(self, stack: AsyncExitStack) -> None:
        """Keep some of the disk free for the verdict: an agent may fill it, and is to be told of."""
        file = self.folder / ".reserve"
        stack.callback(file.unlink, missing_ok=True)
        with suppress(OSError), file.open("wb") as reserve:
            os.posix_fallocate(reserve.fileno(), 0, _RESERVE)

    def _limit(self, stack: AsyncExitStack) -> asyncio.Future[limits.Enforced]:
        """Put the launcher under the limits meanwhile: the kernel takes its time for that."""
        pid, loop = self.launcher.process.pid, asyncio.get_running_loop()
        limiting = loop.run_in_executor(None, limits.enforce, self.spec.cell, self.spec.limits, pid)

        async def release() -> None:
            (await limiting).release()

        stack.push_async_callback(release)
        return limiting

    def _root(self, stack: AsyncExitStack) -> roots.Root:
        state = self.folder / "root"
        if not self.spec.sandboxed:
            root = roots.Root(Path("/"), ("/",), (), state)
            for path in (Path("/logs"), Path("/solution")):
                if path.exists():
                    raise HarnessError(
                        f"{path} exists on this machine", remedy="unsandboxed, it would be overwritten"
                    )
                stack.callback(trees.remove, path, ignore_errors=True)
        elif self.spec.image_root is None:
            root = roots.prepare_system_root(state, SYSTEM_CACHE)
        else:
            root = roots.prepare_image_root(state, Path(self.spec.image_root))
        if self.spec.sandboxed:
            stack.callback(roots.release, root)
        self._root_fd = os.open(root.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, self._root_fd)
        return root

    def _people(self, root: Path) -> dict[Any, Person]:
        spec, people = self.spec, {}
        for phase, declared in (("agent", spec.agent_phase), ("verifier", spec.verifier_phase)):
            people[phase] = resolve(
                self._root_fd,
                phase,  # type: ignore[arg-type]
                declared.user,
                spec.workdir,
                where=(f"{spec.task_path}/task.toml", declared.key),
            )
        # an operator's own shell may be root's, whoever the task declares
        people["root"] = resolve(self._root_fd, "agent", "0", spec.workdir, where=(spec.task_path, ""))
        for name in ("agent", "artifacts"):
            make_directory(self._root_fd, f"/logs/{name}", 0, 0, 0o777)
        if spec.sandboxed:
            self._write("etc/hosts", argv.hosts_file(self.hostname))
            self._write("etc/hostname", self.hostname.encode() + b"\n")
            self._write("etc/resolv.conf", b"")
        return people

    def _write(self, path: str, data: bytes) -> None:
        """Write a file of the root before anything runs there; an image without /etc goes without."""
        self.laid[f"/{path}"] = data
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            with os.fdopen(kernel.open_beneath(self._root_fd, path, flags, 0o644), "wb") as file:
                os.fchmod(file.fileno(), 0o644)  # an engine's export has its mount points with another one
                file.write(data)

    def _runtime(self, stack: AsyncExitStack) -> None:
        RUNTIME.mkdir(mode=0o700, exist_ok=True)
        RUNTIME.chmod(0o700)
        runtime.sweep(RUNTIME)
        limits.sweep()
        stack.callback(os.close, runtime.claim(self.runtime))
        stack.callback(trees.remove, self.runtime, ignore_errors=True)
        (self.runtime / "trial").write_text(self.spec.trial, "utf-8")

    # ── life ──────────────────────────────────────────────────────────────────────────────────

    async def live(self, desk: Desk) -> None:
        """Return when the cell is to end."""
        workspace = desk.world
        stop = asyncio.create_task(workspace.closing.wait())
        gone = asyncio.create_task(workspace.sandbox.gone())
        unowned = asyncio.create_task(self._unowned(desk))
        tasks = {stop, gone, unowned}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and not stop.done():
                workspace.fault("sandbox", "the sandbox died")
                workspace.close("the sandbox died")
        finally:
            for task in tasks:
                task.cancel()

    async def _unowned(self, desk: Desk) -> None:
        """End a cell that nobody owns (promise R4): its runner is dead, or it is kept for too long."""
        since = time.monotonic()
        while True:
            await asyncio.sleep(min(5.0, self.spec.unowned_sec / 4))
            runner = desk.info.runner if desk.info else None
            if runner is not None and kernel.process(runner.pid) == runner:
                since = time.monotonic()
            elif time.monotonic() - since > self.spec.unowned_sec:
                desk.world.close(f"nobody has owned the cell for {self.spec.unowned_sec:g} seconds")
                return


async def _main(spec: Spec, launcher: Launcher) -> int:
    cell = Cell(spec, launcher)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_complain)
    try:
        async with cell.up() as desk:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, desk.world.close, f"SIG{signal.Signals(number).name[3:]}")
            _say({"ready": True})
            await cell.live(desk)
    except CellError as error:
        kind = "task" if isinstance(error, TaskError) else "harness"
        _say({"error": str(error), "kind": kind})
        return error.exit_status
    except OSError as error:
        _say({"error": str(error), "kind": "harness"})
        return 3
    return 0


def _complain(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Write down what broke, unless the agent can have it break as often as it likes."""
    if not isinstance(context.get("exception"), Full):
        loop.default_exception_handler(context)


def _say(document: dict[str, Any]) -> None:
    with suppress(OSError):  # the runner may have gone
        os.write(1, json.dumps(document).encode() + b"\n")


def main(launcher: Launcher) -> int:
    """Serve one cell, whose Spec is read from stdin, with a launcher that sees private mounts."""
    # for many short connections libuv is quicker without; read when the loop is made
    os.environ.setdefault("UV_USE_IO_URING", "0")
    import uvloop

    try:
        spec = msgspec.json.decode(sys.stdin.buffer.read(), type=Spec)
    except msgspec.DecodeError as error:
        _say({"error": f"what was said of the cell cannot be read: {error}", "kind": "harness"})
        return 3
    # for the ways out; the launcher was started before, so what runs inside has the usual limit
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return uvloop.run(_main(spec, launcher))
