"""What a cell is made of, as a document: namespaces, ids, users, capabilities, limits. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from cell import fidelity
from cell.fidelity import Check
from cell.plain import plain
from cell.records import CellInfo, Ends, Identity, Limit, PhaseIdentity
from cell.trials import Trial
from hudtui.lines.capabilities import CAPABILITIES, capabilities
from hudtui.lines.fleet import state_runs
from hudtui.look import Run
from hudtui.panes.doc import Line, line

_MIGHTY = {"SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO", "SYS_PTRACE", "SYS_BOOT", "BPF", "PERFMON", "MAC_ADMIN"}
_EVERY = 2**32 - 1
_RANGES = 5
_PAD = 14


def identity_lines(
    trial: Trial,
    info: CellInfo | None,
    checks: Sequence[Check] | None = None,
    *,
    inside: bool = True,
) -> list[Line]:
    """Return the document of a cell; `info` is None where there is no readable cell.json.

    `checks` are what a look from inside found, None when nobody has looked; left out where not `inside`.
    """
    if info is None:
        return _missing(trial)
    known = info.identity
    found = [*_world(info, known), *_namespaces(known), *_ids(known)]
    for phase in known.phases:
        found += _phase(phase)
    found += _ways_out(known.ends)
    found += _limits(known.limits)
    notes = (*known.notes, *info.warnings)
    found.append(line((f"Notes {len(notes) or ''}".rstrip(), "head")))
    found += [line(("  ▲ ", "warn"), plain(note, limit=600), hang=4) for note in notes]
    if not notes:
        found.append(line(("  none: the world is what the task declares", "muted")))
    return [*found, line(), *fidelity_lines(checks)] if inside else found


def fidelity_lines(checks: Sequence[Check] | None) -> list[Line]:
    """Say what a look from inside found, what is wrong first; the same in both phases is said once."""
    if checks is None:
        return [line(("Fidelity", "head")), line("  not run; press ", ("i", "primary"))]
    role = "ok" if all(each.ok for each in checks) else "bad bold"
    found = [line(("Fidelity", "head"), (f"   {fidelity_words(checks)}", role))]
    phases: dict[tuple[str, str, str, bool], list[str]] = {}
    for each in checks:
        phases.setdefault((each.name, each.found, each.wanted, each.ok), []).append(each.phase)
    for (name, saw, wanted, ok), where in sorted(phases.items(), key=lambda one: one[0][3]):
        runs: list[Run | str] = [("  ✓ ", "ok") if ok else ("  × ", "bad")]
        about = plain(where[0], limit=8) if len(where) == 1 else "both"
        runs += [f"{plain(name, limit=34):<35}", (f"{about:<9} ", "muted")]
        runs.append((fidelity.said(saw), "muted" if ok else ""))
        if not ok:
            runs.append((f"   should be {plain(wanted, limit=300)}", "warn"))
        found.append(line(*runs, hang=49))
    return found


def fidelity_words(checks: Sequence[Check] | None) -> str:
    """Say in one line what a look from inside came to."""
    if checks is None:
        return "nobody has looked · i looks"
    wrong = sum(not each.ok for each in checks)
    return (
        f"{wrong} of {len(checks)} are not as they should be"
        if wrong
        else f"all {len(checks)} are as they should be"
    )


def _missing(trial: Trial) -> list[Line]:
    if trial.origin == "harbor":
        return [
            line("Harbor keeps no identity record (cell/cell.json)."),
            line(),
            line(("cell run", "bold"), " on the same task records what its world is made of.", hang=2),
        ]
    return [
        line("cell/cell.json is missing or torn: the cell did not get as far as to say what it is made of.")
    ]


def _fact(name: str, *runs: Run | str) -> Line:
    return line((f"  {name:<{_PAD}}", "muted"), *runs, hang=_PAD + 2)


def _world(info: CellInfo, known: Identity) -> list[Line]:
    boxed: Run = ("own world", "ok") if known.sandboxed else ("UNSANDBOXED: the machine itself", "bad bold")
    roots = {
        "image": "the image's own",
        "system": "composed of the machine's system",
        "none": "the machine's",
    }
    root = roots.get(known.root, plain(known.root, limit=80))
    privs = "on: no program gains rights" if known.no_new_privs else "off, as in a container"
    return [
        line(("World", "head")),
        _fact("runs on", plain(info.substrate, limit=40), ("   ", ""), boxed),
        _fact("root", root or "–"),
        _fact("hostname", plain(known.hostname, limit=80) or "–"),
        _fact("seccomp", plain(known.seccomp, limit=80) or ("none", "warn")),
        _fact("no_new_privs", privs),
        line(),
    ]


def _leaks(known: Identity) -> list[str]:
    """The kinds of namespaces that should not be the machine's. Its clocks are: containers have them too."""
    return [each.kind for each in known.namespaces if each.shared and each.kind != "time"]


def _namespaces(known: Identity) -> list[Line]:
    shared = _leaks(known)
    title: list[Run] = [("Namespaces", "head")]
    if shared and known.sandboxed:
        title.append((f"   {len(shared)} shared with the machine: a leak", "bad bold"))
    found = [line(*title)]
    for each in known.namespaces:
        state: Run = ("own", "ok")
        if each.shared:
            state = ("shared", "bad bold") if each.kind in shared else ("shared, as in a container", "muted")
        inode: Run = (f"{each.inode:<12}", "bad" if each.kind in shared else "")
        found.append(_fact(plain(each.kind, limit=12), inode, state))
    if not known.namespaces:
        found.append(line(("  not recorded", "muted")))
    return [*found, line()]


def _ids(known: Identity) -> list[Line]:
    title: list[Run] = [("Ids", "head")]
    if not known.full_id_map:
        title.append(("   only the own id is mapped", "warn"))
    found = [line(*title)]
    for name, ranges in (("uid", known.uid_map), ("gid", known.gid_map)):
        found += ruler(name, ranges)
    return [*found, line()]


def ruler(name: str, ranges: Sequence[tuple[int, int, int]]) -> list[Line]:
    """Return a map as two rulers, one over the other: ids inside, and what they are outside."""
    if not ranges:
        return [_fact(name, ("not recorded", "muted"))]
    inside: list[Run] = []
    outside: list[Run] = []
    for first, there, count in ranges[:_RANGES]:
        ends = [(first, first + count - 1), (there, there + count - 1)]
        texts = [(str(a), "" if count == 1 else str(b)) for a, b in ends]
        bar = 0 if count == 1 else min(24, 4 + count.bit_length() // 2)
        width = max(len(a) + len(b) for a, b in texts) + bar + (2 if bar else 0)
        for runs, (a, b), role in ((inside, texts[0], "ok"), (outside, texts[1], "primary")):
            fill = " " + "━" * (width - len(a) - len(b) - 2) + " "
            runs.extend([(a, ""), (fill, role), (b, "")] if bar else [(a.ljust(width), "")])
            runs.append(("  ", ""))
    same = all(first == there for first, there, _ in ranges)
    whole = sum(count for _, _, count in ranges) >= _EVERY
    said = "every id, the same outside" if same and whole else "the same outside" if same else ""
    more = len(ranges) - _RANGES
    tail = f"and {more} more" if more > 0 else said
    return [
        line((f"  {name:<5}inside   ", "muted"), *inside),
        line((f"  {'':<5}outside  ", "muted"), *outside, (tail, "muted")),
    ]


def _phase(phase: PhaseIdentity) -> list[Line]:
    groups = " ".join(str(gid) for gid in phase.groups) or "none"
    declared, used = plain(phase.network_declared, limit=60), plain(phase.network_used, limit=60)
    network: list[Run | str] = [declared or "–"]
    if used and used != declared:
        network.append((f"   used: {used}", "warn"))
    who = (f"   uid {phase.uid}, gid {phase.gid}, groups {groups}", "muted")
    return [
        line((f"{phase.phase.capitalize()}'s phase", "head")),
        _fact("user", (plain(phase.user, limit=60), "bold"), who),
        _fact(
            "home", plain(phase.home, limit=200), ("   works in ", "muted"), plain(phase.workdir, limit=200)
        ),
        _fact("network", *network),
        _fact("caps", *_caps(phase.cap_effective)),
        _fact("caps at most", *_caps(phase.cap_bounding)),
        line(),
    ]


def _caps(mask: str) -> list[Run | str]:
    names = capabilities(mask)
    if names is None:
        return [("not recorded", "muted")]
    if not names:
        return [("none", "ok")]
    if len(names) >= len(CAPABILITIES):
        return [(f"all {len(names)}", "bad bold")]
    runs: list[Run | str] = [(f"{len(names)}: ", "muted")]
    for name in names:
        runs.append((f"{name.lower()} ", "bad bold" if name in _MIGHTY else ""))
    return runs


def _ways_out(ends: Ends) -> list[Line]:
    """What of ours stands in the world's own network; nothing, where no phase has a network."""
    found = [line(("Ways out", "head"))]
    if not (ends.listeners or ends.peers or ends.visiting or ends.refused):
        return [*found, line(("  none: there is lo, and nothing of ours listens", "muted")), line()]
    if ends.listeners:
        found.append(_fact("listening", plain("  ".join(ends.listeners), limit=300)))
    way: Run = ("on", "ok") if ends.transparent else ("off", "muted")
    after = ""
    if ends.transparent:
        after = "   programs that know no proxy, " + ("IPv4 and IPv6" if ends.ipv6 else "IPv4 alone")
    elif ends.visiting:
        way, after = ("the verifier's", "ok"), "   only while it runs; the agent's phase has no network"
    found.append(_fact("transparent", way, (after, "muted")))
    if ends.resolver:
        found.append(_fact("names", plain(ends.resolver, limit=80), ("   from a private pool", "muted")))
    found += [_fact("peer", plain(peer, limit=200)) for peer in ends.peers]
    found += [_fact("refused", (plain(why, limit=300), "warn")) for why in ends.refused]
    return [*found, line()]


def _limits(limits: Sequence[Limit]) -> list[Line]:
    found = [line(("Limits", "head"))]
    for each in limits:
        state: Run = ("enforced", "ok") if each.enforced else ("not enforced", "warn")
        why = f"   {plain(each.why, limit=300)}" if each.why else ""
        value = f"{plain(each.value, limit=40):<10}"
        found.append(_fact(plain(each.name, limit=14), value, state, (why, "muted")))
    if not limits:
        found.append(line(("  none declared", "muted")))
    return [*found, line()]


def cells_lines(cells: Sequence[tuple[Trial, CellInfo | None]]) -> list[Line]:
    """Return one line for each cell: what differs between worlds that should be alike."""
    found = [
        line(("Identity of all cells", "head"), ("   enter on Fleet, then 5, shows one", "muted")),
        line(),
    ]
    for trial, info in cells:
        state = state_runs(trial)
        runs: list[Run | str] = [*state, " " * (3 - len(state)), (f"{trial.id:<8}", "link")]
        runs.append(f"{trial.task[:24]:<25}")
        if info is None:
            missing = "no cell/cell.json" if trial.origin == "cell" else "Harbor keeps no identity"
            runs.append((missing, "muted"))
        else:
            runs += _brief(info)
        found.append(line(*runs, hang=11))
    return found


def _brief(info: CellInfo) -> list[Run]:
    known = info.identity
    if not known.sandboxed:
        return [("UNSANDBOXED", "bad bold")]
    shared = _leaks(known)
    runs: list[Run] = [(f"{plain(info.substrate, limit=20)} · ", "muted")]
    if shared:
        runs.append((f"shares {' '.join(plain(kind, limit=12) for kind in shared)}", "bad bold"))
    else:
        runs.append(
            (
                f"{sum(not each.shared for each in known.namespaces)} own namespaces",
                "" if known.namespaces else "muted",
            )
        )
    users = " · ".join(f"{phase.phase} as {plain(phase.user, limit=20)}" for phase in known.phases)
    runs.append((f" · {users}" if users else "", "muted"))
    count = len(known.notes) + len(info.warnings)
    if count:
        runs.append((f" · ▲ {count}", "warn"))
    loose = [each.name for each in known.limits if not each.enforced]
    if loose:
        runs.append((f" · loose: {' '.join(plain(name, limit=14) for name in loose)}", "warn"))
    return runs
