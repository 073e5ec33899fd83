"""What acts on the verifier from outside of its own tree, found while it runs (promise V1).

The agent's processes live on in the same pid namespace, and nothing keeps them from killing, stopping,
limiting or starving the verifier's. Signals are known by the kernel's word (`signalwatch`); without it,
and for limits, something is only suspected. A signal that the kernel sent (for the owner of a descriptor,
or because memory was used up), and a process that was refused, are known, but not whose doing they were.
Verifying again decides, with the agent's processes held still; or ended, where they may have used up
what the verifier needed: what stands still keeps its memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from . import kernel
from .child import Child
from .limits import Pressure, pressure
from .sandbox import Sandbox
from .signalwatch import SignalWatch

_CHOSEN = "a process of the verifier was made the first to end when memory is short (oom_score_adj)"
_SAMPLE = 0.1  # seconds between looks at the verifier's processes


def agents(sandbox: Sandbox) -> set[int]:
    """Return the living processes of a sandbox in which no verifier runs, without its pid 1."""
    if not sandbox.pid_namespace:
        return set()
    return set(kernel.processes_in(sandbox.pid_namespace)) - {sandbox.pid}


class InterferenceWatch(AbstractContextManager["InterferenceWatch"]):
    """Entered before the verifier is started; `follow` it then.

    `sent` are signals that came from the agent's processes; `suspected` is what they may have done;
    `unclear` was done to the verifier, by them or by itself; `starved` says that it lacked memory or
    processes. `sure` says that every signal was seen, so that one not in `sent` did not come from them.
    `groups` are the cell's control groups; `alone`: watch also where no process of the agent lives.
    """

    def __init__(self, sandbox: Sandbox, groups: Sequence[Path] = (), *, alone: bool = False) -> None:
        self.sent: tuple[str, ...] = ()
        self.unclear: tuple[str, ...] = ()
        self.starved = False
        self._agents = frozenset[int]()
        self._groups, self._sandbox = groups, sandbox
        self._signals = SignalWatch(lambda: agents(sandbox), always=alone)
        self._suspected: dict[str, None] = {}
        self._stack = ExitStack()
        self._root = 0
        self._sampler: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self._before = pressure(self._groups)
        self._agents = frozenset(agents(self._sandbox))
        self._stack.enter_context(self._signals)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sampler:
            self._sampler.cancel()
        self._stack.close()
        rose = pressure(self._groups) - self._before
        if not self._root:
            return
        crossed = self._signals.found(self._root)
        self.sent = tuple(
            f"{number} to the verifier's process {name!r}, {count} times, from processes of the agent"
            if count > 1
            else f"{number} to the verifier's process {name!r}, from a process of the agent"
            for (number, name), count in crossed.signals.items()
        )
        self.unclear = (
            *(
                f"{number} to the verifier's process {name!r}, as the owner of a file descriptor (F_SETOWN)"
                for number, name in crossed.owned
            ),
            *(
                f"{number} to the verifier's process {name!r}, from the kernel: {_why(number, rose)}"
                for number, name in crossed.kernel
            ),
        )
        if crossed.refused:
            told = f"the verifier was refused a new process, {crossed.refused} times"
            self.unclear += (f"{told} (refused in the cell: {rose.refused})" if rose.refused else told,)
        self.starved = bool(crossed.refused or crossed.kernel)
        if not self._signals.intact and self._agents:
            self._starving(rose)
        if crossed.limits:
            self._suspected["a process of the agent set the limits of another process"] = None

    def _starving(self, rose: Pressure) -> None:
        """Suspect, where whom it met was not traced."""
        if rose.ended:
            self._suspected[f"the cell's memory was used up, and {rose.ended} processes were ended"] = None
        if rose.refused:
            self._suspected[f"the cell's processes were used up, and {rose.refused} were refused"] = None
        self.starved = bool(rose.ended or rose.refused)

    @property
    def sure(self) -> bool:
        """Whether every signal of the agent's processes is in `sent`."""
        return self._signals.intact

    @property
    def why_unsure(self) -> str:
        """Why not, if it is known from the start."""
        return self._signals.why

    @property
    def suspected(self) -> tuple[str, ...]:
        """One line for everything that may have been done from outside."""
        return tuple(self._suspected)

    def follow(self, child: Child) -> None:
        """Look at the verifier's processes from now on."""
        self._root = child.pid
        self._sampler = asyncio.create_task(self._sample(child.pid))

    async def _sample(self, root: int) -> None:
        first, usual = _limits(root), self._sandbox.oom_score_adj
        chosen = _badness(root) if usual is None else usual
        while True:
            await asyncio.sleep(_SAMPLE)
            for pid in _family(root):
                if first and (now := _limits(pid)) and now != first:
                    self._suspected["the limits of a process of the verifier changed while it ran"] = None
                if _badness(pid) > chosen:
                    self._suspected[_CHOSEN] = None
                fields = kernel.stat_fields(pid)
                if not self.sure and fields and fields[0] == "T":
                    self._suspected["a process of the verifier was stopped (SIGSTOP)"] = None


def _why(number: str, rose: Pressure) -> str:
    if number == "SIGXCPU":
        return "its processor time was used up"
    return "the cell's memory was used up" if rose.ended else "memory or its processor time was used up"


def _badness(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text("ascii"))
    except (OSError, ValueError):
        return -1000


def _limits(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/limits").read_text("ascii")
    except OSError:
        return ""


def _family(root: int) -> list[int]:
    """Return a process and its descendants, as far as they are still known as such."""
    found = [root]
    for pid in found:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, children.read_text("ascii").split())
    return found
