"""Raise the core limit of whatever is called argv[1], and have it abort; without end."""

import os
import resource
import signal
import sys
import time

while True:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read().split(b"\0")[0].decode() != sys.argv[1]:
                    continue
        except OSError:
            continue
        try:
            resource.prlimit(int(pid), resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        except (PermissionError, ValueError, OSError) as error:
            with open("/tmp/limit", "a") as log:
                log.write(f"{error}\n")
        try:
            os.kill(int(pid), signal.SIGABRT)
        except OSError:
            continue
    time.sleep(0.02)
