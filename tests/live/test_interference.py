"""V1: what the agent's processes do to the verifier's is seen, proved and never a reward; 121 with its controls."""

from __future__ import annotations

from typing import Any

import pytest

from cell import interference, kernel
from cell.signalwatch import Fork, Signal, crossings

from .conftest import LiveCell, until

pytestmark = pytest.mark.live
REWARD = "echo {} > /logs/verifier/reward.txt\n"
# Goes on when its helper is killed, and writes what it then believes.
CAREFUL = "#!/bin/sh\nif sleep 1.25; then r=1; else r=0; fi\necho $r > /logs/verifier/reward.txt\n"
INVERSE = "#!/bin/sh\nif sleep 1.25; then r=0; else r=1; fi\necho $r > /logs/verifier/reward.txt\n"


def killer(cell: LiveCell, signal: str, aim: str = "^sleep 1[.]25") -> None:
    loop = f"while :; do pkill -{signal} -f '{aim}'; sleep 0.05; done"
    cell.inside(f'nohup sh -c "{loop}" >/dev/null 2>&1 &')


@pytest.mark.parametrize("signal", ["KILL", "TERM", "STOP"])
def test_a_killed_or_stopped_helper_of_the_verifier_is_the_agents_doing(cell: LiveCell, signal: str) -> None:
    killer(cell, signal)
    graded = cell.grade(CAREFUL, timeout=4)
    assert graded["sure"], graded["notes"]
    assert graded["interference_outside"], graded
    assert graded["interference_proved"], graded
    assert any(f"SIG{signal}" in line and "sleep" in line for line in graded["interference"])


def test_a_kill_that_brings_a_reward_is_seen_as_well(cell: LiveCell) -> None:
    killer(cell, "KILL")
    graded = cell.grade(INVERSE)
    assert graded["rewards"] == {"reward": 1.0}
    assert graded["interference_outside"]
    assert graded["interference_proved"]


def unaccused(graded: dict[str, Any]) -> None:
    assert graded["sure"], graded["notes"]
    assert graded["interference"] == []
    assert not graded["interference_outside"]
    assert not graded["interference_proved"]


def test_a_busy_agent_that_leaves_the_verifier_alone_is_not_accused(cell: LiveCell) -> None:
    killer(cell, "KILL", "^no such process")
    cell.inside("nohup sh -c 'while :; do sleep 0.02 & kill $!; wait; done' >/dev/null 2>&1 &")
    graded = cell.grade("#!/bin/sh\nsleep 0.5\n" + REWARD.format(0))
    assert graded["rewards"] == {"reward": 0.0}
    unaccused(graded)
    assert graded["attempt"] == 1, "there was no reason to verify twice"


@pytest.mark.parametrize(
    "script",
    [
        "sleep 9 & kill -9 $!; wait\n",
        "timeout 0.2 sleep 9\n",
        "sh -c 'sleep 0.4; kill -CONT $PPID' & kill -STOP $$\n",
        "sh -c 'kill -STOP $$' & sleep 0.3; kill -CONT $!\n",
        "kill -9 $$\n",
    ],
)
def test_what_the_verifier_does_to_itself_is_no_interference(cell: LiveCell, script: str) -> None:
    cell.inside("nohup sleep 600 >/dev/null 2>&1 &")
    graded = cell.grade("#!/bin/sh\n" + script + REWARD.format(0))
    unaccused(graded)
    assert graded["attempt"] == 1


def test_limits_of_its_own_are_not_the_agents_doing(cell: LiveCell) -> None:
    cell.inside("nohup sleep 600 >/dev/null 2>&1 &")
    graded = cell.grade("#!/bin/sh\nsleep 0.3; ulimit -n 64; sleep 0.4\n" + REWARD.format(0))
    assert graded["interference"] == []
    assert any("limits" in note and "went the same" in note for note in graded["notes"])


def test_limits_set_by_the_agent_are_proved_by_verifying_again(cell: LiveCell) -> None:
    loop = "while :; do for p in $(pgrep -f '^/bin/sh /tests/test.sh'); do prlimit --pid $p --nofile=3:3; done; done"
    cell.ssh("cat > /tmp/limiter", input=loop)
    cell.inside("nohup sh /tmp/limiter >/dev/null 2>&1 &")
    script = "#!/bin/sh\nsleep 0.6\nif cat /etc/hostname; then r=1; else r=0; fi\necho $r > /logs/verifier/reward.txt\n"
    graded = cell.grade(script)
    assert graded["rewards"] in (None, {"reward": 0.0})
    assert graded["interference_proved"], graded
    assert any("limits" in line for line in graded["interference"])


def test_the_agents_processes_go_on_after_they_were_held_still(cell: LiveCell) -> None:
    killer(cell, "KILL")
    cell.grade(CAREFUL)
    inside = set(kernel.processes_in(cell.pid_namespace))
    assert len(inside) > 1
    assert until(lambda: all((kernel.stat_fields(pid) or "X")[0] != "T" for pid in inside))


def test_who_could_act_is_everybody_but_pid_1(cell: LiveCell) -> None:
    class World:
        pid_namespace, pid = cell.pid_namespace, min(kernel.processes_in(cell.pid_namespace))

    assert interference.agents(World) == set()  # type: ignore[arg-type]
    cell.inside("nohup sleep 600 >/dev/null 2>&1 &")
    assert len(interference.agents(World)) == 1  # type: ignore[arg-type]


def signals(events: list[Fork | Signal], senders: set[int], root: int) -> dict[tuple[str, str], int]:
    return dict(crossings(events, senders, root).signals)


def test_who_is_whose_follows_the_forks_and_a_pid_used_again() -> None:
    kill = Signal(50, 12, 9, 31, "sleep")
    forks: list[Fork | Signal] = [Fork(10, 30, 30, 5), Fork(20, 31, 31, 30), Fork(30, 12, 12, 11)]
    assert signals([kill, *forks], {11}, 30) == {("SIGKILL", "sleep"): 1}
    assert signals([kill, *forks], {99}, 30) == {}
    again = Fork(40, 12, 12, 30)  # the killer's pid is now a child of the verifier's
    assert signals([kill, *forks, again], {11}, 30) == {}
    thread: list[Fork | Signal] = [Fork(25, 31, 32, 31), Signal(50, 12, 15, 32, "python")]
    assert signals([*forks, *thread], {11}, 30) == {("SIGTERM", "python"): 1}
    assert signals([*forks, Signal(50, 12, 28, 31, "vim")], {11}, 30) == {}
