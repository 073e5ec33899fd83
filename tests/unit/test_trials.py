"""Trial folders as values: Harbor's recorded ones, ours, and whatever else lies there."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cell import events, records, trials
from cell.records import Process, Verdict
from cell.trials.events import EventLog
from cell.trials.files import inside, load_object, read_regular, when
from cell.trials.harbor import ctrf_of, phases_of, signature_of
from cell.trials.sessions import read_sessions
from cell.trials.trial import TrialFolder
from screenshots.invented import GONE, NOW, Cast, build, this_process, trial

FIXTURES = Path(__file__).parents[1] / "fixtures/harbor-0.25.0/jobs"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Gone at once after the test: these folders tell of cells that live, and none does."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def invented() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield build(Path(folder))


def by_id(job: trials.Job) -> dict[str, trials.Trial]:
    return {each.id: each for each in job.trials}


# ── Harbor's ──────────────────────────────────────────────────────────────────────────────────


def test_a_harbor_job_counts_missing_rewards_as_zero_and_beside_it_not() -> None:
    job = trials.read_job(FIXTURES / "demo-oracle")
    assert job.raw_mean == pytest.approx(2.5 / 9)
    assert job.graded_mean == pytest.approx(2.5 / 6)
    assert job.counts == {"failed": 4, "ungraded": 3, "passed": 2}
    assert (job.total, job.queued) == (9, 0)


@pytest.mark.parametrize(
    ("name", "state", "score", "cause", "certainty"),
    [
        ("pass", "passed", 1.0, "", ""),
        ("steps", "passed", 1.0, "", ""),
        ("fail", "failed", 0.0, "unknown", "assumed"),
        ("solvefail", "failed", 0.0, "unknown", "assumed"),
        ("multireward", "failed", 0.5, "agent", "assumed"),
        ("atimeout", "failed", 0.0, "agent", "shown"),
        ("noreward", "ungraded", None, "verifier", "shown"),
        ("badreward", "ungraded", None, "verifier", "shown"),
        ("vtimeout", "ungraded", None, "verifier", "assumed"),
    ],
)
def test_a_harbor_trial_has_a_verdict_with_its_cause(
    name: str, state: str, score: float | None, cause: str, certainty: str
) -> None:
    path = next((FIXTURES / "demo-oracle").glob(f"{name}__*"))
    found = trials.read_trial(path)
    assert (found.state, found.score, found.cause, found.certainty) == (state, score, cause, certainty)
    assert (found.task, found.agent, found.origin) == (name, "oracle", "harbor")


def test_every_cause_of_a_harbor_trial_has_evidence_that_can_be_opened() -> None:
    for each in trials.read_job(FIXTURES / "demo-oracle").trials:
        for cause in each.verdict.causes if each.verdict else ():
            assert cause.evidence, each.name
            for seen in cause.evidence:
                if seen.kind == "file":
                    assert (Path(each.path) / seen.ref.partition(":")[0]).is_file(), seen


def test_a_harbor_trial_that_nobody_writes_any_more_is_stale(tmp_path: Path) -> None:
    path = tmp_path / "slowtask__iYfqrjc"
    shutil.copytree(FIXTURES / "demo-KILL/slowtask__iYfqrjc", path)
    written = max(found.stat().st_mtime for found in path.rglob("*"))
    assert trials.read_trial(path, now=written + 5).state == "running"
    assert trials.read_trial(path, now=written + trials.STALE_AFTER + 1).state == "stale"


def test_the_phases_and_ctrf_of_a_harbor_trial() -> None:
    steps = next((FIXTURES / "demo-oracle").glob("steps__*"))
    names = [span.name for span in phases_of(load_object(steps / "result.json"))]
    assert names == [
        "environment",
        "agent setup",
        "s1 · agent",
        "s1 · verifier",
        "s2 · agent",
        "s2 · verifier",
    ]
    multi = next((FIXTURES / "demo-oracle").glob("multireward__*"))
    assert [(t.name, t.status, t.message) for t in ctrf_of(multi)] == [
        ("t1", "passed", ""),
        ("t2", "failed", "boom"),
    ]


def test_reading_changes_nothing(tmp_path: Path) -> None:
    copy = tmp_path / "jobs"
    shutil.copytree(FIXTURES, copy)
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in copy.rglob("*")}
    trials.Reader([copy]).scan()
    assert {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in copy.rglob("*")} == before


# ── ours ──────────────────────────────────────────────────────────────────────────────────────


def test_every_state_of_ours(invented: Path) -> None:
    found = by_id(trials.read_job(invented, now=NOW))
    assert {id_: each.state for id_, each in found.items()} == {
        "k3f9a1c": "running",
        "b71e0d4": "running",
        "9ac41f2": "kept",
        "e02b77a": "failed",
        "51d9c30": "failed",
        "77c0ab9": "failed",
        "1f4e8d3": "ungraded",
        "c8a25b6": "passed",
        "0b6d9e1": "passed",
        "d44f3a8": "passed",
        "a0e7712": "stale",
    }
    flask = found["e02b77a"]
    assert (flask.tests_passed, flask.tests_total, flask.suspect, flask.cause) == (38, 40, True, "network")
    assert found["d44f3a8"].touched
    assert not found["d44f3a8"].clean
    assert found["b71e0d4"].phase == "verifier"
    assert found["k3f9a1c"].sessions == 3
    assert found["k3f9a1c"].age(NOW) == pytest.approx(252)


def test_a_job_of_ours_in_numbers(invented: Path) -> None:
    job = trials.read_job(invented, now=NOW)
    assert (job.total, job.queued, job.suspects) == (53, 42, 2)
    assert job.raw_mean == pytest.approx(4 / 8)
    assert job.graded_mean == pytest.approx(4 / 7)
    assert job.firm_mean == pytest.approx(4 / 5)


def test_a_cell_is_alive_only_as_that_very_process() -> None:
    me = this_process()
    assert trials.alive(me)
    assert not trials.alive(Process(pid=me.pid, start=me.start + 1, boot=me.boot))
    assert not trials.alive(Process(pid=me.pid, start=me.start, boot="another"))
    assert not trials.alive(GONE)
    assert not trials.alive(None)


def test_a_zombie_is_not_alive() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    start = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    try:
        assert not trials.alive(Process(pid=pid, start=start, boot=this_process().boot))
    finally:
        os.waitpid(pid, 0)


def test_everything_goes_to_json_and_back(invented: Path) -> None:
    job = trials.read_job(invented, now=NOW)
    assert msgspec.convert(json.loads(json.dumps(job.as_dict())), trials.Job) == job
    assert job.trials[0].as_dict()["state"] == job.trials[0].state


def test_a_cell_is_found_by_id_prefix_or_task(invented: Path) -> None:
    every = trials.read_job(invented, now=NOW).trials
    assert [t.id for t in trials.match(every, "e02b77a")] == ["e02b77a"]
    assert [t.id for t in trials.match(every, "e0")] == ["e02b77a"]
    assert [t.id for t in trials.match(every, "FLASK")] == ["e02b77a"]
    assert trials.match(every, "") == trials.match(every, "nothing like it") == []
    assert len(trials.match(every, "-")) > 1


# ── sessions ──────────────────────────────────────────────────────────────────────────────────


def test_the_sessions_of_a_running_cell(invented: Path) -> None:
    first, second, third = read_sessions(invented / "django-11099__k3f9a1c", alive=True)
    assert (first.command, first.tty, first.exit, first.running) == ("ls -la /app", False, 0, False)
    assert second.exit == 2
    assert (third.tty, third.cols, third.rows, third.running) == (True, 120, 36, True)


def test_what_harbors_agents_leave_is_a_session_too(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    (agent / "setup").mkdir(parents=True)
    (agent / "command-0").mkdir()
    (agent / "command-0/stdout.txt").write_text("hi")
    (agent / "terminus_2.pane").write_bytes(b"\x1b[H")
    (agent / "oracle.txt").write_text("x")
    (agent / "recording.cast").write_text('{"version": 2, "width": 160, "height": 40}\n')
    found = {session.name: (session.kind, session.cols, session.rows) for session in read_sessions(tmp_path)}
    assert found == {
        "command-0": ("text", 80, 24),
        "oracle": ("text", 80, 24),
        "recording": ("cast", 160, 40),
        "terminus_2.pane": ("pane", 160, 40),
    }


@pytest.mark.parametrize(
    "header", [b"", b"{", b"[1]", b'{"width": 1e9, "height": -4}', b'{"width": 99999999}']
)
def test_a_recording_with_an_odd_header_has_a_size_all_the_same(tmp_path: Path, header: bytes) -> None:
    folder = tmp_path / "cell/sessions"
    folder.mkdir(parents=True)
    (folder / "1.cast").write_bytes(header)
    (session,) = read_sessions(tmp_path)
    assert 1 <= session.cols <= 1000
    assert 1 <= session.rows <= 1000


# ── events ────────────────────────────────────────────────────────────────────────────────────


def test_events_are_read_once_and_a_torn_line_waits(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path)
    assert not log.refresh()
    one = records.encode(events.Line(seq=1, t=1.0, event=events.PhaseChanged(phase="agent", by="runner")))
    two = records.encode(events.Line(seq=2, t=2.0, event=events.PhaseChanged(phase="sealed", by="runner")))
    path.write_bytes(one + b"\n" + two[:20])
    assert log.refresh()
    assert (log.phase, len(log.lines)) == ("agent", 1)
    with path.open("ab") as file:
        file.write(two[20:] + b"\nnot json\n{}\n")
    assert log.refresh()
    assert (log.phase, len(log.lines)) == ("sealed", 2)
    assert not log.refresh()
    path.write_bytes(one + b"\n")
    assert log.refresh()
    assert (log.phase, len(log.lines)) == ("agent", 1)


def test_pause_and_continue_are_seen(tmp_path: Path) -> None:
    job = tmp_path / "job"
    path = trial(
        job,
        "t",
        "aaaaaaa",
        serve=this_process(),
        phase="agent",
        happened=(
            events.Paused(paused=True, by="operator"),
            events.Intervention(principal="operator", what="paused the agent"),
        ),
    )
    assert trials.read_trial(path, now=NOW).state == "paused"
    assert trials.read_trial(path, now=NOW).touched


# ── whatever else lies there ──────────────────────────────────────────────────────────────────


def test_what_a_path_turns_out_to_be(tmp_path: Path, invented: Path) -> None:
    assert trials.discover(tmp_path / "no").kind == "missing"
    assert trials.discover(tmp_path).kind == "empty"
    assert trials.discover(FIXTURES).kind == "jobs"
    assert trials.discover(FIXTURES / "demo-nop").kind == "job"
    assert trials.discover(FIXTURES / "demo-nop/pass__jNE7f4A").kind == "trial"
    assert trials.discover(FIXTURES.parent / "tasks/pass").kind == "task"
    assert trials.discover(invented / "flask-4045__e02b77a").kind == "trial"
    (tmp_path / "run_metadata.json").write_text("{}")
    (tmp_path / "tb.lock").write_text("{}")
    assert trials.discover(tmp_path).kind == "terminal-bench"
    (tmp_path / "task.toml").write_text("")
    assert trials.discover(tmp_path).kind == "task"
    assert trials.Reader([tmp_path, tmp_path / "no"]).scan().trials == ()


GARBAGE = {
    "empty": b"",
    "torn": b'{"task_name": "x", "trial_na',
    "binary": bytes(range(256)) * 8,
    "list": b"[1, 2]",
    "deep": b"[" * 100_000,
    "strange": b'{"verifier_result": {"rewards": {"a": "b", "c": null, "d": true, "e": [1]}},'
    b' "started_at": 7, "exception_info": 3, "step_results": {"x": 1}, "agent_info": "me",'
    b' "finished_at": "2026-99-99"}',
    "huge numbers": b'{"verifier_result": {"rewards": {"reward": 1e999}},'
    b' "started_at": "9999-12-31T23:59:59Z"}',
}


@pytest.mark.parametrize("name", GARBAGE)
@pytest.mark.parametrize("where", ["result.json", "config.json", "cell/cell.json", "cell/verdict.json"])
def test_garbage_in_a_file_is_never_an_error(tmp_path: Path, name: str, where: str) -> None:
    path = tmp_path / "job/task__abcdefg"
    (path / "cell/sessions").mkdir(parents=True)
    (path / "trial.log").write_text("")
    for other in ("verifier/ctrf.json", "cell/events.jsonl", "cell/sessions/1.cast", "agent/exit-code.txt"):
        (path / other).parent.mkdir(exist_ok=True)
        (path / other).write_bytes(GARBAGE[name])
    (path / where).write_bytes(GARBAGE[name])
    found = trials.read_trial(path)
    assert found.id == "abcdefg"
    assert found.score is None
    json.dumps(found.as_dict())
    json.dumps(trials.read_job(tmp_path / "job").as_dict())
    read_sessions(path)


def test_pipes_devices_and_links_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    assert read_regular(tmp_path / "pipe", limit=10) is None
    assert read_regular(tmp_path / "link", limit=10) is None
    assert read_regular("/dev/zero", limit=10) is None
    assert read_regular(tmp_path, limit=10) is None
    assert read_regular(tmp_path / "secret", limit=3, offset=-2) == b"et"


@pytest.mark.parametrize("ref", ["../../etc/passwd", "/etc/passwd", "link/passwd", "a\0b"])
def test_a_reference_never_leaves_the_trial_folder(tmp_path: Path, ref: str) -> None:
    (tmp_path / "link").symlink_to("/etc")
    assert inside(tmp_path, ref) is None
    assert inside(tmp_path, "verifier/reward.txt") == (tmp_path / "verifier/reward.txt").resolve()


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("2026-11-30T02:49:15.272462", True),
        ("2026-11-30T02:49:15.842890Z", True),
        ("2026-11-30T02:49:15+02:00", True),
        ("yesterday", False),
        (7, False),
        (None, False),
    ],
)
def test_harbors_times(text: object, there: bool) -> None:
    assert (when(text) is not None) == there


def test_a_torn_file_keeps_its_last_good_value(tmp_path: Path) -> None:
    path = tmp_path / "pass__XCNk8k6"
    shutil.copytree(FIXTURES / "demo-oracle/pass__XCNk8k6", path)
    folder = TrialFolder(path)
    assert folder.read(NOW).state == "passed"
    whole = (path / "result.json").read_bytes()
    (path / "result.json").write_bytes(whole[:100])
    assert folder.read(NOW).state == "passed"
    (path / "result.json").write_bytes(whole.replace(b"1.0\n", b"0.0\n"))
    assert folder.read(NOW).state == "failed"


def test_trials_appear_grow_and_vanish(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    reader = trials.Reader([jobs], clock=lambda: NOW)
    assert reader.scan().roots[0].kind == "missing"
    path = trial(
        jobs / "one", "task", "aaaaaaa", serve=this_process(), phase="agent", sessions=[Cast("ls", ())]
    )
    (running,) = reader.scan().trials
    assert running.state == "running"
    trial(jobs / "one", "task", "aaaaaaa", verdict=Verdict(verdict="graded", rewards={"reward": 1.0}))
    (passed,) = reader.scan().trials
    assert (passed.state, passed.path) == ("passed", str(path))
    assert reader.scan().trials[0] is passed, "what did not change is not read again"
    shutil.rmtree(jobs / "one")
    assert reader.scan().trials == ()


def test_three_hundred_trials_that_did_not_change_are_not_read_again(tmp_path: Path) -> None:
    for n in range(300):
        path = tmp_path / f"job/task-{n}__{n:07}"
        (path / "cell").mkdir(parents=True)
        (path / "result.json").write_text(
            '{"trial_name": "x", "verifier_result": {"rewards": {"reward": 1}}}'
        )
    reader = trials.Reader([tmp_path])
    first = reader.scan()
    again = reader.scan()
    assert len(first.trials) == 300
    assert all(a is b for a, b in zip(first.trials, again.trials, strict=True))


def test_alike_faults_have_one_signature(tmp_path: Path) -> None:
    for name, text in (
        ("a", "E  assert 302 == 200\nError in /tmp/pytest-17/test.py:214 id 0xdeadbeef\n"),
        ("b", "whatever\nError in /home/me/x/test.py:9 id 0xcafe\n\n"),
    ):
        (tmp_path / name / "verifier").mkdir(parents=True)
        (tmp_path / name / "verifier/test-stdout.txt").write_text(text)
    assert signature_of(tmp_path / "a") == signature_of(tmp_path / "b") == "Error in /…:0 id #"


def test_words_from_inside_are_plain(tmp_path: Path) -> None:
    path = trial(
        tmp_path / "job", "task", "aaaaaaa", agent="\x1b[2Jevil\u202e", verdict=Verdict(verdict="ungraded")
    )
    found = trials.read_trial(path)
    assert "\x1b" not in found.agent
    assert "\u202e" not in found.agent
