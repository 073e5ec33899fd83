"""What a verdict is concluded from: everything that is known of a rollout, as one frozen value. Pure."""

from __future__ import annotations

import msgspec

from cell.records import Evidence, TestResult
from cell.rewards import RewardFault, Rewards


class AgentOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How the agent program ended. `harbor_cause` is one of Harbor's words, when somebody said it."""

    name: str = ""
    exit: int | None = None
    signal: str | None = None
    timed_out: bool = False
    timeout_sec: float | None = None
    exception: str = ""
    harbor_cause: str = ""
    output: str = ""
    output_line: int = 1
    output_file: str = "agent/exec.txt"


class FaultSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A `Fault` event. `fatal`: the rollout could not go on. `seq` is its line in events.jsonl, if any."""

    where: str
    message: str
    fatal: bool = False
    seq: int = 0


class NetworkOverride(msgspec.Struct, frozen=True, kw_only=True):
    """The caller gave a phase (`agent`, `verifier`) another network than the task declares."""

    phase: str
    declared: str
    used: str


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """A way out that a phase was refused: `count` times at `place` (host:port), and why.

    `seq` is the first line of events.jsonl that says so. It is no fault of ours: the policy was the
    declared one, or `networks` says otherwise. `allowed`: it was let through, and nothing answered there.
    """

    phase: str
    place: str
    reason: str
    count: int = 1
    seq: int = 0
    allowed: bool = False


class Interference(msgspec.Struct, frozen=True, kw_only=True):
    """The verifier was killed, stopped or limited, and not by the harness.

    That alone does not say by whom: a test script may kill itself or set its own limits. `proved`: a
    re-grade of the same world with the agent's processes held still went well. `outside`: the killer
    is known to be no process of the verifier's own tree.
    """

    text: str
    proved: bool = False
    outside: bool = False
    seq: int = 0


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a verdict may be concluded from; what is not known stays at its default.

    `rewards` is None when the verifier did not run. `verifier_stopped` says what ended it, if not
    itself (`deadline` or `timed out …`, else a reason in words). `verifier_output` is the end of its
    output and `verifier_line` the number of that text's first line. `changed` names the programs it
    ran that the agent had changed; `taken` pairs what it needed ("start", "files", or the name of a
    command) with what the agent did to it; `failed` is the stage at which it could not be started.
    `filled` says that the agent's files fill the disk, where a rollout ended early.
    `cancelled` is empty, or who stopped the rollout and how.
    """

    rewards: Rewards | RewardFault | None = None
    tests: tuple[TestResult, ...] = ()
    verifier_exit: int | None = None
    verifier_signal: str | None = None
    verifier_stopped: str = ""
    verifier_timeout_sec: float | None = None
    verifier_output: str = ""
    verifier_line: int = 1
    agent: AgentOutcome = AgentOutcome()
    interventions: tuple[Evidence, ...] = ()
    faults: tuple[FaultSeen, ...] = ()
    networks: tuple[NetworkOverride, ...] = ()
    denials: tuple[Denial, ...] = ()
    interference: tuple[Interference, ...] = ()
    changed: tuple[str, ...] = ()
    failed: str = ""
    taken: tuple[tuple[str, str], ...] = ()
    cancelled: str = ""
    filled: str = ""
    unsandboxed: bool = False
    full_id_map: bool = True
    notes: tuple[str, ...] = ()

    def taken_for(self, need: str) -> list[str]:
        """Return what the agent did to what was needed for `need`."""
        return [text for what, text in self.taken if what == need]

    @property
    def late(self) -> bool:
        """Whether the verifier was stopped because its time was over."""
        return self.verifier_stopped.startswith(("deadline", "timed out"))
