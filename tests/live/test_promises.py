"""Promises about a whole rollout, as its operator sees it (H3, H5, V4, V5, R3, O2, O6)."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

import pytest
from world import GOOD

from .conftest import LiveCell
from .test_run import EXAMPLES, jobs, run, task, trials_in, verdicts

__all__ = ["jobs"]
pytestmark = pytest.mark.live


def sockets_of(pid: int) -> set[str]:
    links = (os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir())
    return {link[8:-1] for link in links if link.startswith("socket:[")}


def inet(pid: int) -> set[str]:
    """The numbers of the TCP and UDP sockets in a process's network namespace."""
    tables = ("tcp", "tcp6", "udp", "udp6", "raw", "raw6")
    lines = [line for name in tables for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]]
    return {line.split()[9] for line in lines}


def test_h3_no_key_of_ours_is_readable_inside(cell: LiveCell) -> None:
    keys = [path.read_bytes() for path in cell.runtime.glob("*.key")]
    words = [key.splitlines()[2][:40].decode() for key in keys]
    assert len(set(words)) >= 4, "control: each principal has one"
    cell.inside(f"echo {words[0]} > /opt/planted")
    # in all files of all filesystems, and in what processes can be asked for
    each = " ".join(f"-e {word}" for word in words)
    look = f"grep -rlF {each} / --exclude-dir=sys --exclude-dir=proc 2>/dev/null; grep -lF {each} /proc/[0-9]*/environ"
    assert cell.ssh(look, timeout=120).stdout.split() == ["/opt/planted"], (
        "control: what was planted is found"
    )
    assert not cell.ssh(f"ls {cell.runtime}").stdout


def test_h5_serving_has_no_address_and_writes_nothing_into_the_graded_tree(cell: LiveCell) -> None:
    cell.inside("true")
    ours = sockets_of(cell.process.pid)
    assert ours, "control: it serves on sockets"
    assert not ours & inet(os.getpid()), "none of them is of this machine's network"
    before = changed(cell)
    assert {path.name for path in before} == {"hosts", "hostname", "resolv.conf"}, (
        "what was laid for the world"
    )
    cell.inside("echo mine > /etc/mine")
    cell.grade(GOOD)
    assert {path.name for path in changed(cell) - before} == {"mine"}


def changed(cell: LiveCell) -> set[Path]:
    """The files in the upper layers of a cell's root: what is not as the image has it."""
    files = (path for path in (cell.trial / "cell/root").rglob("*") if path.is_file())
    return {path for path in files if "upper" in path.parts}


def test_v4_an_agent_that_ran_out_of_time_is_still_graded(tmp_path: Path, jobs: Path) -> None:
    folder = task(tmp_path / "late")
    (folder / "task.toml").write_text(
        '[agent]\ntimeout_sec = 1.5\n[environment]\nnetwork_mode = "no-network"\n'
    )
    (folder / "tests/test.sh").write_text("#!/bin/sh\ncat /opt/work > /logs/verifier/reward.txt\n")
    (folder / "solution/solve.sh").write_text("#!/bin/sh\necho 0.5 > /opt/work\nsleep 60\n")
    said = verdicts(run("run", folder, "-a", "oracle", "--jobs-dir", jobs, "--json"))["late"]
    assert (said["verdict"], said["rewards"]) == ("graded", {"reward": 0.5})
    (trial,) = trials_in(jobs)
    result = json.loads(Path(trial.path, "result.json").read_text())
    assert result["exception_info"]["exception_type"] == "AgentTimeoutError"


def test_v5_each_verdict_that_is_no_clean_pass_has_its_cause(jobs: Path) -> None:
    said = verdicts(run("run", EXAMPLES, "-a", "oracle", "--jobs-dir", jobs, "--json"))
    clean = {name for name, one in said.items() if one["rewards"] == {"reward": 1}}
    assert clean and clean != set(said), "control: some pass and some do not"
    for name, one in said.items():
        causes: Any = one["causes"]
        assert bool(causes) == (name not in clean), one
        for cause in causes:
            assert cause["cause"] in {"agent", "verifier", "unknown"}
            assert cause["summary"]


def test_r3_every_terminal_is_an_asciicast_that_says_who_typed(cell: LiveCell) -> None:
    assert "typed" in cell.ssh(None, tty=True, input="echo ty''ped\nexit\n").stdout
    (cast,) = (cell.trial / "cell/sessions").glob("*.cast")
    head, *events = [json.loads(line) for line in cast.read_text().splitlines()]
    assert (head["version"], head["width"] > 0, head["height"] > 0) == (2, True, True)
    assert all(isinstance(at, float | int) and kind in "oirm" for at, kind, _ in events)
    assert events == sorted(events, key=lambda event: event[0])
    assert "typed" in "".join(text for _, kind, text in events if kind == "o")
    assert "echo ty''ped" in "".join(text for _, kind, text in events if kind == "i").replace("\r", "")


def test_o2_o6_all_of_it_is_json_and_one_cell_has_one_name_everywhere(jobs: Path, tmp_path: Path) -> None:
    task = f"named-{secrets.token_hex(4)}"  # others on this machine may run the example itself
    shutil.copytree(EXAMPLES / "hello-pass", tmp_path / task)
    toml = tmp_path / task / "task.toml"
    toml.write_text(toml.read_text().replace("hello-pass", task))
    run("run", tmp_path / task, "-a", "exec:ssh -F $CELL_SSH_CONFIG agent 'echo said'",
        "--keep", "always", "--jobs-dir", jobs)  # fmt: skip
    (trial,) = trials_in(jobs)
    assert trial.alive
    try:
        for name in (trial.id, trial.id[:5], task[:9], trial.path):
            for command in ("commands", "egress", "fidelity"):
                done = run(command, name, "--jobs-dir", jobs, "--json")
                lines = [json.loads(line) for line in done.stdout.splitlines()]
                assert bool(lines) == (command != "egress"), (name, command, done)
            assert run("ssh", "--jobs-dir", jobs, name, "echo here").stdout == "here\n"
        listed = [json.loads(line) for line in run("ls", jobs, "--json").stdout.splitlines()]
        assert [(one["id"], one["alive"]) for one in listed] == [(trial.id, True)]
        unknown = run("commands", "nobody", "--jobs-dir", jobs)
        assert unknown.returncode == 2 and "nobody" in unknown.stderr
    finally:
        assert run("stop", trial.id[:4], "--jobs-dir", jobs).returncode == 0
    listed = [json.loads(line) for line in run("ls", jobs, "--json").stdout.splitlines()]
    assert [(one["id"], one["alive"]) for one in listed] == [(trial.id, False)], "and of what has ended"
