"""What callers may ask of a cell, method by method; the gate has allowed it before (`control`)."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from pathlib import Path
from typing import Any, Literal

import asyncssh
import msgspec

from . import beside, control, driving, inspection, journal, kernel, layout, visitor
from .border import Border
from .describe import Spec
from .errors import Refused
from .events import Line, VerdictGiven
from .gate import Grant
from .grants import Grants
from .plain import plain
from .records import CellInfo, Principal, Process
from .rewards import copy_tree
from .workspace import Workspace

_LONGEST_GRANT = 30 * 86400.0  # seconds
_EVENTS = 500  # lines of the journal in one answer: each may be a few kilobytes
_COPY_BYTES, _COPY_FILES = 1 << 30, 100_000


class Desk:
    """Where requests to one cell are answered, and where its identity record is kept up to date."""

    def __init__(self, spec: Spec, folder: Path, root_fd: int, workspace: Workspace) -> None:
        self.spec, self.folder, self.world = spec, folder, workspace
        self.info: CellInfo | None = None
        self.border: Border | None = None
        self.grants = Grants()
        self._root_fd = root_fd

    def publish(self) -> None:
        """Write cell.json anew, whole or not at all."""
        if self.info is None:
            return
        self.info = msgspec.structs.replace(
            self.info, phase=self.world.phase, kept=self.world.kept, held=self.world.turns.told()
        )
        temporary = self.folder / ".cell.json.new"
        try:
            temporary.write_bytes(msgspec.json.format(msgspec.json.encode(self.info), indent=2) + b"\n")
            temporary.replace(self.folder / "cell.json")
        except OSError as error:
            self.world.close(f"cell.json cannot be written: {error}")

    def handlers(self) -> control.Handlers:
        """Return what the control channel can do; the gate has allowed it before."""
        return {
            "status": self._status,
            "events": self._events,
            "begin": self._begin,
            "upload": self._upload,
            "seal": self._seal,
            "grade": self._grade,
            "conclude": self._conclude,
            "keep": self._keep,
            "release": self._release,
            "stop": self._stop,
            "adopt": self._adopt,
            "pause": self._pause,
            "continue": self._continue,
            "finish": self._finish,
            "type": self._type,
            "signal": self._signal,
            "resize": self._resize,
            "grant": self._grant,
            "revoke": self._revoke,
            "allow": self._allow,
            "fidelity": self._fidelity,
        }

    async def _status(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        waiting = {"held_sec": round(self.world.turns.held, 3), "waiting": self.world.turns.waiting}
        return {**msgspec.to_builtins(self.info), **waiting, "grants": self.grants.told()}

    async def _events(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        """Return the lines of the journal after number `after`, the first few hundred of them."""
        after = _number(args, "after") if "after" in args else -1
        lines = await asyncio.to_thread(self._lines, after)
        return [msgspec.to_builtins(line) for line in lines]

    def _lines(self, after: int) -> list[Line]:
        fresh = (line for line in journal.read(self.folder / "events.jsonl") if line.seq > after)
        return list(itertools.islice(fresh, _EVENTS))

    async def _begin(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        self.world.enter("agent", by)

    async def _upload(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        """Lay out the oracle's solution at /solution, while nothing runs that could swap a folder."""
        if self.world.phase != "starting":
            raise Refused("the world is laid out before the agent phase begins")
        await asyncio.to_thread(layout.lay_out, self._root_fd, "solution", blob)

    async def _seal(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        reason = str(args.get("reason", ""))
        if by == "operator":
            self.world.intervened(by, "closed the agent phase")
        await self.world.seal(by, reason)
        return {"notes": await self._collect()}

    async def _collect(self) -> list[str]:
        """Copy what the agent left in /logs, and say what was left out."""
        notes: list[str] = []
        trial = Path(self.spec.trial)
        for inside, outside in (
            ("/logs/agent", trial / "agent"),
            ("/logs/artifacts", trial / "artifacts/logs/artifacts"),
        ):
            try:
                source = kernel.open_beneath(self._root_fd, inside, os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                notes.append(f"{inside}: not collected: {error}")
                continue
            try:
                outside.mkdir(parents=True, exist_ok=True)
                notes += await asyncio.to_thread(
                    copy_tree, source, outside, max_bytes=_COPY_BYTES, max_files=_COPY_FILES
                )
            finally:
                os.close(source)
        return notes

    async def _grade(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        world, trial, change = self.world, Path(self.spec.trial), None
        if text := str(args.get("change") or ""):
            change = beside.wanted(world, self.border, text)
            trial = beside.folder(trial, world.graded + 1)
        if by == "operator" and world.graded:
            world.intervened(by, f"graded again, with {text}" if text else "graded again")
        await self._clear()
        async with beside.changed(world, self.border, change):
            grading = await visitor.verify(
                world,
                blob,
                env={str(key): str(value) for key, value in args.get("env", {}).items()},
                within=float(args["timeout"]),
                trial=trial,
                by=by,
            )
        return msgspec.to_builtins(grading)

    async def _clear(self) -> None:
        """Have everybody leave: no operator's shell or tunnel may be there while the verifier judges."""
        for session in list(self.world.sessions.values()):
            session.stop("the verifier begins")
        for cut in list(self.world.forwards):
            cut()
        await self.world.quiet()

    async def _conclude(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        self.world.record(msgspec.convert(args["verdict"], VerdictGiven))

    # ── making the agent wait, and working beside it ──────────────────────────────────────────

    async def _pause(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        """Have the agent wait, and with `freeze` stop its processes, too; more than once is fine."""
        world, freeze = self.world, bool(args.get("freeze"))
        if freeze and not world.sandbox.pid_namespace:
            raise Refused("without a sandbox nothing can be frozen: the processes are this machine's")
        if not world.turns.paused or freeze != world.turns.frozen:
            world.turns.pause(_name(by, args), frozen=freeze)
            world.intervened(by, "froze the agent" if freeze else "paused the agent")
        if freeze:
            await world.freezer.freeze(world.operators)
        else:
            await world.freezer.thaw()

    async def _continue(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        if not self.world.turns.paused:
            raise Refused("it is not paused" + ("; a keyboard is lent" if self.world.turns.drivers else ""))
        await self.world.resume(_name(by, args))

    async def _finish(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        """End the phase of an agent that is a person."""
        if not self.world.human:
            raise Refused(f"the agent of this cell is {self.spec.agent}, not a person; `cell stop` ends it")
        await self.world.seal(_name(by, args), "finished by the human agent")
        return {"notes": await self._collect()}

    async def _type(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        """Type into a terminal whose keyboard nobody has, and give it back."""
        session = driving.find(self.world, _number(args, "session"))
        who = plain(str(args.get("who") or ""), limit=40) or by
        await driving.type_once(self.world, by, session, blob, who=who)

    async def _signal(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        session = driving.find(self.world, _number(args, "session"))
        name = str(args.get("signal", "")).upper().removeprefix("SIG")
        number = getattr(signal, f"SIG{name}", None) if name.isalnum() else None
        if number is None:
            raise Refused(f"there is no signal {plain(name, limit=40)!r}")
        self.world.hands_on(by, f"sent SIG{name} to session {session.n}", session.n)
        session.child.signal(int(number))

    async def _resize(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        session = driving.find(self.world, _number(args, "session"))
        cols, rows = _number(args, "cols"), _number(args, "rows")
        if not session.tty or not (0 < cols < 10000 and 0 < rows < 10000):
            raise Refused(f"session {session.n} has no terminal that could be {cols}x{rows}")
        self.world.hands_on(by, f"resized the terminal of session {session.n} to {cols}x{rows}", session.n)
        if session.n in self.world.turns.drivers and session.lent is None and session.stdout >= 0:
            session.lent = session.size
        session.resize(cols, rows)

    async def _grant(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        """Make a key that opens a principal's socket, narrowed; the answer is the only copy of it."""
        principal, for_sec, sessions = args.get("principal"), args.get("for_sec"), args.get("sessions")
        if principal not in ("viewer", "operator"):
            raise Refused("a grant is for a viewer or an operator")
        if not isinstance(for_sec, int | float) or not 0 < for_sec <= _LONGEST_GRANT:
            raise Refused("a grant lasts for more than 0 seconds, and for 30 days at most")
        if sessions is not None and not all(isinstance(one, int) for one in sessions):
            raise Refused("sessions are numbers")
        key = asyncssh.generate_private_key("ssh-ed25519", comment=f"cell {self.spec.cell} {principal}")
        granted = self.grants.add(
            Grant(
                principal=principal,
                until=time.time() + for_sec,
                sessions=frozenset(sessions) if sessions is not None else None,
                holder=plain(str(args.get("who") or ""), limit=40) or "a colleague",
            ),
            key.public_data,
        )
        return {**granted.told(), "key": key.export_private_key().decode("ascii")}

    async def _revoke(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        wanted = str(args.get("grant", ""))
        found = self.grants.revoke(wanted)
        if not found:
            raise Refused(f"there is no grant {plain(wanted, limit=40)!r}")
        return [granted.told() for granted in found]

    # ── the network, and the look of it all ───────────────────────────────────────────────────

    async def _allow(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        """Let one host more pass, for the phase that is or comes: once, or for the rest."""
        ways, text, once = self.world.ways, str(args.get("host", "")), bool(args.get("once"))
        wanted = args.get("phase") or ("verifier" if self.world.phase == "verifier" else "agent")
        role: Literal["agent", "verifier"] = "verifier" if wanted == "verifier" else "agent"
        if wanted != role or ways is None:
            raise Refused("there are a way out for the agent and one for the verifier")
        try:
            ways.allow(role, text, _name(by, args), once=once)
        except ValueError as error:
            raise Refused(f"{plain(text, limit=80)}: {error}") from None
        how = "once" if once else "from now on"
        self.world.intervened(by, f"allowed the {role} {plain(text, limit=80)} {how}")

    async def _fidelity(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        """Look at the world from inside, and say line by line whether it is as declared."""
        if self.info is None or not self.spec.sandboxed:
            raise Refused("without a sandbox there is no world to look at")
        return [msgspec.to_builtins(line) for line in await inspection.inspect(self.world, self.info)]

    # ── the cell itself ───────────────────────────────────────────────────────────────────────

    async def _keep(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        self.world.kept = True
        self.publish()

    async def _release(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        self.world.kept = False
        self.publish()
        runner = self.info.runner if self.info is not None else None
        if self.world.phase == "finished" and (runner is None or kernel.process(runner.pid) != runner):
            # nobody else is there to end it
            self.world.close(f"released by {by}")

    async def _stop(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        if by == "operator" and self.world.phase in ("starting", "agent", "sealed", "verifier"):
            self.world.intervened(by, "stopped the cell")
        self.world.close(f"stopped by {by}" + (f": {args['why']}" if args.get("why") else ""))

    async def _adopt(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        if self.info is not None:
            self.info = msgspec.structs.replace(
                self.info, runner=msgspec.convert(args["runner"], Process | None)
            )
            self.publish()


def _name(by: Principal, args: dict[str, Any]) -> str:
    """Return the principal, and the name that goes with it, if one was given."""
    return f"{by} {plain(str(args.get('who') or ''), limit=40)}".rstrip()


def _number(args: dict[str, Any], name: str) -> int:
    value = args.get(name)
    if not isinstance(value, int):
        raise Refused(f"{name} is to be a number")
    return value
