"""Get into another process: argv[1] is its pid. Trace it, read it, take its descriptors, join what it is in."""

import ctypes
import os
import sys

from calls import (
    KCMP,
    PIDFD_GETFD,
    PIDFD_OPEN,
    PROCESS_VM_READV,
    PTRACE,
    SETNS,
    attempt,
    call,
    error_of,
    libc,
    read,
    tell,
)

pid = int(sys.argv[1])
told = {}
told["attach"] = error_of(PTRACE, 16, pid, 0, 0)
if told["attach"] == "ok":
    os.waitpid(pid, 0x40000000)
    call(PTRACE, 17, pid, 0, 0)
told["seize"] = error_of(PTRACE, 0x4206, pid, 0, 0)
if told["seize"] == "ok":
    call(PTRACE, 0x4207, pid, 0, 0)
    os.waitpid(pid, 0x40000000)
    call(PTRACE, 17, pid, 0, 0)

maps = read(f"/proc/{pid}/maps")
told["maps"] = "ok" if isinstance(maps, bytes) and maps else maps or "empty"
start = int(maps.split(b"-")[0], 16) if isinstance(maps, bytes) and maps else 0x400000


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


buffer = ctypes.create_string_buffer(16)
here, there = Vector(ctypes.addressof(buffer), 16), Vector(start, 16)
told["process_vm_readv"] = error_of(PROCESS_VM_READV, pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
told["kcmp"] = error_of(KCMP, os.getpid(), pid, 1, 0, 0)
pidfd, _ = call(PIDFD_OPEN, pid, 0)
told["pidfd_getfd"] = error_of(PIDFD_GETFD, pidfd, 0, 0)
told["mem"] = attempt(lambda: os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY)))
told["mem for writing"] = attempt(lambda: os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR)))
for name in ("exe", "cwd", "root"):
    told[name] = attempt(lambda name=name: os.readlink(f"/proc/{pid}/{name}"))
for name in ("environ", "auxv", "io"):
    data = read(f"/proc/{pid}/{name}")
    told[name] = ("ok" if data else "empty") if isinstance(data, bytes) else data

spaces = {
    "user": 0x10000000,
    "ipc": 0x8000000,
    "uts": 0x4000000,
    "net": 0x40000000,
    "pid": 0x20000000,
    "mnt": 0x20000,
}
told["setns"] = {}
for name, flag in spaces.items():

    def enter(name=name, flag=flag):
        descriptor = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
        if libc.setns(descriptor, flag):
            raise OSError(ctypes.get_errno(), "setns")

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # so that a namespace that was joined is not the rest's
        os.write(writer, attempt(enter).encode())
        os._exit(0)
    os.waitpid(child, 0)
    told["setns"][name] = os.read(reader, 100).decode()
told["setns by pidfd"] = error_of(SETNS, pidfd, 0x20000 | 0x40000000)
tell(told)
