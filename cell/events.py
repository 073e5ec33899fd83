"""Every event of a cell's journal, `cell/events.jsonl`: what happened, in the order it was written.

Times, durations and sizes are as `records` says. A reader ignores kinds it does not know.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .records import PhaseName, Record

# How somebody came who wanted to leave.
Way = Literal["proxy", "transparent", "name", "peer"]


class Event(Record, tag_field="kind", frozen=True, kw_only=True):
    """Base of what happens in a cell; `kind` in JSON is the tag of the subclass."""


class CellStarted(Event, tag="cell", frozen=True, kw_only=True):
    """The world is up: sessions may come."""

    cell: str
    task: str
    agent: str
    substrate: str


class PhaseChanged(Event, tag="phase", frozen=True, kw_only=True):
    """The rollout moved on. `by` is the principal who asked, or `cell` for the cell itself."""

    phase: PhaseName
    by: str
    reason: str = ""


class SessionOpened(Event, tag="session", frozen=True, kw_only=True):
    """A command, shell or terminal started; its recording is `sessions/<n>.cast`."""

    n: int
    principal: str
    phase: PhaseName
    user: str
    command: str | None
    tty: bool
    cols: int = 0
    rows: int = 0
    pid: int = 0


class SessionClosed(Event, tag="session-end", frozen=True, kw_only=True):
    """It ended: `exit` or `signal` (the name, as `KILL`), and how much went through it.

    `reason` is empty for a normal end, else why it was stopped (deadline, client gone, sealed).
    """

    n: int
    exit: int | None
    signal: str | None
    bytes_in: int
    bytes_out: int
    ms: float
    reason: str = ""


class GateCall(Event, tag="gate", frozen=True, kw_only=True):
    """Somebody asked the gate for something; written before it is answered.

    `holder` is who a grant was given to, where one was used.
    """

    principal: str
    method: str
    detail: str
    allowed: bool
    reason: str = ""
    pid: int = 0
    holder: str = ""


class Intervention(Event, tag="intervention", frozen=True, kw_only=True):
    """An operator changed the rollout; the verdict will say so."""

    principal: str
    what: str
    session: int | None = None


class Fault(Event, tag="fault", frozen=True, kw_only=True):
    """Something of ours failed, or the world was not what the task declared."""

    where: str
    message: str


class Lease(Event, tag="lease", frozen=True, kw_only=True):
    """The keyboard of a session changed hands: `holder` drives it now; empty, it is the agent's again.

    `reason` says why it was taken or how it ended (detached, taken over, connection lost, ended).
    """

    session: int
    holder: str = ""
    reason: str = ""


class Paused(Event, tag="pause", frozen=True, kw_only=True):
    """The agent was made to wait (`paused`), or let go on; `frozen` says its processes stand still too."""

    paused: bool
    by: str
    frozen: bool = False


class Egress(Event, tag="egress", frozen=True, kw_only=True):
    """An attempt to leave, written when it was decided and before it is answered.

    `hit` numbers the attempts of a cell from 1; an EgressEnd with the same number follows when it is
    over. `way` is how it came: through the proxy, caught on its way elsewhere, a name that was asked
    for, or a declared peer. `pid` and `command` are the process inside (pid as the substrate sees
    it; 0 and empty where it had gone), `session` the session it descends from, if one is known.
    `address` and `address_class` are for the operator only; `status` is what the client was told, 0
    where nothing was said.
    """

    hit: int
    phase: PhaseName
    way: Way
    method: str
    host: str
    port: int
    allowed: bool
    rule: str = ""
    reason: str = ""
    path: str = ""
    sni: str = ""
    session: int | None = None
    pid: int = 0
    command: str = ""
    address: str = ""
    address_class: str = ""
    status: int = 0


class EgressEnd(Event, tag="egress-end", frozen=True, kw_only=True):
    """How attempt `hit` ended: bytes from and to the world inside, and what went wrong, if anything.

    `sni` is the name that a TLS client asked for in the clear. `ech`: its hello held an encrypted one,
    or a made-up one, which looks the same. `denied`: its host was let through, and what its client then
    said was not, as `error` has it.
    """

    hit: int
    status: int = 0
    sent: int = 0
    received: int = 0
    ms: float = 0.0
    sni: str = ""
    ech: bool = False
    denied: bool = False
    error: str = ""


class VerifierRan(Event, tag="verifier", frozen=True, kw_only=True):
    """One verification. `attempt` counts from 1; `stopped` says what ended it, if not itself."""

    attempt: int
    exit: int | None
    signal: str | None
    ms: float
    stopped: str = ""
    evidence: tuple[str, ...] = ()


class VerdictGiven(Event, tag="verdict", frozen=True, kw_only=True):
    """The verdict, in short; the whole is in verdict.json."""

    verdict: Literal["graded", "ungraded"]
    rewards: dict[str, float] = msgspec.field(default_factory=dict)
    cause: str = ""


AnyEvent = (
    CellStarted
    | PhaseChanged
    | SessionOpened
    | SessionClosed
    | GateCall
    | Intervention
    | Fault
    | Lease
    | Paused
    | Egress
    | EgressEnd
    | VerifierRan
    | VerdictGiven
)


class Line(Record, frozen=True, kw_only=True):
    """One line of events.jsonl.

    `hash` is the SHA-256 (hex) of the line's JSON without its `hash` member, and `prev` the hash of
    the line before it, so that a line cannot be changed or taken away unseen.
    """

    seq: int
    t: float
    event: AnyEvent
    prev: str = ""
    hash: str = ""
