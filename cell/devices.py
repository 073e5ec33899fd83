"""The device nodes of a world (promise S5): its own, where the kernel makes any."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from . import kernel
from .errors import HarnessError

# by the kernel's own numbers (admin-guide/devices.txt)
_DEVICES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
}


def nodes() -> int | None:
    """Return a filesystem that stands nowhere, with the devices that every world has.

    None where the kernel makes none (inside of a user namespace) and the machine's own will do: their owner
    is not mapped there, so that nobody can change them.
    """
    devices = kernel.detached_tmpfs(mode=0o755, size=1 << 16, files=16)
    try:
        for name, (major, minor) in _DEVICES.items():
            os.mknod(name, stat.S_IFCHR | 0o666, os.makedev(major, minor), dir_fd=devices)
            # whatever the umask is
            os.chmod(f"/proc/self/fd/{devices}/{name}", 0o666)  # noqa: PTH101, S103
    except OSError as error:
        os.close(devices)
        nobody = int(Path("/proc/sys/kernel/overflowuid").read_text("ascii"))
        if isinstance(error, PermissionError) and Path("/dev/null").stat().st_uid == nobody:
            return None
        raise HarnessError(
            f"the world's devices cannot be made: {error}",
            remedy="root of the machine is needed; see `cell doctor`",
        ) from error
    return devices
