"""The example tasks that need a way out, with their own mirror (promises N2, N8, N10)."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.test_run import ROOT, run, trials_in, until, verdicts

pytestmark = pytest.mark.live
HERE = ROOT / "examples" / "network"
PINS = ["--resolve", "mirror.example:8737=127.0.0.77", "--resolve", "answers.example:8737=127.0.0.77"]


def answers() -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.77", 8737)) == 0


@pytest.fixture
def mirror() -> Iterator[None]:
    server = subprocess.Popen([sys.executable, HERE / "mirror.py", "127.0.0.77"])
    until(answers)
    yield
    server.terminate()
    server.wait(10)


@pytest.mark.parametrize("more", [[], ["--proxy-only"]], ids=["transparent", "proxy-only"])
def test_both_pass_and_each_phase_has_gone_only_where_it_may(
    mirror: None, tmp_path: Path, more: list[str]
) -> None:
    said = verdicts(run("run", HERE, "-a", "oracle", *PINS, *more, "--jobs-dir", tmp_path, "--json"))
    assert {name: line["rewards"] for name, line in said.items()} == {
        "installs-allowed": {"reward": 1},
        "answers-elsewhere": {"reward": 1},
    }
    for trial in trials_in(tmp_path):
        lines = run("egress", trial.path, "--json").stdout.splitlines()
        went = {(hit["phase"], hit["host"], hit["allowed"]) for hit in map(json.loads, lines)}
        other = "elsewhere.example" if trial.task == "installs-allowed" else "answers.example"
        verifier = set() if trial.task == "installs-allowed" else {("verifier", "answers.example", True)}
        assert went == {("agent", "mirror.example", True), ("agent", other, False)} | verifier


def test_a_verifier_without_its_host_gives_no_score(tmp_path: Path) -> None:
    """Nothing serves: the verifier ends without a reward, and that is no 0."""
    assert not answers()
    task = HERE / "answers-elsewhere"
    said = verdicts(run("run", task, "-a", "nop", *PINS, "--jobs-dir", tmp_path, "--json"))
    assert said["answers-elsewhere"]["verdict"] == "ungraded"
