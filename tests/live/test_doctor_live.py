"""S4: what the doctor tries is what a cell does; and what somebody who is not root is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cell.doctor import LAUNCH, launch_session
from cell.sandbox import Plan

pytestmark = pytest.mark.live
SOURCE = Path(__file__).parents[2]


def instead(folder: Path, script: str) -> str:
    program = folder / "bwrap"
    program.write_text("#!/bin/sh\n" + script)
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_s4_the_probe_holds_a_sandbox_with_exactly_a_sessions_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, told = shutil.which("bwrap"), tmp_path / "told"
    # options come through a descriptor, so the copy that is taken is handed on
    script = (
        f'printf "%s\\n" "$@" > {told}.argv; cat /proc/self/fd/"$2" > {told}; exec 3< {told}; '
        f'shift 2; exec {real} --args 3 "$@"\n'
    )
    monkeypatch.setenv("PATH", instead(tmp_path, script))
    assert launch_session("bwrap") == ""
    assert (tmp_path / "told.argv").read_text().splitlines()[0] == "--args"
    passed = [word for word in (tmp_path / "told").read_text().split("\0") if word]
    assert passed == Plan("/", "doctor").bwrap_options()


def test_s4_an_old_bubblewrap_is_refused_with_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", instead(tmp_path, "echo 'bwrap: Unknown option --as-pid-1' >&2; exit 1\n"))
    assert "Unknown option --as-pid-1" in launch_session("bwrap")


def test_the_doctor_ends_with_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "cell", "doctor", "--jobs-dir", str(tmp_path / "jobs")]
    done = subprocess.run(argv, cwd=SOURCE, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith("This machine runs cells")
    assert list(tmp_path.iterdir()) == []
    said = json.loads(subprocess.run([*argv, "--json"], cwd=SOURCE, capture_output=True).stdout)
    (launch,) = [check for check in said["checks"] if check["name"] == LAUNCH]
    assert launch["ok"] is True


def not_root(*args: str) -> subprocess.CompletedProcess[str]:
    # in a user namespace without a map this process is nobody, and still may read what it needs
    argv = ["unshare", "--user", sys.executable, "-m", "cell", *args]
    return subprocess.run(argv, cwd=SOURCE, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_somebody_who_is_not_root_is_told_what_is_missing_and_what_works(tmp_path: Path) -> None:
    done = not_root("run", "examples/tasks", "--jobs-dir", str(tmp_path / "jobs"))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "sudo cell run" in line
    assert "cell plan" in line
    assert "hudtui" in line
    told = not_root("doctor", "--jobs-dir", str(tmp_path / "jobs"))
    assert told.returncode == 2
    assert "first mend root" in told.stdout.splitlines()[-1]
    assert not_root("plan", "examples/tasks/hello-pass").returncode == 0, "what is said to work does"
    assert not_root("ls", str(tmp_path)).returncode == 0
