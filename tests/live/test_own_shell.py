"""An operator's own shell: as the agent, the verifier or root, told apart, and never as more than that (G1, V7)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from world import GOOD, SOURCE

from .conftest import LiveCell, until

pytestmark = pytest.mark.live


def ssh(
    cell: LiveCell, role: str, command: str, principal: str = "operator"
) -> subprocess.CompletedProcess[str]:
    line = cell.argv(command, principal=principal)
    return subprocess.run(
        [line[0], "-o", f"SetEnv=CELL_AS={role}", *line[1:]],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=30,
    )


@pytest.fixture
def users(make_cell: Callable[..., LiveCell]) -> LiveCell:
    return make_cell(agent_phase="daemon", verifier_phase="games", env=(("CELL_ASK", "kept"),))


def test_own_shells_are_who_was_asked_for(users: LiveCell) -> None:
    for role, name in (("agent", "daemon"), ("verifier", "games"), ("root", "root"), ("", "daemon")):
        done = ssh(users, role, "id -un; cd ~ && pwd >/dev/null && echo home; env | grep ^CELL_AS=")
        assert (done.returncode, done.stdout) == (1, f"{name}\nhome\n"), (role, done)
    assert "CELL_ASK=kept" in ssh(users, "root", "env").stdout, "the positive control"
    assert [e["user"] for e in users.events("session")][:3] == ["daemon", "games", "root"]
    touched = [e["what"] for e in users.events("intervention")]
    assert touched[1].endswith(" (as verifier)")
    assert touched[2].endswith(" (as root)")


def test_an_unknown_role_is_refused_and_an_agent_has_none(users: LiveCell) -> None:
    for role in ("nobody", "root;", "Root"):
        done = ssh(users, role, "id")
        assert (done.returncode, done.stdout) == (126, ""), done
        assert "CELL_AS is agent, verifier or root" in done.stderr
    done = ssh(users, "root", "id -un; env | grep ^CELL_AS=", principal="agent")
    assert done.stdout == "daemon\n", "an agent stays who it is, and nothing of it is to be seen"


def test_no_own_shell_has_the_verifiers_wall_or_its_view(users: LiveCell) -> None:
    expected = users.inside("grep CapBnd /proc/self/status")
    for role in ("agent", "verifier", "root"):
        assert ssh(users, role, "grep CapBnd /proc/self/status").stdout == expected
        assert ssh(users, role, "ls -d /tests /logs/verifier").stdout == ""


def test_no_own_shell_while_the_verifier_runs(users: LiveCell) -> None:
    users.seal()
    assert ssh(users, "verifier", "echo in").stdout == "in\n", "the positive control"
    script = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\nfor i in $(seq 100); do sleep 0.1; done\n"
    code = (
        "import sys; sys.path[:0] = ['tests']; from world import tests; from cell import control; import asyncio\n"
        "from pathlib import Path\n"
        "async def go():\n"
        f"    link = await control.Link.open(Path({str(users.runtime)!r}), 'runner')\n"
        f"    await link.call('grade', tests({{'test.sh': {script.encode()!r}}}), env={{}}, timeout=60)\n"
        "asyncio.run(go())\n"
    )
    grading = subprocess.Popen([sys.executable, "-c", code], cwd=SOURCE)
    try:
        assert until(lambda: users.info["phase"] == "verifier")
        for role in ("agent", "verifier", "root"):
            done = ssh(users, role, "echo in")
            assert (done.returncode, done.stdout) == (126, "")
            assert "verifier is running" in done.stderr
    finally:
        grading.wait(60)
    assert ssh(users, "root", "id -un").stdout == "root\n"


def test_cell_ssh_takes_its_options_before_and_after_the_cell(users: LiveCell) -> None:
    for words, expected in (
        (("--as", "root", "CELL", "id", "-un"), "root\n"),
        (("CELL", "--as", "verifier", "--", "id", "-un"), "games\n"),
        (("CELL", "--as=root", "id", "-un"), "root\n"),
        (("CELL", "--", "id", "-un"), "daemon\n"),
        (("CELL", "id", "-un"), "daemon\n"),
    ):
        line = [str(users.trial) if word == "CELL" else word for word in words]
        done = subprocess.run(
            [sys.executable, "-m", "cell", "ssh", *line],
            capture_output=True,
            text=True,
            cwd=SOURCE,
            stdin=subprocess.DEVNULL,
        )
        assert (done.returncode, done.stdout) == (0, expected), (words, done)
    for words in (("CELL", "--as", "king"), ("CELL", "--als", "root"), ("CELL", "--as")):
        line = [str(users.trial) if word == "CELL" else word for word in words]
        done = subprocess.run(
            [sys.executable, "-m", "cell", "ssh", *line], capture_output=True, text=True, cwd=SOURCE
        )
        assert done.returncode == 2, (words, done)


def test_v7_a_shell_after_the_verdict_is_an_intervention(cell: LiveCell) -> None:
    cell.grade(GOOD)
    assert ssh(cell, "root", "true").returncode == 0
    assert [e["what"] for e in cell.events("intervention")] == ["opened a session: true (as root)"]
