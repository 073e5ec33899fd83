"""Draw the pictures again, SVG always, PNG beside it where a Chromium is installed.

As root with bubblewrap: from cells that run while they are drawn; that run, and a recording of the cockpit
on it, is kept as well (`hudtui --demo` shows it). Elsewhere: the pictures of finished cells, from that
recorded job.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from hudtui.app import HudApp
from hudtui.wire.ssh import SshWire
from screenshots.stage import DEMO, Stage, can_run, keep, stage
from screenshots.tour import tour

SIZES = ((80, 24), (120, 40), (200, 60))
HERE = Path(__file__).parent
WHO = "ada@desk"


class Shot(NamedTuple):
    """A picture: the task under the cursor, the keys pressed, seconds to let the cells work before."""

    task: str
    keys: tuple[str, ...]
    wait: float = 0.0


LIVE = {
    "fleet": Shot("sum-fails", (), 7.0),
    "sessions": Shot("sum-fails", ("w",)),
    "attached": Shot("installs-allowed", ("a",), 1.0),
    "tiles": Shot("", ("2", "0", "T"), 1.5),
    "egress": Shot("installs-allowed", ("4", "0", "exclamation_mark", "g", "exclamation_mark"), 1.0),
    "identity": Shot("installs-allowed", ("enter", "5", "i"), 2.5),
}
DONE = {
    "commands": Shot("sum-fails", ("enter", "3", "k")),
    "egress-hosts": Shot("", ("4", "0", "o")),
    "what-if": Shot("", ("4", "0", "exclamation_mark", "G", "e")),
    "verdict": Shot("sum-fails", ("enter",)),
    "replay": Shot("installs-allowed", ("enter", "7", *"nnnnn")),
    "help": Shot("sum-fails", ("question_mark",)),
}


async def draw(jobs: Path, size: tuple[int, int], shot: Shot, *, live: bool) -> str:
    """Return the cockpit as SVG after these keys. Live is now; a recorded job is looked at as it ended."""
    ended = max((p.stat().st_mtime if live else _ended(p) for p in jobs.glob("*/*/result.json")), default=0.0)
    app = HudApp(
        [jobs],
        clock=time.time if live else lambda: ended + 90,
        poll=0.5 if live else 0,
        fps=20 if live else 0,
        wire=SshWire(),
        who=WHO,
    )
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        found = [trial for trial in app.snapshot.trials if trial.task == shot.task and trial.alive >= live]
        if found:
            app.fleet.table.show(app.fleet.table.entries, keep=_chosen(found))
            app.fleet.update()
        for key in shot.keys[:1] if live else ():
            await asyncio.sleep(shot.wait)
            await pilot.press(key)
        for key in shot.keys[1:] if live else shot.keys:
            await pilot.press(key)
        await pilot.pause(shot.wait)
        return re.sub(r"terminal-\d+", "terminal", app.export_screenshot(title="hudtui"))


def _chosen(trials: list) -> str:  # type: ignore[type-arg]
    """Prefer the trial that somebody reached into."""
    return max(trials, key=lambda one: (one.alive, one.activity)).path


def _ended(result: Path) -> float:
    import datetime
    import json

    text = json.loads(result.read_text()).get("finished_at") or ""
    return datetime.datetime.fromisoformat(text).timestamp() if text else 0.0


def png(svg: Path) -> None:
    """Draw the SVG as PNG with a headless Chromium, which alone has the right fallback glyphs."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg.read_text())
    if browser is None or found is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(f'<body style="margin:0;overflow:hidden">{svg.read_text()}</body>')
        size = f"--window-size={float(found[1]):.0f},{float(found[2]):.0f}"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size]
        subprocess.run(
            [browser, *options, f"--screenshot={svg.with_suffix('.png')}", str(page)],
            check=True,
            capture_output=True,
        )


def pictures(shots: dict[str, Shot], jobs: Path, out: Path, only: Collection[str], *, live: bool) -> None:
    """Draw each at every size."""
    for name, shot in shots.items():
        if only and name not in only:
            continue
        for width, height in SIZES:
            target = out / f"{name}_{width}x{height}.svg"
            target.write_text(asyncio.run(draw(jobs, (width, height), shot, live=live)))
            png(target)
            sys.stdout.write(f"{target.name}\n")
            sys.stdout.flush()


def main(out: Path, only: Collection[str] = ()) -> None:
    """Draw every view, or `only` these, at every size into `out`."""
    if only and not set(only) & {*LIVE, "demo"}:
        pictures(DONE, DEMO, out, only, live=False)
    elif can_run():
        with tempfile.TemporaryDirectory() as folder, stage(Path(folder)) as acted:
            on_stage(acted, out, only)
        pictures(DONE, DEMO, out, only, live=False)
    else:
        sys.stdout.write(
            "live cells need root and bubblewrap: only the pictures of recorded ones are drawn\n"
        )
        pictures(DONE, DEMO, out, only, live=False)


def on_stage(acted: Stage, out: Path, only: Collection[str]) -> None:
    """What needs living cells, and the recorded job that they become."""
    (out / "cockpit.cast").write_text(tour(acted))
    pictures(LIVE, acted.jobs, out, only, live=True)
    acted.curtain()
    size = keep(acted.jobs)
    sys.stdout.write(f"{DEMO}: {size} bytes\n")


if __name__ == "__main__":
    os.environ.setdefault("LANG", "C.UTF-8")
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE, sys.argv[2:])
