from __future__ import annotations

import itertools
from typing import get_args

import pytest

from cell.gate import METHODS, PRINCIPALS, Grant, decide
from cell.records import PhaseName, Principal

PHASES: tuple[PhaseName, ...] = get_args(PhaseName)

# Written by hand, method by method: for each principal the phases in which it is allowed, by first
# letter (starting, agent, `=` sealed, verifier, finished, closed). A principal left out: never.
TABLE: dict[str, dict[Principal, str]] = {
    "fidelity": {"viewer": "sa=f", "operator": "sa=f", "runner": "sa=f"},
    "status": {"viewer": "sa=vfc", "operator": "sa=vfc", "runner": "sa=vfc"},
    "events": {"viewer": "sa=vfc", "operator": "sa=vfc", "runner": "sa=vfc"},
    "watch": {"viewer": "sa=vfc", "operator": "sa=vfc", "runner": "sa=vfc"},
    "session": {"agent": "a"},
    "shell": {"operator": "a=f"},
    "attach": {"operator": "a=f"},
    "type": {"operator": "a=f"},
    "signal": {"operator": "a=f"},
    "resize": {"operator": "a=f"},
    "forward": {"operator": "a=f"},
    "pause": {"operator": "a"},
    "continue": {"operator": "a"},
    "finish": {"operator": "a"},
    "grant": {"operator": "sa=vf"},
    "revoke": {"operator": "sa=vf"},
    "allow": {"operator": "a=vf"},
    "keep": {"operator": "sa=vf", "runner": "sa=vf"},
    "release": {"operator": "sa=vf", "runner": "sa=vf"},
    "seal": {"operator": "a", "runner": "a"},
    "grade": {"operator": "=", "runner": "="},
    "stop": {"operator": "sa=vf", "runner": "sa=vf"},
    "begin": {"runner": "s"},
    "upload": {"runner": "sa"},
    "conclude": {"runner": "=vf"},
    "adopt": {"runner": "sa=vf"},
}
LETTER = {"sealed": "="} | {phase: phase[0] for phase in PHASES if phase != "sealed"}


@pytest.mark.parametrize("method", TABLE)
def test_every_method_of_every_principal_in_every_phase(method: str) -> None:
    for principal, phase in itertools.product(PRINCIPALS, PHASES):
        allowed = LETTER[phase] in TABLE[method].get(principal, "")
        decision = decide(principal, method, phase)
        assert decision.allowed == allowed, (principal, method, phase, decision.reason)
        assert bool(decision.reason) != allowed


def test_the_table_is_whole() -> None:
    assert set(METHODS) == set(TABLE)
    assert set(PRINCIPALS) == {"agent", "viewer", "operator", "runner"}


@pytest.mark.parametrize(
    ("principal", "method", "phase"),
    [
        ("", "status", "agent"),
        ("root", "status", "agent"),
        ("Operator", "status", "agent"),
        ("operator", "", "agent"),
        ("operator", "exec", "agent"),
        ("operator", "STATUS", "agent"),
        ("operator", "status", ""),
        ("operator", "status", "paused"),
    ],
)
def test_what_is_unknown_is_refused(principal: str, method: str, phase: str) -> None:
    assert not decide(principal, method, phase)


def test_no_way_to_a_grade_before_the_seal() -> None:
    for principal, phase, graded, kept in itertools.product(
        PRINCIPALS, ("starting", "agent"), (0, 1), (True, False)
    ):
        assert not decide(principal, "grade", phase, graded=graded, kept=kept)
    assert decide("runner", "grade", "agent").reason.startswith("grade comes after the agent phase")


def test_a_runner_grades_once_and_an_operator_again_when_kept() -> None:
    assert decide("runner", "grade", "sealed", graded=0)
    assert "once" in decide("runner", "grade", "sealed", graded=1).reason
    assert not decide("runner", "grade", "finished", graded=1, kept=True)
    assert decide("operator", "grade", "finished", graded=3, kept=True)
    assert decide("operator", "grade", "sealed", graded=1)
    assert "keep it first" in decide("operator", "grade", "finished", graded=1).reason
    assert "running already" in decide("operator", "grade", "verifier", graded=1).reason


@pytest.mark.parametrize(
    ("phase", "word"),
    [("starting", "not begun"), ("sealed", "over"), ("verifier", "over"), ("closed", "closed")],
)
def test_the_agent_is_told_why_its_session_does_not_open(phase: str, word: str) -> None:
    assert word in decide("agent", "session", phase).reason


def test_reasons_are_sentences_for_a_person() -> None:
    assert decide("viewer", "type", "agent").reason == "a viewer may not type"
    assert decide("operator", "session", "agent").reason == "an operator may not open an agent's session"
    assert decide("runner", "upload", "sealed").reason == (
        "upload is for the phase starting or agent; this cell is in sealed"
    )
    assert "wait" in decide("operator", "type", "verifier").reason


def test_a_grant_narrows_methods_and_time() -> None:
    grant = Grant(principal="operator", methods=frozenset({"watch", "type"}), until=100.0)
    assert decide("operator", "type", "agent", grant=grant, now=99.9)
    assert decide("operator", "seal", "agent", grant=grant, now=99.9).reason == (
        "the grant does not let its holder seal"
    )
    for now in (100.0, 101.0, float("nan")):
        assert decide("operator", "type", "agent", grant=grant, now=now).reason == "the grant has expired"


def test_a_grant_narrows_sessions() -> None:
    grant = Grant(principal="operator", sessions=frozenset({2, 3}))
    assert decide("operator", "type", "agent", grant=grant, session=2)
    assert decide("operator", "status", "agent", grant=grant)
    assert "2, 3" in decide("operator", "type", "agent", grant=grant, session=1).reason
    assert not decide("operator", "type", "agent", grant=grant)
    for method in ("shell", "forward", "stop", "seal", "events", "allow"):
        assert not decide("operator", method, "agent", grant=grant)
    wider = Grant(principal="operator", methods=frozenset({"shell", "stop"}), sessions=frozenset({2}))
    assert decide("operator", "stop", "agent", grant=wider)
    assert not decide("operator", "shell", "agent", grant=wider)
    assert not decide("operator", "watch", "agent", grant=Grant(principal="operator", sessions=frozenset()))


def test_a_grant_grants_nothing() -> None:
    everything = Grant(principal="operator", methods=frozenset(METHODS))
    for method in ("grant", "revoke"):
        assert decide("operator", method, "agent")
        assert "not handed on" in decide("operator", method, "agent", grant=everything).reason


def test_a_grant_dies_with_the_rollout() -> None:
    assert decide("viewer", "events", "closed")
    assert not decide("viewer", "events", "closed", grant=Grant(principal="viewer"))


def test_a_grant_never_widens() -> None:
    for principal, method, phase, granted in itertools.product(PRINCIPALS, METHODS, PHASES, PRINCIPALS):
        grant = Grant(principal=granted, methods=frozenset(METHODS))
        if decide(principal, method, phase, grant=grant):
            assert decide(principal, method, phase)
            assert granted == principal
