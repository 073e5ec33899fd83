"""What one says of a trial, in any view; `test_actions` runs it by its keys."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from hudtui.actions import VIEWS

from .conftest import Cockpit

Check = Callable[[Cockpit], Awaitable[None]]
CHECKS: dict[tuple[str, str], Check] = {}


async def label(hud: Cockpit) -> None:
    """The invented job is everybody's: what is written beside it is taken away again."""
    trial, before = hud.app.current.trial(), hud.app.view
    assert trial is not None
    await hud.press("l")
    await hud.type("fault the mirror was down")
    try:
        await hud.press("enter")
        assert f"{trial.id}: fault the mirror was down" in hud.footer
        now = hud.app.current.trial()
        assert now is not None and now.label is not None
        assert (now.id, now.label.word, now.label.note, now.label.who) == (
            trial.id,
            "fault",
            "the mirror was down",
            "ada@desk",
        )
        await hud.press("l")
        assert hud.app.prompt.value == "fault the mirror was down", "it is gone on with"
        await hud.press("escape", "l")
        hud.app.prompt.value = ""
        await hud.press("enter")
        assert f"{trial.id}: no label" in hud.footer
    finally:
        os.unlink(f"{os.path.dirname(trial.path)}.labels.jsonl")
    await hud.look()
    assert hud.app.view == before


async def bundle(hud: Cockpit) -> None:
    trial = hud.app.current.trial()
    assert trial is not None
    await hud.press("b", "escape")
    made = Path(trial.path).parent.parent / f"{Path(trial.path).name}.bundle.tar.gz"
    assert not made.exists()
    await hud.press("b", "enter")
    await hud.app.workers.wait_for_complete()
    await hud.pilot.pause()
    try:
        assert " files in " in hud.footer
        with tarfile.open(made) as archive:
            names = archive.getnames()
    finally:
        made.unlink()
    top = Path(trial.path).relative_to(made.parent)
    assert f"{top}/SUMMARY.txt" in names and f"{top}/cell/events.jsonl" in names
    assert not [name for name in names if "root" in name or "ssh_config" in name]


for _view in VIEWS:
    CHECKS[_view, "label"] = label
    CHECKS[_view, "bundle"] = bundle
