"""What a held sandbox promises, tried from inside real cells (S1–S9, H2–H4)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cell import kernel

from .conftest import LiveCell, until

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
