"""Holding a sandbox: bubblewrap makes the namespaces, pid 1 is ours, the mounts are finished here."""

from __future__ import annotations

import errno
import fcntl
import marshal
import os
import select
import socket
from collections.abc import Callable
from typing import Any

from .join import join, reset_signals
from .syscalls import CLONE_NEWPID, NAMESPACES, PR_SET_DUMPABLE, argv_area, prctl
from .view import harden

# Fixed numbers in bwrap: what it is told, what it tells, what it waits for, and what pid 1 uses.
ARGS_FD, INFO_FD, BLOCK_FD, READY_FD, INIT_FD = 3, 4, 5, 6, 9


# What root inside has open counts for root outside, who has 128 by default.
_INOTIFY = "64"


class Holder:
    """Of the zygote: the sandbox it holds, once it does."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.spaces: list[tuple[int, int]] = []
        self.bwrap = 0
        self.pid = 0
        self.filter = b""
        self.user_only: list[tuple[int, int]] = []
        self.argv = argv_area()

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
            spaces = [space for space in self.spaces if space[1] != CLONE_NEWPID]
            self._in_child(lambda: harden(mounts, descriptors[2:]), spaces)
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
        limits = {"max_inotify_instances": _INOTIFY}
        if not allowed:
            limits["max_user_namespaces"] = "0"
        for name, most in limits.items():
            try:
                with open(f"/proc/sys/user/{name}", "w") as file:
                    file.write(most)
            except FileNotFoundError:
                if name == "max_user_namespaces":
                    raise

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
