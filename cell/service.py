"""The serving process's program: `python -m cell.service`, a `Spec` on stdin.

The launcher is started before anything large is loaded, so that it is ready when its sandbox is needed,
and after the mount namespace was made private, so that it sees the cell's mounts.
"""

from __future__ import annotations

import json
import os
import sys

from . import kernel
from .launching import Launcher


def main() -> int:
    """Serve one cell; return the exit status."""
    os.chdir("/")
    try:
        if os.geteuid() == 0:
            kernel.private_mounts()
        launcher = Launcher.start()
    except OSError as error:
        # in a chroot, say, whose root is no mount point
        said = {"error": f"no mount namespace of its own, or no launcher: {error}", "kind": "harness"}
        os.write(1, json.dumps(said).encode() + b"\n")
        return 3
    from . import serve

    return serve.main(launcher)


if __name__ == "__main__":
    sys.exit(main())
