"""What acts on the verifier from outside of its own tree, found while it runs (promise V1).

The agent's processes live on in the same pid namespace, and nothing keeps them from killing, stopping
or limiting the verifier's. Signals are known by the kernel's word (`signalwatch`); without it, and for
limits, something is only suspected, and verifying again with the agent's processes held still decides.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from . import kernel
from .child import Child
from .sandbox import Sandbox
from .signalwatch import SignalWatch

_SAMPLE = 0.1  # seconds between looks at the verifier's processes


def agents(sandbox: Sandbox) -> set[int]:
    """Return the living processes of a sandbox in which no verifier runs, without its pid 1."""
    if not sandbox.pid_namespace:
        return set()
    return set(kernel.processes_in(sandbox.pid_namespace)) - {sandbox.pid}


class InterferenceWatch(AbstractContextManager["InterferenceWatch"]):
    """Entered before the verifier is started; `follow` it then.

    `sent` are signals that came from the agent's processes; `suspected` is what they may have done.
    `sure` says that every signal was seen, so that one not in `sent` did not come from them.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self.sent: tuple[str, ...] = ()
        self._signals = SignalWatch(lambda: agents(sandbox))
        self._suspected: dict[str, None] = {}
        self._stack = ExitStack()
        self._root = 0
        self._sampler: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self._stack.enter_context(self._signals)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sampler:
            self._sampler.cancel()
        self._stack.close()
        if not self._root:
            return
        crossed = self._signals.found(self._root)
        self.sent = tuple(
            f"{number} to the verifier's process {name!r}, {count} times, from processes of the agent"
            if count > 1
            else f"{number} to the verifier's process {name!r}, from a process of the agent"
            for (number, name), count in crossed.signals.items()
        )
        if crossed.limits:
            self._suspected["a process of the agent set the limits of another process"] = None

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
        first = _limits(root)
        while True:
            await asyncio.sleep(_SAMPLE)
            for pid in _family(root):
                if first and (now := _limits(pid)) and now != first:
                    self._suspected["the limits of a process of the verifier changed while it ran"] = None
                fields = kernel.stat_fields(pid)
                if not self.sure and fields and fields[0] == "T":
                    self._suspected["a process of the verifier was stopped (SIGSTOP)"] = None


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
