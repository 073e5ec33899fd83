"""Run a child that waits, and say how it ended and whether a core was written: argv[1] is its argv[0]."""

import os
import sys

from calls import tell

child = os.fork()
if child == 0:
    os.chdir("/tmp")
    os.execv("/bin/sleep", [sys.argv[1], "2"])
_, status = os.waitpid(child, 0)
tell({"signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, "core": os.WCOREDUMP(status)})
