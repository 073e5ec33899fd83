"""System calls that Python lacks, as the serving process (outside every sandbox) needs them.

All raise OSError with the call's name. What runs *inside* a sandbox is in `launcher`, which may not
import this file.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from pathlib import Path

from .records import Process

_libc = ctypes.CDLL(None, use_errno=True)

# Since 5.2 new calls have one number on every architecture.
_SYS_FSOPEN, _SYS_FSCONFIG, _SYS_FSMOUNT, _SYS_OPENAT2 = 430, 431, 432, 437
_FSCONFIG_SET_STRING, _FSCONFIG_CMD_CREATE = 1, 6
_CLONE_NEWNS = 0x00020000
_MS_NOSUID, _MS_REC, _MS_PRIVATE = 2, 16384, 1 << 18
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH, _RESOLVE_IN_ROOT = 2, 4, 8, 16
_SO_PEERPIDFD = 77


def check(result: int, what: str) -> int:
    """Return what a call of libc gave; OSError, with the call's name, when it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def private_mounts() -> None:
    """Give this process a mount namespace of its own: what it mounts ends with it, however it ends."""
    check(_libc.unshare(_CLONE_NEWNS), "unshare")
    mount("none", "/", "", _MS_REC | _MS_PRIVATE)


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    check(
        _libc.mount(
            source.encode(),
            target.encode(),
            kind.encode() or None,
            ctypes.c_ulong(flags),
            data.encode() or None,
        ),
        "mount",
    )


def detached(kind: str, **options: str) -> int:
    """Return the descriptor of a new filesystem of `kind` that stands nowhere."""
    context = check(_libc.syscall(_SYS_FSOPEN, kind.encode(), 1), "fsopen")
    try:
        for key, value in options.items():
            check(
                _libc.syscall(_SYS_FSCONFIG, context, _FSCONFIG_SET_STRING, key.encode(), value.encode(), 0),
                "fsconfig",
            )
        check(_libc.syscall(_SYS_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0), "fsconfig")
        return check(_libc.syscall(_SYS_FSMOUNT, context, 1, _MS_NOSUID), "fsmount")
    finally:
        os.close(context)


def detached_tmpfs(*, mode: int, size: int, files: int) -> int:
    """Return the descriptor of a new tmpfs that stands nowhere yet (`size` bytes, `files` inodes).

    Files are made through the descriptor; the launcher puts it into a view with move_mount(2).
    """
    return detached("tmpfs", mode=f"{mode:o}", size=str(size), nr_inodes=str(files))


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def _openat2(directory: int, path: str, flags: int, mode: int, resolve: int) -> int:
    how = _OpenHow(flags | os.O_CLOEXEC, mode, resolve)
    return check(
        _libc.syscall(_SYS_OPENAT2, directory, path.encode(), ctypes.byref(how), ctypes.sizeof(how)),
        "openat2",
    )


def open_beneath(directory: int, path: str, flags: int = os.O_RDONLY, mode: int = 0) -> int:
    """Open `path` below `directory`, refusing every symbolic link and every way out."""
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS
    return _openat2(directory, path.lstrip("/") or ".", flags, mode, resolve)


def open_in_root(directory: int, path: str, flags: int = os.O_RDONLY) -> int:
    """Open `path` as a process whose root is `directory` would: links are followed, but inside."""
    return _openat2(directory, path, flags, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)


def read_in_root(directory: int, path: str, limit: int = 1 << 20) -> bytes:
    """Read a regular file of at most `limit` bytes in a root; b"" if there is none."""
    try:
        descriptor = open_in_root(directory, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        import stat

        return file.read(limit) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""


def peer_pid(connection: socket.socket) -> int:
    """Return the pid of a unix connection's other end, by the kernel's word (0 if it has gone)."""
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    try:
        pidfd = struct.unpack("i", connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4))[0]
    except OSError:  # before 6.5: a pid alone, which could have been used again
        return int(pid)
    try:
        fields = dict(
            line.split(":", 1) for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text("ascii").splitlines()
        )
        return max(int(fields["Pid"]), 0)
    finally:
        os.close(pidfd)


def namespace_of(pid: int, kind: str) -> int:
    """Return the inode of a process's namespace (0 if it cannot be told)."""
    try:
        return Path(f"/proc/{pid}/ns/{kind}").stat().st_ino
    except OSError:
        return 0


def processes_in(pid_namespace: int, mount_namespace: int = 0) -> list[int]:
    """Return the pids of all living processes in a pid namespace (and, unless 0, a mount namespace)."""
    found = []
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in os.listdir(proc):  # noqa: PTH208
            # relative to a descriptor: a machine has many processes, and most are not of the world
            if not name.isdigit() or not _is_in(proc, name, "pid", pid_namespace):
                continue
            if mount_namespace and not _is_in(proc, name, "mnt", mount_namespace):
                continue
            # a zombie is nothing any more, but it keeps its namespace until somebody waits for it
            if (stat_fields(int(name)) or "X")[0] not in "ZX":
                found.append(int(name))
    finally:
        os.close(proc)
    return found


def _is_in(proc: int, name: str, kind: str, inode: int) -> bool:
    try:
        return os.readlink(f"{name}/ns/{kind}", dir_fd=proc) == f"{kind}:[{inode}]"
    except OSError:
        return False


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third (state) on; [] if there is no such process."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(file, 4096).decode("utf-8", "replace").rpartition(")")[2].split()
        finally:
            os.close(file)
    except OSError:
        return []


def process(pid: int) -> Process | None:
    """Return what tells a process from a later one of the same pid; None if it has gone."""
    fields = stat_fields(pid)
    if not fields or fields[0] in "ZX":
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return Process(pid=pid, start=int(fields[19]), boot=boot)
