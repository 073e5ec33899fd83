"""From what is known of a rollout to its verdict (promises V1, V2, V4, V5, V7). Pure.

The rules, in the order they are tried:

 1. A fault of ours that ended the rollout, or a verifier that was killed, stopped or limited from
    outside its own tree, proved or known: *ungraded*, whatever file was written. The first could make
    a 0.0 of a harness fault; the second is the agent's doing and lets nobody choose the moment.
 2. A reward that was written stands: *graded*. It is *suspect* when the evidence says that the task
    did not get its declared world (the network was closed by the caller and the output shows a name
    that could not be resolved; no sandbox; a tool the verifier runs by is missing; the verifier was
    stopped, crashed or, nobody knows by whom, interfered with).
 3. No reward: *ungraded*, with Harbor's name for why.

Causes are what somebody will be blamed by, so each needs its evidence:

 - A verifier that ran to its end in a clean world and reports *named* tests as failed shows that the
   work does not do what the tests ask: `agent`, shown. When the world was not quite the declared one,
   but nothing in the output says that this mattered, the same is only assumed.
 - A reward below 1 alone says nothing about why: `unknown`. So does an exit status of the agent.
 - An agent that ran out of its time is graded; when it then falls short, that is `agent` by the same rule.
 - A doubt that makes a reward suspect is the cause itself: nobody else is accused beside it.
 - A verifier that ended by itself and left no readable reward did not do its part: `verifier`, shown;
   but `unknown` when it ran programs that the agent had changed, or was killed by who knows whom.
 - A verifier that could not be started is the agent's doing when its interpreter or its folder was
   taken away, as the overlay shows; else the verifier's or the task's.
 - What an operator did is `operator`, beside the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from cell.plain import plain
from cell.records import Cause, CauseName, Certainty, Evidence, Verdict
from cell.rewards import RewardFault, Rewards
from cell.verdict.clues import TOOLS, missing_commands
from cell.verdict.evidence import (
    below_one,
    circumstances,
    denials,
    ending,
    event,
    fact,
    line,
    notes_of,
    override,
    reward_file,
    test_evidence,
    time_note,
    unresolved_lines,
)
from cell.verdict.facts import AgentOutcome, Facts, FaultSeen, Interference, NetworkOverride

__all__ = [
    "HARBOR_CAUSES",
    "AgentOutcome",
    "Facts",
    "FaultSeen",
    "Interference",
    "Means",
    "NetworkOverride",
    "conclude",
    "means",
]

HARBOR_CAUSES: Final[dict[str, CauseName]] = {
    "sandbox_failed": "sandbox",
    "model_provider_failed": "model",
    "harbor_failed": "harness",
    "unclassified": "unknown",
    "agent_exhausted_budget": "agent",
    "agent_refused_task": "agent",
    "verifier_failed": "verifier",
    "cancelled": "operator",
}
"""Harbor's cause words, in ours."""

_FAULTS: Final[dict[str, CauseName]] = {
    "task": "task",
    "sandbox": "sandbox",
    "holder": "sandbox",
    "launcher": "sandbox",
    "substrate": "sandbox",
    "workspace": "sandbox",
    "network": "network",
    "egress": "network",
    "model": "model",
    "verifier": "verifier",
}
# A fault of the bookkeeping, or of a door that let nobody in, does not change the world that was graded.
_BOOKKEEPING: Final = frozenset({"journal", "recording", "record", "trial", "artifacts", "gate", "control"})
_OWN_CRASH: Final = frozenset({"SEGV", "ABRT", "BUS", "FPE", "ILL", "SYS", "TRAP", "PIPE"})
# Whose a start is that failed, when the agent changed nothing of what it needs.
_STAGES: Final[dict[str, CauseName]] = {"exec": "verifier", "workdir": "task"}
_SHOWN_TESTS: Final = 20
_NO_SANDBOX: Final = "it ran without a sandbox"


class Means(msgspec.Struct, frozen=True, kw_only=True):
    """Both means, always: `raw` counts every ungraded one as 0 (as Harbor does), `graded` leaves them
    out; `firm` leaves the suspect ones out too. None where there is nothing to take a mean of.
    """

    raw: float | None
    graded: float | None
    firm: float | None
    n: int
    n_graded: int
    suspects: int


def means(verdicts: Iterable[Verdict]) -> Means:
    """Return the means of the verdicts' single rewards, and how many stand behind each."""
    all_of = list(verdicts)
    graded = [(reward, v.suspect) for v in all_of if (reward := v.reward) is not None]
    total = sum(reward for reward, _ in graded)
    firm = [reward for reward, suspect in graded if not suspect]
    return Means(
        raw=total / len(all_of) if all_of else None,
        graded=total / len(graded) if graded else None,
        firm=sum(firm) / len(firm) if firm else None,
        n=len(all_of),
        n_graded=len(graded),
        suspects=len(graded) - len(firm),
    )


def conclude(facts: Facts) -> Verdict:
    """Return the verdict of a rollout; the module's docstring has the rules. Never raises."""
    doubts = _doubts(facts)
    notes = notes_of(facts)
    written = facts.rewards.values if isinstance(facts.rewards, Rewards) else None
    fatal = [fault for fault in facts.faults if fault.fatal]
    attacked = any(found.proved or found.outside for found in facts.interference)
    if written is not None and not fatal and not attacked:
        return _graded(facts, written, doubts)
    if written is not None:
        shown = ", ".join(f"{name}={value:g}" for name, value in written.items())
        notes = (*notes, f"a reward was written ({plain(shown, limit=200)}); it does not count")
    causes, fault = _ungraded(facts, doubts, fatal)
    return Verdict(
        verdict="ungraded",
        fault=plain(fault),
        tests=facts.tests,
        # who stopped it is the cause already
        causes=causes if facts.cancelled else (*causes, *_of_operator(facts)),
        touched=bool(facts.interventions),
        notes=notes,
    )


def _graded(facts: Facts, written: dict[str, float], doubts: tuple[Cause, ...]) -> Verdict:
    verdict = Verdict(
        verdict="graded",
        rewards=dict(written),
        tests=facts.tests,
        # What the agent did to its own world is no reason to count its reward apart.
        suspect=any(doubt.cause != "agent" for doubt in doubts),
        touched=bool(facts.interventions),
        notes=notes_of(facts),
    )
    reward = verdict.reward
    # Beside a doubt nobody is accused: the doubt is the cause.
    low = () if reward is None or reward >= 1.0 or doubts else (_of_low_reward(facts, reward),)
    return msgspec.structs.replace(verdict, causes=(*doubts, *low, *_of_operator(facts)))


def _ungraded(
    facts: Facts, doubts: tuple[Cause, ...], fatal: list[FaultSeen]
) -> tuple[tuple[Cause, ...], str]:
    """Return the causes and the fault's text."""
    if facts.cancelled:  # before the faults: what breaks when a world is taken down is no news
        text = f"the rollout was stopped: {facts.cancelled}"
        cause = _cause("operator", "shown", text, [fact(text), *facts.interventions])
        return (cause,), f"CancelledError: {text}"
    if fatal:
        causes = tuple(map(_of_fault, fatal))
        if facts.filled:
            evidence = [one for cause in causes for one in cause.evidence]
            causes = (_cause("agent", "shown", facts.filled, evidence),)
        return causes, f"{fatal[0].where}: {fatal[0].message}"
    blamed, text = _of_no_reward(facts)
    if facts.interference:
        if not isinstance(facts.rewards, RewardFault) and not facts.late:
            text = f"the verifier was interfered with: {facts.interference[0].text}"
        mine = _of_interference(facts)
        return (mine, *(doubt for doubt in doubts if doubt != mine)), text
    # That there was no sandbox is said, but explains no missing reward.
    explained = any(doubt.summary != _NO_SANDBOX for doubt in doubts)
    return doubts if explained else (blamed, *doubts), text


def _doubts(facts: Facts) -> tuple[Cause, ...]:
    """Why the task may not have got its declared world, each with the evidence that it mattered."""
    doubts: list[Cause] = []
    if facts.unsandboxed:
        doubts.append(_cause("sandbox", "shown", _NO_SANDBOX, [fact("no sandbox was held")]))
    for fault in facts.faults:
        if not fault.fatal and fault.where not in _BOOKKEEPING:
            doubts.append(_of_fault(fault))
    for network in facts.networks:
        lines = unresolved_lines(facts, network.phase)
        if lines:
            summary = (
                f"the {network.phase} was given {network.used} where the task declares {network.declared}"
            )
            doubts.append(_cause("network", "shown", summary, [override(network), *lines]))
    doubts += _refused(facts)
    doubts += _tools(facts)
    if facts.interference and isinstance(facts.rewards, Rewards) and below_one(facts.rewards):
        doubts.append(_of_interference(facts))
    if isinstance(facts.rewards, Rewards):  # without a reward, how it ended is the cause, not a doubt
        if facts.cancelled:
            doubts.append(_cause("operator", "shown", "the rollout was stopped", [fact(facts.cancelled)]))
        elif facts.verifier_stopped:
            doubts.append(_of_stop(facts))
        elif facts.verifier_signal:
            who: CauseName = "verifier" if facts.verifier_signal in _OWN_CRASH else "unknown"
            certainty: Certainty = "shown" if who == "verifier" else "assumed"
            doubts.append(_cause(who, certainty, "the verifier did not run to its end", [ending(facts)]))
    return tuple(doubts)


def _refused(facts: Facts) -> list[Cause]:
    """Say that the verifier did not get where it wanted to, unless it passed all the same."""
    evidence = denials(facts, "verifier")
    if not evidence or (isinstance(facts.rewards, Rewards) and not below_one(facts.rewards)):
        return []
    lines = unresolved_lines(facts, "verifier")
    down = all(one.allowed for one in facts.denials if one.phase == "verifier")
    summary = "a host of the verifier's did not answer" if down else "the verifier was refused a way out"
    return [_cause("network", "shown" if lines else "assumed", summary, [*evidence, *lines])]


def _tools(facts: Facts) -> list[Cause]:
    """Say which tools the verifier runs by were missing, unless it passed or ran its tests anyway."""
    if isinstance(facts.rewards, Rewards) and not below_one(facts.rewards):
        return []
    causes = []
    for gone in missing_commands(facts.verifier_output, facts.verifier_line):
        said = line(gone.text, "verifier/test-stdout.txt", gone.line)
        ends = rf"\S*/{re.escape(gone.command)}(:?\s|$)"
        touched = [text for text in facts.changed if re.match(ends, text)]
        touched += [text for text in facts.taken_for(gone.command) if text not in touched]
        if touched:
            evidence = [said, *(fact(plain(text, limit=300)) for text in touched)]
            causes.append(_cause("agent", "shown", f"the agent changed {gone.command}", evidence))
        elif gone.command in TOOLS and not facts.tests:
            summary = f"the verifier runs {gone.command}, which its world does not have"
            causes.append(_cause("verifier", "shown", summary, [said]))
    return causes


def _of_low_reward(facts: Facts, reward: float) -> Cause:
    failed = [test for test in facts.tests if test.status in ("failed", "error")]
    evidence = [test_evidence(test) for test in failed[:_SHOWN_TESTS]]
    if len(failed) > _SHOWN_TESTS:
        evidence.append(fact(f"and {len(failed) - _SHOWN_TESTS} more tests failed"))
    gone = missing_commands(facts.verifier_output, facts.verifier_line)
    evidence += [line(miss.text, "verifier/test-stdout.txt", miss.line) for miss in gone[:3]]
    evidence += circumstances(facts)
    tools = any(miss.command in TOOLS for miss in gone)
    clean = not (facts.networks or facts.interventions or tools) and facts.full_id_map
    certainty: Certainty = "shown" if clean else "assumed"
    agent = facts.agent
    if agent.timed_out:
        return _cause("agent", certainty, "the agent ran out of time", [fact(time_note(facts)), *evidence])
    said = HARBOR_CAUSES.get(agent.harbor_cause, "unknown")
    if said != "unknown":
        text = f"the agent program ended as {agent.harbor_cause}"
        return _cause(said, "shown", text, [fact(text), *evidence])
    if failed:
        return _cause("agent", certainty, f"{len(failed)} of {len(facts.tests)} tests failed", evidence)
    summary = f"the reward is {reward:g}, and no test by name says why"
    return _cause("unknown", "assumed", summary, [reward_file(facts), *evidence])


def _of_no_reward(facts: Facts) -> tuple[Cause, str]:
    """Return the cause and the fault's text of a verifier that left nothing, or did not run."""
    if facts.verifier_stopped:
        limit = "" if facts.verifier_timeout_sec is None else f" after {facts.verifier_timeout_sec} seconds"
        text = (
            f"VerifierTimeoutError: Verifier execution timed out{limit}" if facts.late else ending(facts).text
        )
        return _of_stop(facts), text
    if not isinstance(facts.rewards, RewardFault):
        text = facts.agent.exception or "the verifier did not run"
        said = HARBOR_CAUSES.get(facts.agent.harbor_cause, "unknown")
        certainty: Certainty = "assumed" if said == "unknown" else "shown"
        ended = fact("the verifier did not run")
        return _cause(said, certainty, plain(text, limit=200), [ended, *circumstances(facts)]), text
    text = f"{facts.rewards.name}: {facts.rewards.message}"
    evidence = [fact(facts.rewards.message), ending(facts)]
    evidence += [*unresolved_lines(facts, "verifier"), *circumstances(facts)]
    signal = facts.verifier_signal
    if facts.changed or (signal and signal not in _OWN_CRASH):
        why = "it ran programs that the agent had changed" if facts.changed else f"it was killed by {signal}"
        return _cause("unknown", "assumed", f"the verifier left no reward; {why}", evidence), text
    summary = "the verifier crashed" if signal else "the verifier ended without a reward that can be read"
    return _cause("verifier", "shown", summary, evidence), text


def _of_stop(facts: Facts) -> Cause:
    evidence = [ending(facts), *circumstances(facts)]
    if facts.failed:
        if mine := [plain(text, limit=300) for text in facts.taken_for("start")]:
            summary = "the verifier could not be started: the agent changed what it needs"
            return _cause("agent", "shown", summary, [ending(facts), *map(fact, mine)])
        if who := _STAGES.get(facts.failed):
            return _cause(who, "shown", "the verifier could not be started", evidence)
    if facts.late and facts.taken_for("files"):
        summary = "the verifier did not end within its time; the agent replaced files that programs ask"
        return _cause("agent", "assumed", summary, evidence)
    if facts.late:
        # That it was late is shown; that the verifier is to blame for it is not.
        return _cause("verifier", "assumed", "the verifier did not end within its time", evidence)
    return _cause("harness", "shown", f"the verifier was stopped: {facts.verifier_stopped}", evidence)


def _of_fault(fault: FaultSeen) -> Cause:
    cause = _FAULTS.get(re.split(r"[\s:./]", fault.where)[0], "harness")
    text = plain(f"{fault.where}: {fault.message}", limit=300)
    return _cause(cause, "shown", text, [event(text, fault.seq)])


def _of_interference(facts: Facts) -> Cause:
    found = facts.interference
    evidence = [event(plain(each.text, limit=300), each.seq) for each in found]
    if any(each.proved for each in found):
        summary = "the verifier was killed, stopped or limited by the agent"
        return _cause("agent", "proved", summary, evidence)
    if any(each.outside for each in found):
        summary = "the verifier was killed, stopped or limited from outside its tree"
        return _cause("agent", "shown", summary, evidence)
    summary = "the verifier was killed, stopped or limited, and nothing shows by whom"
    return _cause("unknown", "assumed", summary, [*evidence, *circumstances(facts)])


def _of_operator(facts: Facts) -> tuple[Cause, ...]:
    if not facts.interventions:
        return ()
    return (_cause("operator", "shown", "an operator intervened", list(facts.interventions)),)


def _cause(cause: CauseName, certainty: Certainty, summary: str, evidence: list[Evidence]) -> Cause:
    return Cause(cause=cause, certainty=certainty, summary=summary, evidence=tuple(evidence))
