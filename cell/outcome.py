"""What a rollout came to: its records and what was just seen, put together for the verdict."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from . import harbor, journal, trees
from .events import Egress, EgressEnd, Fault, Intervention, VerdictGiven
from .limits import PROCESSES
from .records import CellInfo, Evidence, Limit, Regrade, TestResult, Verdict, encode
from .rewards import RewardFault, Rewards
from .task import Task
from .verdict.facts import AgentOutcome, Denial, Facts, FaultSeen, Interference, NetworkOverride

_LITTLE = 16 << 20  # bytes; less is a full disk

STOPPED = "stopped the cell"
"""What an intervention says that ended a cell before its verdict."""

# Faults that end a rollout. With the others it goes on, and the verdict weighs what they mean.
_FATAL = {"sandbox", "serve"}

# What a client is told of a host that could not be reached.
_DOWN = (502, 504)


def declared_limits(task: Task) -> tuple[Limit, ...]:
    """Return the limits of a task, and the one nobody declares; the cell says what came of each."""
    environment = task.environment
    values = (
        ("cpus", environment.cpus, ""),
        ("memory_mb", environment.memory_mb, ""),
        ("storage_mb", environment.storage_mb, "a folder of this machine's disk has no quota"),
        ("pids", PROCESSES, ""),
    )
    return tuple(
        Limit(name=name, value=f"{value:g}", enforced=False, why=why)
        for name, value, why in values
        if value is not None
    )


def overrides(task: Task, network: str | None) -> tuple[NetworkOverride, ...]:
    """Return where the caller's network is not what the task declares."""
    return tuple(
        NetworkOverride(phase=phase.name, declared=phase.network_mode, used=network)
        for phase in (task.agent, task.verifier)
        if network is not None and network != phase.network_mode
    )


def read_info(trial: Path) -> CellInfo | None:
    """Return a trial's cell.json, if it can be read."""
    try:
        return msgspec.json.decode((trial / "cell" / "cell.json").read_bytes(), type=CellInfo)
    except (OSError, msgspec.DecodeError):
        return None


def gather(
    trial: Path,
    task: Task,
    *,
    grading: dict[str, Any] | None,
    outcome: AgentOutcome,
    fatal: tuple[FaultSeen, ...] = (),
    cancelled: str = "",
    unsandboxed: bool = False,
    networks: tuple[NetworkOverride, ...] = (),
) -> Facts:
    """Put together everything that is known of a rollout, from its records and what was just seen."""
    interventions, faults, stopped = [], list[FaultSeen](), ""
    denied: dict[tuple[str, str], Denial] = {}
    let: dict[int, Egress] = {}
    with suppress(OSError):
        for line in journal.read(trial / "cell" / "events.jsonl"):
            event = line.event
            if isinstance(event, Intervention):
                if event.what == STOPPED:
                    stopped = f"{event.principal} {event.what}"
                interventions.append(
                    Evidence(kind="event", text=f"{event.principal} {event.what}", ref=str(line.seq))
                )
            elif isinstance(event, Egress) and event.allowed:
                let[event.hit] = event
            elif isinstance(event, Egress):
                _refused(denied, event, line.seq, event.reason)
            elif isinstance(event, EgressEnd) and event.hit in let:
                gone = let.pop(event.hit)
                failed = event.status in _DOWN or (event.error and not event.received)
                if event.denied:
                    gone = msgspec.structs.replace(gone, allowed=False)
                if event.denied or (failed and gone.phase == "verifier"):
                    _refused(denied, gone, line.seq, event.error or f"status {event.status}")
            elif isinstance(event, Fault):
                ended = event.where in _FATAL
                faults.append(FaultSeen(where=event.where, message=event.message, fatal=ended, seq=line.seq))
    info = read_info(trial)
    facts = Facts(
        filled=_filled(trial) if grading is None else "",
        denials=tuple(denied.values()),
        agent=outcome,
        interventions=tuple(interventions),
        # what the cell wrote down comes before what was seen of it from here: that is a consequence
        faults=(*faults, *fatal),
        networks=networks,
        # what breaks when somebody stops a cell is no fault of its own
        cancelled=cancelled or (stopped if grading is None else ""),
        unsandboxed=unsandboxed,
        full_id_map=info.identity.full_id_map if info else True,
        verifier_timeout_sec=task.verifier.timeout_sec,
    )
    return facts if grading is None else with_grading(facts, grading)


def with_grading(facts: Facts, grading: dict[str, Any]) -> Facts:
    """Return the facts with what the visitor found, as JSON values."""
    found: Rewards | RewardFault
    if grading["rewards"] is not None:
        found = Rewards(values=grading["rewards"], file=grading["reward_file"])
    else:
        name, message = grading["fault"]
        found = RewardFault(name=name, message=message)
    return msgspec.structs.replace(
        facts,
        rewards=found,
        tests=msgspec.convert(grading["tests"], tuple[TestResult, ...]),
        verifier_exit=grading["exit"],
        verifier_signal=grading["signal"],
        verifier_stopped=grading["stopped"],
        verifier_output=grading["output"],
        interference=tuple(
            Interference(
                text=text,
                proved=grading["interference_proved"],
                outside=grading["interference_outside"],
            )
            for text in grading["interference"]
        ),
        changed=tuple(grading["programs"]),
        failed=grading.get("failed", ""),
        taken=tuple((need, text) for need, text in grading.get("taken", ())),
        notes=(*grading["notes"], *(("a person was the agent",) if facts.agent.name == "human" else ())),
    )


def _refused(denied: dict[tuple[str, str], Denial], event: Egress, seq: int, reason: str) -> None:
    """Count a refusal, if it was a phase's own: of who is not known nothing is said."""
    if event.rule in ("owner", "limit") or event.way not in ("proxy", "transparent"):
        return
    phase = "verifier" if event.phase == "verifier" else "agent"
    host = f"[{event.host}]" if ":" in event.host else event.host
    place = f"{host}:{event.port}" if event.port else event.host
    known = denied.get((phase, place))
    denied[phase, place] = (
        Denial(phase=phase, place=place, reason=reason, seq=seq, allowed=event.allowed)
        if known is None
        else msgspec.structs.replace(known, count=known.count + 1)
    )


def _filled(trial: Path) -> str:
    """Say that the disk is full, when most of what is on it was written by the agent."""
    root = trial / "cell" / "root"
    try:
        disk = os.statvfs(root)
        if disk.f_bavail * disk.f_frsize > _LITTLE and (disk.f_favail or not disk.f_files):
            return ""
        written = trees.size(root)
    except OSError:
        return ""
    used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
    share = f"{written / (1 << 20):.0f} MiB of the {used / (1 << 20):.0f} MiB on it"
    return f"the disk is full, and the agent wrote {share}" if written * 2 > used else ""


def write_regrade(trial: Path, regrade: Regrade) -> None:
    """Add a grading beside the score to the trial's; the score itself stays."""
    with (trial / "cell" / "regrades.jsonl").open("ab") as file:
        file.write(encode(regrade) + b"\n")


def given(verdict: Verdict) -> VerdictGiven:
    """Return a verdict as its event."""
    cause = verdict.causes[0].cause if verdict.causes else ""
    return VerdictGiven(verdict=verdict.verdict, rewards=verdict.rewards, cause=cause)


def write_verdict(trial: Path, verdict: Verdict) -> None:
    """Write cell/verdict.json, whole or not at all."""
    (trial / "cell").mkdir(exist_ok=True)
    harbor.write_json(trial / "cell" / "verdict.json", msgspec.to_builtins(verdict))
