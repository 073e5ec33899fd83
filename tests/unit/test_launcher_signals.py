from __future__ import annotations

import json
import subprocess
import sys

# In a process of its own: pytest's must keep its signals, and may have threads, which must not fork.
_CHILD = """
import json, os, signal
from cell.launcher import join
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, lambda *_: None)
signal.signal(signal.SIGRTMIN, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGCHLD})
def masks():
    lines = open("/proc/self/status").read().splitlines()
    return {k: int(v, 16) for k, _, v in (l.partition(":") for l in lines) if k in ("SigIgn", "SigCgt", "SigBlk")}
end, other = os.pipe()
if os.fork() == 0:
    join.reset_signals()
    os.write(other, json.dumps(masks()).encode())
    os._exit(0)
os.wait()
print(json.dumps([masks(), json.loads(os.read(end, 4096))]))
"""


def test_a_program_of_the_world_begins_with_no_signal_ignored_caught_or_blocked() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", _CHILD], capture_output=True, text=True
    )
    assert done.stderr == ""
    before, after = json.loads(done.stdout)
    assert all(before.values())
    assert after == {"SigIgn": 0, "SigCgt": 0, "SigBlk": 0}


def test_importing_it_does_nothing() -> None:
    code = "import os, cell.launcher.zygote; print(len(os.listdir('/proc/self/task')), os.listdir('/proc/self/fd'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1 ['0', '1', '2', '3']\n"  # 3 is the listing's own
