"""Read of every process what /proc gives, for as long as one can: argv[1] is how a secret begins.

What was got goes to /tmp/seen, one line each: pid, where from, what. /tmp/watching says that it began.
"""

import os
import sys

needle = sys.argv[1].encode()
log = open("/tmp/seen", "a", buffering=1)  # noqa: SIM115 - until it is killed
told = set()


def say(pid, where, what=""):
    if (pid, where, what) not in told:
        told.add((pid, where, what))
        log.write(f"{pid} {where} {what}\n")


def secrets(data):
    at = data.find(needle)
    return "" if at < 0 else data[at : at + 24].decode("latin-1").split("\0")[0]


def memory(pid):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            if "[stack]" in line or "[heap]" in line:
                start, end = (int(part, 16) for part in line.split()[0].split("-"))
                mem.seek(start)
                if found := secrets(mem.read(end - start)):
                    say(pid, "mem", found)


def descriptors(pid):
    for number in os.listdir(f"/proc/{pid}/fd"):
        link = os.readlink(f"/proc/{pid}/fd/{number}")
        if link.startswith(("/tests", "/logs/verifier", "/opt/secret")):
            say(pid, "fd", link)
            with open(f"/proc/{pid}/fd/{number}", "rb") as file:
                say(pid, "fd read", secrets(file.read(65536)))


def files(pid):
    for path in ("tests/test.sh", "tests/secret", "logs/verifier/reward.txt", "opt/secret"):
        with open(f"/proc/{pid}/root/{path}", "rb") as file:
            say(pid, f"root/{path}", secrets(file.read(65536)))


def forge(pid):
    with open(f"/proc/{pid}/root/logs/verifier/reward.txt", "w") as file:
        file.write("1")
    say(pid, "forged")


def environ(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        if found := secrets(file.read()):
            say(pid, "environ", found)


def cwd(pid):
    if (link := os.readlink(f"/proc/{pid}/cwd")).startswith("/tests"):
        say(pid, "cwd", link)


open("/tmp/watching", "w").close()
own = str(os.getpid())
while True:
    for pid in os.listdir("/proc"):
        if pid.isdigit() and pid != own:
            for ask in (environ, descriptors, memory, forge, cwd, files):
                try:
                    ask(pid)
                except OSError:
                    continue
