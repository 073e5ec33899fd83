"""Section B, the whole world: beside a plain container of the same image there are declared differences only (26)."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cell import devices
from tests.live.test_run import run, trials_in

from .bench import PROGRAMS

pytestmark = [pytest.mark.live, pytest.mark.engine]
TAG = "hudtui-test-whole:base"
DOCKERFILE = """FROM cell-test:base
ENV GREETING="hello world" EMPTY=""
RUN useradd -m -u 1234 -s /bin/bash worker && mkdir /data && chown 1234:1234 /data && chmod 2770 /data
WORKDIR /srv/app
USER worker
"""
LOOK = "python3 -B -"


@dataclass(frozen=True)
class Difference:
    """Facts (a pattern) that may differ, why, and what the cell's own may be; `always` says that they do."""

    facts: str
    why: str
    ours: str = ".*"
    always: bool = True


DECLARED = (
    Difference(r"env HOSTNAME", "T6: the environment is what image and task declare", "None"),
    Difference(r"file /\.dockerenv", "no engine made it", "None"),
    Difference(r"file /logs(/agent|/artifacts)?", "as under Harbor", r"\('0o40000', '07(55|77)', 0, 0, ''\)"),
    Difference(r"(file|text) /etc/(hosts|hostname|resolv\.conf)", "its own name, address and resolver"),
    Difference(r"mount /etc/(hosts|hostname|resolv\.conf)", "they are files of the root", "None"),
    Difference(r"hostname", "each has its own", "[0-9a-f]{12}"),
    Difference(r"interfaces", "N1: there is lo alone", r"\['lo'\]"),
    Difference(r"first process", "H2: as under Harbor, whose containers sleep", "sleep\n"),
    Difference(r"processes", "and so there is one more", "2"),
    Difference(r"mount /", "a device node that an agent makes is none", r"\('overlay', \['nodev', 'rw'\]\)"),
    Difference(r"mount /dev", "nor there", r"\('tmpfs', \['nodev', 'nosuid', 'rw'\]\)"),
    Difference(r"mount /dev/(null|zero|full|random|urandom|tty)", "device nodes of its own"),
    Difference(r"mount /(proc|sys)/\S+", "engines mask more or less of the kernel", always=False),
    Difference(r"masked /(proc|sys)/\S+", "the same", always=False),
    Difference(r"control group", "engines show theirs", always=False),
    Difference(
        r"sysctl net/ipv6/conf/all/disable_ipv6", "the engine's bridge may have no IPv6", always=False
    ),
    Difference(
        r"limit Max (open files|processes|core file size|locked memory)", "the engine's", always=False
    ),
)
PROXIES = Difference(r"env (http_proxy|https_proxy|no_proxy|HTTP_PROXY|HTTPS_PROXY|NO_PROXY)", "N2")


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    if subprocess.run(["docker", "image", "inspect", "cell-test:base"], capture_output=True).returncode:
        pytest.skip("no cell-test:base here: tools/images makes it")
    made = subprocess.run(
        ["docker", "build", "-q", "-t", TAG, "-"],
        input=DOCKERFILE.encode(),
        capture_output=True,
        env={**os.environ, "DOCKER_BUILDKIT": "0"},
        timeout=120,
    )
    assert made.returncode == 0, made.stderr
    yield TAG
    subprocess.run(["docker", "rmi", "-f", TAG], capture_output=True)


def in_a_container(image: str, user: str) -> dict[str, Any]:
    command = ["docker", "run", "--rm", "-i", *(("-u", user) if user else ()), image, "bash", "-c", LOOK]
    done = subprocess.run(
        command, input=(PROGRAMS / "whole.py").read_bytes(), capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return dict(ast.literal_eval(done.stdout.decode()))


def in_a_cell(folder: Path, image: str, user: str, mode: str) -> dict[str, Any]:
    task = folder / "whole"
    (task / "tests").mkdir(parents=True)
    (task / "instruction.md").write_text("Look around.\n")
    (task / "tests/test.sh").write_text("#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n")
    agent = f'[agent]\nuser = "{user}"\n' if user else ""
    (task / "task.toml").write_text(
        f'version = "1.0"\n[environment]\ndocker_image = "{image}"\nnetwork_mode = "{mode}"\n{agent}'
    )
    look = f'exec:ssh -F "$CELL_SSH_CONFIG" agent "{LOOK}" < {shlex.quote(str(PROGRAMS / "whole.py"))}'
    done = run("run", task, "-a", look, "--jobs-dir", folder / "jobs")
    assert done.returncode == 0, done.stdout + done.stderr
    (trial,) = trials_in(folder / "jobs")
    return dict(ast.literal_eval(Path(trial.path, "agent/exec.txt").read_text()))


@pytest.mark.parametrize(("user", "mode"), [("", "public"), ("root", "no-network")])
def test_026_a_world_is_a_containers_but_for_what_is_declared(
    image: str, tmp_path: Path, user: str, mode: str
) -> None:
    nodes = devices.nodes()
    assert nodes is not None, "without nodes of its own, a world has the machine's"
    os.close(nodes)
    theirs, ours = in_a_container(image, user), in_a_cell(tmp_path, image, user, mode)
    assert len(theirs) > 2000 and ours["env GREETING"] == "hello world", "control: all of it was looked at"
    rows = (*DECLARED, PROXIES) if mode == "public" else DECLARED
    differing = [fact for fact in sorted(theirs.keys() | ours.keys()) if theirs.get(fact) != ours.get(fact)]
    used = set[Difference]()
    wrong = {}
    for fact in differing:
        row = next((row for row in rows if re.fullmatch(row.facts, fact)), None)
        if row is None or not re.fullmatch(row.ours, str(ours.get(fact)), re.DOTALL):
            wrong[fact] = (theirs.get(fact), ours.get(fact))
        else:
            used.add(row)
    assert wrong == {}, "what no row declares"
    assert {row.facts for row in rows if row.always} - {row.facts for row in used} == set(), (
        "control: it sees"
    )
    for path in ("hosts", "hostname", "resolv.conf"):
        there, here = theirs[f"file /etc/{path}"], ours[f"file /etc/{path}"]
        assert there[:4] == here[:4], "kind, mode and owner"
    name = ours["hostname"]
    assert ours["text /etc/hostname"] == f"{name}\n"
    # the last line is the own address and name; the rest is a container's
    assert ours["text /etc/hosts"].splitlines()[:-1] == theirs["text /etc/hosts"].splitlines()[:-1]
    assert ours["text /etc/hosts"].splitlines()[-1] == f"127.0.0.1\t{name}"
    assert ours["text /etc/resolv.conf"] == ("nameserver 127.0.0.1\n" if mode == "public" else "")
