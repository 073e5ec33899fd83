"""The commands about the ways out, as a person runs them on real cells."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cell import records
from cell.commands import network
from cell.events import Egress, EgressEnd, Line
from cell.trials.egress import EgressReader, read
from tests.live.test_run import CELL, ROOT, run, task, trials_in
from tests.live.test_ways import Origin, phase
from tests.world import LiveCell

pytestmark = pytest.mark.live
LIST = '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["pkg.example"]\n'


@pytest.fixture
def origin() -> Iterator[Origin]:
    one = Origin("127.0.0.9")
    yield one
    one.server.close()


def asking(origin: Origin, *names: str) -> str:
    gets = "; ".join(f"curl -s http://{name}:{origin.port}/" for name in names)
    return f"exec:ssh -F $CELL_SSH_CONFIG agent '{gets}'"


def pins(*names: str) -> list[str]:
    return [part for name in names for part in ("--resolve", f"{name}=127.0.0.9")]


def test_n10_egress_tells_each_attempt_and_filters(tmp_path: Path, origin: Origin) -> None:
    assert callable(network.egress)
    folder, jobs = task(tmp_path / "t"), tmp_path / "jobs"
    (folder / "task.toml").write_text(LIST)
    agent = asking(origin, "pkg.example", "other.example")
    run("run", folder, "-a", agent, "--jobs-dir", jobs, *pins("pkg.example", "other.example"))
    (trial,) = trials_in(jobs)
    done = run("egress", trial.path, "--json")
    hits = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(hit["host"], hit["allowed"], hit["status"]) for hit in hits] == [
        ("pkg.example", True, 200),
        ("other.example", False, 403),
    ]
    denied = run("egress", trial.id, "--jobs-dir", jobs, "--filter", "decision:deny").stdout
    assert "other.example" in denied and "pkg.example:" not in denied
    # followed, it ends with the cell
    assert run("egress", trial.path, "-f").stdout.count("\n") == 2
    wrong = run("egress", trial.path, "--filter", "host>=")
    assert wrong.returncode == 2 and "--filter" in wrong.stderr


TUNNEL = """
import os, socket
one = socket.create_connection(("127.0.0.1", 3128))
one.sendall(b"CONNECT pkg.example:PORT HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
assert b" 200 " in one.recv(100)
if os.fork() == 0:
    os.setsid()
    for number in (0, 1, 2):
        os.close(number)
    open("/tmp/end").read()
"""


def test_n10_what_lasts_is_told_into_a_pipe_when_it_begins_and_when_it_is_over(
    make_cell: Callable[..., LiveCell], origin: Origin
) -> None:
    allowed = phase("allowlist", "pkg.example")
    cell = make_cell(agent_phase=allowed, pins=((f"pkg.example:{origin.port}", "127.0.0.9"),))
    command = [*CELL, "egress", str(cell.trial), "-f"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as plainly,
        subprocess.Popen([*command, "--filter", "status:200"], stdout=subprocess.PIPE, text=True) as chosen,
    ):
        assert plainly.stdout is not None and chosen.stdout is not None
        script = TUNNEL.replace("PORT", str(origin.port))
        cell.inside(f"mkfifo /tmp/end; exec python3 -c '{script}'")
        begun = plainly.stdout.readline()
        assert f"CONNECT pkg.example:{origin.port} " in begun and " open " in begun
        cell.inside("echo > /tmp/end")
        over = plainly.stdout.readline()
        assert begun.split()[:5] == over.split()[:5] and " 200 ↑" in over
        assert chosen.stdout.readline() == over, "a filter is asked about how it ended, too"
        for one in (plainly, chosen):
            one.terminate()


def test_n10_how_it_ended_is_told(tmp_path: Path) -> None:
    given: dict[str, Any] = {"phase": "agent", "way": "proxy", "method": "CONNECT", "port": 443}
    told = [
        Egress(hit=1, host="a.example", allowed=True, **given),
        EgressEnd(hit=1, status=200, denied=True, error="TLS asks for b.example, it is to a.example"),
        Egress(hit=2, host="c.example", allowed=False, reason="denied: c", **given),
        EgressEnd(hit=2, status=403, error="denied: c"),
    ]
    (tmp_path / "cell").mkdir()
    lines = [Line(seq=n, t=1.0, event=event) for n, event in enumerate(told, 1)]
    (tmp_path / "cell" / "events.jsonl").write_bytes(b"".join(records.encode(line) + b"\n" for line in lines))
    (cut, denied) = read(tmp_path)
    assert network._line(cut, colour=False).endswith(" denied: TLS asks for b.example, it is to a.example")
    assert cut.decision == "deny" and " deny " in network._line(cut, colour=False)
    assert network._line(denied, colour=False).count("denied: c") == 1


def test_n10_why_nothing_is_told_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harbors = ROOT / "tests" / "fixtures" / "harbor-0.25.0" / "jobs" / "demo-oracle"
    trial = next(one for one in harbors.iterdir() if one.is_dir())
    done = run("egress", trial)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.endswith("is missing: only `cell run` records what wanted to leave\n")
    folder, jobs = task(tmp_path / "t"), tmp_path / "jobs"
    run("run", folder, "-a", "nop", "--jobs-dir", jobs)
    (quiet,) = trials_in(jobs)
    assert run("egress", quiet.path, "--json").stderr == f"cell: {quiet.id}: nothing tried to leave\n"
    hit = Egress(hit=1, phase="agent", way="proxy", method="GET", host="a.example", port=80, allowed=True)
    hits = [Line(seq=n, t=1.0, event=msgspec.structs.replace(hit, hit=n)) for n in (1, 2, 3)]
    (Path(quiet.path) / "cell/events.jsonl").write_bytes(
        b"".join(records.encode(one) + b"\n" for one in hits)
    )
    done = run("egress", quiet.path, "--filter", "host:b.example")
    assert done.stderr == f"cell: {quiet.id}: 3 tried to leave, none as --filter has it\n"
    monkeypatch.setattr("cell.trials.egress.MOST", 2)
    reader = EgressReader()
    reader.scan([quiet])
    (said,) = network._missing(quiet, reader, said=True)
    assert said.startswith("1 more are not told: they are only in ")


def test_v7_a_host_is_allowed_in_a_living_cell_and_fidelity_is_told(
    make_cell: Callable[..., LiveCell], origin: Origin
) -> None:
    cell = make_cell(agent_phase=phase("allowlist"), pins=(("pkg.example", "127.0.0.9"),))
    get = f"curl -s -o /dev/null -w '%{{http_code}}' http://pkg.example:{origin.port}/"
    assert cell.inside(get) == "403"
    done = run("allow", cell.trial, "pkg.example", "--once")
    assert (done.returncode, done.stderr) == (
        0,
        "",
    ) and "is allowed once; the verdict will say so" in done.stdout
    assert (cell.inside(get), cell.inside(get)) == ("200", "403")
    done = run("allow", cell.trial, "pkg.example", "--json")
    assert json.loads(done.stdout)["host"] == "pkg.example" and done.returncode == 0
    assert (cell.inside(get), cell.inside(get)) == ("200", "200")
    assert ["once" in one["what"] for one in cell.events("intervention")] == [True, False]
    wrong = run("allow", cell.trial, "http://pkg.example")
    assert wrong.returncode != 0 and wrong.stderr.count("\n") == 1 and "without scheme" in wrong.stderr
    told = run("fidelity", cell.trial, "--json")
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    assert told.returncode == 0 and len(lines) > 60 and all(line["ok"] for line in lines), told.stdout
    assert {line["phase"] for line in lines} == {"agent", "verifier"}
    told = run("fidelity", cell.trial)
    (tests,) = {line.split(maxsplit=3)[3] for line in told.stdout.splitlines() if " /tests " in line}
    assert tests == "not there" and "!" not in told.stdout, "a number of an error is no word"


def test_learning_opens_everything_and_writes_the_smallest_list(tmp_path: Path, origin: Origin) -> None:
    folder, jobs = task(tmp_path / "t"), tmp_path / "jobs"
    (folder / "task.toml").write_text(LIST)
    agent = asking(origin, "b.example", "a.example")
    more = [*pins("a.example", "b.example"), "--learn", "--jobs-dir", jobs]
    told = run("run", folder, "-a", agent, *more)
    assert "[agent] needed a.example, b.example" in told.stdout and "[verifier] needed nothing" in told.stdout
    assert "[agent] keeps what nothing asked for this time: pkg.example" in told.stdout
    assert (folder / "task.toml").read_text() == LIST
    (trial,) = trials_in(jobs)
    assert trial.verdict is not None
    assert any("was public, not allowlist" in note for note in trial.verdict.notes)
    run("run", folder, "-a", agent, *more, "--write")
    written = tomllib.loads((folder / "task.toml").read_text())
    assert written["agent"]["allowed_hosts"] == ["pkg.example", "a.example", "b.example"]
    assert written["environment"]["allowed_hosts"] == ["pkg.example"] and "verifier" not in written
    again = run("run", folder, "-a", agent, *more)
    assert "[agent] needed a.example, b.example" in again.stdout and "@@" not in again.stdout
    for wrong in (["--write"], ["--learn", "--network", "public"]):
        assert run("run", folder, *wrong).returncode == 2


def test_a_task_that_cannot_be_written_is_told_and_the_others_are_learned(
    tmp_path: Path, origin: Origin
) -> None:
    first, second = task(tmp_path / "tasks" / "a"), task(tmp_path / "tasks" / "b")
    for folder in (first, second):
        (folder / "task.toml").write_text(LIST)
    # It can be read and not be written, by nobody: what is mounted below is read-only.
    subprocess.run(["mount", "--bind", first, first], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", first], check=True)
        agent = asking(origin, "a.example")
        more = ["--resolve", f"a.example:{origin.port}=127.0.0.9", "--learn", "--write"]
        done = run("run", tmp_path / "tasks", "-a", agent, *more, "--jobs-dir", tmp_path / "jobs")
    finally:
        subprocess.run(["umount", first], check=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert f"{first}/task.toml: cannot be written: " in done.stderr
    assert "2 trials" in done.stdout and (first / "task.toml").read_text() == LIST
    written = tomllib.loads((second / "task.toml").read_text())
    assert written["agent"]["allowed_hosts"] == ["pkg.example", "a.example"]


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    folder = task(tmp_path / "t")
    for more, said in (
        (["--peer", "db"], "--peer db"),
        (["--resolve", "a.example"], "--resolve a.example"),
        (["--resolve", "127.0.0.1=127.0.0.1"], "--resolve"),
        (["--resolve", "a.example:80=169.254.169.254"], "is a metadata address, which nothing opens"),
    ):
        done = run("run", folder, *more, "--jobs-dir", tmp_path / "jobs")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1) and said in done.stderr
    (folder / "cell.toml").write_text("[peers]\ndb = 1\n")
    for command in (["plan", folder], ["run", folder, "--jobs-dir", tmp_path / "jobs"]):
        done = run(*command)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert done.stderr.startswith(f"cell: {folder}/cell.toml: peers.db: ")
    assert not (tmp_path / "jobs").exists(), "nothing has begun"
    (folder / "cell.toml").write_text('[peers]\n"db:5432" = "127.0.0.1:15432"\n')
    assert "peers        db:5432=127.0.0.1:15432\n" in run("plan", folder).stdout
    done = run("run", folder, "-a", "nop", "--jobs-dir", tmp_path / "jobs")
    assert "cell.toml hands a service of this machine to its world: db:5432=127.0.0.1:15432\n" in done.stderr
