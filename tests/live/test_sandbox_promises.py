"""What a held sandbox promises, tried from inside real cells (S1–S9, H2–H4)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cell import kernel

from .conftest import PATH, LiveCell, until

pytestmark = pytest.mark.live

GOOD = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"


def test_s1_a_server_lives_on_for_the_next_command_and_the_verifier(cell: LiveCell) -> None:
    (page,) = ("echo here > index.html; nohup python3 -m http.server 8123 >/dev/null 2>&1 &",)
    cell.inside(page)
    get = "python3 -c \"import urllib.request as u; print(u.urlopen('http://localhost:8123/').read().decode())\""
    found = until(lambda: cell.ssh(get).stdout.strip())
    assert found == "here"
    assert "here" in cell.grade(f"#!/bin/sh\n{get}\n")["output"]


def test_s2_after_sigkill_nothing_is_left(cell: LiveCell) -> None:
    cell.inside("nohup sleep 4243 >/dev/null 2>&1 & setsid sleep 4243 >/dev/null 2>&1 &")
    space = cell.pid_namespace
    assert len(kernel.processes_in(space)) >= 3, "the positive control"
    cell.kill()
    assert until(lambda: not kernel.processes_in(space), seconds=5)
    assert str(cell.trial) not in Path("/proc/self/mountinfo").read_text()


def test_s3_twenty_sessions_at_once_right_at_ready(cell: LiveCell) -> None:
    line = cell.argv("echo in; id -u; readlink /proc/self/ns/pid")
    running = [subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) for _ in range(20)]
    said = {one.communicate(timeout=60)[0] for one in running}
    assert said == {f"in\n0\npid:[{cell.pid_namespace}]\n".encode()}


def test_s5_every_id_is_mapped(cell: LiveCell) -> None:
    assert cell.inside("touch f; chown 12345:23456 f; stat -c %u:%g f") == "12345:23456\n"
    assert int(cell.inside("cat /proc/self/uid_map").split()[2]) >= 65536
    assert cell.info["identity"]["full_id_map"]


def test_s7_orphans_are_reaped(cell: LiveCell) -> None:
    cell.inside("for i in $(seq 300); do (setsid sh -c 'exit 0' &) ; done")
    count = "ps -eo stat= | grep -c '^Z' || true"
    assert until(lambda: cell.inside(count).strip() == "0")
    kept = "sh -c 'sleep 0 & exec sleep 2' & sleep 0.5; " + count
    assert int(cell.inside(kept)) == 1, "the positive control: a zombie whose parent lives is counted"


def test_s7_killing_all_leaves_the_next_session_working(cell: LiveCell) -> None:
    cell.inside("nohup sleep 4244 >/dev/null 2>&1 &")
    assert cell.inside("pgrep -c -x sleep -f || pgrep -fc 4244").strip()
    for how in ("kill -9 -1", "pkill -9 -f .", "kill -9 1; kill -TERM 1; kill -9 -1"):
        cell.ssh(how)
        assert cell.inside("echo alive") == "alive\n"
    assert "4244" not in cell.inside("ps -eo args=")


@pytest.mark.parametrize("tty", [False, True])
def test_s8_capabilities_are_dockers(make_cell: Callable[..., LiveCell], tty: bool) -> None:
    read = "grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status | tr -d '\\t'"
    root = make_cell().inside(read, tty=tty).splitlines()
    assert root == ["CapEff:00000000a80425fb", "CapBnd:00000000a80425fb", "NoNewPrivs:0"]
    other = make_cell(agent_phase="agent").inside(read, tty=tty).splitlines()
    assert other == ["CapEff:0000000000000000", "CapBnd:00000000a80425fb", "NoNewPrivs:0"]


@pytest.mark.parametrize(
    ("attempt", "why"),
    [
        ("echo x > /proc/sys/kernel/core_pattern", "Read-only file system"),
        ("mount -t tmpfs none /mnt", "denied|not permitted|must be superuser"),
        ("umount /proc", "denied|not permitted|must be superuser"),
        ("mount -o remount,rw /sys", "denied|not permitted|must be superuser"),
        ("unshare -U true", "not permitted"),
        ("unshare -m true", "not permitted"),
        ("mknod /tmp/k c 1 1 && head -c1 /tmp/k", "denied|not permitted"),
    ],
)
def test_s8_what_docker_refuses_is_refused(cell: LiveCell, attempt: str, why: str) -> None:
    done = cell.ssh(attempt)
    assert done.returncode != 0
    assert any(word in done.stderr for word in why.split("|")), done


def test_s8_setuid_programs_work(make_cell: Callable[..., LiveCell]) -> None:
    cell = make_cell()
    cell.inside("cp /usr/bin/id /usr/bin/suid-id; chmod 4755 /usr/bin/suid-id; cp -p /usr/bin/suid-id /opt/")
    for program in ("/usr/bin/suid-id", "/opt/suid-id"):
        assert cell.inside(f"su agent -c '{program} -u; id -u'") == "0\n1000\n"


def test_s9_123_nothing_planted_inside_is_loaded_by_the_harness(cell: LiveCell) -> None:
    plant = """
import os, sys, sysconfig
code = "open('/tmp/loaded', 'a').write(__file__ + chr(10))\\nopen('/loaded-outside', 'a').close()\\n"
prefix = sys.argv[1]
for folder in (sysconfig.get_path("stdlib"), prefix + "/lib/python3.11", prefix + "/lib/python3.11/site-packages"):
    for name in ("json/__init__", "os", "socket", "asyncssh", "encodings/__init__", "sitecustomize", "select"):
        path = f"{folder}/{name}.py"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").write(code)
"""
    import sys

    assert cell.ssh(f"python3 -I -S - {sys.base_prefix}", input=plant).returncode == 0
    assert cell.ssh("python3 -c 'import json'").returncode != 0 or cell.inside("cat /tmp/loaded"), "control"
    cell.inside("rm -f /tmp/loaded /loaded-outside")
    for tty in (False, True):
        assert cell.inside("echo in", tty=tty) == "in\n"
    assert cell.inside("ls -d /tmp/loaded /loaded-outside 2>/dev/null; true") == ""
    assert cell.grade(GOOD)["rewards"] == {"reward": 1.0}
    assert not Path("/loaded-outside").exists()


def test_h2_h3_nothing_of_the_harness_is_seen(make_cell: Callable[..., LiveCell], tmp_path: Path) -> None:
    cell = make_cell(env=(("FOO", "bar baz"),))
    mounts = cell.inside("cat /proc/self/mountinfo")
    assert " / / " in mounts
    first = cell.inside(
        "tr '\\0' ' ' </proc/1/cmdline; cat /proc/1/comm; wc -c </proc/1/environ; readlink /proc/1/exe; true"
    )
    rest = cell.inside("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    for text in (mounts, first, rest):
        assert not [
            word for word in (str(tmp_path), "hudtui", "bwrap", "serve", "launcher") if word in text
        ], text
    env = dict(
        line.split("=", 1) for line in cell.inside("cat /proc/self/environ | tr '\\0' '\\n'").splitlines()
    )
    for name in ("PWD", "SHLVL", "_", "OLDPWD"):
        env.pop(name, None)
    assert env == {"FOO": "bar baz", "PATH": PATH, "HOME": "/root"}


WATCH = """
import glob, os, time
log = open('/tmp/seen', 'a', buffering=1)
open('/tmp/watching', 'w').close()
end = time.time() + 20
while time.time() < end:
    for pid in [p for p in os.listdir('/proc') if p.isdigit() and p != str(os.getpid())]:
        for name in ('root/tests/test.sh', 'root/logs/verifier/reward.txt', 'environ'):
            try:
                data = open(f'/proc/{pid}/{name}', 'rb').read()
                if b'S3CRET' in data or name != 'environ': log.write(f'{pid} {name} {data!r}\\n')
            except OSError: pass
        try:
            open(f'/proc/{pid}/root/logs/verifier/reward.txt', 'w').write('1')
            log.write(f'{pid} forged\\n')
        except OSError: pass
"""


@pytest.mark.parametrize(
    ("agent", "verifier", "su"),
    [  # `su` without a password is root's
        ("root", "root", False),
        ("root", "root", True),
        ("agent", "agent", False),
        ("agent", "root", False),
        ("agent", "root", True),
    ],
)
def test_h4_118_119_the_verifier_is_out_of_reach(
    make_cell: Callable[..., LiveCell], agent: str, verifier: str, su: bool
) -> None:
    cell = make_cell(agent_phase=agent, verifier_phase=verifier)
    absent = "ls -d /tests /logs/verifier 2>/dev/null; true"
    assert cell.inside(absent) == ""
    cell.ssh("cat > /tmp/watch.py", input=WATCH)
    cell.inside("S3CRET=1 nohup sleep 30 >/dev/null 2>&1 & nohup python3 /tmp/watch.py >/dev/null 2>&1 &")
    seen = cell.trial / "cell/root/upper/tmp/seen"
    assert until(lambda: seen.exists() and b"environ" in seen.read_bytes()), (
        "control: the watcher sees a neighbour"
    )
    before = seen.read_bytes().count(b"root/") + seen.read_bytes().count(b"forged")
    assert before == 0
    middle = "su agent -c 'sleep 1'" if su else "sleep 1"
    graded = cell.grade(
        f"#!/bin/sh\necho 0 > /logs/verifier/reward.txt\n{middle}\n", env={"TOKEN": "V-S3CRET"}
    )
    assert graded["rewards"] == {"reward": 0.0}
    text = seen.read_bytes()
    assert b"V-S3CRET" not in text
    assert b"root/" not in text
    assert b"forged" not in text
    assert not (cell.trial / "cell/root/upper/tests").exists()


def test_h4_120_no_core_of_the_verifier(cell: LiveCell) -> None:
    abort = "for p in $(pgrep -f '^sleep 1[.]7'); do prlimit --pid $p --core=unlimited; kill -ABRT $p; done"
    cell.inside(f'nohup sh -c "while :; do {abort}; sleep 0.05; done" >/dev/null 2>&1 &'.replace("$", "\\$"))
    graded = cell.grade("#!/bin/sh\ncd /tmp\nsleep 1.7 || echo aborted\n")
    assert "aborted" in graded["output"], "control: the signal came"
    assert not list((cell.trial / "cell/root/upper").glob("**/core*"))
