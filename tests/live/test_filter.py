"""The filter in the kernel: refused is refused, and ordinary programs do not notice it (promise S8)."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from typing import Any

import pytest

from cell.seccomp import docker_filter, machines

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(platform.machine() not in machines(), reason="no filter for this machine"),
]

PROBE = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_void_p)]
code = sys.stdin.buffer.read()
buffer = ctypes.create_string_buffer(code, len(code))
program = Program(len(code) // 8, ctypes.addressof(buffer))
if code:
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0, os.strerror(ctypes.get_errno())
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(each) for each in arguments])
    return ctypes.get_errno() if result == -1 else 0
"""


def probe(script: str, *, filtered: bool = True) -> Any:
    code = docker_filter(platform.machine()) if filtered else b""
    done = subprocess.run([sys.executable, "-I", "-c", PROBE + script], input=code, capture_output=True)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return json.loads(done.stdout)


def test_what_docker_refuses_is_refused() -> None:
    x86 = platform.machine() == "x86_64"
    script = f"""
print(json.dumps({{
    "unshare": call({272 if x86 else 97}, 0x10000000),
    "io_uring_setup": call(425, 8, 0),
    "keyctl": call({250 if x86 else 219}, 0, -3, 0),
    "clone3": call(435, 0, 0),
    "vsock": call({41 if x86 else 198}, 40, 1, 0),
    "vsock behind 32 bits": call({41 if x86 else 198}, 40 | 1 << 32, 1, 0),
    "alg": call({41 if x86 else 198}, 38, 5, 0),
    "mount": call({165 if x86 else 40}, 0, 0, 0, 0, 0),
    "bpf": call({321 if x86 else 280}, 0, 0, 0),
    "newer than the list": call(467, -1, 0, 0, 0, 0),
    "userns by clone": call({56 if x86 else 220}, 0x10000000 | 17, 0, 0, 0, 0),
    "no randomisation": call({135 if x86 else 92}, 0x40000),
}}))
"""
    refused = probe(script)
    assert refused.pop("clone3") == 38
    assert refused.pop("newer than the list") == 38
    assert set(refused.values()) == {1}, refused


def test_ordinary_work_goes_on() -> None:
    script = """
import socket, subprocess, threading, tempfile, mmap, select, signal
thread = threading.Thread(target=lambda: None); thread.start(); thread.join()
pair = socket.socketpair(); server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname()); client.sendall(b"x")
poll = select.epoll(); poll.register(client.fileno())
with tempfile.TemporaryDirectory() as folder:
    open(folder + "/a", "w").write("x"); os.link(folder + "/a", folder + "/b"); os.chmod(folder + "/a", 0o600)
mmap.mmap(-1, 4096)
print(json.dumps(subprocess.run(["sh", "-c", "cat /proc/self/status | grep -c Seccomp:; exit 3"],
                                capture_output=True, text=True).returncode))
"""
    assert probe(script) == 3


def test_installing_it_twice_works() -> None:
    assert probe("print(json.dumps(libc.prctl(22, 2, ctypes.byref(program), 0, 0)))") == 0


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86 only")
def test_the_32_bit_entry_is_no_way_round() -> None:
    gate = """
import mmap
code = bytes.fromhex("53 89f8 89f3 89d1 31d2 cd80 5b c3")  # int 0x80 with eax, ebx, ecx
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC); page.write(code)
kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int)
int80 = kind(ctypes.addressof(ctypes.c_char.from_buffer(page)))
"""
    calls = ["20, 0, 0", "359, 40, 1", "102, 1, 0", "310, 0x10000000, 0", "288, 0, 0", "359, 2, 1"]
    script = gate + "print(json.dumps([" + ", ".join(f"int80({each})" for each in calls) + "]))"
    try:
        before = probe(script, filtered=False)
    except AssertionError:
        pytest.skip("this kernel has no 32-bit entry")
    assert before[0] > 0
    pid, *refused, inet = probe(script)
    assert pid > 0
    assert refused == [-1, -1, -1, -1]  # socket(AF_VSOCK), socketcall(SYS_SOCKET), unshare, keyctl
    assert inet > 0
