"""The serving process's program: `python -m cell.service`, a `Spec` on stdin.

The launcher is started before anything large is loaded, so that it is ready when its sandbox is needed,
and after the mount namespace was made private, so that it sees the cell's mounts.
"""

from __future__ import annotations

import os
import sys

from . import kernel
from .launching import Launcher


def main() -> int:
    """Serve one cell; return the exit status."""
    os.chdir("/")
    if os.geteuid() == 0:
        kernel.private_mounts()
    launcher = Launcher.start()
    from . import serve

    return serve.main(launcher)


if __name__ == "__main__":
    sys.exit(main())
