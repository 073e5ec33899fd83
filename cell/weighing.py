"""What one verification gave, and what a second one proves of the first. Pure."""

from __future__ import annotations

import math

import msgspec

from .records import Record, TestResult


class Grading(Record, frozen=True, kw_only=True):
    """What one verification gave. `rewards` is None where `fault` (Harbor's name, a message) says why.

    `interference` is what was done to it, `interference_outside` when the kernel says that processes of
    the agent did it, `interference_proved` when it went otherwise with those held still or ended.
    `unclear`: some of it was done by them or by the verifier itself, which only a second verification
    can tell; `starved`: it lacked memory or processes. `sure` says that no signal of theirs can have
    been missed. `failed` is the stage at which it could not be started; `taken` pairs what was needed
    ("start", "files" or the name of a command) with what the agent did to it.
    """

    attempt: int
    exit: int | None
    signal: str | None
    ms: float
    started: float
    stopped: str
    rewards: dict[str, float] | None
    reward_file: str
    fault: tuple[str, str] | None
    tests: tuple[TestResult, ...]
    notes: tuple[str, ...]
    programs: tuple[str, ...]
    interference: tuple[str, ...]
    interference_outside: bool
    interference_proved: bool
    sure: bool
    output: str
    unclear: bool = False
    starved: bool = False
    failed: str = ""
    taken: tuple[tuple[str, str], ...] = ()

    @property
    def lowest(self) -> float:
        """The lowest of the rewards; below every reward where there is none."""
        return -math.inf if self.rewards is None else min(self.rewards.values(), default=0.0)

    @property
    def doubtful(self) -> bool:
        """Whether to verify again."""
        killed = self.signal is not None and not self.stopped and not self.sure
        if self.interference_outside or self.unclear:
            return True
        return self.lowest < 1 and bool(self.interference or killed)


def weigh(first: Grading, second: Grading, *, held: int) -> Grading:
    """Return the first verification with what a second one, without the agent's processes, proves.

    `held` of them stood still, or were ended where the first one was `starved`.
    """
    seen = first.interference or (f"the verifier was ended by SIG{first.signal}, not by the harness",)
    how = "ended" if first.starved else "held still"
    alone = f"with {held} processes of the agent {how}"
    clean = not second.interference and (second.signal is None or bool(second.stopped))
    better = held > 0 and second.lowest > first.lowest
    # What it does to itself, it does again.
    outside = first.interference_outside or (held > 0 and first.unclear and not second.unclear)
    if clean and (outside or better):
        ended = f"exit status {second.exit}" if second.signal is None else f"signal {second.signal}"
        told = f"{alone}, the same verification ended by itself ({ended})"
        return msgspec.structs.replace(
            first, interference=(*seen, told), interference_outside=outside, interference_proved=True
        )
    if outside:
        told = f"{alone}, it went no better"
        return msgspec.structs.replace(first, interference=(*seen, told), interference_outside=True)
    if held and first.sure:
        # it does the same when nobody can act on it: what was seen is its own doing
        note = f"{seen[0]}; {alone}, it went the same"
        return msgspec.structs.replace(first, interference=(), notes=(*first.notes, note))
    told = f"the same verification with the agent's processes {how} still went no better"
    return msgspec.structs.replace(first, interference=(*seen, told))
