"""Lie in wait for the next processes and ask /proc about each from its first moment on.

argv[1]: how many to meet. Told: every different (name, answer) that was got while the process was not yet
a program of the world's own (its exe could not be read), and whether one was met once it was.
"""

import os
import sys
import time

from calls import name, tell

NAMES = (
    "cmdline",
    "comm",
    "environ",
    "exe",
    "cwd",
    "root",
    "fd",
    "maps",
    "mem",
    "mountinfo",
    "cgroup",
    "wchan",
    "ns/mnt",
    "ns/net",
    "stack",
    "syscall",
    "auxv",
    "timerslack_ns",
    "attr/current",
    "personality",
)


def ask(pid, what):
    path = f"/proc/{pid}/{what}"
    try:
        if what in ("exe", "cwd", "root") or what.startswith("ns/"):
            return os.readlink(path)
        if what == "fd":
            return " ".join(sorted(os.readlink(f"{path}/{entry}") for entry in os.listdir(path)))
        with open(path, "rb") as file:
            return file.read(65536).decode("latin-1")
    except OSError as error:
        return "-" + name(error.errno or 0)


early, later, met = {}, {}, 0
own = os.getpid()
seen = {int(entry) for entry in os.listdir("/proc") if entry.isdigit()}
last = max(seen)
print("watching", file=sys.stderr, flush=True)
end = time.monotonic() + 20
while met < int(sys.argv[1]) and time.monotonic() < end:
    for pid in range(last + 1, last + 6):
        if not os.path.exists(f"/proc/{pid}"):
            continue
        last, met = max(last, pid), met + 1
        while True:
            link = ask(pid, "exe")
            answers = {what: ask(pid, what) for what in NAMES}
            if not link.startswith("-"):
                for what, answer in answers.items():
                    later.setdefault(what, set()).add(answer)
                break
            if link in ("-ENOENT", "-ESRCH"):
                break
            if ask(pid, "exe") == link:  # it was not yet anybody's all the while
                for what, answer in answers.items():
                    early.setdefault(what, set()).add(answer)
tell(
    {
        "met": met,
        "early": {k: sorted(v) for k, v in early.items()},
        "later": {k: sorted(v) for k, v in later.items()},
    }
)
