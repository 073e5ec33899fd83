"""What a process of the world sees, looked at by a child of ours that became one and executes nothing.

So it works in every image, and sees what the agent sees: it has joined, dropped to the phase's user
and put on the filter. It only reads; what it found goes out raw, and is judged outside (`fidelity`).
"""

from __future__ import annotations

import os

_LONGEST = 1 << 16  # bytes of one file
_MOST = 300  # processes, or entries of a folder

_FILES = (
    *(b"/proc/self/" + name for name in (b"status", b"uid_map", b"gid_map", b"mountinfo", b"cgroup")),
    *(b"/proc/net/" + name for name in (b"tcp", b"tcp6", b"udp", b"udp6", b"route", b"ipv6_route", b"dev")),
    *(b"/etc/" + name for name in (b"hosts", b"hostname", b"resolv.conf")),
    b"/proc/net/unix",
)
_FOLDERS = (b"/", b"/tmp", b"/logs", b"/run", b"/dev")
_OWNED = (b"/etc/passwd", b"/usr", b"/tmp", b"/dev/shm")
_KINDS = (b"user", b"mnt", b"pid", b"net", b"ipc", b"uts", b"cgroup", b"time")
_WRITTEN = (b"/proc/sys/kernel/core_pattern", b"/proc/sysrq-trigger", b"/sys/kernel/uevent_helper")


def look(environment: dict[bytes, bytes]) -> dict[str, bytes]:
    """Return what is to be seen, by path; what cannot be read is `!` and its errno.

    `environment` is what a program would be executed with.
    """
    found = {"env " + name.decode("utf-8", "replace"): value for name, value in environment.items()}
    for path in _FILES:
        found[path.decode()] = _read(path)
    for path in _FOLDERS:
        found["list " + path.decode()] = _list(path)
    for kind in _KINDS:
        found["ns " + kind.decode()] = _inode(b"/proc/self/ns/" + kind)
    for path in _WRITTEN:
        found["write " + path.decode()] = _writable(path)
    for path in _OWNED:
        found["owner " + path.decode()] = _owner(path)
    found["terminal"] = _terminal()
    found["tests"] = _inode(b"/tests")
    found["verifier logs"] = _inode(b"/logs/verifier")
    found["hostname"] = os.uname().nodename.encode()
    me = os.getpid()
    for entry in _list(b"/proc").split(b"\0")[:_MOST]:
        # the probe itself is no part of the world
        if entry.isdigit() and int(entry) != me:
            for name in (b"cmdline", b"environ", b"comm"):
                found[f"process {entry.decode()} {name.decode()}"] = _read(b"/proc/" + entry + b"/" + name)
            found[f"process {entry.decode()} exe"] = _link(b"/proc/" + entry + b"/exe")
    return found


def packed(found: dict[str, bytes]) -> bytes:
    """Return keys and values one after the other, each behind its length in four bytes."""
    pieces = [piece for key, value in found.items() for piece in (key.encode(), value)]
    return b"".join(len(piece).to_bytes(4, "big") + piece for piece in pieces)


def _failed(error: OSError) -> bytes:
    return b"!%d" % (error.errno or 0)


def _read(path: bytes) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        return _failed(error)
    try:
        data = b""
        while len(data) < _LONGEST and (piece := os.read(descriptor, _LONGEST)):
            data += piece
        return data
    except OSError as error:
        return _failed(error)
    finally:
        os.close(descriptor)


def _list(path: bytes) -> bytes:
    try:
        return b"\0".join(sorted(os.listdir(path))[: 10 * _MOST])
    except OSError as error:
        return _failed(error)


def _inode(path: bytes) -> bytes:
    try:
        return b"%d" % os.stat(path).st_ino
    except OSError as error:
        return _failed(error)


def _owner(path: bytes) -> bytes:
    try:
        there = os.stat(path)
    except OSError as error:
        return _failed(error)
    return b"%d %d %o" % (there.st_uid, there.st_gid, there.st_mode & 0o7777)


def _terminal() -> bytes:
    """Tell the size of the controlling terminal, if there is one, and whether it is in the foreground."""
    try:
        descriptor = os.open(b"/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        return _failed(error)
    try:
        size = os.get_terminal_size(descriptor)
        ours = os.tcgetpgrp(descriptor) == os.getpgrp()
        return b"%d %d %s" % (size.columns, size.lines, b"foreground" if ours else b"background")
    except OSError as error:
        return _failed(error)
    finally:
        os.close(descriptor)


def _link(path: bytes) -> bytes:
    try:
        return os.readlink(path)
    except OSError as error:
        return _failed(error)


def _writable(path: bytes) -> bytes:
    """Say whether it can be opened for writing; nothing is written."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
    except OSError as error:
        return _failed(error)
    return b"yes"
