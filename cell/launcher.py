"""The zygote: holds a sandbox, and starts every process that joins it.

Run as `python -I -S launcher.py FD`, FD being a SOCK_SEQPACKET socket to the serving process. It is
a single file of the standard library alone, because what it does after `setns` happens in a root
that the agent can write: whatever Python would still load from there (a module, a codec, an NSS
library) would run with every capability of the sandbox. So everything is imported first, then the
import system is emptied, and strings are made bytes before joining (FACTS: a late import is fatal).

Requests are one packet with one JSON document in an attached memfd, and further descriptors:

    {"op": "hold",  …}                     fds: init program, seccomp-free           → one JSON reply
    {"op": "spawn", …}  fds: channel, [stdin, stdout, stderr], [view mounts…]        → see below

A spawned process is told about on its own channel (SOCK_SEQPACKET), one packet each:

    b"M" + fd         the master of its terminal (only with a terminal)
    b"P<pid>"         its pid, as the substrate sees it
    b"S<inode>"       about to exec, in this mount namespace
    b"E<stage>:<errno>"   it could not be started
    b"X<code>" | b"K<signal>"   it ended

The process tree: serve → zygote (dies with serve) → bwrap → pid 1; and per session a *warden*, which
joined the namespaces, stays outside the pid namespace and waits for the one process it forked in.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import termios
from collections.abc import Callable
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS = 0x00020000
# user first: it gives the power to join the rest; mnt last: after it the root is the agent's.
NAMESPACES = (
    ("user", 0x10000000),
    ("ipc", 0x08000000),
    ("uts", 0x04000000),
    ("net", 0x40000000),
    ("cgroup", 0x02000000),
    ("pid", 0x20000000),
    ("mnt", CLONE_NEWNS),
)
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_SET_SECCOMP = 1, 4, 8, 22
PR_SET_CHILD_SUBREAPER = 36
PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_CAP_AMBIENT = 24, 28, 47
SECBIT_NO_SETUID_FIXUP_LOCKED = (1 << 2) | (1 << 3)
AT_FDCWD, AT_RECURSIVE, AT_EMPTY_PATH = -100, 0x8000, 0x1000
# the same on every architecture since 5.2
SYS_OPEN_TREE, SYS_MOVE_MOUNT, SYS_FSOPEN, SYS_FSCONFIG, SYS_FSMOUNT = 428, 429, 430, 431, 432
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}.get(os.uname().machine, 155)
SYS_RT_SIGACTION = {"x86_64": 13, "aarch64": 134}.get(os.uname().machine, 13)
SYS_KEYCTL = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine, 250)
TIOCSPTLCK, TIOCGPTPEER = 0x40045431, 0x5441
# Fixed numbers in bwrap: what it is told, what it tells, what it waits for, and what pid 1 uses.
ARGS_FD, INFO_FD, BLOCK_FD, READY_FD, INIT_FD = 3, 4, 5, 6, 9

MASKED_DIRS = (b"/proc/acpi", b"/proc/scsi", b"/proc/asound")
MASKED_FILES = (
    b"/proc/interrupts",
    b"/proc/kcore",
    b"/proc/keys",
    b"/proc/latency_stats",
    b"/proc/timer_list",
    b"/proc/timer_stats",
    b"/proc/sched_debug",
)
READ_ONLY = (b"/proc/sys", b"/proc/bus", b"/proc/fs", b"/proc/irq", b"/proc/sysrq-trigger")


def check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, what)
    return result


def mount(source: bytes, target: bytes, kind: bytes | None, flags: int, data: bytes | None = None) -> None:
    check(libc.mount(source, target, kind, ctypes.c_ulong(flags), data), "mount")


def prctl(option: int, a: int = 0, b: int = 0) -> None:
    check(libc.prctl(option, ctypes.c_ulong(a), ctypes.c_ulong(b), 0, 0), "prctl")


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Data(ctypes.Structure):
    _fields_ = [
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    ]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def set_capabilities(permitted: int, effective: int, inheritable: int) -> None:
    header, data = _Header(0x20080522, 0), (_Data * 2)()
    for word in (0, 1):
        shift = 32 * word
        data[word].effective = effective >> shift & 0xFFFFFFFF
        data[word].permitted = permitted >> shift & 0xFFFFFFFF
        data[word].inheritable = inheritable >> shift & 0xFFFFFFFF
    check(libc.capset(ctypes.byref(header), data), "capset")


def drop(who: dict[str, Any], bpf: bytes) -> None:
    """Become the session's user with exactly its capabilities.

    The filter goes in while CAP_SYS_ADMIN is still held: later it would need no_new_privs, and
    with that no setuid program of the image would work.
    """
    bounding: int = who["bounding"]
    ambient: int = who["ambient"]
    uid: int = who["uid"]
    for capability in range(64):
        # EINVAL is the end of the kernel's list
        if not bounding >> capability & 1 and libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
            break
    if bpf:
        program = _Program(len(bpf) // 8, bpf)
        check(libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0), "seccomp")
    os.setgroups(who["groups"])
    if uid:
        prctl(PR_SET_KEEPCAPS, 1)
    os.setresgid(who["gid"], who["gid"], who["gid"])
    os.setresuid(uid, uid, uid)
    if who["securebits"]:
        prctl(PR_SET_SECUREBITS, who["securebits"])
    if uid:
        # CAP_SETPCAP is still permitted here only to set the ambient set; then it is gone
        set_capabilities(ambient, ambient, ambient)
    else:
        set_capabilities(bounding, bounding, ambient)
    for capability in range(64):
        if ambient >> capability & 1:
            check(libc.prctl(PR_CAP_AMBIENT, 2, capability, 0, 0), "ambient")


def join(spaces: list[tuple[int, int]]) -> None:
    for descriptor, flag in spaces:
        check(libc.setns(descriptor, flag), "setns")


def harden(mounts: list[bytes]) -> None:
    """Give the held root what docker gives: set-id programs work, /proc and /sys cannot be written.

    bwrap mounts every bind nosuid; a fresh sysfs shows this network namespace's interfaces only.
    """
    for target in mounts:
        mount(b"none", target, None, MS_REMOUNT | MS_BIND | MS_NODEV)
    for target in READ_ONLY:
        if os.path.exists(target):
            mount(target, target, None, MS_BIND | MS_REC)
            mount(b"none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    for target in MASKED_FILES:
        if os.path.exists(target):
            mount(b"/dev/null", target, None, MS_BIND)
    for target in MASKED_DIRS:
        if os.path.isdir(target):
            mount(b"tmpfs", target, b"tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    if os.path.isdir(b"/sys/kernel"):
        # the kernel grants a new sysfs only where one is still to be seen; then the old one goes,
        # with the substrate's control groups that stand below it
        context = check(libc.syscall(SYS_FSOPEN, b"sysfs", 1), "fsopen")
        check(libc.syscall(SYS_FSCONFIG, context, 6, None, None, 0), "fsconfig")
        attributes = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
        fresh = check(libc.syscall(SYS_FSMOUNT, context, 1, attributes), "fsmount")
        check(libc.umount2(b"/sys", MNT_DETACH), "umount")
        check(libc.syscall(SYS_MOVE_MOUNT, fresh, b"", AT_FDCWD, b"/sys", 4), "move_mount")
        if os.path.isdir(b"/sys/firmware"):
            mount(b"tmpfs", b"/sys/firmware", b"tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)


def build_view(entries: list[tuple[bytes, int]]) -> None:
    """Give this process a root of its own: the sandbox's entries, and `entries` on top.

    Each of `entries` is a directory's path (`/tests`, `/logs/verifier`) and a detached mount that
    the serving process filled. Nobody else has them, not even the empty folders (promise H4).
    `/proc` is where the new root is put together, because it is there in every image.
    """
    check(libc.unshare(CLONE_NEWNS), "unshare")
    mount(b"none", b"/", None, MS_REC | MS_PRIVATE)
    proc = check(libc.syscall(SYS_OPEN_TREE, AT_FDCWD, b"/proc", 1 | AT_RECURSIVE), "open_tree")
    new = b"/proc"
    mode = os.stat(b"/").st_mode & 0o7777
    mount(b"tmpfs", new, b"tmpfs", 0, b"mode=%o" % mode)
    private = {path.split(b"/")[1] for path, _ in entries}
    for name in os.listdir(b"/"):
        if name == b"proc":
            continue
        if name not in private:
            _bring(b"/" + name, new + b"/" + name)
        elif name == b"logs" and not os.path.islink(b"/logs"):
            os.mkdir(new + b"/logs", 0o755)
            for inner in os.listdir(b"/logs"):
                if b"/logs/" + inner not in [path for path, _ in entries]:
                    _bring(b"/logs/" + inner, new + b"/logs/" + inner)
    for path, descriptor in entries:
        target = new
        for part in path.split(b"/")[1:]:
            target += b"/" + part
            if not os.path.isdir(target):
                os.mkdir(target, 0o755)
        check(libc.syscall(SYS_MOVE_MOUNT, descriptor, b"", AT_FDCWD, target, 4), "move_mount")
    os.mkdir(new + b"/proc", 0o555)
    check(libc.syscall(SYS_MOVE_MOUNT, proc, b"", AT_FDCWD, new + b"/proc", 4), "move_mount")
    os.chdir(new)
    check(libc.syscall(SYS_PIVOT_ROOT, b".", b"."), "pivot_root")
    check(libc.umount2(b".", MNT_DETACH), "umount")
    os.chdir(b"/")


def _bring(source: bytes, target: bytes) -> None:
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    if os.path.isdir(source):
        os.mkdir(target, 0o755)
    elif os.path.exists(source):
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    else:
        return
    try:
        mount(source, target, None, MS_BIND | MS_REC)
    except FileNotFoundError:
        return  # the agent took it away in between


def open_terminal(size: list[int], uid: int) -> tuple[int, int]:
    """Return (master, slave) of a terminal of the sandbox's own devpts, so that `tty` names it."""
    master = os.open(b"/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(master, TIOCSPTLCK, struct.pack("i", 0))
    # by descriptor, not by path: what stands at /dev/pts/N is the agent's to say
    slave = fcntl.ioctl(master, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY)
    rows, columns = size
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.fchown(slave, uid, -1)
    return master, slave


class Zygote:
    """The state of the one process that forks all others."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.spaces: list[tuple[int, int]] = []
        self.bwrap = 0
        self.pid = 0
        self.filter = b""
        self.user_only: list[tuple[int, int]] = []

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
            return json.loads(file.read()), rest

    # ── hold ──────────────────────────────────────────────────────────────────────────────────

    def hold(self, request: dict[str, Any], descriptors: list[int]) -> None:
        try:
            reply = self._hold(request, descriptors)
        except OSError as error:
            reply = {"error": f"{error.strerror or error}", "errno": error.errno or 0}
        self.control.send(json.dumps(reply).encode())

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
            self.pid = json.loads(told)["child-pid"]
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


def reset_signals() -> None:
    # by the bare call: glibc keeps 32 and 33 for itself, and an ignored one would be inherited
    default = ctypes.create_string_buffer(32)
    for number in range(1, 65):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            libc.syscall(SYS_RT_SIGACTION, number, default, None, 8)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def main() -> None:
    parent = os.getppid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    prctl(PR_SET_DUMPABLE, 0)
    # so that what bwrap leaves when it is killed is waited for here, not by an init that may be slow
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    control = socket.socket(fileno=int(sys.argv[1]))
    sys.path[:] = []
    sys.meta_path.clear()
    sys.path_hooks.clear()
    gc.collect()
    gc.freeze()
    gc.disable()
    Zygote(control).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
