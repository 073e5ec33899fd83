"""Section G, the network of the phases: each has its own way out, by who holds the connection (SPEC N2, N8, V5)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from world import GOOD, LiveCell, until

from cell import trials

from .bench import answered, asking, conversed, direct, linger, to_proxy
from .internet import Audit, Internet, spec

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[2]
Maker = Callable[..., LiveCell]


@pytest.fixture
def phased(
    internet: Internet, tmp_path: Path
) -> Iterator[Callable[[tuple[str, ...], tuple[str, ...]], LiveCell]]:
    """Make cells with a (mode, hosts…) for the agent and another one for the verifier."""
    made: list[LiveCell] = []

    def make(agent: tuple[str, ...], verifier: tuple[str, ...]) -> LiveCell:
        made.append(
            internet.cell(
                tmp_path / f"trial{len(made)}",
                agent_phase=spec(*agent),
                verifier_phase=spec(*verifier, key="verifier.network_mode"),
            )
        )
        return made[-1]

    yield make
    for cell in made:
        assert cell.stop() == 0


def test_100_the_verifiers_way_out_is_not_the_agents(
    phased: Callable[[tuple[str, ...], tuple[str, ...]], LiveCell], internet: Internet
) -> None:
    cell = phased(("public",), ("allowlist", "v.example"))
    url = "http://v.example/from-the-agent"
    assert conversed(cell, to_proxy("x", port=3129))[0]["how"] == "ECONNREFUSED", "before it runs"
    assert answered(conversed(cell, asking("v.example"))[0]) == 200, (
        "control: in its own phase it may go there"
    )
    said = cell.trial / "cell/root/upper/tmp/said"
    linger(cell, "keeps_trying", 3129, url, "/tmp/said")
    # and on its own way, which is closed to it by then
    linger(cell, "keeps_trying", 3128, url, "/tmp/own")
    assert until(lambda: said.with_name("own.5").exists())
    cell.seal()
    own = said.with_name("own")
    before = len(own.read_text().splitlines())
    assert until(lambda: len(own.read_text().splitlines()) > before + 1)
    heads, audit = len(internet.far.heads), Audit(cell)
    graded = cell.grade(
        "#!/bin/sh\nuntil [ -e /tmp/said.5 ]; do sleep 0.05; done\n"
        "curl -s -m 10 http://v.example/from-the-verifier\necho 1 > /logs/verifier/reward.txt\n"
    )
    assert (graded["rewards"], graded["output"]) == ({"reward": 1}, "hello /from-the-verifier")
    assert [head.split(b" ")[1] for head in internet.far.heads[heads:]] == [b"/from-the-verifier"]
    lines = [line for line in said.read_text().splitlines() if line]  # none where its end cut one
    assert len(lines) >= 5 and all(
        line.startswith("HTTP/1.1 403 ") and "not its own" in line for line in lines
    )
    assert own.read_text().splitlines()[-1].startswith("HTTP/1.1 403 ")
    strangers = audit.all(rule="owner")
    assert len(strangers) >= 5 and not any(one["allowed"] for one in strangers)
    (ours,) = audit.all(path="/from-the-verifier")
    assert ours["allowed"] and ours["phase"] == "verifier" and "curl" in ours["command"]


ASK = """#!/bin/sh
for host in v.example a.example; do
curl -s -m 10 -o /dev/null -w '%{http_code} ' http://$host/
curl -s -m 10 -o /dev/null -w '%{http_code} ' --noproxy '*' http://$host/
done
"""


@pytest.mark.parametrize(
    ("agent", "verifier", "own", "others"),
    [
        (("allowlist", "a.example"), ("allowlist", "v.example"), [403, 0, 200, 200], "200 200 403 000 "),
        (("no-network",), ("public",), [0, 0, 0, 0], "200 000 200 000 "),
        (("public",), ("no-network",), [200, 200, 200, 200], "000 000 000 000 "),
    ],
    ids=["each its own", "only the verifier", "only the agent"],
)
def test_101_each_phase_has_its_own_list(
    phased: Callable[[tuple[str, ...], tuple[str, ...]], LiveCell],
    internet: Internet,
    agent: tuple[str, ...],
    verifier: tuple[str, ...],
    own: list[int],
    others: str,
) -> None:
    cell = phased(agent, verifier)
    talks = [talk for host in ("v.example", "a.example") for talk in (asking(host), direct(host, 80))]
    before = len(internet.far.came)
    told = conversed(cell, *talks)
    assert [answered(one) for one in told] == own, told
    assert len(internet.far.came) == before + own.count(200)
    assert {one["phase"] for one in cell.events("egress")} <= {"agent"}
    cell.seal()
    audit, before = Audit(cell), len(internet.far.came)
    graded = cell.grade(ASK + GOOD.partition("\n")[2])
    assert graded["output"] == others, graded
    assert graded["rewards"] == {"reward": 1}
    assert len(internet.far.came) == before + others.count("200")
    records = [one for one in audit.all() if one["way"] != "name"]
    assert {one["phase"] for one in records} <= {"verifier"}
    for one in records:
        wanted = verifier[0] == "public" or (one["host"] == "v.example" and verifier[0] != "no-network")
        assert one["allowed"] == wanted, one
        assert wanted or "[verifier]" in one["reason"], one


TASK = """version = "1.0"
[agent]
timeout_sec = 20
network_mode = "no-network"
[verifier]
timeout_sec = 20
network_mode = "allowlist"
allowed_hosts = ["allowed.example"]
"""
FETCH = "curl -s -S -f -m 10 http://denied.example/data || curl -s -S -f -m 10 --noproxy '*' http://denied.example/data"
VERIFIERS = {
    "is-denied": f"{FETCH} || exit 7",
    "is-denied-after": f"echo 0 > /logs/verifier/reward.txt; {FETCH}",
    "control": "echo 1 > /logs/verifier/reward.txt",
}


def test_103_a_verifier_that_is_denied_a_host(tmp_path: Path) -> None:
    for name, script in VERIFIERS.items():
        task = tmp_path / "tasks" / name
        (task / "tests").mkdir(parents=True)
        (task / "task.toml").write_text(TASK)
        (task / "instruction.md").write_text("Do nothing.\n")
        (task / "tests/test.sh").write_text(f"#!/bin/sh\n{script}\n")
    done = subprocess.run(
        [sys.executable, "-m", "cell", "run", str(tmp_path / "tasks"), "-a", "nop", "-n", "3", "--jobs-dir",
         str(tmp_path / "jobs"), "--json"],
        capture_output=True, text=True, timeout=110, cwd=ROOT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    verdicts: dict[str, dict[str, Any]] = {
        trial.task: msgspec.to_builtins(trial.verdict)
        for job in (tmp_path / "jobs").iterdir()
        for trial in trials.read_job(job).trials
    }
    assert set(verdicts) == set(VERIFIERS), done
    assert (verdicts["control"]["verdict"], verdicts["control"]["rewards"]) == ("graded", {"reward": 1})
    assert not verdicts["control"]["suspect"]
    none, stands = verdicts["is-denied"], verdicts["is-denied-after"]
    assert (none["verdict"], none["rewards"]) == ("ungraded", {}), none
    assert (stands["verdict"], stands["rewards"], stands["suspect"]) == ("graded", {"reward": 0}, True), (
        stands
    )
    for said in (none, stands):
        causes = {cause["cause"]: cause for cause in said["causes"]}
        assert set(causes) == {"network"}, said
        evidence = [one for one in causes["network"]["evidence"] if "denied.example" in one["text"]]
        assert evidence and evidence[0]["kind"] == "event" and int(evidence[0]["ref"]) > 0, said
        assert "is not in allowed_hosts of [verifier]" in evidence[0]["text"]
