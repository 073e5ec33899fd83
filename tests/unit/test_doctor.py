from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

import pytest

from cell.doctor import (
    BWRAP,
    ENGINE,
    JOBS,
    KERNEL,
    LAUNCH,
    LIMITS,
    NAMESPACES,
    OVERLAY,
    ROOT,
    SSH,
    TERMINAL,
    Check,
    as_json,
    judge,
    main_doctor,
    ready,
    render,
    size,
    summary,
)
from cell.machine import Facts
from cell.terminalprobe import Abilities

GOOD = Facts()
CASES: list[tuple[dict[str, object], str, bool | None, str]] = [
    # what is found                                   check       ok     words of the remedy
    ({}, ROOT, True, ""),
    ({"root": False}, ROOT, False, "sudo; what works without: cell plan"),
    ({"bwrap": ""}, BWRAP, False, "apt-get install bubblewrap"),
    ({"bwrap": ""}, LAUNCH, False, "first: bubblewrap"),
    ({"launch_failure": "No permissions"}, LAUNCH, False, "in a container"),
    ({"launch_failure": "No", "root": False, "apparmor_restricts": True}, LAUNCH, False, "run with sudo"),
    ({"launch_failure": "No", "root": False, "unprivileged_clone": False}, LAUNCH, False, "run with sudo"),
    ({"max_user_namespaces": 0}, NAMESPACES, False, "sysctl"),
    ({"max_user_namespaces": None}, NAMESPACES, False, "CONFIG_USER_NS"),
    ({"apparmor_restricts": True}, NAMESPACES, True, ""),
    ({"pidfd": False}, KERNEL, False, "5.6"),
    ({"openat2": False}, KERNEL, False, "5.6"),
    ({"fsmount": False}, KERNEL, False, "5.6"),
    ({"peer_pidfd": False}, KERNEL, None, "6.5"),
    ({"overlay_failure": "wrong fs type"}, OVERLAY, False, "--jobs-dir"),
    ({"overlay_failure": "not tried", "root": False}, OVERLAY, None, ""),
    ({"cgroups_writable": ("memory",)}, LIMITS, None, "writable"),
    ({"cgroups_writable": (), "cgroups": ""}, LIMITS, None, "writable"),
    ({"engine": "", "engine_failure": "none answers"}, ENGINE, None, "docker.io"),
    ({"ssh": ""}, SSH, None, "openssh-client"),
    ({"jobs_failure": "not a folder"}, JOBS, False, "--jobs-dir"),
    ({"space": 100 << 20}, JOBS, False, "200 MB"),
    ({"space": 1 << 30}, JOBS, None, "2 GB"),
    ({"terminal": False}, TERMINAL, None, "cockpit"),
    ({"encoding": "ANSI_X3.4-1968"}, TERMINAL, None, "C.UTF-8"),
    ({"colours": ""}, TERMINAL, None, "TERM"),
    ({"abilities": Abilities()}, TERMINAL, None, "plain keys"),
    ({"abilities": Abilities(answered=True)}, TERMINAL, None, "reached by keys"),
    ({"abilities": Abilities(answered=True, mouse=True)}, TERMINAL, True, ""),
]


def facts(**found: object) -> Facts:
    return dataclasses.replace(GOOD, **found)  # type: ignore[arg-type]


@pytest.mark.parametrize(("found", "name", "ok", "remedy"), CASES)
def test_what_is_found_decides(found: dict[str, object], name: str, ok: bool | None, remedy: str) -> None:
    [check] = [check for check in judge(facts(**found)) if check.name == name]
    assert check.ok is ok
    assert remedy in check.remedy
    assert bool(check.remedy) == (ok is not True) or not remedy


def test_a_good_machine_has_nothing_to_mend() -> None:
    checks = judge(GOOD)
    assert [check.name for check in checks if check.ok is not True or check.remedy] == []
    assert ready(checks)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({}, "This machine runs cells, for tasks with an image and for tasks without one."),
        (
            {"engine": ""},
            "This machine runs cells for tasks without an image; those with one need an engine.",
        ),
        ({"root": False}, "No cell can be made here yet: first mend root."),
        (
            {"root": False, "bwrap": ""},
            "No cell can be made here yet: first mend root, bubblewrap and sandbox.",
        ),
    ],
)
def test_one_sentence_sums_it_up(found: dict[str, object], said: str) -> None:
    assert summary(judge(facts(**found))) == said
    assert render(judge(facts(**found))).endswith("\n" + said)


def test_what_the_keyboard_cannot_tell_apart_is_said() -> None:
    found = {
        keyboard: judge(facts(abilities=Abilities(answered=True, mouse=True, keyboard=keyboard)))[-1].found
        for keyboard in (True, False)
    }
    assert "every key" in found[True]
    assert "ctrl+i is tab" in found[False]


def test_every_remedy_stands_below_its_line() -> None:
    text = render(judge(facts(bwrap="")))
    assert "× bubblewrap   not installed\n               → apt-get install bubblewrap\n" in text


def test_what_a_program_said_cannot_move_the_cursor() -> None:
    assert "\x1b" not in render(judge(facts(launch_failure="\x1b[2Jgone")))


def test_json_says_the_same() -> None:
    checks = (Check(ROOT, True, "root"), Check(ENGINE, None, "none", "start one"))
    said = as_json(checks)
    assert said["ready"] is True
    assert said["summary"] == summary(checks)
    assert said["checks"][1] == {"name": ENGINE, "ok": None, "found": "none", "remedy": "start one"}


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 kB"), (200 << 20, "200 MB"), (3 << 29, "1.5 GB"), (2 << 40, "2 TB")]
)
def test_sizes_are_for_people(count: int, said: str) -> None:
    assert size(count) == said


def test_the_command_tells_a_refused_launch_in_its_own_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = argparse.Namespace(jobs_dir=tmp_path, json=True)
    assert main_doctor(args, launch=lambda _bwrap: "Can't mount proc") == 2
    said = json.loads(capsys.readouterr().out)
    assert said["ready"] is False
    [launch] = [check for check in said["checks"] if check["name"] == LAUNCH]
    assert launch["found"] in {"Can't mount proc", "not tried"}
    assert list(tmp_path.iterdir()) == []
