"""What the attack programs share: bare system calls, told by the name of their error."""

from __future__ import annotations

import ctypes
import errno
import json
import os
from collections.abc import Callable
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"

MOUNT, UMOUNT2, PIVOT_ROOT = (165, 166, 155) if X86 else (40, 39, 41)
PTRACE, SETNS, KEYCTL, UNSHARE = (101, 308, 250, 272) if X86 else (117, 268, 219, 97)
NAME_TO_HANDLE_AT, OPEN_BY_HANDLE_AT = (303, 304) if X86 else (264, 265)
PROCESS_VM_READV, KCMP, BPF = (310, 312, 321) if X86 else (270, 272, 280)
IO_URING_SETUP, OPEN_TREE, MOVE_MOUNT, FSOPEN, FSCONFIG, FSMOUNT = 425, 428, 429, 430, 431, 432
PIDFD_OPEN, PIDFD_GETFD, MOUNT_SETATTR, STATMOUNT, LISTMOUNT = 434, 438, 442, 457, 458


def name(number: int) -> str:
    return errno.errorcode.get(number, str(number))


def call(number: int, *arguments: object) -> tuple[int, str]:
    """(result, "ok" or the name of the error) of a system call."""
    ctypes.set_errno(0)
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = libc.syscall(ctypes.c_long(number), *given)
    return result, "ok" if result >= 0 else name(ctypes.get_errno())


def error_of(number: int, *arguments: object) -> str:
    return call(number, *arguments)[1]


def attempt(act: Callable[..., Any], *arguments: object) -> str:
    """ "ok", or the name of the error that Python's own wrapper gave."""
    try:
        act(*arguments)
    except OSError as error:
        return name(error.errno or 0) if error.errno else type(error).__name__
    return "ok"


def read(path: str) -> bytes | str:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except OSError as error:
        return name(error.errno or 0)


def tell(document: object) -> None:
    print(json.dumps(document, default=lambda data: data.decode("latin-1")))
