"""Those who look on: the agent never waits for a viewer, and a stalled one is told that it lagged."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.live


def test_o1_the_agent_never_waits_for_a_viewer(make_cell: Callable[..., Any]) -> None:
    cell = make_cell()
    ssh = ["ssh", "-F", str(cell.trial / "cell" / "ssh_config")]
    flood = "read go; head -c 100000000 /dev/zero | tr '\\0' x; echo done"
    agent = subprocess.Popen([*ssh, "-tt", "agent", flood], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    end = time.monotonic() + 20
    while not (cell.trial / "cell" / "sessions" / "1.cast").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    reading = subprocess.Popen([*ssh, "viewer", "watch 1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    stalled = subprocess.Popen([*ssh, "viewer", "watch 1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert stalled.stdout and reading.stdout and agent.stdin and agent.stdout
    journal = cell.trial / "cell" / "events.jsonl"
    while journal.read_text().count('"method":"watch"') < 2:
        assert time.monotonic() < end
        time.sleep(0.02)
    drain = subprocess.Popen(["wc", "-c"], stdin=reading.stdout, stdout=subprocess.PIPE)
    agent.stdin.write(b"\n")
    agent.stdin.flush()
    printed = agent.stdout.read()  # comes to its end although `stalled` has read nothing
    assert printed.count(b"x") == 100_000_000
    assert printed.rstrip().endswith(b"done")
    seen, errors = stalled.communicate(timeout=30)
    assert b"you lagged" in errors
    assert len(seen) < 50_000_000
    assert int(drain.communicate(timeout=30)[0]) > 0
    for process in (agent, reading, stalled, drain):
        process.wait(10)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def test_an_operators_shell_is_in_the_record(make_cell: Callable[..., Any]) -> None:
    cell = make_cell()
    ssh = ["ssh", "-F", str(cell.trial / "cell" / "ssh_config")]
    assert subprocess.run([*ssh, "operator", "echo hi"], capture_output=True).stdout == b"hi\n"
    assert (
        '"kind":"intervention","principal":"operator"' in (cell.trial / "cell" / "events.jsonl").read_text()
    )
    viewer = subprocess.run([*ssh, "viewer", "echo hi"], capture_output=True)
    assert (viewer.returncode, viewer.stdout) == (126, b"")
