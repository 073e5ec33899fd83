from __future__ import annotations

import os
from pathlib import Path

import pytest

from cell import machine
from cell.machine import Facts, probe, try_launch


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An otherwise empty PATH to put programs on."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(folder: Path, name: str, script: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def no_launch(_bwrap: str) -> str:
    return "not asked"


def test_an_empty_machine_is_told_not_raised(programs: Path, tmp_path: Path) -> None:
    found = probe(tmp_path / "jobs", no_launch)
    assert (found.bwrap, found.bwrap_version, found.launch_failure, found.ssh) == ("", "", "", "")
    assert found.overlay_failure  # no `unshare` on this PATH, or no root
    assert not (tmp_path / "jobs").exists()


def test_versions_are_the_programs_own_words(programs: Path, tmp_path: Path) -> None:
    bwrap = program(programs, "bwrap", "echo bubblewrap 0.4.1")
    program(programs, "ssh", "echo OpenSSH_9.9 >&2")
    found = probe(tmp_path, no_launch)
    assert (found.bwrap, found.bwrap_version) == (bwrap, "bubblewrap 0.4.1")
    assert found.ssh == "OpenSSH_9.9"
    assert found.launch_failure == "not asked"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 0", ""),
        ("echo 'setting up uid map: Permission denied' >&2; exit 1", "setting up uid map: Permission denied"),
        ("exit 7", "exit status 7"),
    ],
)
def test_a_crippled_bwrap_is_found_by_a_launch(programs: Path, script: str, reason: str) -> None:
    assert try_launch(program(programs, "bwrap", script)) == reason


def test_a_bwrap_that_cannot_be_started_is_a_reason(tmp_path: Path) -> None:
    assert "No such file" in try_launch(str(tmp_path / "absent"))


def test_the_launch_passes_only_what_bubblewrap_041_knows(programs: Path) -> None:
    bwrap = program(programs, "bwrap", f'echo "$@" > {programs}/argv')
    try_launch(bwrap)
    options = {word for word in (programs / "argv").read_text().split() if word.startswith("--")}
    assert options <= {
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"),
        *("--die-with-parent", "--bind", "--dev", "--proc", "--ro-bind"),
    }


def test_no_engine_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/absent.sock")
    found = probe(tmp_path, no_launch)
    assert found.engine == ""
    assert found.engine_failure == "none answers (No such file or directory)"


def test_a_senseless_engine_address_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", "nonsense://x")
    assert probe(tmp_path, no_launch).engine == ""


def test_the_jobs_folder_may_be_a_file_or_deep_in_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert probe(tmp_path / "file", no_launch).jobs_failure == "not a folder"
    deep = probe(tmp_path / "a/b/c", no_launch)
    assert deep.jobs_failure == ""
    assert deep.space > 0
    assert sorted(os.listdir(tmp_path)) == ["file"]


def test_this_kernel_is_asked_not_guessed(tmp_path: Path) -> None:
    found = probe(tmp_path, no_launch)
    assert isinstance(found, Facts)
    assert found.pidfd is hasattr(os, "pidfd_open")
    assert not machine._has_call(100_000)
    assert machine._has_call(39 if os.uname().machine == "x86_64" else 172)  # getpid


@pytest.mark.parametrize(
    ("term", "colorterm", "said"),
    [
        ("xterm-256color", "truecolor", "true colour"),
        ("xterm-256color", "", "256 colours"),
        ("linux", "", "16 colours"),
        ("dumb", "", ""),
        ("", "", ""),
    ],
)
def test_colours(term: str, colorterm: str, said: str) -> None:
    assert machine._colours(term, colorterm) == said
