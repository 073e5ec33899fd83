"""What if the allowlist were another: which recorded denials would pass, which hits no more. Pure.

It knows only hosts that were tried: what a program would have done next, nobody recorded. Of an attempt
that no list decided, because nobody knows who made it or there was no room, it is not known either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from cell.plain import plain
from cell.policy import Entry, Policy, entry
from cell.policy.hosts import canonical
from cell.trials.egress import Hit
from hudtui.lines.egress import NO_LIST, by_list, phase_runs, rule_words
from hudtui.lines.hit import KNOWS
from hudtui.panes.doc import Line, line


@dataclass(frozen=True)
class Edit:
    """A change of an allowlist: entries more and entries less; `wrong` are the words that are none."""

    more: tuple[Entry, ...] = ()
    less: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


def edit(text: str) -> Edit:
    """Read entries separated by blanks or commas: `host` or `+host` is one more, `-host` one less."""
    more: list[Entry] = []
    less: list[str] = []
    wrong: list[str] = []
    for word in re.split(r"[\s,]+", text):
        if not word.strip("+-"):
            continue
        try:
            found = entry(word.lstrip("+-"))
        except ValueError as error:
            wrong.append(f"{plain(word, limit=80)} {error}")
            continue
        if word.startswith("-"):
            less.append(found.text)
        else:
            more.append(found)
    return Edit(tuple(more), tuple(less), tuple(wrong))


@dataclass
class _Place:
    hits: list[Hit] = field(default_factory=list)
    rule: str = ""


@dataclass(frozen=True)
class Outcome:
    """The places (host and port) of the recorded hits, sorted by what the edit would do to them."""

    passing: dict[str, _Place]
    denied: dict[str, _Place]
    cut: dict[str, _Place]
    others: dict[str, _Place]
    unknown: dict[str, _Place]

    def count(self, places: dict[str, _Place]) -> int:
        """Return how many hits these places had."""
        return sum(len(place.hits) for place in places.values())


def outcome(hits: Iterable[Hit], change: Edit) -> Outcome:
    """Say what the edit would do to every recorded hit. `others` were denied for another reason.

    Of those that are `unknown` no list was asked: whose it would have been, nobody knows.
    """
    policy = Policy("allowlist", change.more)
    known: dict[tuple[str, int], str] = {}
    found = Outcome({}, {}, {}, {}, {})
    for hit in hits:
        where = (hit.host, hit.port)
        if where not in known:
            known[where] = _rule(policy, hit)
        rule = known[where]
        if hit.allowed:
            if hit.rule in change.less and not rule:
                _put(found.cut, hit, hit.rule)
        elif hit.rule in NO_LIST:
            _put(found.unknown, hit, hit.rule)
        elif not by_list(hit):
            _put(found.others, hit, hit.rule)
        elif rule:
            _put(found.passing, hit, rule)
        else:
            _put(found.denied, hit, "")
    return found


def _put(places: dict[str, _Place], hit: Hit, rule: str) -> None:
    place = places.setdefault(hit.place, _Place(rule=rule))
    place.hits.append(hit)


def _rule(policy: Policy, hit: Hit) -> str:
    """The entry that would let the hit pass, empty for none."""
    try:
        decision = policy.decide(canonical(hit.host), hit.port)
    except ValueError:
        return ""
    return decision.rule if decision.allowed else ""


def outcome_lines(found: Outcome, change: Edit) -> list[Line]:
    """Return the document of an outcome."""
    denials = sum(map(found.count, (found.passing, found.denied, found.others, found.unknown)))
    lets, cut = found.count(found.passing), found.count(found.cut)
    head = [
        line(
            (f"would let {lets:,} of {denials:,} recorded denials through", "bold"), (f"   {KNOWS}", "muted")
        )
    ]
    if change.less:
        head.append(line((f"and would deny {cut:,} that passed, unless another entry names them", "bold")))
    head += [line((wrong, "bad")) for wrong in change.wrong]
    groups = (
        ("would pass", "✓", "ok", found.passing),
        ("would pass no more", "×", "bad", found.cut),
        ("still denied", "×", "bad", found.denied),
        ("denied for another reason", "■", "warn", found.others),
        ("not known: no list was asked", "?", "warn", found.unknown),
    )
    # as wide as it must be: on a narrow screen the reason stays on its line
    wide = max((len(name) for *_, places in groups for name in places), default=0)
    for title, sign, role, places in groups:
        if not places:
            continue
        head += [line(), line((f"{title} · {found.count(places):,}", "head"))]
        for name, place in sorted(places.items(), key=lambda item: (-len(item[1].hits), item[0])):
            phases = dict.fromkeys(hit.phase for hit in place.hits)
            cells = len({hit.cell for hit in place.hits})
            runs = [run for phase in phases for run in (*phase_runs(phase), (" ", ""))]
            why = place.rule if role == "ok" or title.endswith("more") else rule_words(place.hits[0])
            head.append(
                line(
                    (f"  {sign} ", role),
                    f"{name:<{min(wide, 36)}} ",
                    (f"{len(place.hits):>5,} ", ""),
                    (f"in {cells} {'cell' if cells == 1 else 'cells'}  ", "muted"),
                    *runs,
                    (f" {why}", "muted"),
                    hang=4,
                )
            )
    return head
