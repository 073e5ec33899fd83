from __future__ import annotations

import pytest

from cell import fidelity
from cell.fidelity import Expected
from cell.records import Ends, Identity, Namespace, PhaseIdentity

PHASE = PhaseIdentity(
    phase="agent",
    user="agent",
    uid=1000,
    gid=1000,
    groups=(1000, 27),
    home="/home/agent",
    workdir="/app",
    cap_bounding="00000000a80425fb",
    cap_effective="0000000000000000",
    network_declared="allowlist",
    network_used="allowlist",
)
IDENTITY = Identity(
    namespaces=tuple(
        Namespace(kind=kind, inode=n, shared=False)
        for n, kind in enumerate(("user", "mnt", "pid", "net", "ipc", "uts"), 100)
    ),
    uid_map=((0, 0, 4294967295),),
    gid_map=((0, 0, 4294967295),),
    hostname="abc",
    ends=Ends(
        listeners=("127.0.0.1:3128",), peers=("db:5432 at 127.0.0.2",), resolver="nameserver 127.0.0.1"
    ),
)
EXPECTED = Expected(IDENTITY, PHASE, ("hudtui", "/srv/jobs", "CELL_"))
STATUS = (
    b"Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t27 1000 \n"
    b"CapEff:\t0000000000000000\nCapBnd:\t00000000a80425fb\nNoNewPrivs:\t0\nSeccomp:\t2\n"
)
TCP = (
    b"  sl  local_address rem_address   st\n"
    b"   0: 0100007F:0C38 00000000:0000 0A 00000000:00000000\n"
    b"   1: 0100007F:0C39 0100007F:1234 01 00000000:00000000\n"
)
SAW = {
    "/proc/self/status": STATUS,
    "/proc/self/uid_map": b"         0          0 4294967295\n",
    "/proc/self/gid_map": b"         0          0 4294967295\n",
    "/proc/self/mountinfo": b"1 2 0:3 / / rw - overlay overlay rw,lowerdir=lower\n",
    "/proc/self/cgroup": b"0::/\n",
    "/proc/net/tcp": TCP,
    "/proc/net/route": b"Iface\tDestination\n",
    "/proc/net/dev": b"Inter-|   Receive\n face |bytes\n    lo: 0 0\n",
    "/proc/net/unix": b"Num\n",
    "/proc/net/ipv6_route": b"00 00 00 00 lo\n",
    "/etc/hosts": b"127.0.0.1 localhost\n::1 localhost ip6-loopback\n127.0.0.1 abc\n127.0.0.2 db # a peer\n",
    "/etc/hostname": b"abc\n",
    "/etc/resolv.conf": b"nameserver 127.0.0.1\n",
    "hostname": b"abc",
    "owner /etc/passwd": b"0 0 644",
    "owner /tmp": b"0 0 1777",
    "owner /dev/shm": b"0 0 1777",
    "env TERM": b"xterm-256color",
    "terminal": b"91 33 foreground",
    "tests": b"!2",
    "verifier logs": b"!2",
    "list /": b"bin\0etc",
    "list /logs": b"agent\0artifacts",
    "write /proc/sys/kernel/core_pattern": b"!30",
    "process 1 environ": b"",
    "process 1 cmdline": b"sleep\0infinity\0",
    **{f"ns {kind}": b"%d" % n for n, kind in enumerate(("user", "mnt", "pid", "net", "ipc", "uts"), 100)},
}


def test_a_world_as_declared_has_no_failed_line() -> None:
    lines = fidelity.judge(SAW, EXPECTED)
    assert [line for line in lines if not line.ok] == []
    assert len(lines) > 25


@pytest.mark.parametrize(
    ("key", "saw", "name"),
    [
        ("ns net", b"7", "net namespace"),
        ("/proc/self/uid_map", b"0 1000 1\n", "uid map"),
        ("/proc/self/status", STATUS.replace(b"1000", b"0"), "user id"),
        ("/proc/self/status", STATUS.replace(b"a80425fb", b"ffffffff"), "bounding capabilities"),
        ("/proc/self/status", STATUS.replace(b"NoNewPrivs:\t0", b"NoNewPrivs:\t1"), "no_new_privs"),
        ("/proc/self/status", STATUS.replace(b"Seccomp:\t2", b"Seccomp:\t0"), "system-call filter"),
        ("/proc/net/dev", b"lo: 0\neth0: 0\n", "network devices"),
        ("/proc/net/route", b"Iface\neth0 0\n", "routes beyond lo"),
        ("/proc/net/tcp", b"", "listeners"),
        ("/etc/resolv.conf", b"nameserver 9.9.9.9", "resolver"),
        ("owner /etc/passwd", b"65534 65534 644", "owner of /etc/passwd"),
        ("owner /tmp", b"0 0 755", "mode of /tmp"),
        ("owner /dev/shm", b"0 0 755", "mode of /dev/shm"),
        ("terminal", b"!6", "terminal"),
        ("env TERM", b"dumb", "TERM"),
        ("env CELL_X", b"", "harness named in environment"),
        ("env X", b"/srv/jobs/1", "harness named in environment"),
        ("/etc/hosts", b"127.0.0.1 localhost abc db other\n", "hosts"),
        ("/etc/hosts", b"127.0.0.1 localhost abc\n", "hosts"),
        ("/proc/net/ipv6_route", b"00 00 eth0\n", "IPv6 routes beyond lo"),
        ("tests", b"42", "/tests"),
        ("verifier logs", b"42", "/logs/verifier"),
        ("list /logs", b"agent", "/logs"),
        ("write /proc/sys/kernel/core_pattern", b"yes", "writing /proc/sys/kernel/core_pattern"),
        ("process 1 environ", b"HOME=/", "environment of pid 1"),
        ("process 1 cmdline", b"hudtui", "harness named in processes"),
        ("/proc/self/mountinfo", b"/srv/jobs/x", "harness named in mount table"),
        ("list /", b"hudtui", "harness named in folders"),
    ],
)
def test_each_fault_fails_its_line(key: str, saw: bytes, name: str) -> None:
    lines = fidelity.judge({**SAW, key: saw}, EXPECTED)
    assert name in [line.name for line in lines if not line.ok]


def test_what_was_not_seen_has_failed() -> None:
    wrong = [line.name for line in fidelity.judge({}, EXPECTED) if not line.ok]
    assert {"net namespace", "user id", "resolver", "/tests", "harness named in mount table"} <= set(wrong)
    assert fidelity.failed("agent", "killed").ok is False


def test_what_a_name_says_is_neutralised() -> None:
    lines = fidelity.judge({**SAW, "/etc/resolv.conf": b"\x1b[31mx"}, EXPECTED)
    assert all("\x1b" not in line.found for line in lines)
