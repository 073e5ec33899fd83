"""The short folder of a living cell: its sockets and keys, and a lock that dies with its process.

A serving process that was killed cannot remove its folder; whoever comes next sweeps it away.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from . import trees

_LOCK = "lock"
_YOUNG = 60.0  # seconds in which a folder without a lock may still be getting one


def claim(folder: Path) -> int:
    """Make `folder` (0700) and return the descriptor of its lock, held until that is closed.

    Raises FileExistsError: another cell has it.
    """
    folder.mkdir(mode=0o700)
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def sweep(base: Path) -> list[str]:
    """Remove the folders below `base` whose process is gone, and return their names."""
    gone = []
    with suppress(OSError):
        for folder in sorted(base.iterdir()):
            if _dead(folder):
                trees.remove(folder, ignore_errors=True)
                gone.append(folder.name)
    return gone


def _dead(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        with suppress(OSError):
            return time.time() - folder.stat().st_mtime > _YOUNG
        return False
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
