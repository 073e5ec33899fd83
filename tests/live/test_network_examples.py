"""The example tasks that need a way out, with their own mirror (promises N2, N8, N10)."""

from __future__ import annotations

import json
import shutil
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


def test_who_answers_a_verifier_is_the_agents_to_say_and_is_said(mirror: None, tmp_path: Path) -> None:
    """In a world that it shares, the agent can lead the verifier's own names elsewhere: that is evidence."""
    cheat = tmp_path / "cheat.sh"
    cheat.write_text(
        "echo '127.0.0.3 answers.example' >> /etc/hosts; printf 'noproxy = \"*\"\\n' > /root/.curlrc\n"
        "mkdir /tmp/www; echo forged | tee /tmp/www/greeting > /root/greeting.txt; cd /tmp/www\n"
        "nohup python3 -m http.server 8737 --bind 127.0.0.3 >/dev/null 2>&1 &\n"
    )
    agent = f'exec:ssh -F "$CELL_SSH_CONFIG" agent bash -s < {cheat}'
    task = HERE / "answers-elsewhere"
    run("run", task, "-a", agent, *PINS, "--jobs-dir", tmp_path / "jobs")
    (trial,) = trials_in(tmp_path / "jobs")
    assert trial.verdict is not None
    notes = "\n".join(trial.verdict.notes)
    assert "/etc/hosts: changed by the agent" in notes and "/root/.curlrc: changed by the agent" in notes
    run("run", task, "-a", "oracle", *PINS, "--jobs-dir", tmp_path / "clean")
    (clean,) = trials_in(tmp_path / "clean")
    assert clean.verdict is not None and clean.verdict.clean
    assert "changed by the agent" not in "\n".join(clean.verdict.notes), "control"


def test_a_host_of_the_verifiers_that_is_down_is_the_network(mirror: None, tmp_path: Path) -> None:
    folder = tmp_path / "down"
    shutil.copytree(HERE / "answers-elsewhere", folder)
    (folder / "tests/test.sh").write_text(
        "#!/bin/sh\ncurl -sf http://answers.example:8738/greeting; echo 0 > /logs/verifier/reward.txt\n"
    )
    pins = ["--resolve", "answers.example=127.0.0.77"]
    run("run", folder, "-a", "nop", *pins, "--jobs-dir", tmp_path / "jobs")
    (trial,) = trials_in(tmp_path / "jobs")
    assert trial.verdict is not None and trial.verdict.suspect
    assert [cause.cause for cause in trial.verdict.causes] == ["network"]
    assert "answers.example:8738" in trial.verdict.causes[0].evidence[0].text


def test_a_verifier_without_its_host_gives_no_score(tmp_path: Path) -> None:
    """Nothing serves: the verifier ends without a reward, and that is no 0."""
    assert not answers()
    task = HERE / "answers-elsewhere"
    said = verdicts(run("run", task, "-a", "nop", *PINS, "--jobs-dir", tmp_path, "--json"))
    assert said["answers-elsewhere"]["verdict"] == "ungraded"
