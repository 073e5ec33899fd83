from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cell import records
from cell.records import Evidence, Verdict, encode
from cell.rewards import RewardFault, Rewards
from cell.verdict import HARBOR_CAUSES, conclude, means
from cell.verdict.clues import missing_commands, unresolved
from cell.verdict.evidence import notes_of
from cell.verdict.facts import AgentOutcome, Denial, Facts, FaultSeen, Interference, NetworkOverride

FIXTURES = Path(__file__).parents[1] / "fixtures/harbor-0.25.0/jobs/demo-oracle"

PASS = Rewards(values={"reward": 1.0}, file="reward.txt")
HALF = Rewards(values={"reward": 0.5, "style": 1}, file="reward.json")
ZERO = Rewards(values={"reward": 0.0}, file="reward.txt")
NONE = RewardFault(name="RewardFileNotFoundError", message="No reward file found")
GARBAGE = RewardFault(name="VerifierOutputParseError", message="Failed to parse rewards from reward.txt")

T1 = records.TestResult(name="t1", status="passed")
T2 = records.TestResult(name="t2", status="failed", message="boom")
CLOSED = (
    NetworkOverride(phase="agent", declared="public", used="no-network"),
    NetworkOverride(phase="verifier", declared="public", used="no-network"),
)
NO_NAME = "starting\ncurl: (6) Could not resolve host: files.example\nend\n"
NO_UV = "x\n/tests/test.sh: line 7: uv: command not found\n"
LATE = AgentOutcome(timed_out=True, timeout_sec=2.0)
REFUSED = (Denial(phase="verifier", place="files.example:443", reason="denied: …", count=3, seq=7),)
DOWN = (Denial(phase="verifier", place="v.example:80", reason="502: …", seq=9, allowed=True),)
AGENTS_OWN = (Denial(phase="agent", place="files.example:443", reason="denied: …", seq=5),)
TYPED = (Evidence(kind="event", text="typed by operator", ref="9"),)


def shape(verdict: Verdict) -> str:
    """Return the verdict as the table below spells it."""
    flags = "suspect " * verdict.suspect + "touched " * verdict.touched
    causes = " ".join(f"{cause.cause}/{cause.certainty}" for cause in verdict.causes)
    return f"{verdict.verdict} {flags}{causes}".strip()


TABLE: list[tuple[str, dict[str, Any], str]] = [
    # what the verifier wrote stands
    ("a clean pass", {"rewards": PASS}, "graded"),
    ("zero, and nothing says why", {"rewards": ZERO, "verifier_exit": 1}, "graded unknown/assumed"),
    ("half, and a test by name", {"rewards": HALF, "tests": (T1, T2)}, "graded agent/shown"),
    ("zero, all tests passed", {"rewards": ZERO, "tests": (T1,)}, "graded unknown/assumed"),
    ("a pass with a failed test", {"rewards": PASS, "tests": (T1, T2)}, "graded"),
    ("zero, agent exited 1", {"rewards": ZERO, "agent": AgentOutcome(exit=1)}, "graded unknown/assumed"),
    ("zero, agent killed", {"rewards": ZERO, "agent": AgentOutcome(signal="KILL")}, "graded unknown/assumed"),
    ("the agent changed python3, pass", {"rewards": PASS, "changed": ("/usr/bin/python3",)}, "graded"),
    ("the agent changed python3, zero", {"rewards": ZERO, "changed": ("/usr/bin/python3",)}, "graded unknown/assumed"),
    # the agent's time
    ("late and passed", {"rewards": PASS, "agent": LATE}, "graded"),
    ("late and failed", {"rewards": ZERO, "agent": LATE}, "graded agent/shown"),
    ("late, failed, network closed", {"rewards": ZERO, "agent": LATE, "networks": CLOSED}, "graded agent/assumed"),
    ("late, ungraded", {"rewards": NONE, "agent": LATE, "verifier_exit": 1}, "ungraded verifier/shown"),
    # the world was not as declared
    ("closed, no sign it mattered, pass", {"rewards": PASS, "networks": CLOSED}, "graded"),
    ("closed, no sign it mattered, zero", {"rewards": ZERO, "networks": CLOSED}, "graded unknown/assumed"),
    ("closed, no sign, a test failed", {"rewards": HALF, "networks": CLOSED, "tests": (T2,)}, "graded agent/assumed"),
    ("closed, and the verifier needed it", {"rewards": ZERO, "networks": CLOSED, "verifier_output": NO_NAME, "tests": (T2,)}, "graded suspect network/shown"),
    ("closed, and the agent needed it", {"rewards": ZERO, "networks": CLOSED, "agent": AgentOutcome(output=NO_NAME)}, "graded suspect network/shown"),
    ("closed, late, and needed", {"rewards": ZERO, "networks": CLOSED, "agent": AgentOutcome(output=NO_NAME, timed_out=True)}, "graded suspect network/shown"),
    ("declared closed, so no doubt", {"rewards": ZERO, "verifier_output": NO_NAME}, "graded unknown/assumed"),
    ("closed, needed, no reward", {"rewards": NONE, "networks": CLOSED, "verifier_output": NO_NAME}, "ungraded network/shown"),
    ("closed, needed, too late", {"verifier_stopped": "deadline", "networks": CLOSED, "verifier_output": NO_NAME}, "ungraded network/shown"),
    ("the verifier was refused, zero", {"rewards": ZERO, "denials": REFUSED, "tests": (T2,)}, "graded suspect network/assumed"),
    ("the verifier was refused, and said so", {"rewards": ZERO, "denials": REFUSED, "verifier_output": NO_NAME}, "graded suspect network/shown"),
    ("the verifier was refused, no reward", {"rewards": NONE, "denials": REFUSED}, "ungraded network/assumed"),
    ("the verifier was refused, pass", {"rewards": PASS, "denials": REFUSED}, "graded"),
    ("the verifier's host was down, zero", {"rewards": ZERO, "denials": DOWN}, "graded suspect network/assumed"),
    ("the agent was refused, a test failed", {"rewards": ZERO, "denials": AGENTS_OWN, "tests": (T2,)}, "graded agent/shown"),
    ("a tool is missing, zero", {"rewards": ZERO, "verifier_output": NO_UV}, "graded suspect verifier/shown"),
    ("a tool is missing, no reward", {"rewards": NONE, "verifier_output": NO_UV}, "ungraded verifier/shown"),
    ("a tool is missing, pass", {"rewards": PASS, "verifier_output": NO_UV}, "graded"),
    ("a tool is missing, tests ran anyway", {"rewards": ZERO, "verifier_output": NO_UV, "tests": (T2,)}, "graded agent/assumed"),
    ("what the agent should provide is missing", {"rewards": ZERO, "verifier_output": "sh: 1: frob: not found"}, "graded unknown/assumed"),
    ("the agent broke the tool", {"rewards": ZERO, "verifier_output": NO_UV, "changed": ("/usr/bin/uv deleted",)}, "graded agent/shown"),
    ("no sandbox, pass", {"rewards": PASS, "unsandboxed": True}, "graded suspect sandbox/shown"),
    ("no sandbox, no reward", {"rewards": NONE, "unsandboxed": True}, "ungraded verifier/shown sandbox/shown"),
    ("one id, a test failed", {"rewards": ZERO, "tests": (T2,), "full_id_map": False}, "graded agent/assumed"),
    ("a fault in the world", {"rewards": PASS, "faults": (FaultSeen(where="egress", message="x"),)}, "graded suspect network/shown"),
    ("a fault in the books", {"rewards": PASS, "faults": (FaultSeen(where="recording", message="x"),)}, "graded"),
    # how the verifier ended
    ("nothing written", {"rewards": NONE, "verifier_exit": 0}, "ungraded verifier/shown"),
    ("garbage written", {"rewards": GARBAGE, "verifier_exit": 0}, "ungraded verifier/shown"),
    ("nothing, and python3 was the agent's", {"rewards": NONE, "changed": ("/bin/python3",)}, "ungraded unknown/assumed"),
    ("crashed", {"rewards": NONE, "verifier_signal": "SEGV"}, "ungraded verifier/shown"),
    ("killed by who knows whom", {"rewards": NONE, "verifier_signal": "KILL"}, "ungraded unknown/assumed"),
    ("crashed after the reward", {"rewards": ZERO, "verifier_signal": "SEGV"}, "graded suspect verifier/shown"),
    ("killed after the reward", {"rewards": ZERO, "verifier_signal": "KILL"}, "graded suspect unknown/assumed"),
    ("too late", {"rewards": NONE, "verifier_stopped": "timed out after 2 seconds", "verifier_signal": "KILL"}, "ungraded verifier/assumed"),
    ("too late, after the reward", {"rewards": PASS, "verifier_stopped": "deadline"}, "graded suspect verifier/assumed"),
    ("stopped by us", {"rewards": NONE, "verifier_stopped": "the cell ended"}, "ungraded harness/shown"),
    ("did not run", {}, "ungraded unknown/assumed"),
    # somebody did something
    ("killed, nobody knows by whom", {"rewards": NONE, "interference": (Interference(text="killed"),)}, "ungraded unknown/assumed"),
    ("killed from outside", {"rewards": NONE, "interference": (Interference(text="killed", outside=True),)}, "ungraded agent/shown"),
    ("killed, a re-grade proved it", {"rewards": NONE, "interference": (Interference(text="killed", proved=True),)}, "ungraded agent/proved"),
    ("killed after a pass, proved", {"rewards": PASS, "interference": (Interference(text="killed", proved=True),)}, "ungraded agent/proved"),
    ("killed after a zero, proved", {"rewards": ZERO, "interference": (Interference(text="killed", proved=True),)}, "ungraded agent/proved"),
    ("its limits changed, zero", {"rewards": ZERO, "interference": (Interference(text="limits"),), "tests": (T2,)}, "graded suspect unknown/assumed"),
    ("its limits changed, pass", {"rewards": PASS, "interference": (Interference(text="limits"),)}, "graded"),
    ("stopped until too late, unproved", {"rewards": NONE, "interference": (Interference(text="stopped"),), "verifier_stopped": "timed out after 2 s"}, "ungraded unknown/assumed"),
    ("typed, pass", {"rewards": PASS, "interventions": TYPED}, "graded touched operator/shown"),
    ("typed, a test failed", {"rewards": ZERO, "interventions": TYPED, "tests": (T2,)}, "graded touched agent/assumed operator/shown"),
    ("typed, no reward", {"rewards": NONE, "interventions": TYPED}, "ungraded touched verifier/shown operator/shown"),
    ("stopped by the operator", {"cancelled": "Ctrl-C"}, "ungraded operator/shown"),
    ("stopped, and things broke", {"cancelled": "Ctrl-C", "faults": (FaultSeen(where="sandbox", message="gone", fatal=True),)}, "ungraded operator/shown"),
    ("stopped after the reward", {"rewards": ZERO, "cancelled": "Ctrl-C", "verifier_stopped": "cancelled"}, "graded suspect operator/shown"),
    # a harness fault is never a score
    ("the sandbox broke", {"faults": (FaultSeen(where="sandbox", message="x", fatal=True),)}, "ungraded sandbox/shown"),
    ("ours broke, a zero was there", {"rewards": ZERO, "faults": (FaultSeen(where="serve", message="x", fatal=True),)}, "ungraded harness/shown"),
    ("ours broke, a pass was there", {"rewards": PASS, "faults": (FaultSeen(where="serve", message="x", fatal=True),)}, "ungraded harness/shown"),
    ("the task's own", {"faults": (FaultSeen(where="task.user", message="x", fatal=True),)}, "ungraded task/shown"),
    # what the agent program's runner says, in Harbor's words
    ("the model failed, zero", {"rewards": ZERO, "agent": AgentOutcome(harbor_cause="model_provider_failed")}, "graded model/shown"),
    ("the model failed, no grade", {"agent": AgentOutcome(harbor_cause="model_provider_failed", exception="429")}, "ungraded model/shown"),
    ("refused, zero", {"rewards": ZERO, "agent": AgentOutcome(harbor_cause="agent_refused_task")}, "graded agent/shown"),
    ("a word we do not know", {"rewards": ZERO, "agent": AgentOutcome(harbor_cause="moon")}, "graded unknown/assumed"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "wanted"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_table(facts: dict[str, Any], wanted: str) -> None:
    verdict = conclude(Facts(**facts))
    assert shape(verdict) == wanted
    # What holds of every verdict:
    assert (verdict.verdict == "graded") == (verdict.reward is not None)
    assert bool(verdict.fault) == (verdict.verdict == "ungraded")
    assert verdict.causes or verdict.clean
    assert all(cause.evidence for cause in verdict.causes if cause.cause != "unknown")
    assert encode(verdict)


def test_v1_no_fault_of_ours_is_ever_a_number() -> None:
    for where in ("sandbox", "journal", "serve", "anything at all"):
        for rewards in (PASS, HALF, ZERO, NONE, GARBAGE, None):
            fault = FaultSeen(where=where, message="x", fatal=True, seq=7)
            verdict = conclude(Facts(rewards=rewards, faults=(fault,)))
            assert verdict.reward is None
            assert verdict.causes[0].evidence[0].ref == "7"


def test_v5_the_agent_is_never_accused_without_evidence() -> None:
    for _, changes, _ in TABLE:
        for cause in conclude(Facts(**changes)).causes:
            if cause.cause == "agent":
                facts = Facts(**changes)
                assert facts.tests or facts.interference or facts.changed or facts.agent != AgentOutcome()


def test_v4_an_agent_that_ran_out_of_time_is_graded_and_it_is_noted() -> None:
    assert "the agent ran out of time after 2 s" in conclude(Facts(rewards=PASS, agent=LATE)).notes


def test_evidence_points_at_files_lines_and_events() -> None:
    verdict = conclude(Facts(rewards=HALF, tests=(T1, T2)))
    assert verdict.causes[0].summary == "1 of 2 tests failed"
    assert verdict.causes[0].evidence[0] == Evidence(
        kind="file", text="test t2 failed: boom", ref="verifier/ctrf.json"
    )
    missing = conclude(Facts(rewards=ZERO, verifier_output=NO_UV, verifier_line=100))
    assert missing.causes[0].evidence[0].ref == "verifier/test-stdout.txt:101"
    broken = conclude(Facts(rewards=PASS, interventions=TYPED))
    assert broken.causes[0].evidence == TYPED


def test_text_from_inside_is_made_plain() -> None:
    test = records.TestResult(name="\x1b[2J\u202e", status="failed", message="\x07\n")
    verdict = conclude(Facts(rewards=ZERO, tests=(test,), changed=("/bin/\x1b[1m",)))
    for cause in verdict.causes:
        for evidence in cause.evidence:
            assert evidence.text.isprintable()
    assert all(note.isprintable() for note in verdict.notes)


def test_many_failed_tests_are_cut_and_counted() -> None:
    tests = tuple(records.TestResult(name=str(n), status="failed") for n in range(9000))
    cause = conclude(Facts(rewards=ZERO, tests=tests)).causes[0]
    assert len(cause.evidence) == 21
    assert cause.evidence[-1].text == "and 8980 more tests failed"


def test_faults_carry_harbors_names() -> None:
    late = Facts(rewards=NONE, verifier_stopped="deadline", verifier_timeout_sec=2.0)
    assert conclude(late).fault == "VerifierTimeoutError: Verifier execution timed out after 2.0 seconds"
    assert conclude(Facts(rewards=NONE)).fault == "RewardFileNotFoundError: No reward file found"
    assert conclude(Facts(cancelled="Ctrl-C")).fault.startswith("CancelledError: ")


def test_what_was_refused_is_evidence_and_noted() -> None:
    verdict = conclude(Facts(rewards=ZERO, denials=(*REFUSED, *AGENTS_OWN)))
    (cause,) = verdict.causes
    assert [(one.kind, one.ref) for one in cause.evidence] == [("event", "7")]
    assert "files.example:443 3 times" in cause.evidence[0].text
    assert sum("was refused files.example:443" in note for note in verdict.notes) == 2


def test_requests_that_name_no_host_are_not_said_to_be_for_one() -> None:
    one = Denial(phase="agent", place="", reason="this is not HTTP", count=1, seq=5)
    assert "the agent was refused a request that names no host: this is not HTTP" in notes_of(
        Facts(rewards=PASS, denials=(one,))
    )
    many = msgspec.structs.replace(one, count=450)
    assert "the agent was refused 450 requests that name no host: the first: this is not HTTP" in notes_of(
        Facts(rewards=PASS, denials=(many,))
    )


def test_an_override_is_always_in_the_notes() -> None:
    assert "the agent network was no-network, not public as the task declares" in notes_of(
        Facts(rewards=PASS, networks=CLOSED)
    )
    assert not conclude(Facts(rewards=PASS, networks=CLOSED)).suspect


def test_harbors_eight_words() -> None:
    assert len(HARBOR_CAUSES) == 8
    assert HARBOR_CAUSES["unclassified"] == "unknown"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/tests/test.sh: line 7: uv: command not found", "uv"),
        ("bash: pytest: command not found", "pytest"),
        ("/tests/test.sh: 3: uvx: not found", "uvx"),
        ("sh: curl: not found", "curl"),
        ("bash: ./run.sh: command not found", "run.sh"),
        ("env: ‘python3’: No such file or directory", "python3"),
        ("/usr/bin/env: 'node': No such file or directory", "node"),
        ("zsh: command not found: uv", None),
        ("404: page not found", "page"),
        ("error: file not found here", None),
        ("", None),
        ("x" * 5000 + ": not found", None),
    ],
)  # fmt: skip
def test_missing_commands_are_found_as_shells_say_it(text: str, command: str | None) -> None:
    if command == "page":
        command = None
    found = missing_commands(f"first\n{text}\n")
    assert [miss.command for miss in found] == ([command] if command else [])
    assert all(miss.line == 2 for miss in found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("curl: (6) Could not resolve host: x", True),
        ("Temporary failure resolving 'deb.debian.org'", True),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", True),
        ("npm error getaddrinfo EAI_AGAIN registry", True),
        ("connect: Network is unreachable", True),
        ("curl: (7) Failed to connect to localhost port 80: Connection refused", False),
        ("all good", False),
    ],
)
def test_a_network_that_is_not_there_is_told_from_a_refused_connection(text: str, found: bool) -> None:
    assert bool(unresolved(text)) == found


# ── means ─────────────────────────────────────────────────────────────────────────────────────


def test_both_means_always() -> None:
    assert means([]).raw is None
    got = means(
        conclude(facts)
        for facts in (
            Facts(rewards=PASS),
            Facts(rewards=ZERO, verifier_output=NO_UV),
            Facts(rewards=NONE),
            Facts(interference=(Interference(text="killed", proved=True),)),
        )
    )
    assert (got.raw, got.graded, got.firm) == (0.25, 0.5, 1.0)
    assert (got.n, got.n_graded, got.suspects) == (4, 2, 1)


def test_harbors_demo_job_has_its_mean_and_the_one_over_the_graded() -> None:
    verdicts = []
    for file in FIXTURES.glob("*/result.json"):
        result = (json.loads(file.read_text())["verifier_result"] or {}).get("rewards")
        verdicts.append(conclude(Facts(rewards=Rewards(values=result, file="r") if result else NONE)))
    got = means(verdicts)
    assert (round(got.raw or 0, 4), round(got.graded or 0, 4)) == (0.2778, 0.4167)
