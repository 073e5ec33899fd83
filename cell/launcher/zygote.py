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
from typing import Any

from . import net
from .holding import Holder
from .join import drop, join, reset_signals
from .probe import look, packed
from .syscalls import (
    CLONE_NEWNET,
    CLONE_NEWUSER,
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    SYS_KEYCTL,
    become_nameless,
    libc,
    prctl,
)
from .view import build_view, open_terminal


class Zygote(Holder):
    """The state of the one process that forks all others."""

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

    # ── network ───────────────────────────────────────────────────────────────────────────────

    def network(self, request: dict[str, Any], descriptors: list[int]) -> None:
        """Have a child do one of `net.ACTIONS` in the sandbox's network, and hand out what it made."""
        channel = socket.socket(fileno=os.dup(descriptors[0]))
        if not forked(channel, marshal.dumps({"error": "no more processes", "errno": errno.EAGAIN})):
            return
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
        channel = socket.socket(fileno=os.dup(descriptors[0]))
        if not forked(channel, b"Ejoin:%d" % errno.EAGAIN):
            return
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
        over = [(path.encode(), content) for path, content in request["over"]]
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
                build_view(entries, over)
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
            if request["probe"]:
                if tty:
                    write_raw(1)
                write_all(1, packed(look(environment)))
                os._exit(0)
            stage = b"exec"
            for command in commands:
                try:
                    os.execve(command[0], command, environment)
                except OSError as error:
                    if not _is_for_the_next(error.errno, command[0]):
                        raise
                    failure = failure or error
            raise failure or OSError(errno.ENOENT, "nothing to execute")
        except OSError as error:
            channel.send(b"E%b:%d" % (stage, error.errno or 0))
        except Exception:  # noqa: BLE001 - a fault of ours, told without what could load a module here
            channel.send(b"E%b:%d" % (stage, errno.EPROTO))
        finally:
            os._exit(127)


def forked(channel: socket.socket, refusal: bytes) -> bool:
    """Fork, and say whether this is the child. Where there can be no more processes, that is told.

    The agent may have used them all up; what it has already goes on, and so does its world.
    """
    try:
        child = os.fork() == 0
    except OSError:
        channel.send(refusal)
        child = False
    if not child:
        channel.close()
    return child


def _is_for_the_next(number: int | None, program: bytes) -> bool:
    """Whether the next command may be tried: the file is a script of no interpreter's, or is not there.

    A script whose interpreter is missing or may not be executed would say something else under another.
    """
    if number != errno.ENOENT:
        return number == errno.ENOEXEC
    try:
        os.stat(program)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def write_raw(terminal: int) -> None:
    """Have bytes go out of a terminal as they are."""
    attributes = termios.tcgetattr(terminal)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
