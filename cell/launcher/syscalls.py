"""System calls that the standard library of Python 3.11 has no name for, and their numbers."""

from __future__ import annotations

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
CLONE_NEWPID = 0x20000000
# user first: it gives the power to join the rest; mnt last: after it the root is the agent's.
NAMESPACES = (
    ("user", CLONE_NEWUSER),
    ("ipc", 0x08000000),
    ("uts", 0x04000000),
    ("net", CLONE_NEWNET),
    ("cgroup", 0x02000000),
    ("pid", CLONE_NEWPID),
    ("mnt", CLONE_NEWNS),
)
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_SET_SECCOMP = 1, 4, 8, 22
PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 15, 36
PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_CAP_AMBIENT = 24, 28, 47
SECBIT_NO_SETUID_FIXUP_LOCKED = (1 << 2) | (1 << 3)
AT_FDCWD, AT_RECURSIVE, AT_EMPTY_PATH = -100, 0x8000, 0x1000
# the same on every architecture since 5.2
SYS_OPEN_TREE, SYS_MOVE_MOUNT, SYS_FSOPEN, SYS_FSCONFIG, SYS_FSMOUNT = 428, 429, 430, 431, 432
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}.get(os.uname().machine, 155)
SYS_RT_SIGACTION = {"x86_64": 13, "aarch64": 134}.get(os.uname().machine, 13)
SYS_KEYCTL = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine, 250)
TIOCSPTLCK, TIOCGPTPEER = 0x40045431, 0x5441


def check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, what)
    return result


def mount(source: bytes, target: bytes, kind: bytes | None, flags: int, data: bytes | None = None) -> None:
    check(libc.mount(source, target, kind, ctypes.c_ulong(flags), data), "mount")


def prctl(option: int, a: int = 0, b: int = 0) -> None:
    check(libc.prctl(option, ctypes.c_ulong(a), ctypes.c_ulong(b), 0, 0), "prctl")


def argv_area() -> tuple[int, int]:
    """Return (address, length) of this process's command line, as the kernel would show it."""
    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # 48 and 49 of proc(5)
    return start, end - start


def become_nameless(area: tuple[int, int]) -> None:
    """Wipe the command line: /proc/PID/cmdline and comm are everybody's, whatever else is closed."""
    ctypes.memset(area[0], 0, area[1])
    check(libc.prctl(PR_SET_NAME, b"sh", 0, 0, 0), "prctl")
