"""What a person says of trials in the cockpit: where it is shown, and where it is refused."""

from __future__ import annotations

import tarfile
from pathlib import Path

from cell.records import Label, Verdict, encode
from cell.trials import labels
from hudtui.acting.noting import Noting
from hudtui.cli import DEMO
from hudtui.lines.job import job_lines
from screenshots.invented import trial

from .conftest import Open


def night(tmp_path: Path) -> Path:
    job = tmp_path / "jobs/night"
    for n, (name, reward) in enumerate((("good", 1.0), ("bad", 0.0), ("worse", 0.0))):
        trial(job, name, f"{n}" * 7, ago=n, verdict=Verdict(verdict="graded", rewards={"reward": reward}))
    return job


async def test_marked_cells_are_labelled_together(tmp_path: Path, cockpit: Open) -> None:
    job = night(tmp_path)
    async with cockpit(job.parent) as hud:
        assert "labelled" not in hud.screen
        await hud.press("g", "space", "space", "l")
        await hud.type("fault the mirror was down")
        await hud.press("enter")
        assert "2 cells: fault the mirror was down" in hud.footer
        assert [one.label.word for one in hud.app.snapshot.trials if one.label] == ["fault", "fault"]
        assert "mean 0.33 · graded 0.33 · without 2 labelled faults 1.00" in hud.screen
        await hud.press("slash")
        await hud.type("label:fault")
        await hud.press("enter")
        assert hud.listed == ["1111111", "2222222"]
        await hud.press("escape", "space", "space", "g", "enter")
        assert "labelled fault the mirror was down   ada@desk" in hud.screen
        await hud.press("0")
        assert "2 × fault labelled" in hud.screen
        assert "2 × fault labelled" in "\n".join(one.text for one in job_lines(hud.app.snapshot.jobs))
    assert labels.place(job).read_text().count("\n") == 2


async def test_what_is_no_label_is_refused_and_nothing_is_written(tmp_path: Path, cockpit: Open) -> None:
    job = night(tmp_path)
    async with cockpit(job.parent) as hud:
        await hud.press("l")
        await hud.type("was/it us?")
        await hud.press("enter")
        assert "is no label" in hud.footer
        await hud.press("l", "escape", "2", "0", "l")
        assert "no cell is chosen" in hud.footer
    assert not labels.place(job).exists()


async def test_bundles_of_marked_cells_stand_beside_the_job(tmp_path: Path, cockpit: Open) -> None:
    job = night(tmp_path)
    changed = next(job.glob("bad__*")) / "cell/root/upper"
    changed.mkdir(parents=True)
    (changed / "note").write_text("it was me")
    async with cockpit(job.parent) as hud:
        await hud.press("g", "space", "space", "b", "j", "enter")
        await hud.app.workers.wait_for_complete()
        await hud.pilot.pause()
        assert "2 bundles, the last: " in hud.footer
    made = sorted(job.parent.glob("*.bundle.tar.gz"))
    assert [path.name.partition("__")[0] for path in made] == ["bad", "worse"]
    with tarfile.open(made[0]) as archive:
        assert [name for name in archive.getnames() if name.endswith("cell/root/upper/note")]


async def test_a_cockpit_that_only_looks_writes_nothing(tmp_path: Path, cockpit: Open) -> None:
    job = night(tmp_path)
    async with cockpit(job.parent, read_only=True) as hud:
        await hud.press("l")
        assert "label: this cockpit only looks" in hud.footer
        await hud.press("b")
        assert "bundle: this cockpit only looks" in hud.footer
    async with cockpit(DEMO, read_only=True, greeting="a recording") as hud:
        await hud.press("l")
        assert "label: this is a recording" in hud.footer
    assert not labels.place(job).exists()
    assert hasattr(Noting, "act_label")


async def test_a_note_is_neutralised(tmp_path: Path, cockpit: Open) -> None:
    job = night(tmp_path)
    evil = "\x1b]0;owned\x07[red]x[/red]\u202egnp"
    name = next(job.glob("bad__*")).name
    labels.place(job).write_bytes(encode(Label(t=1.0, trial=name, word="odd", note=evil, who=evil)) + b"\n")
    async with cockpit(job.parent) as hud:
        await hud.press("g")
        while hud.chosen != "1111111":
            await hud.press("j")
        await hud.press("enter")
        assert "[red]x[/red]" in hud.screen
        assert not any(char in hud.screen for char in "\x1b\x07\u202e")
