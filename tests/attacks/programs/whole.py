"""All that a process of an image can see of its world, as one literal: files, environment, limits, mounts.

For an image that may have little of Python: nothing but the smallest library is imported.
"""

import hashlib
import os
import stat

FACTS = {}
# a kernel's own file systems: they are looked at by mount, not by file
OWN = {"/proc", "/sys", "/dev/pts", "/dev/mqueue", "/dev/shm"}


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError as error:
        return f"!{error.errno}"


def status_of(name):
    # how many signals wait is of the user, wherever else it runs
    return name in ("Umask", "NoNewPrivs", "Seccomp") or (
        name[:3] in ("Cap", "Sig", "Shd") and name != "SigQ"
    )


def one(path):
    facts = os.lstat(path)
    kind, mode = stat.S_IFMT(facts.st_mode), f"{stat.S_IMODE(facts.st_mode):04o}"
    what = ""
    if stat.S_ISLNK(kind):
        what = os.readlink(path)
    elif stat.S_ISREG(kind):
        try:
            with open(path, "rb") as file:
                what = hashlib.sha1(file.read()).hexdigest()
        except OSError as error:
            what = f"!{error.errno}"
    elif stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
        what = f"{os.major(facts.st_rdev)}:{os.minor(facts.st_rdev)}"
    FACTS[f"file {path}"] = (oct(kind), mode, facts.st_uid, facts.st_gid, what)
    if stat.S_ISDIR(kind) and path not in OWN:
        try:
            names = os.listdir(path)
        except OSError as error:
            names = [f"!{error.errno}"]
        for name in names:
            if not name.startswith("!"):
                one(f"{path.rstrip('/')}/{name}")


one("/")
for name, value in os.environ.items():
    FACTS[f"env {name}"] = value
for path in ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf"):
    FACTS[f"text {path}"] = read(path)
FACTS["hostname"] = os.uname().nodename
FACTS["domain"] = read("/proc/sys/kernel/domainname")
FACTS["folder"] = os.getcwd()
FACTS["ids"] = (os.getresuid(), os.getresgid(), sorted(os.getgroups()))
FACTS["priority"] = os.nice(0)
FACTS["first process"] = read("/proc/1/comm")
FACTS["processes"] = len([name for name in os.listdir("/proc") if name.isdigit()])
FACTS["interfaces"] = sorted(os.listdir("/sys/class/net"))
FACTS["descriptors"] = sorted(os.listdir("/proc/self/fd"))
FACTS["oom"] = read("/proc/self/oom_score_adj")
FACTS["control group"] = read("/proc/self/cgroup")
for line in read("/proc/self/limits").splitlines()[1:]:
    FACTS[f"limit {line[:26].strip()}"] = line[26:].split()
for line in read("/proc/self/status").splitlines():
    name, _, value = line.partition(":")
    if status_of(name):
        FACTS[f"status {name}"] = value.split()
for line in read("/proc/self/mountinfo").splitlines():
    fields = line.split()
    after = fields[fields.index("-") + 1 :]
    FACTS[f"mount {fields[4]}"] = (after[0], sorted(set(fields[5].split(",")) - {"relatime"}))
for path in (
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/acpi",
    "/proc/scsi",
    "/sys/firmware",
):
    try:
        facts = os.stat(path)
        FACTS[f"masked {path}"] = (
            oct(stat.S_IFMT(facts.st_mode)),
            len(os.listdir(path)) if stat.S_ISDIR(facts.st_mode) else len(read(path)),
        )
    except OSError as error:
        FACTS[f"masked {path}"] = error.errno
for path in ("/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/irq", "/sys/kernel"):
    FACTS[f"writable {path}"] = os.access(path, os.W_OK)
for name in (
    "net/ipv4/ip_unprivileged_port_start",
    "net/ipv4/ping_group_range",
    "kernel/shmmax",
    "fs/mqueue/msg_max",
    "net/core/somaxconn",
    "kernel/msgmax",
    "net/ipv4/ip_forward",
    "net/ipv6/conf/all/disable_ipv6",
):
    FACTS[f"sysctl {name}"] = read(f"/proc/sys/{name}").split()
print(repr(FACTS))
