"""The filter language, one for `/`, `:` and the command line; pure.

    word            somewhere in the row
    field~text      the field contains the text
    field:word      the field is that word (one of its words)
    field>=number   also > <= < =
    a b   a | b   !a   (a)      and, or, not, grouping

Case never matters. A field nobody knows matches nothing, and `parse` names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

FIELDS = (
    "host",
    "decision",
    "cell",
    "task",
    "agent",
    "state",
    "score",
    "cause",
    "reason",
    "phase",
    "status",
    "label",
    "sig",
    "job",
    "tests",
    "age",
    "way",
    "session",
    "method",
    "port",
    "sni",
    "path",
    "rule",
    "class",
    "process",
    "pid",
    "sent",
    "received",
    "ms",
)

WHOLE = ""
"""Under this name a row may carry all its text in lower case: words are then looked for there, at once."""

Values = Mapping[str, str | float | None]
Predicate = Callable[[Values], bool]


class FilterError(ValueError):
    """The text is not a filter; the message says what is wrong with it."""


_ITEM = re.compile(r'\s*(?:(\()|(\))|(\|)|(!)|("(?:[^"\\]|\\.)*"?|(?:[^\s()|"]|"[^"]*"?)+))')
_TERM = re.compile(r"([A-Za-z_]+)(>=|<=|>|<|=|~|:)(.*)", re.S)


def parse(text: str) -> Predicate:
    """Return what the filter asks; an empty one asks nothing. Raises `FilterError`."""
    parser = _Parser(text)
    found = parser.any_of()
    if parser.items:
        raise FilterError(f"`{parser.items[0]}` is not expected here")
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self.items: list[str] = []
        at = 0
        while at < len(text) and text[at:].strip():
            match = _ITEM.match(text, at)
            if match is None:
                raise FilterError(f"`{text[at:].strip()}` is not understood")
            self.items.append(match.group().strip())
            at = match.end()
        self.depth = 0

    def any_of(self) -> Predicate:
        every = [self.all_of()]
        while self.items and self.items[0] == "|":
            self.items.pop(0)
            every.append(self.all_of())
        # `a |` is a filter that is still being typed: the empty side asks nothing of anyone.
        parts = [part for part in every if part is not None] or [lambda _row: True]
        return parts[0] if len(parts) == 1 else lambda row: any(part(row) for part in parts)

    def all_of(self) -> Predicate | None:
        parts: list[Predicate] = []
        while self.items and self.items[0] not in ("|", ")"):
            parts.append(self.one())
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else lambda row: all(part(row) for part in parts)

    def one(self) -> Predicate:
        item = self.items.pop(0)
        if item == "!":
            if not self.items or self.items[0] in ("|", ")"):
                raise FilterError("`!` needs something after it")
            inner = self.one()
            return lambda row: not inner(row)
        if item == "(":
            self.depth += 1
            if self.depth > 50:
                raise FilterError("too many `(`")
            inner = self.any_of()
            if not self.items:
                raise FilterError("`(` is not closed")
            self.items.pop(0)
            self.depth -= 1
            return inner
        return _term(item)


def _term(item: str) -> Predicate:
    match = _TERM.fullmatch(item)
    if item.startswith('"') or match is None:
        wanted = _bare(item)
        return lambda row: (
            wanted in str(row[WHOLE])
            if WHOLE in row
            else any(wanted in _text(value) for value in row.values())
        )
    field, sign, raw = match[1].casefold(), match[2], match[3]
    if field not in FIELDS:
        raise FilterError(f"no field is called `{field}`")
    wanted = _bare(raw)
    if sign == "~":
        return lambda row: wanted in _text(row.get(field))
    if sign == ":":
        return lambda row: wanted in (_text(row.get(field)), *_text(row.get(field)).split())
    try:
        number = float(wanted)
    except ValueError:
        raise FilterError(f"`{field}{sign}` needs a number") from None
    compare = _COMPARE[sign]
    return lambda row: _number(row.get(field), lambda value: compare(value, number))


_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    "=": lambda a, b: a == b,
}


def _number(value: str | float | None, test: Callable[[float], bool]) -> bool:
    return isinstance(value, (int, float)) and test(value)


def _bare(text: str) -> str:
    return text.replace('"', "").casefold()


def _text(value: str | float | None) -> str:
    if value is None:
        return ""
    return value.casefold() if isinstance(value, str) else f"{value:g}"
