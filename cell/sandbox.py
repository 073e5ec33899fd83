"""The one held set of namespaces of a workspace: hold → ready → gone.

`async with hold(plan) as sandbox` yields when the sandbox is ready to be joined (the pid 1 inside
said so itself) and returns when every process in it has gone. The work is done by a zygote
(`launcher`), which is the parent of all of it and dies with this process, so that a SIGKILL of the
serving process leaves nothing behind.
"""

from __future__ import annotations

import array
import asyncio
import marshal
import os
import platform
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from . import argv, devices, kernel, seccomp
from .argv import IdMap
from .child import Child, Ended, StartFailed, Who
from .errors import HarnessError
from .launching import Launcher
from .records import Namespace

__all__ = ["Child", "Ended", "Plan", "Sandbox", "StartFailed", "Who", "hold", "init_program"]

_READY_TIMEOUT = 20.0  # seconds


@dataclass(frozen=True)
class Plan:
    """What is to be held. `root` None means no sandbox at all (promise S6)."""

    root: str | None
    hostname: str
    suid_mounts: tuple[str, ...] = ("/",)
    allow_userns: bool = False

    def bwrap_options(self) -> list[str]:
        """Return bubblewrap's options; only such as version 0.4.1 knows (promise S4)."""
        if self.root is None:
            return []
        return [
            *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"),
            "--unshare-cgroup-try",
            *("--hostname", self.hostname),
            *("--bind", self.root, "/"),
            *("--dev", "/dev"),
            *("--proc", "/proc"),
            *("--ro-bind", "/sys", "/sys"),
            *("--cap-drop", "ALL"),
            "--die-with-parent",
            "--as-pid-1",
            *("--info-fd", "4"),
            *("--userns-block-fd", "5"),
        ]


class Sandbox:
    """A held sandbox. Made by `hold`."""

    def __init__(self, plan: Plan, zygote: subprocess.Popen[bytes], control: socket.socket) -> None:
        self.plan, self._zygote, self._control = plan, zygote, control
        self.pid = 0
        self.full_id_map = True
        self.pid_namespace = 0
        self.mount_namespace = 0
        self.oom_score_adj: int | None = None  # of what is started; None: the launcher's own
        self._pins: list[int] = []

    @property
    def alive(self) -> bool:
        """Whether the sandbox still stands."""
        return self._zygote.poll() is None

    @property
    def zygote_pid(self) -> int:
        """The pid of the process all others descend from, for limits."""
        return self._zygote.pid

    async def gone(self) -> None:
        """Return when the sandbox has died."""
        pidfd = os.pidfd_open(self._zygote.pid)
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(pidfd, event.set)
        try:
            await event.wait()
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)

    def spawn(
        self,
        commands: Sequence[Sequence[str]],
        *,
        who: Who,
        env: Mapping[str, str],
        cwd: str,
        stdio: tuple[int, int, int] | None = None,
        terminal: tuple[int, int] | None = None,
        view: Sequence[tuple[str, int]] = (),
        over: Sequence[tuple[str, bytes]] = (),
        no_core: bool = False,
        probe: bool = False,
    ) -> Child:
        """Start the first of `commands` that can be executed; its first word is an absolute path.

        `probe` executes none, but writes what a process there sees (`launcher.probe`) to its output.

        Give either `stdio` (three descriptors, lent) or `terminal` (rows, columns). `view` puts
        detached mounts at paths that only this process's tree sees; `over` gives files another content there.

        Errors: HarnessError when the sandbox has gone; what fails later is on the Child.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {
            "op": "spawn",
            "commands": commands,
            "env": dict(env),
            "cwd": cwd,
            "tty": list(terminal) if terminal else None,
            "view": [path for path, _ in view],
            "over": list(over),
            "no_core": no_core,
            "probe": probe,
            "oom_score_adj": self.oom_score_adj,
            "who": {
                "uid": who.uid,
                "gid": who.gid,
                "groups": list(who.groups),
                "bounding": who.bounding,
                "ambient": who.ambient,
                "securebits": who.securebits,
            },
        }
        try:
            _send(
                self._control,
                request,
                [theirs.fileno(), *(stdio or ()), *(fd for _, fd in view)],
            )
        except OSError as error:
            ours.close()
            raise HarnessError("the sandbox has gone") from error
        finally:
            theirs.close()
        return Child(ours, commands[0])

    async def network(self, act: str, **request: Any) -> tuple[dict[str, Any], list[int]]:
        """Have something done in the sandbox's network (`launcher.net`): what was found, and descriptors.

        Errors: OSError as the call inside said it; HarnessError when the sandbox has gone.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            _send(self._control, {"op": "network", "act": act, **request}, [theirs.fileno()])
        except OSError as error:
            ours.close()
            raise HarnessError("the sandbox has gone") from error
        finally:
            theirs.close()
        ours.setblocking(False)
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(ours.fileno(), ready.set)
        try:
            await ready.wait()
            said, ancillary, _, _ = ours.recvmsg(1 << 16, socket.CMSG_SPACE(128 * 4))
        finally:
            loop.remove_reader(ours.fileno())
            ours.close()
        made = array.array("i")
        for _, _, data in ancillary:
            made.frombytes(data[: len(data) - len(data) % made.itemsize])
        if not said:
            raise HarnessError("the sandbox has gone")
        facts: dict[str, Any] = marshal.loads(said)  # noqa: S302 - our own child's words
        if "errno" in facts:
            raise OSError(facts["errno"], facts["error"])
        for descriptor in made:
            os.set_inheritable(descriptor, False)
        return facts, list(made)

    async def connect(self, port: int) -> socket.socket:
        """Return a connection to a port of the world's loopback. Errors: as `network`."""
        _, made = await self.network("connect", port=port)
        return socket.socket(fileno=made[0])

    def id_maps(self) -> tuple[IdMap, IdMap]:
        """Return the maps of users and of groups, as they stand (promise S5)."""
        base = Path(f"/proc/{self.pid or os.getpid()}")
        users, groups = (
            argv.parse_id_map((base / name).read_text("ascii")) for name in ("uid_map", "gid_map")
        )
        return users, groups

    def fixed_groups(self) -> frozenset[int] | None:
        """Return the groups that every process has there, where the kernel lets nobody choose them."""
        if Path(f"/proc/{self.pid or os.getpid()}/setgroups").read_text("ascii") == "allow\n":
            return None
        return frozenset(os.getgroups())  # which the launcher took along

    def namespaces(self) -> tuple[Namespace, ...]:
        """Return every namespace of the sandbox, own or shared with this machine."""
        found = []
        for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"):
            inode = kernel.namespace_of(self.pid or os.getpid(), kind)
            own = kernel.namespace_of(os.getpid(), kind)
            if inode:
                found.append(Namespace(kind=kind, inode=inode, shared=inode == own))
        return tuple(found)


def _send(control: socket.socket, document: dict[str, Any], descriptors: list[int]) -> None:
    memory = os.memfd_create("request", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(memory), "wb") as file:
            file.write(marshal.dumps(document))
        control.sendmsg(
            [b"R"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory, *descriptors]))]
        )
    finally:
        os.close(memory)


def _memory_file(name: str, data: bytes) -> int:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(data)
    return descriptor


def init_program() -> bytes:
    """Return the static program that is pid 1 of every sandbox, for this machine."""
    machine = platform.machine()
    try:
        return resources.files("cell").joinpath("data", f"init.{machine}").read_bytes()
    except FileNotFoundError:
        raise HarnessError(
            f"no pid 1 for the machine type {machine}: x86_64 and aarch64 are supported"
        ) from None


@asynccontextmanager
async def hold(plan: Plan, launcher: Launcher | None = None) -> AsyncIterator[Sandbox]:
    """Hold a sandbox; see the module. A `launcher` that was started before saves its start.

    Errors: HarnessError with bubblewrap's own words when it cannot be had.
    """
    bwrap = shutil.which("bwrap")
    if bwrap is None and plan.root is not None:
        raise HarnessError("bubblewrap is missing", remedy="install the package bubblewrap")
    launcher = launcher or Launcher.start()
    sandbox = Sandbox(plan, launcher.process, launcher.control)
    try:
        await _start(sandbox, launcher.control, bwrap or "")
        yield sandbox
    finally:
        await _end(sandbox, launcher.control)


async def _start(sandbox: Sandbox, control: socket.socket, bwrap: str) -> None:
    plan = sandbox.plan
    init = _memory_file("init", init_program())
    bpf = _memory_file("filter", seccomp.docker_filter(platform.machine(), allow_userns=plan.allow_userns))
    request = {
        "op": "hold",
        "bwrap": bwrap,
        "options": plan.bwrap_options(),
        "suid_mounts": plan.suid_mounts,
        "allow_userns": plan.allow_userns,
        "timeout": _READY_TIMEOUT,
    }
    descriptors = [init, bpf]
    try:
        if plan.root is not None and (nodes := devices.nodes()) is not None:
            descriptors.append(nodes)
        _send(control, request, descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    control.setblocking(False)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(2 * _READY_TIMEOUT):
            said = await loop.sock_recv(control, 1 << 16)
            # our own child's words
            reply: dict[str, Any] = (
                marshal.loads(said) if said else {"error": "the launcher died"}  # noqa: S302
            )
    except TimeoutError:
        raise HarnessError("the sandbox did not become ready in time") from None
    finally:
        control.setblocking(True)
    if "error" in reply:
        raise HarnessError(f"no sandbox: {reply['error']}", remedy="see `cell doctor`")
    sandbox.pid = reply["pid"]
    if sandbox.pid:
        sandbox.full_id_map = reply["full_id_map"]
        # while it is open, no later sandbox's namespace is given the same number
        sandbox._pins.append(os.open(f"/proc/{sandbox.pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC))
        sandbox.pid_namespace = kernel.namespace_of(sandbox.pid, "pid")
        sandbox.mount_namespace = kernel.namespace_of(sandbox.pid, "mnt")


async def _end(sandbox: Sandbox, control: socket.socket) -> None:
    """Kill pid 1, and with it everything inside; the zygote then collects bwrap and ends by itself."""
    zygote = sandbox._zygote
    if sandbox.pid and zygote.poll() is None:
        with suppress(ProcessLookupError):
            os.kill(sandbox.pid, signal.SIGKILL)
    else:
        zygote.kill()
    try:
        await asyncio.to_thread(zygote.wait, 5)
    except subprocess.TimeoutExpired:
        zygote.kill()
        await asyncio.to_thread(zygote.wait)
    control.close()
    # the kernel ends the rest after pid 1 before that can be waited for; this is for a killed zygote
    while sandbox.pid_namespace and await asyncio.to_thread(_living, sandbox.pid_namespace):  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    while sandbox._pins:
        os.close(sandbox._pins.pop())


def _living(pid_namespace: int) -> bool:
    return bool(kernel.processes_in(pid_namespace))
