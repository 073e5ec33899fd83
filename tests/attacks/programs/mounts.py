"""Undo the mounts: take masks away, put something over /etc, make what is read-only writable."""

import os

from calls import (
    FSCONFIG,
    FSMOUNT,
    FSOPEN,
    MOUNT,
    MOUNT_SETATTR,
    MOVE_MOUNT,
    OPEN_TREE,
    UMOUNT2,
    call,
    error_of,
    read,
    tell,
)

BIND, MOVE, REMOUNT = 4096, 8192, 32
told = {}


def same(path):
    return (os.stat(path).st_dev, os.stat(path).st_ino)


masks = [
    path
    for path in ("/proc/keys", "/proc/kcore", "/proc/interrupts", "/proc/timer_list", "/proc/sys")
    if os.path.exists(path)
]
told["umount"] = {path: error_of(UMOUNT2, path.encode(), 2) for path in masks}
told["under"] = {path: len(read(path)) for path in ("/proc/interrupts",)}
told["umount bind"] = {path: error_of(UMOUNT2, path.encode(), 2) for path in ("/sys",)}

before = same("/etc")
os.makedirs("/tmp/mine", exist_ok=True)
told["over"] = {
    "tmpfs": error_of(MOUNT, b"none", b"/etc", b"tmpfs", 0, None),
    "bind": error_of(MOUNT, b"/tmp/mine", b"/etc", None, BIND, None),
    "open_tree": error_of(OPEN_TREE, -100, b"/tmp/mine", 1),
    "fsopen": error_of(FSOPEN, b"tmpfs", 0),
}
# to move needs a mount that may be moved: for an attacker with power the bind just made is one
told["over"]["move"] = error_of(MOUNT, b"/etc", b"/mnt", None, MOVE, None)
context, _ = call(FSOPEN, b"tmpfs", 0)
if context >= 0:
    call(FSCONFIG, context, 6, None, None, 0)
    fresh, _ = call(FSMOUNT, context, 0, 0)
    told["over"]["move_mount"] = error_of(MOVE_MOUNT, fresh, b"", -100, b"/etc", 4)
else:
    told["over"]["move_mount"] = error_of(MOVE_MOUNT, -100, b"/tmp/mine", -100, b"/etc", 0)
told["etc is the same"] = same("/etc") == before
os.rmdir("/tmp/mine")

attributes = (0).to_bytes(8, "little") + (1).to_bytes(8, "little") + bytes(16)  # clear MOUNT_ATTR_RDONLY
told["remount"] = {}
for path in ("/proc/bus", "/proc/irq"):
    if os.path.exists(path):
        told["remount"][path] = error_of(MOUNT, b"none", path.encode(), None, REMOUNT | BIND, None)
told["setattr"] = {
    path: error_of(MOUNT_SETATTR, -100, path.encode(), 0, attributes, len(attributes))
    for path in ("/proc/bus", "/proc/fs")
    if os.path.exists(path)
}
tell(told)
