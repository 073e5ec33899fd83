"""Starting the launcher's own process, before anything else is loaded.

It takes its interpreter some milliseconds to be there. The serving process starts it first and loads
its own libraries meanwhile, so that a sandbox never waits for it.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_PROGRAM = Path(__file__).parent / "launcher" / "start.py"


@dataclass(frozen=True)
class Launcher:
    """A zygote that holds nothing yet. It ends when `control` is closed, or with this process.

    It sees the mounts of the mount namespace it was started in, also those made later.
    """

    process: subprocess.Popen[bytes]
    control: socket.socket

    @classmethod
    def start(cls) -> Launcher:
        """Return a new one; OSError when there can be no more processes."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", str(_PROGRAM), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process, ours)
