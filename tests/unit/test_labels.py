"""A person's word for a trial: kept beside the job, shown with it, and left out of one mean where it is a fault."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cell import trials
from cell.errors import UsageError
from cell.labelling import put
from cell.records import Verdict
from cell.trials import labels
from screenshots.invented import trial

ROOT = Path(__file__).parents[2]
HARBOR = ROOT / "tests/fixtures/harbor-0.25.0/jobs/demo-oracle"


def cell(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cell", *map(str, words)], capture_output=True, text=True, cwd=ROOT, timeout=60
    )


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Three trials: 1, 0, and one that is ungraded."""
    folder = tmp_path / "jobs/night"
    trial(folder, "good", "aaaaaaa", verdict=Verdict(verdict="graded", rewards={"reward": 1.0}))
    trial(folder, "bad", "bbbbbbb", verdict=Verdict(verdict="graded", rewards={"reward": 0.0}))
    trial(folder, "lost", "ccccccc", verdict=Verdict(verdict="ungraded", fault="no reward"))
    return folder


def named(job: Path, id_: str) -> Path:
    return next(job.glob(f"*__{id_}"))


def test_a_fault_is_left_out_of_a_mean_of_its_own(job: Path) -> None:
    found = trials.read_job(job)
    assert (found.raw_mean, found.graded_mean, found.faultless_mean, found.faults) == (1 / 3, 0.5, 0.5, 0)
    put(named(job, "bbbbbbb"), "fault the mirror was down", who="ada")
    put(named(job, "ccccccc"), "look-again", who="ada")
    found = trials.read_job(job)
    assert (found.raw_mean, found.graded_mean, found.faultless_mean, found.faults) == (1 / 3, 0.5, 1.0, 1)
    said = {one.id: one.label and (one.label.word, one.label.note, one.label.who) for one in found.trials}
    assert said == {
        "aaaaaaa": None,
        "bbbbbbb": ("fault", "the mirror was down", "ada"),
        "ccccccc": ("look-again", "", "ada"),
    }


def test_a_reader_sees_a_label_that_comes_changes_and_goes(job: Path) -> None:
    reader = trials.Reader([job])

    def said() -> list[str]:
        return [one.label.word for one in reader.scan().trials if one.label]

    assert said() == []
    for text in ("fault", "Harness: it was us", ""):
        put(named(job, "bbbbbbb"), text, who="ada")
        word = text.partition(":")[0].casefold()
        assert said() == ([word] if word else [])
    assert trials.read_trial(named(job, "bbbbbbb")).label is None


def test_the_last_whole_line_counts_whatever_else_is_in_the_file(job: Path) -> None:
    file = labels.place(job)
    assert file == job.parent / "night.labels.jsonl"
    put(named(job, "bbbbbbb"), "fault", who="ada")
    with file.open("ab") as out:
        out.write(b'\xff\xfe{"t":1,\n[]\n{"t":1.0,"trial":"x","word":"\\u001b[2J"}\n{"t":2.0,"trial":"ba')
    put(named(job, "ccccccc"), "odd \x1b[2J\u202ename", who="a\nb")
    found = labels.read(job)
    assert {name.partition("__")[0]: label.word for name, label in found.items()} == {
        "bad": "fault",
        "lost": "odd",
    }
    (odd,) = (label for label in found.values() if label.word == "odd")
    assert odd.note.isprintable() and odd.who.isprintable()


@pytest.mark.parametrize("text", ["was/it us?", "-x", "x" * 30, "[red] note"])
def test_what_is_no_label_is_refused_with_an_example(text: str, job: Path) -> None:
    with pytest.raises(UsageError, match="as in `fault the mirror was down`"):
        put(named(job, "aaaaaaa"), text, who="ada")
    assert not labels.place(job).exists()


def test_a_file_that_cannot_be_written_is_one_line_that_names_it(job: Path) -> None:
    labels.place(job).mkdir()
    with pytest.raises(UsageError, match=r"night\.labels\.jsonl: the label cannot be written"):
        put(named(job, "aaaaaaa"), "fault", who="ada")


def test_the_command_labels_shows_and_takes_away(job: Path) -> None:
    done = cell("label", named(job, "bbbbbbb"), "fault", "the", "mirror was down", "--who", "ada")
    assert done.returncode == 0, done
    assert "bbbbbbb  fault  the mirror was down\n" in done.stdout
    assert "over the graded 0.50 · without 1 labelled fault 1.00" in done.stdout
    told = json.loads(cell("label", "bbbbbbb", "--jobs-dir", job.parent, "--json").stdout)
    assert (told["label"]["word"], told["label"]["who"]) == ("fault", "ada")
    assert (told["job"]["faults"], told["job"]["faultless_mean"]) == (1, 1.0)
    listed = cell("ls", job, "--json").stdout.splitlines()
    assert [one["label"] and one["label"]["note"] for one in map(json.loads, listed)].count(
        "the mirror was down"
    ) == 1
    assert "fault the mirror was down" in cell("ls", job).stdout
    assert "without 1 labelled fault 1.00" in cell("ls", "--means", job).stdout
    (means,) = map(json.loads, cell("ls", "--means", "--json", job).stdout.splitlines())
    assert (means["name"], means["faultless_mean"]) == ("night", 1.0)
    assert cell("label", named(job, "bbbbbbb"), "--remove").stdout.startswith("bbbbbbb  no label\n")
    both = cell("label", named(job, "bbbbbbb"), "fault", "--remove")
    assert (both.returncode, "no WORD" in both.stderr) == (2, True)


def test_a_job_of_harbors_can_be_labelled_and_is_not_touched(tmp_path: Path) -> None:
    job = tmp_path / "jobs/demo"
    shutil.copytree(HARBOR, job)

    def marks() -> dict[str, str]:
        files = (path for path in job.rglob("*") if path.is_file())
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    before = marks()
    put(next(job.glob("fail__*")), "fault", who="ada")
    assert marks() == before
    assert trials.read_job(job).faults == 1
    assert len(trials.Reader([job.parent]).scan().trials) == len(trials.read_job(job).trials)
