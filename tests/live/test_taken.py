"""V5: what the agent took away from the verifier is the agent's doing; what the task never had is not."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from typing import Any

import pytest

from cell.outcome import with_grading
from cell.records import Verdict
from cell.verdict import conclude
from cell.verdict.facts import Facts

from .conftest import GOOD, LiveCell

pytestmark = pytest.mark.live
# Passes under a shell that has no [[.
BASH = """#!/bin/bash
if [[ "$(cat /root/answer 2>/dev/null)" != right ]]; then r=0; else r=1; fi
echo $r > /logs/verifier/reward.txt
"""


def concluded(graded: dict[str, Any]) -> Verdict:
    """The verdict of a grading, as `cell run` would have it."""
    return conclude(with_grading(Facts(), graded))


def blamed(graded: dict[str, Any], *who: str) -> None:
    said = concluded(graded)
    assert tuple(cause.cause for cause in said.causes) == who, said
    assert all(cause.certainty in ("shown", "proved") for cause in said.causes), said


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("rm -f /bin/bash", "deleted"),
        ("chmod -x /bin/bash", "not executable"),
        ("mv /bin/bash /bin/b; mkfifo -m 755 /bin/bash", "a pipe"),
        ("mv /bin/bash /bin/b; mkdir /bin/bash", "a folder"),
        ("mv /bin/bash /bin/b; ln -s /nonesuch /bin/bash", "a link"),
        (
            "p=$(readlink -f /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1 | head -1); rm $p",
            "deleted",
        ),
    ],
)
def test_a_script_whose_interpreter_the_agent_took_runs_under_no_other(
    cell: LiveCell, does: str, said: str
) -> None:
    cell.inside(does)
    graded = cell.grade(BASH)
    assert graded["rewards"] is None, graded
    assert graded["failed"] == "exec"
    assert any(said in text for need, text in graded["taken"] if need == "start"), graded["taken"]
    blamed(graded, "agent")


def test_the_same_script_is_graded_where_nobody_did(cell: LiveCell) -> None:
    graded = cell.grade(BASH)
    assert graded["rewards"] == {"reward": 0.0}
    assert graded["taken"] == []


def test_an_interpreter_that_never_was_is_the_verifiers(cell: LiveCell) -> None:
    graded = cell.grade("#!/usr/bin/nonesuch\necho 1 > /logs/verifier/reward.txt\n")
    assert graded["rewards"] is None
    assert graded["taken"] == []
    blamed(graded, "verifier")


def test_a_script_of_no_interpreters_runs_by_sh(cell: LiveCell) -> None:
    assert cell.grade("echo 1 > /logs/verifier/reward.txt\n")["rewards"] == {"reward": 1.0}


def test_a_session_goes_on_with_the_next_shell_where_one_is_gone(cell: LiveCell) -> None:
    cell.inside("rm -f /bin/bash")
    assert cell.inside("echo $0") != ""


@pytest.mark.parametrize(
    ("takes", "runs"),
    [
        ("rm /usr/bin/diff", "diff /dev/null /dev/null"),
        ("rm /usr/bin/diff", "/usr/bin/env diff /dev/null /dev/null"),
        (
            "mkdir /usr/b; cp -a /usr/bin/. /usr/b; export PATH=/usr/b; rm -r /usr/bin",
            "diff /dev/null /dev/null",
        ),
    ],
)
def test_a_command_that_the_agent_deleted_is_not_the_verifiers_fault(
    cell: LiveCell, takes: str, runs: str
) -> None:
    cell.inside(takes)
    graded = cell.grade(
        f"#!/bin/sh\nif {runs}; then r=1; else r=0; fi\necho $r > /logs/verifier/reward.txt\n"
    )
    assert graded["rewards"] != {"reward": 1.0}, graded
    assert any("by the agent" in text for _, text in graded["taken"]), graded
    blamed(graded, "agent")


def test_a_command_that_never_was_is(cell: LiveCell) -> None:
    graded = cell.grade("#!/bin/sh\npytest-nowhere; go version || exit 1\n", env={"PATH": "/usr/sbin"})
    assert graded["taken"] == []
    blamed(graded, "verifier")


def test_a_library_that_the_agent_deleted(cell: LiveCell) -> None:
    cell.inside("rm $(ldd /usr/bin/env /usr/bin/bash /bin/ls | grep -o '/[^ ]*libselinux[^ ]*' | head -1)")
    graded = cell.grade("#!/bin/sh\nls / || exit 1\necho 1 > /logs/verifier/reward.txt\n")
    assert any("libselinux" in text for _, text in graded["taken"]), graded
    blamed(graded, "agent")


@pytest.mark.parametrize(
    "does", ["rm -rf /srv/w", "rm -rf /srv/w; ln -s /proc/1/root/etc /srv/w", "rm -rf /srv/w; echo > /srv/w"]
)
def test_a_folder_to_start_in_that_the_agent_took(make_cell: Callable[..., LiveCell], does: str) -> None:
    cell = make_cell(workdir="/srv/w/x")
    assert cell.inside("pwd") == "/srv/w/x\n", "control"
    cell.inside(f"cd /; {does}")
    graded = cell.grade(GOOD)
    assert graded["rewards"] is None
    assert graded["failed"] == "workdir"
    blamed(graded, "agent")


def test_what_programs_ask_and_is_no_file_any_more_is_named(cell: LiveCell) -> None:
    cell.inside("rm /etc/passwd; mkfifo /etc/passwd; rm -f /etc/hosts; ln -s /proc/kmsg /etc/hosts")
    graded = cell.grade("#!/bin/sh\ncat /etc/passwd\necho 1 > /logs/verifier/reward.txt\n", timeout=2)
    named = [text for need, text in graded["taken"] if need == "files"]
    assert any("/etc/passwd: replaced with a pipe" in text for text in named), named
    assert any("/etc/hosts: replaced with a link" in text for text in named), named
    assert [cause.cause for cause in concluded(graded).causes] == ["agent"]


def test_a_late_verifier_of_an_unchanged_world_is_not_the_agents(cell: LiveCell) -> None:
    cell.inside("echo work > /app/work")
    graded = cell.grade("#!/bin/sh\nsleep 60\n", timeout=1)
    assert graded["taken"] == []
    assert [cause.cause for cause in concluded(graded).causes] == ["verifier"]


def test_tests_may_have_folders_and_links_of_their_own(cell: LiveCell) -> None:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name, data in {
            "test.sh": b"#!/bin/sh\ncp /tests/link/reward /logs/verifier/reward.txt\n",
            "sub/deep/reward": b"1",
        }.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "sub/../sub/deep"
        archive.addfile(link)
    cell.seal()
    assert cell.call("grade", whole.getvalue(), timeout=10)["rewards"] == {"reward": 1.0}
