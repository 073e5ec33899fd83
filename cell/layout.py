"""Files laid out in a root from outside, before anything runs in it."""

from __future__ import annotations

import contextlib
import os
import tarfile
from pathlib import Path

from . import kernel, trees, unpacking
from .errors import HarnessError


def lay_out(root: int, name: str, archive: bytes) -> None:
    """Unpack a tar at `/name` of a root, replacing it; links that lead out are refused."""
    try:
        base = kernel.open_beneath(root, ".", os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise HarnessError(f"the root cannot be opened: {error}") from error
    try:
        target = Path(f"/proc/self/fd/{base}", name)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            trees.remove(target) if not target.is_symlink() else target.unlink()
        target.mkdir(0o755)
        unpacking.unpack(archive, target)
    except (OSError, tarfile.TarError) as error:
        raise HarnessError(f"/{name} could not be laid out: {error}") from error
    finally:
        os.close(base)
