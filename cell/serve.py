"""The serving process of one cell: outlives the runner and the cockpit, owns the world and its records.

Started by `rollout` (or by hand, for debugging) with a `Spec` on stdin, it says one line on stdout,
`{"ready": true}` or `{"error": …, "kind": …}`, and then answers on its sockets until it is told to
stop, its sandbox dies, or nobody has owned it for a while. However it ends, its mounts and its
sandbox end with it: they hang on this process alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from . import __version__, argv, control, kernel, sshd, visitor
from .errors import CellError, HarnessError, Refused, TaskError
from .identity import Person, make_directory, resolve
from .journal import Journal
from .records import CellInfo, CellStarted, Identity, Limit, PhaseIdentity, Principal, Process, Record
from .rewards import copy_tree
from .sandbox import Plan, Sandbox, hold
from .substrate import root as roots
from .workspace import Workspace

RUNTIME = Path("/run/hudtui")
SYSTEM_CACHE = Path("/var/cache/hudtui/system")
_COPY_BYTES, _COPY_FILES = 1 << 30, 100_000


class PhaseSpec(Record, frozen=True, kw_only=True):
    """What a phase was declared to be. `key` names where its user was declared, for errors."""

    user: str
    key: str
    network_declared: str
    network_used: str


class Spec(Record, frozen=True, kw_only=True):
    """All that a serving process must know. Travels on stdin: it may hold secrets.

    `image_root` is the exported file system of an image; None composes a system root. `unowned_sec`
    is how long the cell lives when no runner drives it.
    """

    cell: str
    task: str
    task_path: str
    trial: str
    agent: str
    image_root: str | None
    image_env: tuple[tuple[str, str], ...]
    env: tuple[tuple[str, str], ...]
    workdir: str
    agent_phase: PhaseSpec
    verifier_phase: PhaseSpec
    runner: Process | None
    sandboxed: bool = True
    limits: tuple[Limit, ...] = ()
    warnings: tuple[str, ...] = ()
    unowned_sec: float = 3600.0


class Cell:
    """One cell from its first mount to its last record."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.folder = Path(spec.trial, "cell")
        self.runtime = RUNTIME / spec.cell
        self.hostname = secrets.token_hex(6)
        self.info: CellInfo | None = None
        self.workspace: Workspace | None = None
        self.runners = 0
        self._root_fd = -1

    # ── start and end ─────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def up(self) -> AsyncIterator[Workspace]:
        """Yield the workspace when sessions may come; at exit all of it is gone."""
        async with AsyncExitStack() as stack:
            (self.folder / "sessions").mkdir(parents=True, exist_ok=True)
            journal = stack.enter_context(Journal(self.folder / "events.jsonl"))
            root = self._root(stack)
            people = self._people(root.path)
            plan = Plan(
                str(root.path) if self.spec.sandboxed else None, self.hostname, suid_mounts=root.mounts
            )
            sandbox = await stack.enter_async_context(hold(plan))
            workspace = Workspace(
                self.folder,
                sandbox,
                journal,
                people,
                self.spec.image_env,
                self.spec.env,
                str(root.path),
                root.diffs,
                changed=self.publish,
            )
            self.workspace = workspace
            self._runtime(stack)
            paths = await stack.enter_async_context(sshd.listen(workspace, self.runtime, self.handlers()))
            self.info = self._describe(sandbox, people, paths)
            self._ssh_config()
            workspace.record(
                CellStarted(
                    cell=self.spec.cell, task=self.spec.task, agent=self.spec.agent, substrate="local"
                )
            )
            self.publish()
            try:
                yield workspace
            finally:
                for session in list(workspace.sessions.values()):
                    session.stop("the cell ended")
                with suppress(TimeoutError):
                    async with asyncio.timeout(5):
                        await workspace.quiet()
                with suppress(CellError):
                    workspace.enter("closed", "cell", workspace.why)

    def _root(self, stack: AsyncExitStack) -> roots.Root:
        state = self.folder / "root"
        if not self.spec.sandboxed:
            root = roots.Root(Path("/"), ("/",), (), state)
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
        for name in ("agent", "artifacts"):
            make_directory(self._root_fd, f"/logs/{name}", 0, 0, 0o777)
        if spec.sandboxed:
            self._write("etc/hosts", argv.hosts_file(self.hostname))
            self._write("etc/hostname", self.hostname.encode() + b"\n")
            self._write("etc/resolv.conf", b"")
        return people

    def _write(self, path: str, data: bytes) -> None:
        """Write a file of the root before anything runs there; an image without /etc goes without."""
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            with os.fdopen(kernel.open_beneath(self._root_fd, path, flags, 0o644), "wb") as file:
                file.write(data)

    def _runtime(self, stack: AsyncExitStack) -> None:
        RUNTIME.mkdir(mode=0o700, exist_ok=True)
        RUNTIME.chmod(0o700)
        self.runtime.mkdir(mode=0o700)
        stack.callback(shutil.rmtree, self.runtime, ignore_errors=True)
        (self.runtime / "trial").write_text(self.spec.trial, "utf-8")

    def _describe(self, sandbox: Sandbox, people: dict[Any, Person], paths: dict[str, str]) -> CellInfo:
        spec = self.spec
        me = kernel.process(os.getpid())
        if me is None:
            raise HarnessError("/proc does not know the serving process")
        pid = sandbox.pid or os.getpid()
        maps = [
            argv.parse_id_map(Path(f"/proc/{pid}/{name}").read_text("ascii"))
            for name in ("uid_map", "gid_map")
        ]
        identities = []
        for phase, declared in (("agent", spec.agent_phase), ("verifier", spec.verifier_phase)):
            person = people[phase]
            who = person.who if phase == "agent" else person.who.walled
            identities.append(
                PhaseIdentity(
                    phase=phase,  # type: ignore[arg-type]
                    user=person.name,
                    uid=who.uid,
                    gid=who.gid,
                    groups=who.groups,
                    home=person.home,
                    workdir=person.workdir,
                    cap_bounding=f"{who.bounding:016x}",
                    cap_effective=f"{who.bounding if who.uid == 0 else who.ambient:016x}",
                    network_declared=declared.network_declared,
                    network_used=declared.network_used,
                )
            )
        notes = (
            [] if sandbox.full_id_map else ["the kernel refused the full id map: only the own id is mapped"]
        )
        if not spec.sandboxed:
            notes.append("UNSANDBOXED: this is the machine itself, by the caller's word")
        return CellInfo(
            version=__version__,
            cell=spec.cell,
            task=spec.task,
            task_path=spec.task_path,
            agent=spec.agent,
            substrate="local",
            started=time.time(),
            serve=me,
            runner=spec.runner,
            sockets=paths,
            identity=Identity(
                namespaces=sandbox.namespaces(),
                uid_map=maps[0],
                gid_map=maps[1],
                full_id_map=sandbox.full_id_map,
                seccomp="docker's default profile",
                hostname=self.hostname,
                root="image" if spec.image_root else ("system" if spec.sandboxed else "none"),
                sandboxed=spec.sandboxed,
                phases=tuple(identities),
                limits=spec.limits,
                notes=tuple(notes),
            ),
            warnings=spec.warnings,
        )

    def _ssh_config(self) -> None:
        connect = Path(__file__).with_name("connect.py")
        hosts = []
        for principal in ("agent", "viewer", "operator"):
            hosts.append(
                f"Host {principal}\n"
                f"  HostName cell\n"
                f"  User {principal}\n"
                f'  IdentityFile "{self.runtime}/{principal}.key"\n'
                f"  IdentitiesOnly yes\n"
                f'  ProxyCommand "{sys.executable}" -I -S "{connect}" "{self.runtime}/{principal}.sock"\n'
            )
        common = (
            "Host *\n"
            f'  UserKnownHostsFile "{self.runtime}/known_hosts"\n'
            "  GlobalKnownHostsFile none\n"
            "  StrictHostKeyChecking yes\n"
            "  Ciphers aes128-gcm@openssh.com\n"
            "  PasswordAuthentication no\n"
            "  ForwardAgent no\n"
            "  ForwardX11 no\n"
            "  LogLevel ERROR\n"
        )
        head = f"# How to enter the cell {self.spec.cell} while it lives: ssh -F THIS_FILE agent\n\n"
        (self.folder / "ssh_config").write_text(head + "\n".join([*hosts, common]), "utf-8")

    def publish(self) -> None:
        """Write cell.json anew, whole or not at all."""
        if self.info is None or self.workspace is None:
            return
        self.info = msgspec.structs.replace(self.info, phase=self.workspace.phase, kept=self.workspace.kept)
        temporary = self.folder / ".cell.json.new"
        try:
            temporary.write_bytes(msgspec.json.format(msgspec.json.encode(self.info), indent=2) + b"\n")
            temporary.replace(self.folder / "cell.json")
        except OSError as error:
            self.workspace.close(f"cell.json cannot be written: {error}")

    # ── what callers may ask for ──────────────────────────────────────────────────────────────

    def handlers(self) -> control.Handlers:
        """Return what the control channel can do; the gate has allowed it before."""
        return {
            "status": self._status,
            "begin": self._begin,
            "upload": self._upload,
            "seal": self._seal,
            "grade": self._grade,
            "conclude": self._conclude,
            "keep": self._keep,
            "release": self._release,
            "stop": self._stop,
            "adopt": self._adopt,
        }

    @property
    def world(self) -> Workspace:
        """The workspace, once it is up."""
        if self.workspace is None:
            raise HarnessError("the cell is not up")
        return self.workspace

    async def _status(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        return msgspec.to_builtins(self.info)

    async def _begin(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        self.world.enter("agent", by)

    async def _upload(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        """Lay out the oracle's solution at /solution, while nothing runs that could swap a folder."""
        if self.world.phase != "starting":
            raise Refused("the world is laid out before the agent phase begins")
        await asyncio.to_thread(lay_out, self._root_fd, "solution", blob)

    async def _seal(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        reason = str(args.get("reason", ""))
        if by == "operator":
            self.world.intervened(by, "sealed the agent phase")
        await self.world.seal(by, reason)
        notes: list[str] = []
        trial = Path(self.spec.trial)
        for inside, outside in (
            ("/logs/agent", trial / "agent"),
            ("/logs/artifacts", trial / "artifacts/logs/artifacts"),
        ):
            try:
                source = kernel.open_beneath(self._root_fd, inside, os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                notes.append(f"{inside}: not collected: {error}")
                continue
            try:
                outside.mkdir(parents=True, exist_ok=True)
                notes += await asyncio.to_thread(
                    copy_tree, source, outside, max_bytes=_COPY_BYTES, max_files=_COPY_FILES
                )
            finally:
                os.close(source)
        return {"notes": notes}

    async def _grade(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        if by == "operator" and self.world.graded:
            self.world.intervened(by, "graded again")
        grading = await visitor.verify(
            self.world,
            blob,
            env={str(key): str(value) for key, value in args.get("env", {}).items()},
            timeout=float(args["timeout"]),
            trial=Path(self.spec.trial),
            by=by,
        )
        return msgspec.to_builtins(grading)

    async def _conclude(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        from .records import VerdictGiven

        self.world.record(msgspec.convert(args["verdict"], VerdictGiven))

    async def _keep(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        self.world.kept = True
        self.publish()

    async def _release(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        self.world.kept = False
        self.publish()

    async def _stop(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        if by == "operator" and self.world.phase in ("agent", "verifier"):
            self.world.intervened(by, "stopped the cell")
        self.world.close(f"stopped by {by}" + (f": {args['why']}" if args.get("why") else ""))

    async def _adopt(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        if self.info is not None:
            self.info = msgspec.structs.replace(
                self.info, runner=msgspec.convert(args["runner"], Process | None)
            )
            self.publish()

    # ── life ──────────────────────────────────────────────────────────────────────────────────

    async def live(self, workspace: Workspace) -> None:
        """Return when the cell is to end."""
        stop = asyncio.create_task(workspace.closing.wait())
        gone = asyncio.create_task(workspace.sandbox.gone())
        unowned = asyncio.create_task(self._unowned(workspace))
        tasks = {stop, gone, unowned}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and not stop.done():
                workspace.fault("sandbox", "the sandbox died")
                workspace.close("the sandbox died")
        finally:
            for task in tasks:
                task.cancel()

    async def _unowned(self, workspace: Workspace) -> None:
        """End a cell that nobody owns (promise R4): its runner is dead, or it is kept for too long."""
        since = time.monotonic()
        while True:
            await asyncio.sleep(min(5.0, self.spec.unowned_sec / 4))
            runner = self.info.runner if self.info else None
            if runner is not None and kernel.process(runner.pid) == runner:
                since = time.monotonic()
            elif time.monotonic() - since > self.spec.unowned_sec:
                workspace.close(f"nobody has owned the cell for {self.spec.unowned_sec:g} seconds")
                return


def lay_out(root: int, name: str, archive: bytes) -> None:
    """Unpack a tar at `/name` of a root, replacing it; links that lead out are refused."""
    import io
    import tarfile

    try:
        base = kernel.open_beneath(root, ".", os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise HarnessError(f"the root cannot be opened: {error}") from error
    try:
        target = Path(f"/proc/self/fd/{base}", name)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            shutil.rmtree(target) if not target.is_symlink() else target.unlink()
        target.mkdir(0o755)
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(target, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise HarnessError(f"/{name} could not be laid out: {error}") from error
    finally:
        os.close(base)


async def _main(spec: Spec) -> int:
    cell = Cell(spec)
    loop = asyncio.get_running_loop()
    try:
        async with cell.up() as workspace:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, workspace.close, f"SIG{signal.Signals(number).name[3:]}")
            _say({"ready": True})
            await cell.live(workspace)
    except CellError as error:
        kind = "task" if isinstance(error, TaskError) else "harness"
        _say({"error": str(error), "kind": kind})
        return error.exit_status
    except OSError as error:
        _say({"error": str(error), "kind": "harness"})
        return 3
    return 0


def _say(document: dict[str, Any]) -> None:
    with suppress(OSError):  # the runner may have gone
        os.write(1, json.dumps(document).encode() + b"\n")


def main() -> int:
    """Serve one cell; the Spec is read from stdin."""
    import uvloop

    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=Spec)
    os.chdir("/")
    if spec.sandboxed or os.geteuid() == 0:
        kernel.private_mounts()
    return uvloop.run(_main(spec))


if __name__ == "__main__":
    sys.exit(main())
