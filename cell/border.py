"""Who may go where: a connection is judged by who holds its socket, as the kernel tells it.

The verifier's processes have the verifier's policy, those with the workspace's own view of files have the
agent's, everybody else and nobody have none. When the agent phase is over, the agent has none either,
but for what an operator allows from then on.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from .egress.allotment import MOST, Allotment
from .egress.context import Caller, Context
from .egress.owner import Descent, Owner, Owners
from .events import AnyEvent, Egress, EgressEnd, Fault
from .plain import plain
from .policy import Decision, Entry, Policy, entry
from .policy.hosts import Host
from .records import PhaseName
from .sandbox import Child, Sandbox

Role = Literal["agent", "verifier"]
_OVER = Decision(False, "agent phase", "denied: the agent phase is over")


@dataclass
class Rules:
    """The policy of one role, and what an operator allowed: for good, or for one connection."""

    policy: Policy
    once: list[Entry] = field(default_factory=list)

    def allow(self, text: str, by: str, *, once: bool) -> None:
        """Let one entry more pass. Raises ValueError for what is none."""
        entry(text)
        self.policy = self.policy.also(text, by)
        if once:
            self.once.append(self.policy.entries[-1])

    def decide(self, host: Host, port: int) -> Decision:
        """Decide, and forget an entry that was for once."""
        decision = self.policy.decide(host, port)
        if decision.allowed and self.once:
            used = next((one for one in self.once if one.text == decision.rule and one.names(host)), None)
            if used is not None:
                self.once.remove(used)
                left = tuple(one for one in self.policy.entries if one is not used)
                self.policy = Policy(self.policy.mode, left, self.policy.where)
        return decision


class Border:
    """The cell, as the ways out ask it (`egress.context.Context`).

    `phase` and `sessions` (number by the pid of a session's first process) are asked of the workspace,
    `record` writes an event, `written` says how many bytes there are by now. What they raise closes the
    connection that it was about. When a role's record is full, `full` is told, and its ways are to be cut.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        owners: Owners,
        rules: Mapping[Role, Rules],
        *,
        phase: Callable[[], PhaseName],
        sessions: Callable[[], Mapping[int, int]],
        record: Callable[[AnyEvent], int],
        written: Callable[[], int],
        most: int = MOST,
    ) -> None:
        self.rules = rules
        self.full: Callable[[Role], None] = lambda role: None
        self._allotments: dict[Role, Allotment] = {role: Allotment(most) for role in rules}
        self._written = written
        self._charged: dict[int, Allotment] = {}  # by the hit that is not over
        self._sandbox, self._owners = sandbox, owners
        self._phase, self._sessions, self._record = phase, sessions, record
        self._descent = Descent()
        self._verifier: Child | None = None
        self._hits = 0
        self._wondered: set[PhaseName] = set()

    @property
    def phase(self) -> PhaseName:
        """The phase now."""
        return self._phase()

    def seal(self) -> None:
        """Close the agent's way: it may go where an operator allows it from now on, and nowhere else."""
        rules = self.rules["agent"]
        rules.policy, rules.once = Policy("allowlist", (), rules.policy.where), []

    def verifier_is(self, child: Child | None) -> None:
        """Say which process the verifier's view belongs to; None when it has ended."""
        self._verifier = child

    def identify(self, accepted: socket.socket) -> Caller | None:
        """Say who holds the other end; None for nobody, and for who has two views of the files."""
        owner = self._owners.of(accepted)
        if owner is None:
            self._wonder()
            return None
        session = self._descent.session_of(owner, self._sessions())
        if owner.only_in(self._sandbox.mount_namespace):
            phase = self.phase
            return Caller("sealed" if phase == "verifier" else phase, owner.pid, owner.command, session)
        verifier = self._verifier
        if verifier is not None and owner.only_in(verifier.view()):
            return Caller("verifier", owner.pid, owner.command, session)
        return None

    def _wonder(self) -> None:
        """A search that came to no end is a fault, and no answer; it is told once in a phase."""
        phase = self.phase
        if self._owners.gave_up and phase not in self._wondered:
            self._wondered.add(phase)
            said = "there are too many processes to tell whose connection it is: refused"
            self.broke(said)

    def broke(self, what: str) -> None:
        """Note that the network is not as it should be."""
        self._record(Fault(where="network", message=what))

    def only_verifier(self) -> Context:
        """Return this border for a way where nobody but the verifier's processes is admitted."""
        return _ForVerifier(self)

    def decide(self, caller: Caller, host: Host, port: int) -> Decision:
        """Decide one request by the policy of its caller as it is now."""
        if caller.phase == "verifier":
            return self.rules["verifier"].decide(host, port)
        rules, phase = self.rules["agent"], self.phase
        decision = rules.decide(host, port)
        over = phase not in ("starting", "agent")
        return decision if decision.allowed or not over else _OVER

    def may_name(self, server: str, client: tuple[str, int], datagram: bool) -> bool:
        """Say whether who asks may have an address for one name more: while it runs, the verifier alone."""
        if self.phase != "verifier":
            return True
        owner, verifier = self._who_asks(server, client, datagram=datagram), self._verifier
        return owner is not None and verifier is not None and owner.only_in(verifier.view())

    def _who_asks(self, server: str, client: tuple[str, int], *, datagram: bool) -> Owner | None:
        ends = client, (server, 53)
        return (self._owners.of_datagram if datagram else self._owners.of_ends)(*ends)

    def asked(  # noqa: PLR0917 - the name server's own words, after where it stands
        self, server: str, name: str, kind: str, client: tuple[str, int], datagram: bool, code: int
    ) -> None:
        """Write down that a name was asked for inside; nobody outside was."""
        owner = self._who_asks(server, client, datagram=datagram)
        pid, command = (owner.pid, owner.command) if owner else (0, "")
        known = code == 0
        self.opened(
            Egress(
                hit=0,
                phase=self.phase,
                way="name",
                method=kind,
                host=plain(name, limit=253),
                port=53,
                allowed=known,
                rule="name pool",
                reason="answered here, nothing is asked outside" if known else "there is no such name",
                session=self._descent.session_of(owner, self._sessions()) if owner else None,
                pid=pid,
                command=command,
            )
        )

    def opened(self, event: Egress) -> int:
        """Write an attempt down, before it is answered, and return its number. Raises Full."""
        if event.way == "name":  # of which the name server makes few
            return self._write(event)
        # who is not known could be anybody: the agent must not use up what is the verifier's
        role: Role = "verifier" if event.phase == "verifier" and event.pid else "agent"
        allotment = self._allotments[role]
        allotment.claim()
        before = self._written()
        hit = self._write(event)
        allotment.used += self._written() - before
        self._charged[hit] = allotment
        if allotment.spent:
            reason = f"denied: the record of the {role}'s attempts is full: its ways out are closed"
            allotment.hit = self._write(
                Egress(
                    hit=0,
                    phase=event.phase,
                    way=event.way,
                    method="",
                    host="any host",
                    port=0,
                    allowed=False,
                    rule="record limit",
                    reason=reason,
                )
            )
            self.full(role)
        return hit

    def closed(self, event: EgressEnd) -> None:
        """Write down how an attempt ended."""
        before = self._written()
        self._record(event)
        if (allotment := self._charged.pop(event.hit, None)) is not None:
            allotment.used += self._written() - before

    def close(self) -> None:
        """Say of a record that was full how many attempts are not in it."""
        for allotment in self._allotments.values():
            if allotment.hit:
                self._record(EgressEnd(hit=allotment.hit, error=allotment.said))

    def _write(self, event: Egress) -> int:
        self._hits += 1
        self._record(msgspec.structs.replace(event, hit=self._hits))
        return self._hits


class _ForVerifier:
    """A `Context`; see `only_verifier`. It counts and asks through the border it was made of."""

    def __init__(self, whole: Border) -> None:
        self._whole = whole

    @property
    def phase(self) -> PhaseName:
        """The phase now."""
        return self._whole.phase

    def identify(self, accepted: socket.socket) -> Caller | None:
        """Say who it is, if it is one of the verifier's."""
        caller = self._whole.identify(accepted)
        return caller if caller is not None and caller.phase == "verifier" else None

    def decide(self, caller: Caller, host: Host, port: int) -> Decision:
        """Decide as the whole border does."""
        return self._whole.decide(caller, host, port)

    def opened(self, event: Egress) -> int:
        """Write it down as the whole border does."""
        return self._whole.opened(event)

    def closed(self, event: EgressEnd) -> None:
        """Write it down as the whole border does."""
        self._whole.closed(event)
