"""What a process is when it starts: its namespaces, user, capabilities, filter and signals."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Any

from .syscalls import (
    PR_CAP_AMBIENT,
    PR_CAPBSET_DROP,
    PR_SET_KEEPCAPS,
    PR_SET_SECCOMP,
    PR_SET_SECUREBITS,
    SYS_RT_SIGACTION,
    check,
    libc,
    prctl,
)


def join(spaces: list[tuple[int, int]]) -> None:
    for descriptor, flag in spaces:
        check(libc.setns(descriptor, flag), "setns")


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
    try:
        os.setgroups(who["groups"])
    except PermissionError:
        # nobody may, where only one id is mapped; well, if nothing is to change
        if {who["gid"], *os.getgroups()} != {who["gid"], *who["groups"]}:
            raise
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


def reset_signals() -> None:
    # by the bare call: glibc keeps 32 and 33 for itself, and an ignored one would be inherited
    default = ctypes.create_string_buffer(32)
    for number in range(1, 65):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            libc.syscall(SYS_RT_SIGACTION, number, default, None, 8)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
