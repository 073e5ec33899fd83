"""Grading one kept cell ten times, and how far the verdicts lie apart."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence

from cell.plain import plain
from hudtui.panes.doc import Line, line

TIMES = 10


async def grade_once(trial: str) -> str:
    """Run `cell grade TRIAL --json` and say what came of it: a reward, or why there is none."""
    argv = [sys.executable, "-P", "-m", "cell", "grade", trial, "--json"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    out, err = await process.communicate()
    try:
        told = json.loads(out)
        if told["verdict"] == "graded":
            return " ".join(f"{name} {value:g}" for name, value in sorted(told["rewards"].items()))
        return f"ungraded: {plain(str(told.get('fault') or 'no reward'), limit=200)}"
    except (ValueError, KeyError, TypeError, AttributeError):
        words = (err or out).decode("utf-8", "replace").strip().rpartition("\n")[2]
        return f"not graded: {plain(words, limit=200) or f'exit {process.returncode}'}"


async def grade_often(trial: str, said: Callable[[int], None]) -> list[str]:
    """Grade ten times, one after the other; `said` is told how many are done."""
    found = []
    for number in range(TIMES):
        said(number)
        found.append(await grade_once(trial))
    return found


def spread_lines(results: Sequence[str]) -> list[Line]:
    """Say how often each result came, then each in its order."""
    counts = Counter(results)
    same = len(counts) == 1
    head = (
        "always the same" if same else f"{len(counts)} different results: the verdict is not to be relied on"
    )
    found = [line((head, "ok" if same else "warn")), line()]
    for result, count in counts.most_common():
        found.append(line((f"  {count:>2} × ", "primary"), ("█" * count, "primary"), f"  {result}", hang=18))
    found += [line(), line(("In their order", "head"))]
    found += [line((f"  {n:>2}  ", "muted"), result, hang=6) for n, result in enumerate(results, start=1)]
    return found
