"""A kept cell graded with one thing changed: it says what it says, and the score stays as it was (V1, V7)."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cell import beside, trials
from cell.errors import Refused
from tests.world import LiveCell, until
from tests.world import tests as packed

from .test_ways import Maker, Origin, origin, phase

__all__ = ["origin"]
pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]
ROOT = Path(__file__).parents[2]

# It passes when it has time, and what the agent left running stands still.
VERIFIER = """#!/bin/sh
sleep 2
before=$(cat /root/n); sleep 0.5
[ "$before" = "$(cat /root/n)" ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
echo this is what it said
"""
COUNTS = "nohup sh -c 'n=0; while :; do n=$((n+1)); echo $n > /root/n; sleep 0.05; done' >/dev/null 2>&1 &"


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cell", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=110,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Any]:
    """Run a task whose verifier has so many seconds, and leave its cell up."""
    made = []

    def make(seconds: float) -> Path:
        task = tmp_path / "counts"
        shutil.copytree(ROOT / "examples/tasks/hello-pass", task)
        (task / "task.toml").write_text(
            f'[verifier]\ntimeout_sec = {seconds}\n[environment]\nnetwork_mode = "no-network"\nworkdir = "/root"\n'
        )
        (task / "tests/test.sh").write_text(VERIFIER)
        (tmp_path / "agent.sh").write_text(COUNTS)
        agent = f'exec:ssh -F "$CELL_SSH_CONFIG" agent sh -s < {tmp_path}/agent.sh'
        run("run", task, "-a", agent, "--keep", "always", "--jobs-dir", tmp_path / "jobs")
        (path,) = (tmp_path / "jobs").glob("*/*__*")
        made.append(path)
        return path

    yield make
    for path in made:
        run("stop", path)


def marks(trial: Path) -> dict[str, str]:
    """What the score is made of."""
    files = [trial / "result.json", trial / "cell/verdict.json", *(trial / "verifier").rglob("*")]
    files += [path for path in (trial.parent / "result.json",) if path.exists()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()}


def test_v1_more_time_tells_what_it_tells_and_the_score_stays(kept: Any) -> None:
    trial = kept(1.0)
    before, was = marks(trial), trials.read_trial(trial)
    assert (was.state, was.score, was.touched) == ("kept", None, False)
    done = run("grade", trial, "--with", "timeout=x8", "--who", "ada", "--json")
    assert done.returncode == 0, done
    told = json.loads(done.stdout)
    assert (told["official"], told["change"], told["rewards"]) == (False, "timeout=x8", {"reward": 0})
    assert marks(trial) == before
    now = trials.read_trial(trial)
    assert (now.state, now.score, now.verdict) == (was.state, was.score, was.verdict)
    assert [(one.change, one.who, one.verdict.reward) for one in now.regrades] == [("timeout=x8", "ada", 0.0)]
    assert now.touched, "V7: it ran in the world, and that is said"
    left = trial / f"cell/{beside.FOLDER}/{now.regrades[0].attempt}/verifier/test-stdout.txt"
    assert "this is what it said" in left.read_text()
    shown = run("grade", trial, "--with", "timeout=1s")
    assert shown.returncode == 3
    assert "with timeout=1s, beside the score, which stays ungraded" in shown.stdout
    assert trials.read_job(trial.parent).graded_mean is None, "no mean counts it"


def test_v1_with_the_agent_standing_still_the_same_world_passes(kept: Any) -> None:
    trial = kept(30.0)
    before = marks(trial)
    assert trials.read_trial(trial).score == 0.0
    done = run("grade", trial, "--with", "agent=still")
    assert done.returncode == 0, done
    assert "with agent=still, beside the score, which stays 0.00" in done.stdout
    assert [one.verdict.reward for one in trials.read_trial(trial).regrades] == [1.0]
    assert marks(trial) == before

    def count() -> str:
        return run("ssh", trial, "cat /root/n").stdout

    first = count()
    assert until(lambda: count() != first), "and the agent's processes went on afterwards"
    bundle = trial.parent.parent / "b.tar.gz"
    assert run("bundle", trial, "--out", bundle).returncode == 0
    with tarfile.open(bundle) as archive:
        names = [name.partition(f"{trial.name}/")[2] for name in archive.getnames()]
        whole = b"".join(
            (archive.extractfile(one) or sys.stdin.buffer).read() for one in archive if one.isreg()
        )
    assert {"cell/regrades.jsonl", "cell/regrades/2/verifier/test-stdout.txt", "cell/events.jsonl"} <= set(
        names
    )
    assert not [name for name in names if name.endswith((".key", ".sock", "ssh_config"))]
    assert b"PRIVATE KEY" not in whole, "of a cell that lives"


def test_v1_a_way_out_that_leads_anywhere_is_for_that_one_grading(make_cell: Maker, origin: Origin) -> None:
    cell: LiveCell = make_cell(
        agent_phase=phase("no-network"),
        verifier_phase=phase("allowlist", "v.example", key="verifier.network_mode"),
        pins=(("v.example", "127.0.0.9"), ("other.example", "127.0.0.9")),
    )
    script = f"""#!/bin/sh
python3 - <<'P'
import urllib.request as r, urllib.error as e
try:
    found = r.urlopen("http://other.example:{origin.port}/", timeout=10).status
except e.HTTPError as error:
    found = error.code
open("/logs/verifier/reward.txt", "w").write(str(int(found == 200)))
P
"""
    blob = packed({"test.sh": script.encode()})

    def grade(**more: Any) -> Any:
        return cell.call("grade", blob, principal="operator", timeout=20, env={}, **more)["rewards"]["reward"]

    cell.seal()
    with pytest.raises(Refused, match="no verdict yet"):
        grade(change="network=public")
    assert cell.grade(script)["rewards"] == {"reward": 0.0}
    cell.call("keep", principal="operator")
    assert grade(change="network=public") == 1.0
    assert grade() == 0.0, "and then it is as it was"
    with pytest.raises(Refused, match="say timeout=x4"):
        grade(change="network=everything")
    said = [one["what"] for one in cell.events("intervention")]
    assert said == ["graded again, with network=public", "graded again"]


def test_a_world_without_a_way_out_has_none_that_leads_anywhere(cell: LiveCell) -> None:
    cell.grade("#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n")
    cell.call("keep", principal="operator")
    with pytest.raises(Refused, match="no way out that could lead anywhere"):
        cell.call("grade", b"", principal="operator", timeout=20, env={}, change="network=public")


def test_what_cannot_be_is_one_line(tmp_path: Path) -> None:
    done = run("grade", tmp_path, "--with", "verifier=kinder")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done
    assert "say timeout=x4" in done.stderr
