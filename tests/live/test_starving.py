"""V1: a verifier that the agent starves of memory or processes is no score; one that starves itself is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cell.machine import probe
from cell.outcome import with_grading
from cell.records import Limit
from cell.verdict import conclude
from cell.verdict.facts import Facts

from .conftest import GOOD, LiveCell, until

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        "memory" not in probe(Path(), lambda _bwrap: "").cgroups_writable,
        reason="no control group may be made on this machine: nothing bounds what an agent uses up",
    ),
]
Make = Callable[..., LiveCell]
HOG = """
import os, time
data = bytearray(110 << 20)
open("/tmp/full", "w").close()
while True:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) not in (1, os.getpid()):
            try:
                open(f"/proc/{pid}/oom_score_adj", "w").write("1000")
            except OSError:
                pass
"""
FORKER = """
import os, signal, time
def verifying():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if b"test.sh" in open(f"/proc/{pid}/cmdline", "rb").read():
                return True
        except OSError:
            pass
if %r:
    open("/tmp/full", "w").close()
    while not verifying():
        pass
while True:
    try:
        child = os.fork()
    except OSError:
        open("/tmp/full", "w").close()
        time.sleep(0.001)
        continue
    if not child:
        while True:
            signal.pause()
"""
NEEDS = "python3 -c 'data = bytearray({} << 20); print(len(data))'"
CHECK = "#!/bin/sh\nif {}; then r={}; else r={}; fi\necho $r > /logs/verifier/reward.txt\n"


def limit(name: str, value: str) -> tuple[Limit, ...]:
    return (Limit(name=name, value=value, enforced=False),)


def daemon(cell: LiveCell, program: str) -> None:
    cell.ssh("cat > /tmp/daemon.py", input=program)
    cell.inside("setsid nohup python3 /tmp/daemon.py </dev/null >/dev/null 2>/tmp/log & "
                "i=0; while [ ! -e /tmp/full ] && [ $i -lt 200 ]; do read -t 0.05 x <> /dev/zero; i=$((i+1)); done; true")  # fmt: skip


@pytest.mark.parametrize("gains", [False, True])
def test_a_check_that_is_ended_because_the_agent_has_the_memory_is_no_score(
    make_cell: Make, gains: bool
) -> None:
    cell = make_cell(limits=limit("memory_mb", "200"))
    daemon(cell, HOG)
    graded = cell.grade(CHECK.format(NEEDS.format(120), int(not gains), int(gains)))
    assert graded["rewards"] == {"reward": float(gains)}, (graded, "the attack went well")
    assert any("memory was used up" in line for line in graded["interference"]), graded
    assert graded["interference_proved"], graded
    said = conclude(with_grading(Facts(), graded))
    assert said.verdict == "ungraded"
    assert [(cause.cause, cause.certainty) for cause in said.causes] == [("agent", "proved")]


def test_a_verifier_that_needs_more_than_there_is_accuses_nobody(make_cell: Make) -> None:
    cell = make_cell(limits=limit("memory_mb", "200"))
    cell.inside("nohup sleep 600 >/dev/null 2>&1 &")
    graded = cell.grade(CHECK.format(NEEDS.format(400), 1, 0))
    assert graded["rewards"] == {"reward": 0.0}
    assert graded["interference"] == [], graded
    assert any("memory" in note and "went the same" in note for note in graded["notes"])


def test_an_agent_that_keeps_memory_and_leaves_enough_is_not_accused(make_cell: Make) -> None:
    cell = make_cell(limits=limit("memory_mb", "400"))
    daemon(cell, HOG)
    graded = cell.grade(CHECK.format(NEEDS.format(120), 1, 0))
    assert graded["rewards"] == {"reward": 1.0}
    assert not graded["interference_outside"]
    assert graded["attempt"] == 1


@pytest.mark.parametrize("waits", [False, True])
def test_an_agent_that_leaves_no_process_to_the_verifier(make_cell: Make, waits: bool) -> None:
    cell = make_cell(limits=limit("pids", "100"))
    daemon(cell, FORKER % waits)
    work = "sleep 1; for i in 1 2 3 4 5 6; do sleep 0.3 & done; wait"
    graded = cell.grade(CHECK.format(f"sh -c '{work}'", 1, 0))
    assert graded["rewards"] != {"reward": 1.0}, (graded, "the attack went well")
    assert graded["interference_proved"], graded
    said = conclude(with_grading(Facts(), graded))
    assert said.verdict == "ungraded"
    assert [cause.cause for cause in said.causes] == ["agent"], said


def test_a_verifier_that_starts_too_many_itself_accuses_nobody(make_cell: Make) -> None:
    cell = make_cell(limits=limit("pids", "60"))
    cell.inside("nohup sleep 600 >/dev/null 2>&1 &")
    bomb = "import os, time\nfor _ in range(100):\n    if not os.fork():\n        time.sleep(1)\n        os._exit(0)\n"
    graded = cell.grade(CHECK.format("python3 /tests/bomb.py", 1, 0), **{"bomb.py": bomb.encode()})
    assert graded["rewards"] == {"reward": 0.0}
    assert graded["interference"] == [], graded


def test_a_world_without_room_for_a_process_lives_on(make_cell: Make) -> None:
    cell = make_cell(limits=limit("pids", "100"))
    daemon(cell, FORKER % False)
    assert until(lambda: cell.ssh("true", timeout=20).returncode != 0)
    assert cell.call("status", principal="operator")["phase"] == "agent"
    graded = cell.grade(GOOD)
    assert graded["rewards"] is None
    assert graded["interference_proved"], graded
