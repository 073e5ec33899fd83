"""What the records say reaches the verdict: every fault, weighed by where it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from cell import outcome
from cell.events import Egress, Fault, PhaseChanged
from cell.journal import Journal
from cell.records import Verdict
from cell.task import Task, load
from cell.verdict import conclude
from cell.verdict.facts import AgentOutcome, FaultSeen

TASK = Path(__file__).parents[2] / "examples" / "tasks" / "hello-pass"
GRADING = {
    "rewards": {"reward": 1.0},
    "reward_file": "reward.txt",
    "fault": None,
    "tests": [],
    "exit": 0,
    "signal": None,
    "stopped": "",
    "output": "",
    "interference": [],
    "interference_proved": False,
    "interference_outside": False,
    "programs": [],
    "notes": [],
}


@pytest.fixture
def task() -> Task:
    return load(TASK, oracle=False)


def verdict(
    trial: Path, task: Task, *faults: str, fatal: tuple[FaultSeen, ...] = (), **grading: object
) -> Verdict:
    (trial / "cell").mkdir(exist_ok=True)
    with Journal(trial / "cell" / "events.jsonl") as journal:
        journal.append(PhaseChanged(phase="agent", by="runner"))
        for where in faults:
            journal.append(Fault(where=where, message="it broke"))
    facts = outcome.gather(
        trial, task, grading={**GRADING, **grading}, outcome=AgentOutcome(name="nop"), fatal=fatal
    )
    return conclude(facts)


def test_a_place_that_was_refused_is_written_as_it_is_dialled(tmp_path: Path, task: Task) -> None:
    (tmp_path / "cell").mkdir()
    with Journal(tmp_path / "cell" / "events.jsonl") as journal:
        for number, (host, port) in enumerate([("2001:db8::9", 443), ("a.example", 80), ("", 0)], 1):
            journal.append(
                Egress(hit=number, phase="agent", way="proxy", method="", host=host, port=port, allowed=False)
            )
    facts = outcome.gather(tmp_path, task, grading=GRADING, outcome=AgentOutcome(name="nop"))
    assert [one.place for one in facts.denials] == ["[2001:db8::9]:443", "a.example:80", ""]


@pytest.mark.parametrize(
    ("where", "ends", "suspect"),
    [
        ("sandbox", True, False),
        ("serve", True, False),
        ("session", False, True),
        ("egress", False, True),
        ("network", False, True),
        ("verifier", False, True),
        ("journal", False, False),
        ("recording", False, False),
        ("artifacts", False, False),
        ("gate", False, False),
        ("control", False, False),
    ],
)
def test_a_fault_counts_by_where_it_was(
    tmp_path: Path, task: Task, where: str, ends: bool, suspect: bool
) -> None:
    found = verdict(tmp_path, task, where)
    assert found.verdict == ("ungraded" if ends else "graded")
    assert found.suspect is suspect
    assert bool(found.causes) == (ends or suspect)
    assert ends or any("it broke" in note for note in found.notes), "it is told in any case"
    if found.causes:
        assert found.causes[0].evidence[0].ref == "2", "the line of the journal"


def test_no_fault_no_doubt(tmp_path: Path, task: Task) -> None:
    found = verdict(tmp_path, task)
    assert (found.verdict, found.suspect, found.causes) == ("graded", False, ())


def test_what_the_cell_wrote_comes_before_what_its_runner_saw(tmp_path: Path, task: Task) -> None:
    lost = FaultSeen(where="serve", message="the connection broke", fatal=True)
    found = verdict(tmp_path, task, "sandbox", fatal=(lost,))
    assert [cause.cause for cause in found.causes] == ["sandbox", "harness"]
    assert found.fault.startswith("sandbox: it broke")


def test_by_the_kernels_word_a_reward_does_not_count(tmp_path: Path, task: Task) -> None:
    seen = ["SIGKILL to the verifier's process 'sleep', from a process of the agent"]
    found = verdict(tmp_path, task, interference=seen, interference_outside=True)
    assert (found.verdict, found.causes[0].cause, found.causes[0].certainty) == ("ungraded", "agent", "shown")
    proved = verdict(tmp_path, task, interference=seen, interference_outside=True, interference_proved=True)
    assert proved.causes[0].certainty == "proved"


def test_every_declared_limit_is_told_of(task: Task) -> None:
    assert [limit.name for limit in outcome.declared_limits(task)][-1] == "pids"


@pytest.mark.parametrize(("phase", "suspect"), [("agent", False), ("verifier", True)])
def test_a_record_that_was_full_reaches_the_verdict(
    tmp_path: Path, task: Task, phase: str, suspect: bool
) -> None:
    (tmp_path / "cell").mkdir()
    with Journal(tmp_path / "cell" / "events.jsonl") as journal:
        journal.append(
            Egress(
                hit=9,
                phase=phase,  # type: ignore[arg-type]
                way="proxy",
                method="",
                host="any host",
                port=0,
                allowed=False,
                rule="record limit",
                reason="denied: the record is full",
            )
        )
    found = verdict(tmp_path, task, rewards={"reward": 0.0})
    assert found.suspect == suspect
    assert any("was refused any host: denied: the record is full" in note for note in found.notes)
    assert any("record is full" in one.text for cause in found.causes for one in cause.evidence)
