"""Draw the pictures again: SVG always, PNG beside it where a Chromium is installed."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

from hudtui.app import HudApp
from hudtui.wire import Ending
from screenshots.invented import NOW, build

SIZES = ((80, 24), (120, 40), (200, 60))
SHOTS = {
    "fleet": ("j", "j", "j"),
    "sessions": ("w",),
    "attached": ("a",),
    "tiles": ("w", "T"),
    "commands": ("enter", "3", "k"),
    "verdict": ("j", "j", "j", "enter"),
    "egress": ("4", "exclamation_mark", "k", "k", "exclamation_mark"),
    "egress-hosts": ("4", "o"),
    "what-if": ("4", "exclamation_mark", "G", "e"),
    "identity": ("j", "j", "j", "enter", "5"),
    "replay": ("j", "j", "j", "enter", "7", *"nnnnnn"),
    "help": ("question_mark",),
}


class Still:
    """A wire to invented cells: it takes the keyboard, and nothing is ever printed."""

    async def call(self, *_: object, **__: object) -> None:
        """Do nothing."""

    async def attach(self, *_: object, **__: object) -> Still:
        """Attach to nothing."""
        return self

    shell = attach

    async def read(self) -> bytes:
        """Wait for ever."""
        await asyncio.Event().wait()
        return b""

    async def ended(self) -> Ending:
        """Never."""
        return Ending(0)

    def write(self, data: bytes) -> None:
        """Take keys."""

    def resize(self, cols: int, rows: int) -> None:
        """Take a size."""

    def close(self) -> None:
        """Hang up."""


async def draw(jobs: Path, size: tuple[int, int], keys: tuple[str, ...]) -> str:
    """Return the cockpit as SVG after these keys."""
    app = HudApp([jobs], clock=lambda: NOW, poll=0, fps=0, wire=Still(), who="ada@desk")
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for key in keys:
            await pilot.press(key)
        await pilot.pause()
        return re.sub(r"terminal-\d+", "terminal", app.export_screenshot(title="hudtui"))


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


def main(out: Path, only: Collection[str] = ()) -> None:
    """Draw every view, or `only` these, at every size into `out`."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = Path(folder) / "jobs"
        build(jobs)
        for width, height in SIZES:
            for name, keys in SHOTS.items():
                if only and name not in only:
                    continue
                target = out / f"{name}_{width}x{height}.svg"
                target.write_text(asyncio.run(draw(jobs, (width, height), keys)))
                png(target)
                sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent, sys.argv[2:])
