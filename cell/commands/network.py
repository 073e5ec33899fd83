"""Commands about the ways out, and the look of a world from inside: egress, allow, fidelity."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cell import cells, filters, journal
from cell.errors import TaskError, UsageError
from cell.fidelity import said
from cell.plain import plain
from cell.policy import learning
from cell.trials import Trial
from cell.trials import egress as trials_egress
from cell.trials.egress import EgressReader, Hit
from cell.trials.events import phase_word

from .entering import me
from .operating import on_cell
from .saying import coloured, say

_LOOK = 0.2  # seconds between looks at a journal that is followed


def egress(args: argparse.Namespace) -> int:
    """Tell every attempt to leave of a cell or trial; with `-f`, as they happen, until the cell ends."""
    try:
        wanted = filters.parse(args.filter or "")
    except filters.FilterError as error:
        raise UsageError(f"--filter: {error}") from None
    trial = cells.find(args.cell, Path(args.jobs_dir))
    reader, told = EgressReader(), dict[str, bool]()
    colour, some = coloured(), False
    while True:
        # asked before the journal is read: what a cell writes last is read after it has ended
        alive = cells.find(trial.path, Path(args.jobs_dir)).alive
        for hit in reader.hits if reader.scan([trial]) else ():
            # one that lasts is told when it begins, and once more when it is over
            if told.get(hit.key) == hit.open:
                continue
            told[hit.key] = hit.open
            if wanted(trials_egress.values(hit)):
                some = True
                say(json.dumps(hit.as_dict()) if args.json else _line(hit, colour=colour))
        if not args.follow or not alive:
            break
        time.sleep(_LOOK)
    for missing in _missing(trial, reader, said=some):
        say(f"cell: {plain(missing)}", file=sys.stderr)
    return 0


def _missing(trial: Trial, reader: EgressReader, *, said: bool) -> Iterator[str]:
    """Say why there is no line, or not every one: silence would look like a world that asked for nothing."""
    record = Path(trial.path) / "cell" / "events.jsonl"
    if not record.exists():
        yield f"{record} is missing: only `cell run` records what wanted to leave"
    elif not reader.hits:
        yield f"{trial.id}: nothing tried to leave"
    elif not said:
        yield f"{trial.id}: {len(reader.hits)} tried to leave, none as --filter has it"
    if reader.dropped:
        yield f"{reader.dropped} more are not told: they are only in {record}"


def _line(hit: Hit, *, colour: bool) -> str:
    when = time.strftime("%H:%M:%S", time.localtime(hit.t))
    word, tone = ("allow", "32") if hit.allowed else ("deny", "31")
    shown = f"\x1b[{tone}m{word:<5}\x1b[0m" if colour else f"{word:<5}"
    what = f"{hit.method:<7} {hit.place}{hit.path}"
    how = f"{hit.status or ''} ↑{hit.sent} ↓{hit.received}" if not hit.open else "open"
    why = hit.rule if hit.allowed else hit.reason
    if hit.error and hit.error not in why:
        why = f"{why}; {hit.error}"
    phase = phase_word(hit.phase)
    return f"{when} {phase:<8} {shown} {plain(what, limit=90):<50} {how:<20} {plain(why)}".rstrip()


def allow(args: argparse.Namespace) -> int:
    """Let one host more pass in a living cell; it is an operator's intervention, and the verdict says so."""

    async def act(link: Any, trial: Any) -> str:
        await link.call("allow", host=args.host, phase=args.phase, once=args.once, who=me(args))
        return str(trial.id)

    cell = on_cell(args, act)
    if args.json:
        say(json.dumps({"cell": cell, "host": args.host, "phase": args.phase, "once": args.once}))
        return 0
    say(f"{cell}: {args.host} is allowed {'once' if args.once else 'from now on'}; the verdict will say so")
    return 0


def fidelity(args: argparse.Namespace) -> int:
    """Look at a living world from inside, as each phase's user; 3 when a line failed."""

    async def act(link: Any, trial: Any) -> Any:
        return await link.call("fidelity")

    lines = on_cell(args, act)
    colour, failed = coloured(), [line for line in lines if not line["ok"]]
    for line in lines:
        if args.json:
            say(json.dumps(line))
            continue
        glyph, tone = ("✓", "32") if line["ok"] else ("×", "31")
        mark = f"\x1b[{tone}m{glyph}\x1b[0m" if colour else glyph
        found = plain(said(line["found"]), limit=100)
        wanted = "" if line["ok"] else f"   wanted: {plain(line['wanted'], limit=100)}"
        say(f"{mark} {line['phase']:<9} {line['name']:<32} {found}{wanted}")
    if not args.json:
        count = len(lines) - len(failed)
        say(f"{count} of {len(lines)} lines are as declared" + (f"; {len(failed)} are not" if failed else ""))
    return 3 if failed else 0


def learned(run: Any, *, write: bool, as_json: bool) -> bool:
    """Say what the phases of each task needed of the network; with `write`, change its task.toml.

    Return whether all went well: a file that cannot be changed is told, and the other tasks go on.
    """
    well = True
    tasks = {attempt.task.path: attempt.task for attempt in run.trials}
    for path, task in sorted(tasks.items()):
        folders = [attempt.trial for attempt in run.trials if attempt.task.path == path]
        needs = learning.merged(
            learning.needed(line.event for line in journal.read(folder / "cell" / "events.jsonl"))
            for folder in folders
            if (folder / "cell" / "events.jsonl").exists()
        )
        declared = {
            phase.name: (phase.network_mode, phase.allowed_hosts) for phase in (task.agent, task.verifier)
        }
        names = {phase: learning.smallest(places) for phase, places in needs.items()}
        kept = {phase: learning.unasked(places, declared[phase]) for phase, places in needs.items()}
        if as_json:
            say(json.dumps({"task": task.short_name, "needs": names, "kept": kept}))
        else:
            for phase in needs:
                say(f"{task.short_name}: [{phase}] needed {', '.join(names[phase]) or 'nothing'}")
                if kept[phase]:
                    unasked = ", ".join(kept[phase])
                    say(f"{task.short_name}: [{phase}] keeps what nothing asked for this time: {unasked}")
        try:
            text, shown = learning.change(path / "task.toml", needs, declared)
            if not as_json and shown:
                say(shown.rstrip("\n"))
            if write and shown:
                learning.put(path / "task.toml", text)
            elif shown and not as_json:
                say("nothing was changed; --write applies this")
        except TaskError as error:
            well = False
            say(f"cell: {plain(str(error))}", file=sys.stderr)
    return well
