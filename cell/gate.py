"""Who may call what, and when (promises G1–G3). Pure: the caller has proved the principal.

What is not in this table is refused. Phases: S starting, A agent, = sealed, V verifier, F finished,
C closed.

    method                          agent   viewer  operator  runner   because
    status events watch             .       SA=VFC  SA=VFC    SA=VFC   reading disturbs nothing
    fidelity                        .       SA= F   SA= F     SA= F    looks from inside, and changes nothing
    session                         A       .       .         .        the agent works in its phase only
    shell attach type signal        .       .       A=  F     .        a person in the world; but never while
    resize forward                  .       .       A=  F     .          the verifier runs and judges it
    pause continue                  .       .       A         .        only the agent can be made to wait
    finish                          .       .       A         .        a person who is the agent is done
    grant revoke                    .       .       SA=VF     .        by the operator; a grant grants nothing
    allow                           .       .       A=VF      .        widens the phase that is or comes
    keep release                    .       .       SA=VF     SA=VF
    seal                            .       .       A         A        ends the agent phase, once
    grade                           .       .       =  F*     = **     only ever after the seal
    stop                            .       .       SA=VF     SA=VF
    begin                           .       .       .         S        opens the agent phase, once
    upload                          .       .       .         SA       never into a sealed world
    conclude                        .       .       .         =VF      what is not sealed has no verdict
    adopt                           .       .       .         SA=VF    a new runner takes over

    *  in a cell that is kept: a re-grade is a new verification, recorded as an intervention
    ** the first time: a runner that could grade twice could pick the better verdict

A grant narrows a principal, never widens it: to some methods, to some sessions, to a time. It dies
with the rollout.
"""

from __future__ import annotations

from typing import Final, get_args

import msgspec

from cell.records import PhaseName, Principal

_READ: Final = ("status", "events", "watch")
_HANDS: Final = ("shell", "attach", "type", "signal", "resize", "forward")
_GRANTING: Final = ("grant", "revoke")
_ALL: Final[frozenset[PhaseName]] = frozenset(get_args(PhaseName))
_ALIVE: Final = _ALL - {"closed"}
_WORLD: Final[frozenset[PhaseName]] = frozenset({"agent", "sealed", "finished"})
_QUIET: Final[frozenset[PhaseName]] = _WORLD | {"starting"}
_AGENT: Final[frozenset[PhaseName]] = frozenset({"agent"})

PRINCIPALS: Final[tuple[Principal, ...]] = get_args(Principal)

_RULES: Final[dict[Principal, dict[str, frozenset[PhaseName]]]] = {
    "agent": {"session": _AGENT},
    "viewer": {**dict.fromkeys(_READ, _ALL), "fidelity": _QUIET},
    "operator": {
        **dict.fromkeys(_READ, _ALL),
        "fidelity": _QUIET,
        **dict.fromkeys(_HANDS, _WORLD),
        "pause": _AGENT,
        "continue": _AGENT,
        "finish": _AGENT,
        **dict.fromkeys(_GRANTING, _ALIVE),
        "allow": _ALIVE - {"starting"},
        "keep": _ALIVE,
        "release": _ALIVE,
        "seal": _AGENT,
        "grade": frozenset({"sealed", "finished"}),
        "stop": _ALIVE,
    },
    "runner": {
        **dict.fromkeys(_READ, _ALL),
        "fidelity": _QUIET,
        "begin": frozenset({"starting"}),
        "upload": frozenset({"starting", "agent"}),
        "seal": _AGENT,
        "grade": frozenset({"sealed"}),
        "conclude": frozenset({"sealed", "verifier", "finished"}),
        "keep": _ALIVE,
        "release": _ALIVE,
        "stop": _ALIVE,
        "adopt": _ALIVE,
    },
}

METHODS: Final[tuple[str, ...]] = tuple(dict.fromkeys(m for rules in _RULES.values() for m in rules))

_ORDER: Final[tuple[PhaseName, ...]] = get_args(PhaseName)
_OF_A_SESSION: Final = frozenset({"watch", "attach", "type", "signal", "resize"})


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A principal handed on, narrowed. None means "not narrowed"; `until` is seconds since the epoch.

    `holder` is who it was given to, for the record. With `sessions`, calls about a session must name
    one of these, new ones cannot be opened, and `methods` None means watch, attach, type, signal,
    resize and status.
    """

    principal: Principal
    methods: frozenset[str] | None = None
    until: float | None = None
    sessions: frozenset[int] | None = None
    holder: str = ""


class Decision(msgspec.Struct, frozen=True):
    """The gate's word; `reason` is for a person, and empty when allowed."""

    allowed: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.allowed


_YES: Final = Decision(True)


def decide(
    principal: str,
    method: str,
    phase: str,
    *,
    graded: int = 0,
    kept: bool = False,
    session: int | None = None,
    grant: Grant | None = None,
    now: float = 0.0,
) -> Decision:
    """Say whether `principal` may call `method` in `phase`.

    `graded` counts the verifications begun so far, `kept` says whether the cell is kept, `session`
    is the number the call names, if any; `grant` and `now` (seconds since the epoch) narrow further.
    Anything unknown is refused; this never raises.
    """
    rules = next((rules for name, rules in _RULES.items() if name == principal), None)
    if rules is None:
        return _no("an unknown principal may do nothing")
    if method not in METHODS:
        return _no("there is no such method")
    if phase not in _ALL:
        return _no("the cell is in no known phase")
    article = "an" if principal[0] in "ao" else "a"
    if method not in rules:
        return _no(f"{article} {principal} may not {_verb(method)}")
    if phase not in rules[method]:
        return _no(_wrong_phase(method, phase, rules[method]))
    if method == "grade" and principal == "runner" and graded > 0:
        return _no("a runner grades once; a re-grade is an operator's, on a kept cell")
    if method == "grade" and phase == "finished" and not kept:
        return _no("the cell is not kept, so its world may be going already; keep it first")
    return (
        _YES if grant is None else _narrowed(grant, principal, method, phase=phase, session=session, now=now)
    )


def _narrowed(
    grant: Grant, principal: str, method: str, *, phase: str, session: int | None, now: float
) -> Decision:
    if grant.principal != principal:
        return _no(f"this grant is for {grant.principal}, not {principal}")
    if phase == "closed":
        return _no("the grant ended with the rollout")
    if grant.until is not None and not now < grant.until:
        return _no("the grant has expired")
    if method in _GRANTING:
        return _no("a grant is not handed on: only the operator grants and revokes")
    methods = grant.methods
    if methods is None and grant.sessions is not None:
        methods = _OF_A_SESSION | {"status"}
    if methods is not None and method not in methods:
        return _no(f"the grant does not let its holder {_verb(method)}")
    if grant.sessions is not None:
        if method in ("session", "shell"):
            return _no("the grant is for sessions that exist, not for new ones")
        if method in _OF_A_SESSION and session not in grant.sessions:
            shown = ", ".join(str(n) for n in sorted(grant.sessions)) or "none"
            return _no(f"the grant is for other sessions ({shown})")
    return _YES


def _no(reason: str) -> Decision:
    return Decision(False, reason)


def _verb(method: str) -> str:
    said = {
        "status": "read the status",
        "events": "read the events",
        "session": "open an agent's session",
        "shell": "open a shell",
    }
    return said.get(method, method)


def _wrong_phase(method: str, phase: str, allowed: frozenset[PhaseName]) -> str:
    if phase == "closed":
        return "the cell is closed"
    if method == "grade" and phase in ("starting", "agent"):
        return "grade comes after the agent phase: the agent may still be working"
    if method == "grade" and phase == "verifier":
        return "the verifier is running already"
    if method == "session":
        return "the agent phase has not begun" if phase == "starting" else "the agent phase is over"
    if method in _HANDS and phase == "verifier":
        return "the verifier is running, and its verdict would be about what you do; wait, or stop it"
    where = " or ".join(name for name in _ORDER if name in allowed)
    return f"{method} is for the phase {where}; this cell is in {phase}"
