"""Facts put into words: the evidence and the notes that a verdict carries. Pure.

Everything that may come from inside goes through `plain` here, so a verdict can be printed as it is.
"""

from __future__ import annotations

from cell.plain import plain
from cell.records import Evidence, TestResult, Verdict
from cell.rewards import RewardFault, Rewards
from cell.verdict.clues import unresolved
from cell.verdict.facts import Facts, NetworkOverride

_SHOWN_DENIALS = 5


def circumstances(facts: Facts) -> list[Evidence]:
    """List what a reader should know beside the evidence proper."""
    agent = facts.agent
    found = [override(network) for network in facts.networks]
    found += [
        fact(f"the verifier ran, changed by the agent: {plain(text, limit=300)}") for text in facts.changed
    ]
    found += [fact(text) for text in _taken(facts)]
    found += denials(facts, "agent")
    if not facts.full_id_map:
        found.append(fact("only one user id could be mapped"))
    if agent.signal or agent.exit:
        how = f"signal {agent.signal}" if agent.signal else f"exit status {agent.exit}"
        found.append(fact(f"the agent program ended with {how}"))
    if agent.name == "oracle":
        found.append(fact("the agent was the task's own solution"))
    return found


def _taken(facts: Facts) -> list[str]:
    return [f"changed under the verifier: {plain(text, limit=300)}" for _, text in facts.taken]


def denials(facts: Facts, phase: str) -> list[Evidence]:
    """Say where a phase wanted to go and was refused, the places it wanted most first."""
    mine = sorted((one for one in facts.denials if one.phase == phase), key=lambda one: -one.count)
    found = []
    for one in mine[:_SHOWN_DENIALS]:
        times = f" {one.count} times" if one.count > 1 else ""
        what = "could not reach" if one.allowed else "was refused"
        whither, first = f"{plain(one.place, limit=120)}{times}", ""
        if not one.place:  # what no host could be read of, each for a reason of its own
            whither = "a request that names no host"
            if one.count > 1:
                whither, first = f"{one.count} requests that name no host", "the first: "
        found.append(event(f"the {phase} {what} {whither}: {first}{plain(one.reason, limit=200)}", one.seq))
    if len(mine) > _SHOWN_DENIALS:
        found.append(fact(f"and {len(mine) - _SHOWN_DENIALS} more places were refused to the {phase}"))
    return found


def notes_of(facts: Facts) -> tuple[str, ...]:
    """List what a reader should know of any verdict, a clean pass included."""
    notes = [
        f"the {network.phase} network was {network.used}, not {network.declared} as the task declares"
        for network in facts.networks
    ]
    notes += [found.text for phase in ("agent", "verifier") for found in denials(facts, phase)]
    if facts.agent.timed_out:
        notes.append(time_note(facts))
    notes += [f"the verifier ran, changed by the agent: {plain(text, limit=300)}" for text in facts.changed]
    notes += _taken(facts)
    notes += [f"{fault.where}: {fault.message}" for fault in facts.faults if not fault.fatal]
    notes += [f"the verifier: {plain(found.text, limit=300)}" for found in facts.interference]
    if not facts.full_id_map:
        notes.append("only one user id could be mapped: files of other owners show as nobody's")
    if facts.unsandboxed:
        notes.append("it ran without a sandbox")
    if isinstance(facts.rewards, Rewards | RewardFault):
        notes += facts.rewards.notes
    if isinstance(facts.rewards, Rewards):
        failed = sum(test.status in ("failed", "error") for test in facts.tests)
        if failed and not below_one(facts.rewards):
            notes.append(f"the reward is full, yet {failed} tests are reported as failed")
        elif facts.tests and not failed and below_one(facts.rewards):
            notes.append("the reward is not full, yet no test is reported as failed")
    return (*notes, *facts.notes)


def time_note(facts: Facts) -> str:
    """Say that the agent ran out of time, and after how long."""
    limit = facts.agent.timeout_sec
    return "the agent ran out of time" + ("" if limit is None else f" after {limit:g} s")


def below_one(rewards: Rewards) -> bool:
    """Say whether the single number of these rewards is below a full one."""
    reward = Verdict(verdict="graded", rewards=rewards.values).reward
    return reward is not None and reward < 1.0


def unresolved_lines(facts: Facts, phase: str) -> list[Evidence]:
    """Find lines of a phase's output that say the network was not there."""
    agent = facts.agent
    if phase == "agent":
        found, file = unresolved(agent.output, agent.output_line), agent.output_file
    else:
        found, file = unresolved(facts.verifier_output, facts.verifier_line), "verifier/test-stdout.txt"
    return [line(text, file, number) for number, text in found]


def ending(facts: Facts) -> Evidence:
    """Say how the verifier ended."""
    if facts.verifier_stopped:
        return fact(f"the verifier was stopped: {facts.verifier_stopped}")
    if facts.verifier_signal:
        return fact(f"the verifier ended by signal {facts.verifier_signal}")
    return fact(f"the verifier ended with exit status {facts.verifier_exit}")


def override(network: NetworkOverride) -> Evidence:
    """Say which network a phase was given instead of its own."""
    return fact(f"the {network.phase} network: declared {network.declared}, used {network.used}")


def reward_file(facts: Facts) -> Evidence:
    """Point at the file the reward was read from."""
    file = facts.rewards.file if isinstance(facts.rewards, Rewards) else ""
    return Evidence(kind="file", text="the reward", ref=f"verifier/{file}")


def test_evidence(test: TestResult) -> Evidence:
    """Point at a test of the report."""
    text = f"test {plain(test.name, limit=120)} {plain(test.status, limit=20)}"
    if test.message:
        text += f": {plain(test.message, limit=200)}"
    return Evidence(kind="file", text=text, ref="verifier/ctrf.json")


def fact(text: str) -> Evidence:
    """Make evidence that nothing can be opened for."""
    return Evidence(kind="fact", text=text)


def event(text: str, seq: int) -> Evidence:
    """Point at a line of events.jsonl by its number (0: there is none)."""
    return Evidence(kind="event", text=text, ref=str(seq)) if seq else fact(text)


def line(text: str, file: str, number: int) -> Evidence:
    """Point at a line of a file of the trial folder."""
    return Evidence(kind="file", text=text, ref=f"{file}:{number}")
