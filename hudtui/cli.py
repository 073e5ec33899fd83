"""The command `hudtui`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from cell import __version__
from cell.plain import plain

DEMO = Path(__file__).parent / "data/demo"
"""A job that really ran, recorded by `make screenshots`."""
GREETING = "a recording · ⏎ verdict, w terminal, 3 commands, 7 plays · ? keys · q leaves"
_SETTINGS = """\
Settings are read from ~/.config/hudtui/config.toml (XDG_CONFIG_HOME moves it), all of them optional:
  prefix = "ctrl+b"        the key that leads out of an attached terminal (ctrl+])
  theme = "nord"           a theme; ctrl+p in the cockpit lists them
  [keys]                   an action, as ? names it, and its keys instead of ours
  pause = "P"
"""


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    made = argparse.ArgumentParser(
        prog="hudtui",
        description="A cockpit for rollouts: a jobs folder, a job or a trial, Harbor's or ours.",
        epilog=_SETTINGS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help="jobs folder, job or trial (default: ./jobs; may not exist yet)",
    )
    made.add_argument("--read-only", action="store_true", help="only look: nothing reaches into a cell")
    made.add_argument(
        "--attach", metavar="N", type=int, help="take the keyboard of session N of the one trial"
    )
    made.add_argument(
        "--watch", metavar="N", type=int, help="begin with a look at session N of the one trial"
    )
    made.add_argument("--take", action="store_true", help="with --attach: also from whoever has it")
    made.add_argument(
        "--who", metavar="NAME", default="", help="your name, for the record (default: LOGIN@HOST)"
    )
    made.add_argument(
        "--demo", action="store_true", help="look at a recorded job; needs nothing but a terminal"
    )
    made.add_argument("--filter", metavar="TEXT", default="", help="start with this filter on Fleet")
    made.add_argument("--light", action="store_true", help="the light theme")
    made.add_argument("--version", action="version", version=f"hudtui {__version__}")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Open the cockpit; returns the exit status (2 when there is no terminal to show it on)."""
    import gc
    import os
    import sys

    gc.disable()  # until the first picture: what is imported stays anyway

    asked = parser().parse_args(argv)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        sys.stderr.write("hudtui: needs a terminal; `cell ls --json` prints the same values\n")
        return 2
    # Textual draws at most so often: half the wait for the echo of a key, and nothing where all is still.
    os.environ.setdefault("TEXTUAL_FPS", "120")
    from hudtui import config

    try:
        own = config.load()
    except config.ConfigError as error:
        sys.stderr.write(f"hudtui: {plain(str(error), limit=400)}\n")
        return 2
    config.apply(own.keys)
    from hudtui.app import HudApp
    from hudtui.look import DARK, LIGHT

    app = HudApp(
        [DEMO] if asked.demo else asked.paths or ["jobs"],
        theme=LIGHT.name if asked.light else own.theme or DARK.name,
        prefix=own.prefix,
        start_filter=asked.filter,
        who=plain(asked.who, limit=60),
        read_only=asked.read_only or asked.demo,
        greeting=GREETING if asked.demo else "",
        start_session=asked.attach,
        watch_session=asked.watch,
        take=asked.take,
    )
    app.run()
    return app.return_code or 0


if __name__ == "__main__":
    raise SystemExit(main())
