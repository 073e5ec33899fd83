"""The command that throws away what nobody needs: gc."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import platformdirs

from cell import cells, pruning
from cell.doctor import size
from cell.errors import HarnessError, UsageError
from cell.plain import plain

from .saying import say


def gc(args: argparse.Namespace) -> int:
    """List what may go, ask, and remove it."""
    from cell.substrate import image

    cache = Path(platformdirs.user_cache_dir("hudtui")) / "images"
    paths = [Path(path) for path in args.paths] or [Path(args.jobs_dir)]
    waste = pruning.roots(cells.known([path for path in paths if path.exists()]), finished=args.finished)
    try:
        waste += pruning.exports(cache, image.present(), cells.living())
    except HarnessError as error:
        # without the engine nobody can say which images are gone
        say(f"cell: the exports of images stay: {plain(str(error))}", file=sys.stderr)
    for each in waste:
        if args.json:
            say(json.dumps({"path": str(each.path), "why": each.why, "bytes": each.size}))
        else:
            say(f"{size(each.size):>9}  {plain(str(each.path))}  {plain(each.why)}")
    total = size(sum(each.size for each in waste))
    if not waste:
        say("nothing to remove", file=sys.stderr)
        return 0
    if not args.yes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError(f"nothing was removed: say --yes to remove {total}")
        sys.stdout.write(f"remove {total}? [y/N] ")
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            say("nothing was removed")
            return 0
    for each in waste:
        try:
            pruning.remove(each)
        except OSError as error:
            raise UsageError(f"{each.path}: cannot be removed: {error.strerror}") from error
    if not args.json:
        say(f"removed {total}")
    return 0
