"""The one process that forks all others; see the package."""

from __future__ import annotations

import array
import errno
import fcntl
import marshal
import os
import resource
import select
import signal
import socket
import struct
import termios
from collections.abc import Callable
from typing import Any

from . import net
from .join import drop, join, reset_signals
from .syscalls import (
    CLONE_NEWNET,
    CLONE_NEWUSER,
    NAMESPACES,
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    SYS_KEYCTL,
    argv_area,
    become_nameless,
    libc,
    prctl,
)
from .view import build_view, harden, open_terminal

# Fixed numbers in bwrap: what it is told, what it tells, what it waits for, and what pid 1 uses.
ARGS_FD, INFO_FD, BLOCK_FD, READY_FD, INIT_FD = 3, 4, 5, 6, 9


class Zygote:
    """The state of the one process that forks all others."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.spaces: list[tuple[int, int]] = []
        self.bwrap = 0
        self.pid = 0
        self.filter = b""
        self.user_only: list[tuple[int, int]] = []
        self.argv = argv_area()

    def serve(self) -> None:
        """Answer requests until the serving process goes, then take the sandbox along."""
        wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            while True:
                ends: list[Any] = [self.control, wake]
                ready, _, _ = select.select(ends, [], [])
                if wake in ready:
                    os.read(wake, 4096)
                    if self.reap():
                        return
                if self.control in ready:
                    request = self.receive()
                    if request is None:
                        return
                    document, descriptors = request
                    if document["op"] == "hold":
                        self.hold(document, descriptors)
                    elif document["op"] == "network":
                        self.network(document, descriptors)
                    else:
                        self.spawn(document, descriptors)
                    for descriptor in descriptors:
                        os.close(descriptor)
        finally:
            # bwrap first: pid 1 cannot be somebody else's while its parent has not been waited for
            for pid in (self.bwrap, self.pid if self.bwrap else 0):
                if pid:
                    os.kill(pid, signal.SIGKILL)

    def reap(self) -> bool:
        """Collect ended children; True when the sandbox is one of them."""
        gone = False
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return gone
            if pid == 0:
                return gone
            if pid == self.bwrap:
                self.bwrap = 0
                gone = True

    def receive(self) -> tuple[dict[str, Any], list[int]] | None:
        message, ancillary, _, _ = self.control.recvmsg(16, socket.CMSG_SPACE(16 * 4))
        if not message:
            return None
        numbers = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
        first, *rest = numbers
        for descriptor in rest:
            os.set_inheritable(descriptor, False)
        with os.fdopen(first, "rb") as file:
            file.seek(0)
            document: dict[str, Any] = marshal.loads(file.read())
            return document, rest

    # ── hold ──────────────────────────────────────────────────────────────────────────────────

    def hold(self, request: dict[str, Any], descriptors: list[int]) -> None:
        try:
            reply = self._hold(request, descriptors)
        except OSError as error:
            reply = {"error": f"{error.strerror or error}", "errno": error.errno or 0}
        self.control.send(marshal.dumps(reply))

    def _hold(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        self.filter = os.pread(descriptors[1], 1 << 20, 0)
        if not request["options"]:
            return {"pid": 0}
        info, info_end = os.pipe()
        block, block_end = os.pipe()
        ready, ready_end = os.pipe()
        options = os.memfd_create("options")
        os.write(options, b"".join(option.encode() + b"\0" for option in request["options"]))
        os.lseek(options, 0, os.SEEK_SET)
        errors = os.memfd_create("errors")
        argv = [request["bwrap"], "--args", str(ARGS_FD), "/proc/self/fd/%d" % INIT_FD, str(READY_FD)]
        self.bwrap = os.fork()
        if self.bwrap == 0:
            self._exec_bwrap(argv, (options, info_end, block, ready_end, descriptors[0], errors))
        for descriptor in (info_end, block, ready_end, options):
            os.close(descriptor)
        try:
            told = self._await(info, lambda data: b"}" in data, request["timeout"])
            if told is None:
                raise OSError(errno.ECHILD, self._said(errors))
            self.pid = int(told.partition(b'"child-pid":')[2].split(b",")[0].strip(b" }\n"))
            full = self._write_maps()
            os.write(block_end, b"\n")
            if self._await(ready, lambda data: data == b"ready\n", request["timeout"]) is None:
                raise OSError(errno.ECHILD, self._said(errors))
            self._open_namespaces()
            self._in_child(lambda: self._forbid_namespaces(request["allow_userns"]), self.user_only)
            mounts = [path.encode() for path in request["suid_mounts"]]
            self._in_child(lambda: harden(mounts), [s for s in self.spaces if s[1] != 0x20000000])
        finally:
            for descriptor in (info, block_end, ready, errors):
                os.close(descriptor)
        return {"pid": self.pid, "full_id_map": full}

    def _exec_bwrap(self, argv: list[str], sources: tuple[int, ...]) -> None:
        try:
            options, info, block, ready, init, errors = sources
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in (options, info, block, ready, init, errors)]
            null = os.open("/dev/null", os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            for source, target in zip(high, (ARGS_FD, INFO_FD, BLOCK_FD, READY_FD, INIT_FD, 2), strict=True):
                os.dup2(source, target)
            os.closerange(7, 9)
            os.closerange(10, 4096)
            os.chdir("/")
            reset_signals()
            os.execve(argv[0], argv, {})
        finally:
            os._exit(127)

    @staticmethod
    def _said(errors: int) -> str:
        said = os.pread(errors, 2000, 0).decode("utf-8", "replace").strip()
        return "bubblewrap did not start the sandbox" + (f": {said}" if said else "")

    @staticmethod
    def _await(descriptor: int, done: Callable[[bytes], bool], timeout: float) -> bytes | None:
        data = b""
        while not done(data):
            if not select.select([descriptor], [], [], timeout)[0]:
                return None
            piece = os.read(descriptor, 4096)
            if not piece:
                return None
            data += piece
        return data

    def _write_maps(self) -> bool:
        """Map every id that we own ourselves (promise S5); where that is refused, our own one."""
        base = f"/proc/{self.pid}/"
        try:
            for name in ("uid_map", "gid_map"):
                with open(f"/proc/self/{name}") as own, open(base + name, "w") as file:
                    file.write("".join(f"{a} {a} {n}\n" for a, _, n in (line.split() for line in own)))
        except OSError:
            with open(base + "setgroups", "w") as file:
                file.write("deny")
            for name, own_id in (("uid_map", os.geteuid()), ("gid_map", os.getegid())):
                with open(base + name, "w") as file:
                    file.write(f"{own_id} {own_id} 1\n")
            return False
        return True

    def _open_namespaces(self) -> None:
        for name, flag in NAMESPACES:
            path = f"/proc/{self.pid}/ns/{name}"
            try:
                if os.stat(path).st_ino == os.stat(f"/proc/self/ns/{name}").st_ino:
                    continue
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            self.spaces.append((descriptor, flag))
            if name == "user":
                self.user_only = [(descriptor, flag)]

    @staticmethod
    def _forbid_namespaces(allowed: bool) -> None:
        # written from a process that is in the sandbox's user namespace but in the host's mounts:
        # the file's value is the opener's namespace's, so the host keeps its own
        if not allowed:
            with open("/proc/sys/user/max_user_namespaces", "w") as file:
                file.write("0")

    def _in_child(self, act: Callable[[], None], spaces: list[tuple[int, int]]) -> None:
        told, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                prctl(PR_SET_DUMPABLE, 0)
                join(spaces)
                act()
                os.write(tell, b"0")
            except OSError as error:
                os.write(tell, b"%d" % (error.errno or 1))
            finally:
                os._exit(0)
        os.close(tell)
        number = int(os.read(told, 16) or b"1")
        os.close(told)
        os.waitpid(pid, 0)
        if number:
            raise OSError(number, f"the sandbox could not be finished: {os.strerror(number)}")

    # ── network ───────────────────────────────────────────────────────────────────────────────

    def network(self, request: dict[str, Any], descriptors: list[int]) -> None:
        """Have a child do one of `net.ACTIONS` in the sandbox's network, and hand out what it made."""
        if os.fork():
            return
        channel = socket.socket(fileno=os.dup(descriptors[0]))
        try:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            prctl(PR_SET_DUMPABLE, 0)
            join([space for space in self.spaces if space[1] in (CLONE_NEWUSER, CLONE_NEWNET)])
            facts, made = net.ACTIONS[request["act"]](request)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", made))] if made else []
            channel.sendmsg([marshal.dumps(facts)], rights)
        except OSError as error:
            channel.send(marshal.dumps({"error": error.strerror or "failed", "errno": error.errno or 0}))
        finally:
            os._exit(0)

    # ── spawn ─────────────────────────────────────────────────────────────────────────────────

    def spawn(self, request: dict[str, Any], descriptors: list[int]) -> None:
        if os.fork():
            return
        channel = socket.socket(fileno=os.dup(descriptors[0]))
        try:
            self._warden(request, descriptors, channel)
        except OSError as error:
            channel.send(b"Ejoin:%d" % (error.errno or 0))
        finally:
            os._exit(0)

    def _warden(self, request: dict[str, Any], descriptors: list[int], channel: socket.socket) -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        prctl(PR_SET_DUMPABLE, 0)
        stdio = descriptors[1:4] if not request["tty"] else []
        view = descriptors[1 + len(stdio) :]
        entries = [(path.encode(), fd) for path, fd in zip(request["view"], view, strict=True)]
        # bytes now: after joining, a codec would be looked for in the agent's root
        commands = [[os.fsencode(part) for part in command] for command in request["commands"]]
        environment = {os.fsencode(k): os.fsencode(v) for k, v in request["env"].items()}
        directory = os.fsencode(request["cwd"])
        who, tty, core = request["who"], request["tty"], request["no_core"]
        if request["oom_score_adj"] is not None:
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write(str(request["oom_score_adj"]))
        signal.set_wakeup_fd(-1)
        become_nameless(self.argv)
        join(self.spaces)
        pid = os.fork()
        if pid:
            for descriptor in descriptors[1:]:
                os.close(descriptor)
            channel.send(b"P%d" % pid)
            _, status = os.waitpid(pid, 0)
            if os.WIFSIGNALED(status):
                channel.send(b"K%d" % os.WTERMSIG(status))
            else:
                channel.send(b"X%d" % os.WEXITSTATUS(status))
            return
        stage = b"view"
        failure: OSError | None = None
        try:
            if entries:
                build_view(entries)
            view_inode = os.stat(b"/proc/self/ns/mnt").st_ino
            stage = b"session"
            os.setsid()
            # a fresh session keyring: the serving process's own is nobody's business
            libc.syscall(SYS_KEYCTL, 1, None, 0, 0, 0)
            stage = b"terminal"
            if tty:
                master, slave = open_terminal(tty, who["uid"])
                channel.sendmsg([b"M"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", master))])
                fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
                stdio = [slave, slave, slave]
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in (*stdio, channel.fileno())]
            for target, source in enumerate(high):
                os.dup2(source, target, inheritable=target < 3)
            os.closerange(4, 65536)
            channel = socket.socket(fileno=3)
            os.umask(0o022)
            if core:
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            reset_signals()
            stage = b"workdir"
            os.chdir(directory)
            stage = b"drop"
            drop(who, self.filter)
            channel.send(b"S%d" % view_inode)
            stage = b"exec"
            for command in commands:
                try:
                    os.execve(command[0], command, environment)
                except OSError as error:
                    if error.errno not in (errno.ENOENT, errno.EACCES, errno.ENOEXEC):
                        raise
                    failure = failure or error
            raise failure or OSError(errno.ENOENT, "nothing to execute")
        except OSError as error:
            channel.send(b"E%b:%d" % (stage, error.errno or 0))
        finally:
            os._exit(127)
