"""The zygote's program: `python -I -S start.py FD`. Nothing can be imported once it serves."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys

# last: the standard library's names win
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from cell.launcher.syscalls import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, PR_SET_PDEATHSIG, prctl
from cell.launcher.zygote import Zygote


def main() -> None:
    parent = os.getppid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    prctl(PR_SET_DUMPABLE, 0)
    # so that what bwrap leaves when it is killed is waited for here, not by an init that may be slow
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    control = socket.socket(fileno=int(sys.argv[1]))
    sys.path[:] = []
    sys.meta_path.clear()
    sys.path_hooks.clear()
    gc.collect()
    gc.freeze()
    gc.disable()
    Zygote(control).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
