"""Every value that is written down, frozen. JSON is only how it travels.

Three files of a trial's `cell/` folder are made of these and of `events`:

    cell.json      CellInfo     where the cell answers, its identity record (rewritten atomically)
    events.jsonl   events.Line  one event a line, numbered and hash-chained (append-only)
    verdict.json   Verdict      (rewritten atomically)

Times are seconds since the epoch (float, UTC); durations are milliseconds (float) where the name
ends in `ms` and seconds where it ends in `sec`; sizes are bytes. A reader ignores fields it does
not know and must cope with a torn last line or a torn file.
"""

from __future__ import annotations

from typing import Literal

import msgspec

# `starting` → `agent` → `sealed` → `verifier` → `finished` → `closed`; a kept cell stays `finished`.
PhaseName = Literal["starting", "agent", "sealed", "verifier", "finished", "closed"]
Principal = Literal["agent", "viewer", "operator", "runner"]
CauseName = Literal[
    "agent", "model", "task", "verifier", "network", "sandbox", "harness", "operator", "unknown"
]
Certainty = Literal["proved", "shown", "assumed"]


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Base of every record: immutable, built by name."""


# ── cell.json ─────────────────────────────────────────────────────────────────────────────────


class Process(Record, frozen=True, kw_only=True):
    """A process of the machine, told apart from a later one with the same pid.

    `start` is field 22 of /proc/PID/stat (clock ticks since boot); `boot` is the kernel's boot id.
    """

    pid: int
    start: int
    boot: str


class Namespace(Record, frozen=True, kw_only=True):
    """One namespace of the sandbox; `shared` means it is the substrate's own: a leak."""

    kind: str
    inode: int
    shared: bool


class PhaseIdentity(Record, frozen=True, kw_only=True):
    """Who a phase's processes are. Capabilities are masks in hex, as in /proc/PID/status."""

    phase: Literal["agent", "verifier"]
    user: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    workdir: str
    cap_bounding: str
    cap_effective: str
    network_declared: str
    network_used: str


class Limit(Record, frozen=True, kw_only=True):
    """A declared limit, and whether this machine enforces it (else `why` says why not)."""

    name: str
    value: str
    enforced: bool
    why: str = ""


class Ends(Record, frozen=True, kw_only=True):
    """What stands in the world's own network: ends of the ways out, made inside and used outside.

    `listeners` are `ADDRESS:PORT` of ours that listen; `peers` say `NAME:PORT at ADDRESS`. `transparent`:
    every TCP connection is brought to the way out, also of programs that know no proxy; where it was
    wanted and the kernel has it not, `refused` says what the kernel said. `visiting`: the agent's phase has
    no network, and the same is there for the verifier, only while it runs.
    """

    listeners: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    transparent: bool = False
    visiting: bool = False
    ipv6: bool = False
    resolver: str = ""
    refused: tuple[str, ...] = ()


class Identity(Record, frozen=True, kw_only=True):
    """What the world is made of, as found at the start."""

    namespaces: tuple[Namespace, ...] = ()
    uid_map: tuple[tuple[int, int, int], ...] = ()
    gid_map: tuple[tuple[int, int, int], ...] = ()
    full_id_map: bool = True
    no_new_privs: bool = False
    seccomp: str = ""
    hostname: str = ""
    root: str = ""
    sandboxed: bool = True
    phases: tuple[PhaseIdentity, ...] = ()
    limits: tuple[Limit, ...] = ()
    notes: tuple[str, ...] = ()
    ends: Ends = Ends()


class Held(Record, frozen=True, kw_only=True):
    """Whether the agent has to wait. `drivers` maps a session to who has its keyboard, and since when.

    `sec` is for how long the agent had to wait in all, without the wait that may be going on, which
    began at `since` (0: it does not wait now).
    """

    paused: bool = False
    frozen: bool = False
    drivers: dict[int, tuple[str, float]] = {}
    sec: float = 0.0
    since: float = 0.0

    def total(self, now: float) -> float:
        """Return for how many seconds the agent has had to wait, as of `now`."""
        return self.sec + (max(0.0, now - self.since) if self.since else 0.0)


class CellInfo(Record, frozen=True, kw_only=True):
    """`cell/cell.json`. `sockets` maps a principal to its unix socket while the cell lives."""

    version: str
    cell: str
    task: str
    task_path: str
    agent: str
    substrate: str
    started: float
    serve: Process
    runner: Process | None = None
    phase: PhaseName = "starting"
    kept: bool = False
    sockets: dict[str, str] = {}
    ssh_config: str = "ssh_config"
    identity: Identity = Identity()
    warnings: tuple[str, ...] = ()
    held: Held = Held()


# ── verdict.json ──────────────────────────────────────────────────────────────────────────────


class Evidence(Record, frozen=True, kw_only=True):
    """One thing a cause was concluded from.

    `kind` names what `ref` points at: `event` (a seq of events.jsonl), `file` (a path in the trial
    folder, with `:LINE`), `fact` (nothing to open).
    """

    kind: Literal["event", "file", "fact"]
    text: str
    ref: str = ""


class Cause(Record, frozen=True, kw_only=True):
    """Why a verdict is not a clean pass, how sure that is, and from what."""

    cause: CauseName
    certainty: Certainty
    summary: str
    evidence: tuple[Evidence, ...] = ()


class TestResult(Record, frozen=True, kw_only=True):
    """One test as the verifier's CTRF report tells it. `ms` is its duration."""

    name: str
    status: str
    message: str = ""
    ms: float | None = None


class Verdict(Record, frozen=True, kw_only=True):
    """`Graded(rewards, tests)` or `Ungraded(fault)`; a harness fault is never a score.

    `suspect`: a reward stands, but the evidence says the task did not get its declared world.
    `touched`: an operator intervened.
    """

    verdict: Literal["graded", "ungraded"]
    rewards: dict[str, float] = {}
    fault: str = ""
    tests: tuple[TestResult, ...] = ()
    causes: tuple[Cause, ...] = ()
    suspect: bool = False
    touched: bool = False
    notes: tuple[str, ...] = ()

    @property
    def reward(self) -> float | None:
        """The one number of the verdict: `reward`, else the mean of all rewards; None if ungraded."""
        if self.verdict != "graded" or not self.rewards:
            return None
        named = self.rewards.get("reward")
        return named if named is not None else sum(self.rewards.values()) / len(self.rewards)

    @property
    def clean(self) -> bool:
        """A pass that nobody and nothing put in doubt."""
        reward = self.reward
        return reward is not None and reward >= 1.0 and not self.suspect and not self.touched


class Regrade(Record, frozen=True, kw_only=True):
    """A grading of a kept cell with one thing changed: a line of cell/regrades.jsonl, beside the score.

    What its verifier left is in `cell/regrades/ATTEMPT/verifier`. No mean counts it.
    """

    t: float
    attempt: int
    change: str
    who: str
    verdict: Verdict


# ── what a person says of it ──────────────────────────────────────────────────────────────────


class Label(Record, frozen=True, kw_only=True):
    """A person's word for a trial, with a note: a line of JOB.labels.jsonl, beside the job's folder.

    `trial` is the name of its folder. The last line about a trial counts; without a word it has no label.
    """

    t: float
    trial: str
    word: str
    note: str = ""
    who: str = ""


_encoder = msgspec.json.Encoder()


def encode(record: Record) -> bytes:
    """Return the record's JSON on one line, without a newline."""
    return _encoder.encode(record)
