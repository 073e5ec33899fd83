"""What a process sees: the hardened root of all, the verifier's own root, a terminal."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import termios

from .syscalls import (
    AT_EMPTY_PATH,
    AT_FDCWD,
    AT_RECURSIVE,
    CLONE_NEWNS,
    MNT_DETACH,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    SYS_FSCONFIG,
    SYS_FSMOUNT,
    SYS_FSOPEN,
    SYS_MOVE_MOUNT,
    SYS_OPEN_TREE,
    SYS_PIVOT_ROOT,
    TIOCGPTPEER,
    TIOCSPTLCK,
    check,
    libc,
    mount,
)

DEVICES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty")
MASKED_DIRS = (b"/proc/acpi", b"/proc/scsi", b"/proc/asound")
MASKED_FILES = (
    b"/proc/interrupts",
    b"/proc/kcore",
    b"/proc/keys",
    b"/proc/latency_stats",
    b"/proc/timer_list",
    b"/proc/timer_stats",
    b"/proc/sched_debug",
)
READ_ONLY = (b"/proc/sys", b"/proc/bus", b"/proc/fs", b"/proc/irq", b"/proc/sysrq-trigger")


def harden(mounts: list[bytes], devices: list[int]) -> None:
    """Give the held root what docker gives: set-id programs work, /proc and /sys cannot be written.

    bwrap mounts every bind nosuid; a fresh sysfs shows this network namespace's interfaces only.
    """
    for nodes in devices:  # one, or none where none can be made
        own_devices(nodes)
    share_memory()
    for target in mounts:
        mount(b"none", target, None, MS_REMOUNT | MS_BIND | MS_NODEV)
    for target in READ_ONLY:
        if os.path.exists(target):
            mount(target, target, None, MS_BIND | MS_REC)
            mount(b"none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    for target in MASKED_FILES:
        if os.path.exists(target):
            mount(b"/dev/null", target, None, MS_BIND)
    for target in MASKED_DIRS:
        if os.path.isdir(target):
            mount(b"tmpfs", target, b"tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    if os.path.isdir(b"/sys/kernel"):
        # the kernel grants a new sysfs only where one is still to be seen; then the old one goes,
        # with the substrate's control groups that stand below it
        context = check(libc.syscall(SYS_FSOPEN, b"sysfs", 1), "fsopen")
        check(libc.syscall(SYS_FSCONFIG, context, 6, None, None, 0), "fsconfig")
        attributes = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
        fresh = check(libc.syscall(SYS_FSMOUNT, context, 1, attributes), "fsmount")
        check(libc.umount2(b"/sys", MNT_DETACH), "umount")
        check(libc.syscall(SYS_MOVE_MOUNT, fresh, b"", AT_FDCWD, b"/sys", 4), "move_mount")
        if os.path.isdir(b"/sys/firmware"):
            mount(b"tmpfs", b"/sys/firmware", b"tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)


def own_devices(devices: int) -> None:
    """Put nodes of this world's own, in a detached tmpfs, where bubblewrap bound the machine's.

    Root inside may change the owner and mode of a node that it sees: the machine's own would be changed
    for everybody, every other cell included.
    """
    place = b"/dev/shm"
    check(libc.syscall(SYS_MOVE_MOUNT, devices, b"", AT_FDCWD, place, 4), "move_mount")
    for name in DEVICES:
        target = b"/dev/" + name
        check(libc.umount2(target, MNT_DETACH), "umount")
        mount(place + b"/" + name, target, None, MS_BIND)
    check(libc.umount2(place, MNT_DETACH), "umount")


def share_memory() -> None:
    """Mount what programs of every user share memory and messages by; bubblewrap leaves a folder of root's.

    Its link to the kernel's memory goes where there is none, as in a container.
    """
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    mount(b"shm", b"/dev/shm", b"tmpfs", flags, b"mode=1777,size=65536k")
    os.mkdir(b"/dev/mqueue", 0o755)
    try:
        mount(b"mqueue", b"/dev/mqueue", b"mqueue", flags)
    except OSError:
        os.rmdir(b"/dev/mqueue")  # a kernel without message queues
    if os.path.islink(b"/dev/core") and not os.path.exists(b"/proc/kcore"):
        os.unlink(b"/dev/core")


def build_view(entries: list[tuple[bytes, int]], over: list[tuple[bytes, bytes]]) -> None:
    """Give this process a root of its own: the sandbox's entries, and `entries` on top.

    Each of `entries` is a directory's path (`/tests`, `/logs/verifier`) and a detached mount that
    the serving process filled. Nobody else has them, not even the empty folders (promise H4).
    `over` are small files of the world (a path of a folder and a name) that have another content here.
    `/proc` is where the new root is put together, because it is there in every image.
    """
    check(libc.unshare(CLONE_NEWNS), "unshare")
    mount(b"none", b"/", None, MS_REC | MS_PRIVATE)
    proc = check(libc.syscall(SYS_OPEN_TREE, AT_FDCWD, b"/proc", 1 | AT_RECURSIVE), "open_tree")
    new = b"/proc"
    mode = os.stat(b"/").st_mode & 0o7777
    mount(b"tmpfs", new, b"tmpfs", 0, b"mode=%o" % mode)
    private = {b"logs", *(path.split(b"/")[1] for path, _ in entries)}
    root = os.open(b"/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in os.listdir(b"/"):
        if name != b"proc" and name not in private:
            _bring(root, name, new + b"/" + name)
    os.close(root)
    os.mkdir(new + b"/logs", 0o755)
    try:
        logs = os.open(b"/logs", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        logs = -1  # gone, or what the agent made of it
    if logs >= 0:
        os.fchdir(logs)
        for name in os.listdir(b"."):
            if b"/logs/" + name not in [path for path, _ in entries]:
                _bring(logs, name, new + b"/logs/" + name)
        os.close(logs)
    for path, descriptor in entries:
        target = new
        for part in path.split(b"/")[1:]:
            target += b"/" + part
            if not os.path.isdir(target):
                os.mkdir(target, 0o755)
        check(libc.syscall(SYS_MOVE_MOUNT, descriptor, b"", AT_FDCWD, target, 4), "move_mount")
    for path, content in over:
        _cover(new, path, content)
    os.mkdir(new + b"/proc", 0o555)
    check(libc.syscall(SYS_MOVE_MOUNT, proc, b"", AT_FDCWD, new + b"/proc", 4), "move_mount")
    os.chdir(new)
    check(libc.syscall(SYS_PIVOT_ROOT, b".", b"."), "pivot_root")
    check(libc.umount2(b".", MNT_DETACH), "umount")
    os.chdir(b"/")


def _cover(new: bytes, path: bytes, content: bytes) -> None:
    """Put a file over one of the world's, for this view alone, unless the agent made something else of it."""
    _, folder, name = path.split(b"/")
    source = new + b"/" + name  # where nothing of the world is called so by now: it was brought before
    opened = []
    try:
        opened.append(os.open(source, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        os.write(opened[0], content)
        tree = check(libc.syscall(SYS_OPEN_TREE, AT_FDCWD, source, 1), "open_tree")
        opened.append(tree)
        held = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        opened.append(os.open(new + b"/" + folder, held | os.O_DIRECTORY))
        opened.append(os.open(name, held, dir_fd=opened[-1]))
        if stat.S_ISREG(os.fstat(opened[-1]).st_mode):
            # 4 and 64: from and to what the descriptors are of
            check(libc.syscall(SYS_MOVE_MOUNT, tree, b"", opened[-1], b"", 4 | 64), "move_mount")
    except OSError:
        pass  # it goes without
    finally:
        if opened:
            os.unlink(source)
        for descriptor in opened:
            os.close(descriptor)


def _bring(folder: int, name: bytes, target: bytes) -> None:
    """Show an entry of `folder` at `target`. It is held first: where its name leads is the agent's to say."""
    try:
        entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return
    try:
        kind = os.fstat(entry).st_mode
        if stat.S_ISLNK(kind):
            os.symlink(os.readlink(b"", dir_fd=entry), target)
            return
        if stat.S_ISDIR(kind):
            os.mkdir(target, 0o755)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        flags = 1 | AT_EMPTY_PATH | AT_RECURSIVE  # 1: a mount of its own
        tree = check(libc.syscall(SYS_OPEN_TREE, entry, b"", flags), "open_tree")
        try:
            check(libc.syscall(SYS_MOVE_MOUNT, tree, b"", AT_FDCWD, target, 4), "move_mount")
        finally:
            os.close(tree)
    except FileNotFoundError:
        return  # the agent took it away in between
    finally:
        os.close(entry)


def open_terminal(size: list[int], uid: int) -> tuple[int, int]:
    """Return (master, slave) of a terminal of the sandbox's own devpts, so that `tty` names it."""
    master = os.open(b"/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(master, TIOCSPTLCK, struct.pack("i", 0))
    # by descriptor, not by path: what stands at /dev/pts/N is the agent's to say
    slave = fcntl.ioctl(master, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY)
    rows, columns = size
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.fchown(slave, uid, -1)
    return master, slave
