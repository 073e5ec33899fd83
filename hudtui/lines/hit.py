"""What is known of one hit, or of one host over the whole job, as a document: pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cell.trials import Trial
from cell.trials.egress import Hit, HostSum
from hudtui.lines.egress import amount, by_list, may_help, phase_runs
from hudtui.lines.fleet import clock
from hudtui.look import Run
from hudtui.panes.doc import Line, line

KNOWS = "knows only hosts that were tried"

_WAYS = {
    "proxy": "asked the proxy",
    "transparent": "connected by itself, and was caught on its way",
    "name": "asked for a name",
    "peer": "went to a declared peer",
}


def moment(t: float) -> str:
    """Return the local time with its offset, to the millisecond."""
    try:
        return datetime.fromtimestamp(t).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + _offset(t)
    except (ValueError, OverflowError, OSError):
        return "at no known time"


def _offset(t: float) -> str:
    return datetime.fromtimestamp(t).astimezone().strftime(" %z")


def hit_lines(hit: Hit, same: Sequence[Hit] = (), *, keys: bool = True) -> list[Line]:
    """Return a hit's document. `same` are the denials of the job, for what a rule more would change."""
    verb: Run = ("allowed", "ok bold") if hit.allowed else ("denied", "bad bold")
    took = "still open" if hit.open and hit.allowed else f"{hit.ms:.0f} ms"
    found = [
        line(
            verb,
            f"  {hit.method or hit.way} ",
            (hit.place, "bold"),
            (f"   {clock(hit.t)}.{int(hit.t % 1 * 1000):03} · {took} · {hit.cell} · ", "muted"),
            *phase_runs(hit.phase),
        ),
        line(),
    ]
    found.append(_fact("rule", hit.rule or "none"))
    if hit.reason:
        found.append(_fact("reason", hit.reason))
    if hit.command or hit.pid:
        pid = f"   pid {hit.pid} outside" if hit.pid else ""
        found.append(_fact("process", hit.command or "gone before it could be asked", (pid, "muted")))
    else:
        found.append(_fact("process", "", ("it had gone before it could be asked", "muted")))
    session = f"session #{hit.session}" if hit.session is not None else "no session of its own is known"
    found.append(_fact("from", session, (f"   {_WAYS.get(hit.way, hit.way)}", "muted")))
    if hit.path:
        found.append(_fact("path", hit.path))
    if hit.sni:
        differs = hit.sni.lower().removesuffix(".") != hit.host
        note: Run = ("   is not the host that was asked for", "warn") if differs else ("", "")
        if differs and _is_address(hit.host):
            note = ("   is what it is called there; an address was asked for", "muted")
        found.append(_fact("sni", hit.sni, note))
    if hit.ech:
        found.append(
            _fact("ech", "another name may be encrypted in its hello, or a made-up one", role="warn")
        )
    found.append(_fact("told", _told(hit), ("   the address is never told", "muted")))
    if hit.error:
        found.append(_fact("error", hit.error, role="warn"))
    found.append(_fact("bytes", f"↑ {amount(hit.sent)}   ↓ {amount(hit.received)}"))
    seen = " · ".join(
        part for part in (hit.address, f"class {hit.address_class}" * bool(hit.address_class)) if part
    )
    found.append(_fact("seen by", "", ("operator only: ", "muted"), seen or ("never resolved", "muted")))
    found.append(_fact("time", moment(hit.t), (f"   hit {hit.hit} of {hit.cell}", "muted")))
    if by_list(hit):
        count = sum(each.host == hit.host and each.phase == hit.phase and by_list(each) for each in same)
        found += [
            line(),
            line(
                ("what if  ", "muted"),
                (f"+ {hit.host}", "primary"),
                f"   would let {count:,} of {len(same):,} recorded denials through; {KNOWS}" if same else "",
                hang=9,
            ),
        ]
    if keys:
        found += [line(), _keys(hit)]
    return found


def _is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()


def _told(hit: Hit) -> str:
    if hit.status:
        return f"{hit.status}" + (" with this reason" if not hit.allowed else "")
    return (
        "nothing: the connection was reset" if not hit.allowed else "nothing yet" if hit.open else "nothing"
    )


def _keys(hit: Hit) -> Line:
    allow: tuple[Run | str, ...] = (("A", "primary"), " allow · ", ("e", "primary"), " what if · ")
    return line(
        *(allow if may_help(hit) else ()),
        ("t", "primary"),
        " terminal at that moment · ",
        ("y", "primary"),
        " raw",
    )


def _fact(name: str, value: str, *more: Run | str, role: str = "") -> Line:
    return line((f"{name:<9}", "muted"), (value, role), *more, hang=9)


def host_lines(row: HostSum, hits: Sequence[Hit]) -> list[Line]:
    """Return a host's document: who tried it, when, and what decided."""
    decided: dict[tuple[str, str, bool, str], int] = {}
    for hit in hits:
        key = (hit.cell, hit.phase, hit.allowed, hit.reason if not hit.allowed else hit.rule)
        decided[key] = decided.get(key, 0) + 1
    ports = " ".join(str(port) for port in row.ports)
    found = [
        line(
            (row.host, "bold"),
            (
                f"   {row.hits:,} {'hit' if row.hits == 1 else 'hits'}, {row.denied:,} denied",
                "bad" if row.denied else "muted",
            ),
        ),
        line(),
        _fact("ports", ports),
        _fact("bytes", f"↑ {amount(row.sent)}   ↓ {amount(row.received)}"),
        _fact("last", moment(row.last)),
        line(),
        line(("by cell and phase", "head")),
    ]
    for (cell, phase, allowed, why), count in sorted(
        decided.items(), key=lambda item: (item[0][2], -item[1])
    ):
        found.append(
            line(
                f"{count:>6,}  ",
                ("allow" if allowed else "deny ", "ok" if allowed else "bad bold"),
                (f"  {cell} ", "link"),
                *((text.ljust(9), role) for text, role in phase_runs(phase)),
                (why, "muted"),
                hang=8,
            )
        )
    found += [line(), line(("enter", "primary"), " its hits")]
    return found


def missing(trial: Trial | None, trials: Sequence[Trial]) -> str:
    """Say why there is nothing to show, and how to get it next time."""
    about = [trial] if trial is not None else list(trials)
    if about and all(each.origin == "harbor" for each in about):
        return "Harbor keeps no record of the ways out (cell/events.jsonl) · `cell run` keeps one"
    if trial is not None and trial.state in ("running", "paused"):
        return "nothing has tried to leave yet"
    if not about:
        return "no cell yet · this screen fills by itself"
    return "nothing tried to leave"
