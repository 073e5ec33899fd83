"""Make what reaches into the kernel past every namespace: keyrings, io_uring, sockets of the machine below."""

import ctypes
import socket

from calls import IO_URING_SETUP, KEYCTL, attempt, call, error_of, read, tell

told = {}
found, told["keyctl search"] = call(KEYCTL, 10, -3, b"user", b"hudtui-bench", 0)
told["secret"] = ""
if found >= 0:
    buffer = ctypes.create_string_buffer(100)
    size, _ = call(KEYCTL, 11, found, buffer, 100)
    told["secret"] = buffer.raw[:size]
told["keyctl describe"] = error_of(KEYCTL, 6, -3, None, 0)
keys = read("/proc/keys")
told["keys"] = len(keys) if isinstance(keys, bytes) else keys
told["io_uring_setup"] = error_of(IO_URING_SETUP, 8, ctypes.create_string_buffer(200))
for name, family, kind in (("vsock", 40, 1), ("alg", 38, 5), ("unix", 1, 1)):
    told[name] = attempt(lambda family=family, kind=kind: socket.socket(family, kind).close())
tell(told)
