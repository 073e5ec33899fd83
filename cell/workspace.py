"""The agent's world, its phases and what happens in it: one per cell, inside the serving process.

Every change of state is one synchronous step that is journalled before anything is awaited. The gate
is asked here and nowhere else, and its answer is in the journal before the caller has it (promise G4).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from . import argv, gate
from .errors import HarnessError, Refused
from .events import AnyEvent, Fault, GateCall, Intervention, PhaseChanged, SessionClosed, SessionOpened
from .freeze import Freezer
from .identity import Person
from .journal import Journal
from .lease import Turns
from .recording import Recording
from .records import PhaseName, Principal
from .sandbox import Child, Ended, Sandbox, StartFailed
from .session import Client, Outcome, Pipes, Session
from .ways import Ways

Role = Literal["agent", "verifier", "root"]

# A command without a terminal may be a file transfer of any size; its recording is for reading.
_COMMAND_LIMIT = 1 << 20


@dataclass(frozen=True)
class Terminal:
    """What a client asked for: TERM and the size in characters."""

    term: str
    cols: int
    rows: int


@dataclass
class Workspace:
    """See the module. `changed` is called after each change that cell.json shows.

    `groups` are its control groups, `laid` the files of its network as they were written, by path.
    `human` says that the agent is a person: an operator's hands are then the agent's own.
    """

    folder: Path
    sandbox: Sandbox
    journal: Journal
    people: dict[Role, Person]
    image_env: tuple[tuple[str, str], ...]
    task_env: tuple[tuple[str, str], ...]
    root: str
    diffs: tuple[tuple[str, Path], ...]
    changed: Callable[[], None] = lambda: None
    phase: PhaseName = "starting"
    graded: int = 0
    kept: bool = False
    human: bool = False
    ways: Ways | None = None
    laid: Mapping[str, bytes] = field(default_factory=dict)
    groups: tuple[Path, ...] = ()
    sessions: dict[int, Session] = field(default_factory=dict)
    forwards: set[Callable[[], None]] = field(default_factory=set)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    why: str = ""
    _count: int = 0
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.turns = Turns(self.record, self._publish, alone=self.human)
        self.freezer = Freezer(self.sandbox)

    def _publish(self) -> None:
        self.changed()  # which is given later

    # ── the gate ──────────────────────────────────────────────────────────────────────────────

    def ask(
        self,
        principal: Principal,
        method: str,
        detail: str = "",
        *,
        pid: int = 0,
        session: int | None = None,
        grant: gate.Grant | None = None,
    ) -> None:
        """Ask the gate; Refused with its reason, after it was journalled."""
        decision = gate.decide(
            principal,
            method,
            self.phase,
            graded=self.graded,
            kept=self.kept,
            session=session,
            grant=grant,
            now=time.time(),
        )
        self.record(
            GateCall(
                principal=principal,
                method=method,
                detail=detail[:500],
                allowed=decision.allowed,
                reason=decision.reason,
                pid=pid,
                holder=grant.holder if grant else "",
            )
        )
        if not decision.allowed:
            raise Refused(decision.reason)

    def record(self, event: AnyEvent) -> int:
        """Journal an event and return its number. A journal that cannot be written ends the cell."""
        if self.journal.closed:  # who asks is still served for a moment
            raise HarnessError(f"the cell has ended: {self.why}")
        try:
            return self.journal.append(event).seq
        except HarnessError as error:
            self.close(f"the journal failed: {error}")
            raise

    def enter(self, phase: PhaseName, by: str, reason: str = "") -> None:
        """Go on to `phase`. Errors: HarnessError, when the cell has ended."""
        if self.phase == "closed":
            raise HarnessError(f"the cell has ended: {self.why}")
        self.phase = phase
        self.record(PhaseChanged(phase=phase, by=by, reason=reason))
        self.changed()

    def intervened(self, principal: Principal, what: str, session: int | None = None) -> None:
        """Note that an operator changed the rollout."""
        self.record(Intervention(principal=principal, what=what, session=session))

    def hands_on(self, principal: Principal, what: str, session: int | None = None) -> None:
        """Note that an operator worked in the world; a person who is the agent may do just that."""
        if not (self.human and self.phase == "agent"):
            self.intervened(principal, what, session)

    def fault(self, where: str, message: str) -> None:
        """Note something of ours that failed."""
        self.record(Fault(where=where, message=message))

    def close(self, why: str) -> None:
        """Have the cell end; the serving process does it."""
        self.why = self.why or why
        self.closing.set()

    # ── phases ────────────────────────────────────────────────────────────────────────────────

    async def seal(self, by: str, reason: str) -> None:
        """End the agent phase: its channels are closed before this returns, its processes live on."""
        self.enter("sealed", by, reason)
        if self.ways is not None:
            self.ways.seal()
        await self.resume("cell")  # those who wait are told that the phase is over
        for session in list(self.sessions.values()):
            session.stop("sealed")
        await self.quiet()

    async def resume(self, by: str) -> None:
        """Let a paused agent go on."""
        await self.freezer.thaw()
        self.turns.resume(by)

    def operators(self) -> list[int]:
        """Return the first process of each session that is an operator's own: they are never frozen."""
        return [one.child.pid for one in self.sessions.values() if one.principal == "operator"]

    def session_pids(self) -> dict[int, int]:
        """Return the number of each session by the pid of its first process."""
        return {one.child.pid: one.n for one in self.sessions.values()}

    async def quiet(self) -> None:
        """Wait until no session is left."""
        while self.sessions:
            self._idle.clear()
            await self._idle.wait()

    # ── sessions ──────────────────────────────────────────────────────────────────────────────

    def environment(
        self,
        role: Role,
        extra: Mapping[str, str],
        *,
        term: str | None = None,
        declared: tuple[tuple[str, str], ...] = (),
    ) -> dict[str, str]:
        """Return exactly what a process of `role` has in its environment (promise T6)."""
        person = self.people[role]
        proxies = self.ways.environment("verifier" if role == "verifier" else "agent") if self.ways else {}
        return argv.phase_environment(
            (*proxies.items(), *self.image_env),
            self.task_env,
            declared,
            home=person.home,
            user=person.name,
            term=term,
            extra=extra,
        )

    async def session(
        self,
        principal: Principal,
        client: Client,
        command: str | None,
        *,
        env: Mapping[str, str],
        terminal: Terminal | None,
        role: Role = "agent",
        grant: gate.Grant | None = None,
    ) -> Outcome:
        """Run one session to its end: the agent's, or an operator's own as the user of `role`.

        An agent's waits for its turn first. Errors: Refused (the gate), StartFailed, HarnessError.
        """
        agent = principal == "agent"
        self.ask(principal, "session" if agent else "shell", command or "shell", grant=grant)
        if agent:
            await self.turns.claim(None, agent=True, gone=client.gone)
            if self.phase != "agent":
                raise Refused("the agent phase ended while this waited")
        if not agent:
            who = f" (as {role})" if role != "agent" else ""
            what = (f"opened a session: {command}" if command else "opened a shell") + who
            (self.hands_on if role == "agent" else self.intervened)(principal, what)
        person = self.people[role]
        commands = [[shell, "-c", command] if command is not None else [shell] for shell in person.shells]
        environment = self.environment(role, env, term=terminal.term if terminal else None)
        pipes = None if terminal else Pipes.make()
        try:
            child = self.sandbox.spawn(
                commands,
                who=person.who,
                env=environment,
                cwd=person.workdir,
                stdio=pipes.theirs if pipes else None,
                terminal=(terminal.rows, terminal.cols) if terminal else None,
            )
        finally:
            if pipes:
                pipes.lent()
        session = await self.prepare(
            child,
            client,
            principal=principal,
            command=command,
            person=person,
            terminal=terminal,
            pipes=pipes,
            limit=None if terminal else _COMMAND_LIMIT,
        )
        return await self.drive(session)

    async def prepare(
        self,
        child: Child,
        client: Client,
        *,
        principal: Principal,
        command: str | None,
        person: Person,
        terminal: Terminal | None,
        pipes: Pipes | None,
        limit: int | None,
    ) -> Session:
        """Number a process that was spawned and open its recording."""
        await asyncio.wait([child.started])
        if principal == "agent" and self.turns.frozen:  # it was on its way when the others were stopped
            await self.freezer.freeze(self.operators)
        self._count += 1
        recording = Recording(
            self.folder / "sessions" / f"{self._count}.cast",
            cols=terminal.cols if terminal else 0,
            rows=terminal.rows if terminal else 0,
            command=command,
            tty=terminal is not None,
            n=self._count,
            principal=principal,
            phase=self.phase,
            user=person.name,
            term=terminal.term if terminal else "",
            limit=limit,
        )
        session = Session(
            self._count,
            child,
            recording,
            terminal is not None,
            client,
            principal=principal,
            stdin=pipes.stdin if pipes else -1,
            stdout=pipes.stdout if pipes else -1,
            stderr=pipes.stderr if pipes else -1,
        )
        if principal != "runner":
            number, agent = session.n, principal == "agent"
            session.turn = lambda: self.turns.claim(number, agent=agent, gone=client.gone)
        self.sessions[session.n] = session
        self.record(
            SessionOpened(
                n=session.n,
                principal=principal,
                phase=self.phase,
                user=person.name,
                command=command,
                tty=terminal is not None,
                cols=terminal.cols if terminal else 0,
                rows=terminal.rows if terminal else 0,
                pid=child.pid,
            )
        )
        return session

    async def drive(self, session: Session) -> Outcome:
        """Run a prepared session to its end, and write down how it ended."""
        ended, reason = Ended(None, None), "lost"
        try:
            outcome = await session.run()
            ended, reason = outcome.ended, outcome.reason
            return outcome
        except StartFailed as error:
            reason = str(error)
            raise
        finally:
            del self.sessions[session.n]
            self._idle.set()
            session.recording.close(exit=ended.code, signal=ended.signal_name, reason=reason)
            event = SessionClosed(
                n=session.n,
                exit=ended.code,
                signal=ended.signal_name,
                bytes_in=session.recording.bytes_in,
                bytes_out=session.recording.bytes_out,
                ms=round((time.monotonic() - session.started) * 1000, 3),
                reason=reason,
            )
            try:
                self.journal.append(event)
            except HarnessError as error:
                self.close(str(error))
            if session.recording.fault:
                self.close(f"a recording failed: {session.recording.fault}")
