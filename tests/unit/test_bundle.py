"""An incident bundle: what is in it, and what never is."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cell import bundle, incident, records, trials
from cell.errors import UsageError
from cell.events import Egress
from cell.labelling import put
from cell.records import Cause, Evidence, Verdict
from screenshots.invented import Cast, trial

ROOT = Path(__file__).parents[2]
EVIL = "\x1b]0;owned\x07\x1b[2J\u202egnp"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0LWJ5dGVz\n-----END OPENSSH PRIVATE KEY-----\n"
TOKEN = 'sk-"very\\secret'


@pytest.fixture
def incident_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A trial in whose folder is everything that must not leave, and what must."""
    verdict = Verdict(
        verdict="graded",
        rewards={"reward": 0.0},
        causes=(
            Cause(
                cause="network",
                certainty="shown",
                summary=f"no way out {EVIL}",
                evidence=(Evidence(kind="file", text=EVIL, ref="verifier/test-stdout.txt:3"),),
            ),
        ),
        tests=(records.TestResult(name="test_a", status="failed", message=EVIL),),
    )
    path = trial(
        tmp_path / "jobs/night",
        "task",
        "aaaaaaa",
        verdict=verdict,
        output=f"token={TOKEN}\n",
        sessions=[Cast("env", [(0.1, f"API_TOKEN={TOKEN}\r\n"), (0.2, KEY.replace("\n", "\r\n"))])],
        happened=[
            Egress(
                hit=1, phase="agent", way="proxy", method="GET", host="pkg.example", port=80, allowed=False,
                rule="", reason="not on the list",
            )
        ],
    )  # fmt: skip
    (path / "cell/ssh_config").write_text("IdentityFile /run/cell/x/agent.key\n")
    (path / "cell/serve.log").write_text("fine\n")
    (path / "cell/operator.key").write_text(KEY)
    (path / ".env").write_text("OTHER=1")
    (path / "agent/id_ed25519").write_text(KEY)
    (path / "agent/link").symlink_to("/etc/passwd")
    os.mkfifo(path / "artifacts/pipe")
    changed = path / "cell/root/upper/app"
    changed.mkdir(parents=True)
    (changed / "main.py").write_text("print(1)\n")
    kernels = path / "cell/root/work"
    kernels.mkdir()
    (kernels / "index").write_text("x")
    monkeypatch.chdir(path / "agent")  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
        yield path


def unpacked(file: Path, where: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        for member in archive:
            assert member.isreg() and not member.name.startswith(("/", "..")), member.name
        archive.extractall(where, filter="data")
    return {str(path.relative_to(where)): path.read_bytes() for path in where.rglob("*") if path.is_file()}


def made(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **options: bool) -> dict[str, bytes]:
    monkeypatch.setenv("API_TOKEN", TOKEN)
    done = bundle.write(trials.read_trial(path), tmp_path / "out.tar.gz", **options)
    assert done.path.stat().st_mode & 0o777 == 0o600
    assert done.size == done.path.stat().st_size
    assert sorted(one.name for one in tmp_path.iterdir()) == ["jobs", "out.tar.gz"]
    return unpacked(done.path, tmp_path / "there")


def test_records_are_there_and_keys_sockets_secrets_and_the_root_are_not(
    incident_trial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = made(incident_trial, tmp_path, monkeypatch)
    top = f"night/{incident_trial.name}/"
    assert {name.removeprefix(top) for name in found} == {
        *(
            "SUMMARY.txt",
            "config.json",
            "result.json",
            "trial.log",
            "agent/id_ed25519",
            "verifier/test-stdout.txt",
        ),
        *(
            "cell/cell.json",
            "cell/events.jsonl",
            "cell/verdict.json",
            "cell/serve.log",
            "cell/sessions/1.cast",
        ),
    }
    whole = b"\n".join(found.values())
    for never in (TOKEN, json.dumps(TOKEN)[1:-1], "c2VjcmV0LWJ5dGVz", "root:x:0"):
        assert never.encode() not in whole, never
    assert b"[the value of API_TOKEN is not in this bundle]" in found[top + "verifier/test-stdout.txt"]
    assert found[top + "agent/id_ed25519"].startswith(b"[a private key is not in this bundle]")
    journal = "cell/events.jsonl"
    assert found[top + journal] == (incident_trial / journal).read_bytes(), (
        "no secret is in it: it is as it was"
    )


def test_the_summary_says_why_and_what_is_missing_and_hides_nothing_inside_it(
    incident_trial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(incident_trial, f"fault the mirror {EVIL}", who="ada")
    found = made(incident_trial, tmp_path, monkeypatch)
    text = found[f"night/{incident_trial.name}/SUMMARY.txt"].decode()
    assert all(char.isprintable() or char == "\n" for char in text)
    for said in (
        "task · claude-code · failed · score 0",
        "network, shown: no way out",
        "[file verifier/test-stdout.txt:3]",
        "Tests: 0 of 1 passed",
        "pkg.example:80 not on the list",
        "labelled fault by ada: the mirror",
        "verifier/test-stdout.txt: the value of API_TOKEN",
        "cell/root: what the agent changed is taken only when it is asked for",
        "cell/ssh_config: no record",
        "cell/operator.key: no record",
        ".env: no record",
        "agent/link: a link",
        "agent/sock: a socket, pipe or device",
        "artifacts/pipe: a socket, pipe or device",
    ):
        assert said in text, said


def test_it_opens_like_the_trial_it_was_made_of(
    incident_trial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(incident_trial, "fault", who="ada")
    made(incident_trial, tmp_path, monkeypatch)
    (there,) = trials.read_job(tmp_path / "there/night").trials
    here = trials.read_trial(incident_trial)
    for name in ("id", "task", "state", "score", "cause", "started", "finished", "sessions", "label"):
        assert getattr(there, name) == getattr(here, name), name


def test_the_agents_files_are_taken_when_they_are_asked_for(
    incident_trial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = made(incident_trial, tmp_path, monkeypatch, root=True)
    inside = [name.partition("cell/root/")[2] for name in found if "cell/root/" in name]
    assert inside == ["upper/app/main.py"]


def test_the_command_writes_it_here_and_replaces_nothing(incident_trial: Path, tmp_path: Path) -> None:
    def cell(*words: str | Path) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "cell", "bundle", *map(str, words)]
        return subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, timeout=60)

    done = cell(incident_trial, "--json")
    assert done.returncode == 0, done
    told = json.loads(done.stdout)
    name = f"{incident_trial.name}.bundle.tar.gz"
    assert (told["bundle"], (tmp_path / name).exists()) == (name, True)
    assert "agent/link: a link" in told["omitted"]
    again = cell(incident_trial)
    assert again.stdout.startswith(f"{incident_trial.name}-2.bundle.tar.gz"), again
    other = cell(incident_trial, "--out", name)
    assert (other.returncode, "it is there already; say another one with --out" in other.stderr) == (2, True)
    nowhere = cell(incident_trial, "--out", "no/such/folder/x.tar.gz")
    assert (nowhere.returncode, len(nowhere.stderr.splitlines())) == (2, 1), nowhere


def test_a_folder_that_grows_and_a_file_too_large_are_no_trouble(
    incident_trial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "_FILE", 100)
    (incident_trial / "agent/long.txt").write_text("y" * 500)
    found = made(incident_trial, tmp_path, monkeypatch)
    assert found[f"night/{incident_trial.name}/agent/long.txt"] == b"y" * 100
    assert "agent/long.txt: all after its first" in found[f"night/{incident_trial.name}/SUMMARY.txt"].decode()


def test_short_values_and_names_that_say_nothing_are_no_secrets() -> None:
    assert incident.secrets([("A_KEY", "12345678"), ("B_KEY", "1"), ("HOME", "/home/someone")]) == {
        "12345678": "A_KEY"
    }
    with pytest.raises(UsageError):
        bundle.write(trials.read_trial("/nowhere"), Path("/proc/nowhere.tar.gz"))
