"""Who may do what to a real cell, and that a verdict is nobody's but the verifier's (G1–G4, V1–V3)."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cell import journal
from cell.errors import HarnessError, Refused

from .conftest import LiveCell, until

pytestmark = pytest.mark.live

GOOD = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"


def try_ssh(cell: LiveCell, principal: str, key: str, socket: str) -> subprocess.CompletedProcess[str]:
    """Connect with one principal's key to another one's socket."""
    proxy = Path(__file__).parents[2] / "cell/connect.py"
    return subprocess.run(
        [
            *("ssh", "-F", "none", "-o", f"ProxyCommand=python3 {proxy} {cell.runtime}/{socket}.sock"),
            *("-o", f"IdentityFile={cell.runtime}/{key}.key", "-o", "IdentitiesOnly=yes"),
            *("-o", f"UserKnownHostsFile={cell.runtime}/known_hosts", "-o", "BatchMode=yes"),
            *(f"{principal}@cell", "echo in"),
        ],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=20,
    )


def test_g1_a_key_opens_its_own_socket_only(cell: LiveCell) -> None:
    assert try_ssh(cell, "agent", "agent", "agent").stdout == "in\n", "the positive control"
    for principal, key, socket in (
        ("agent", "agent", "operator"),
        ("operator", "agent", "operator"),
        ("runner", "agent", "runner"),
        ("agent", "operator", "agent"),
    ):
        done = try_ssh(cell, principal, key, socket)
        assert (done.returncode, done.stdout) == (255, ""), (principal, key, socket)
        assert "Permission denied" in done.stderr


def test_g1_no_socket_is_seen_from_inside(cell: LiveCell) -> None:
    assert sorted(cell.runtime.glob("*.sock")), "the positive control: they exist"
    assert cell.inside("find / -xdev -type s 2>/dev/null; ls /run/hudtui 2>/dev/null; true") == ""
    unix = cell.inside("cat /proc/net/unix").splitlines()[1:]
    assert not [line for line in unix if cell.id in line or "hudtui" in line]


def test_g1_the_agent_has_no_control(cell: LiveCell) -> None:
    assert cell.call("status", principal="operator")["phase"] == "agent"
    with pytest.raises(HarnessError):
        cell.call("status", principal="agent")
    with pytest.raises(Refused, match="viewer may not"):
        cell.call("seal", principal="viewer")
    assert cell.info["phase"] == "agent"


def test_g2_g4_phases_cannot_be_skipped_and_each_refusal_is_written_down(
    make_cell: Callable[..., LiveCell],
) -> None:
    cell = make_cell(begun=False)
    early = cell.ssh("echo in")
    assert early.returncode == 126
    assert "has not begun" in early.stderr
    cell.begin()
    assert cell.inside("echo in") == "in\n"
    with pytest.raises(Refused, match="after the agent phase"):
        cell.call("grade", b"", timeout=5)
    with pytest.raises(Refused):
        cell.call("grade", b"", principal="viewer", timeout=5)
    cell.seal()
    late = cell.ssh("echo in")
    assert late.returncode == 126
    assert "phase is over" in late.stderr
    with pytest.raises(Refused):
        cell.seal()
    assert cell.grade(GOOD)["rewards"] == {"reward": 1.0}
    with pytest.raises(Refused):
        cell.grade(GOOD)
    refused = [(e["principal"], e["method"]) for e in cell.events("gate") if not e["allowed"]]
    assert refused == [
        ("agent", "session"),
        ("runner", "grade"),
        ("viewer", "grade"),
        ("agent", "session"),
        ("runner", "seal"),
        ("runner", "grade"),
    ]
    assert all(event["reason"] for event in cell.events("gate") if not event["allowed"])
    assert cell.stop() == 0
    file = cell.trial / "cell/events.jsonl"
    assert journal.verify(file) is None
    changed = cell.trial / "changed.jsonl"
    changed.write_text(file.read_text().replace('"allowed":false', '"allowed":true', 1))
    assert journal.verify(changed), "the positive control: a changed journal is found out"


def test_v3_a_deadline_ends_the_whole_tree(cell: LiveCell) -> None:
    cell.inside("nohup sleep 4242 >/dev/null 2>&1 &")
    script = "#!/bin/sh\nsetsid sleep 777 &\n(sleep 778 & sleep 779) &\nsleep 0.1; echo started; sleep 780\n"
    graded = cell.grade(script, timeout=2)
    assert "timed out" in graded["stopped"]
    assert graded["output"] == "started\n"
    assert graded["rewards"] is None
    sleeping = subprocess.run(["pgrep", "-af", r"^sleep (77.|780|4242)$"], capture_output=True, text=True)
    assert [line.split()[-1] for line in sleeping.stdout.splitlines()] == ["4242"], "only the agent's lives"


def test_v3_a_child_that_keeps_stdout_does_not_hold(cell: LiveCell) -> None:
    began = time.monotonic()
    graded = cell.grade("#!/bin/sh\nsleep 600 &\necho 1 > /logs/verifier/reward.txt; echo told\n", timeout=30)
    assert graded["rewards"] == {"reward": 1.0}
    assert (graded["stopped"], graded["output"]) == ("", "told\n")
    assert time.monotonic() - began < 10


def test_v3_a_second_look_at_the_cell_finds_it_alive(cell: LiveCell) -> None:
    cell.grade(GOOD)
    assert until(lambda: cell.info["phase"] == "finished")
    assert cell.call("status", principal="viewer")["phase"] == "finished"
