from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from cell import harbor
from cell.errors import HarnessError
from cell.harbor import Span
from cell.harbor import file as harborfile
from cell.harbor import job as harborjob
from cell.records import Cause, Verdict

JOBS = Path(__file__).parents[1] / "fixtures/harbor-0.25.0/jobs"
ORACLE = JOBS / "demo-oracle"
SINGLE = [folder.name for folder in sorted(ORACLE.glob("*__*")) if not folder.name.startswith("steps")]


def load(path: Path) -> Any:
    return json.loads(path.read_text())


def epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def spanned(value: dict[str, str]) -> Span:
    return Span(epoch(value["started_at"]), epoch(value["finished_at"]))


def config_of(trial: str) -> dict[str, Any]:
    task = trial.partition("__")[0]
    return harbor.trial_config(
        task_path=f"tasks/{task}",
        source="tasks",
        name=trial,
        trials_dir="jobs/demo-oracle",
        job_id="23b360a5-7e17-45b1-8d63-d81a61998483",
        environment="localenv:LocalEnv",
    )


@pytest.mark.parametrize("trial", SINGLE)
def test_r1_the_three_files_of_a_trial_are_what_harbor_wrote(trial: str) -> None:
    wanted = load(ORACLE / trial / "result.json")
    config = config_of(trial)
    assert config == wanted["config"]
    assert harbor.sparse(config) == load(ORACLE / trial / "config.json")
    lock = load(ORACLE / trial / "lock.json")
    digest = lock["task"]["digest"].removeprefix("sha256:")
    assert harbor.trial_lock(config, task_digest=digest) == lock

    rewards = (wanted["verifier_result"] or {}).get("rewards")
    info = wanted["exception_info"]
    at = epoch(info["occurred_at"]) if info else 0.0
    if rewards:
        verdict = Verdict(verdict="graded", rewards=rewards)
    else:
        verdict = Verdict(verdict="ungraded", fault=f"{info['exception_type']}: {info['exception_message']}")
    late = 2.0 if info and info["exception_type"] == "AgentTimeoutError" else None
    exception = harbor.exception_of(verdict, at=at, agent_late_sec=late)
    if exception:
        exception["exception_traceback"] = info["exception_traceback"]
    got = harbor.trial_result(
        trial_id=wanted["id"],
        task_name=wanted["task_name"],
        trial_dir=Path("/home/op/jobs/demo-oracle") / trial,
        config=config,
        checksum=wanted["task_checksum"],
        verdict=verdict,
        exception=exception,
        whole=spanned(wanted),
        environment_setup=spanned(wanted["environment_setup"]),
        agent_setup=spanned(wanted["agent_setup"]),
        agent_execution=spanned(wanted["agent_execution"]),
        verifier=spanned(wanted["verifier"]),
    )
    assert got == wanted


def test_r1_a_jobs_statistics_are_what_harbor_counted() -> None:
    for job, total in (("demo-oracle", 9), ("demo-nop", 1)):
        wanted = load(JOBS / job / "result.json")
        results = [load(path) for path in sorted((JOBS / job).glob("*/result.json"))]
        got = harbor.job_result(
            results,
            job_id=wanted["id"],
            n_total=total,
            started=epoch(wanted["started_at"]),
            updated=epoch(wanted["updated_at"]),
            finished=epoch(wanted["finished_at"]),
        )
        assert got == wanted


def test_r1_a_job_that_runs_has_no_statistics_yet() -> None:
    wanted = load(JOBS / "demo-running-snapshot" / "result.json")
    got = harbor.job_result([], job_id="x", n_total=1, started=1.0, updated=2.0, finished=None, n_running=1)
    assert got["stats"] == wanted["stats"]
    assert got["finished_at"] is None


def test_r1_a_jobs_config_and_lock_are_what_harbor_wrote() -> None:
    env = "localenv:LocalEnv"
    assert harbor.job_config(job_name="demo-oracle", datasets=["tasks"], environment=env) == load(
        ORACLE / "config.json"
    )
    nop = harbor.job_config(
        job_name="demo-nop", agent="nop", tasks=["tasks/pass"], environment=env, n_concurrent=1
    )
    assert nop == load(JOBS / "demo-nop" / "config.json")
    wanted = load(ORACLE / "lock.json")
    got = harbor.job_lock(
        wanted["trials"], created=epoch(wanted["created_at"]), n_concurrent=4, version="0.25.0"
    )
    assert got == wanted


def test_r1_the_artifacts_manifest() -> None:
    assert harbor.artifacts_manifest("ok") == load(ORACLE / "pass__XCNk8k6/artifacts/manifest.json")
    assert harbor.artifacts_manifest("empty") == load(ORACLE / "vtimeout__bykepnQ/artifacts/manifest.json")


def ungraded(fault: str, *causes: Any) -> Verdict:
    said = tuple(Cause(cause=cause, certainty="shown", summary="x") for cause in causes)
    return Verdict(verdict="ungraded", fault=fault, causes=said)


@pytest.mark.parametrize(
    ("verdict", "late", "kind"),
    [
        (Verdict(verdict="graded", rewards={"reward": 0.0}), None, None),
        (Verdict(verdict="graded", rewards={"reward": 0.0}), 2.0, "AgentTimeoutError"),
        (ungraded("RewardFileEmptyError: Reward file is empty"), None, "RewardFileEmptyError"),
        (ungraded("VerifierTimeoutError: late"), 2.0, "VerifierTimeoutError"),
        (ungraded("sandbox: gone", "sandbox"), None, "SandboxError"),
        (ungraded("killed", "agent"), None, "VerifierInterferenceError"),
        (ungraded("serve: x", "harness"), None, "HarnessError"),
        (ungraded("who knows", "unknown"), None, "HarnessError"),
        (ungraded("who knows"), None, "HarnessError"),
    ],
)
def test_an_ungraded_trial_has_an_exception(verdict: Verdict, late: float | None, kind: str | None) -> None:
    info = harbor.exception_of(verdict, at=0.5, agent_late_sec=late)
    assert (info and info["exception_type"]) == kind
    if info:
        assert info["occurred_at"] == "1970-01-01T00:00:00.500000Z"
        assert info["exception_traceback"]


def test_integers_stay_integers_on_the_way_to_disk(tmp_path: Path) -> None:
    rewards = {"reward": 0.5, "style": 1}
    verdict = Verdict(verdict="graded", rewards=rewards)
    got = harbor.trial_result(
        trial_id="x",
        task_name="t",
        trial_dir=Path("/a b/t"),
        config=config_of("t__abcdefg"),
        checksum="",
        verdict=verdict,
        exception=None,
        whole=Span(1.0, None),
    )
    assert got["trial_uri"] == "file:///a%20b/t"
    assert got["finished_at"] is None
    harbor.write_json(tmp_path / "result.json", got)
    assert '"style": 1\n' in (tmp_path / "result.json").read_text()


def test_names_and_ids() -> None:
    ids = {harbor.new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(name) == 7 and name.isascii() and name.isalnum() for name in ids)
    assert harbor.trial_name("t" * 50, "abcdefg") == "t" * 32 + "__abcdefg"


def test_a_digest_is_of_names_and_contents_in_any_order() -> None:
    files = [("a", b"1"), ("b", b"2")]
    assert harbor.digest(files) == harbor.digest(reversed(files))
    assert harbor.digest(files) != harbor.digest([("a", b"2"), ("b", b"1")])
    assert harbor.digest([("a", b"bc")]) != harbor.digest([("ab", b"c")])
    assert len(harbor.digest([(os.fsdecode(b"\xff"), b"")])) == 64


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    harbor.write_json(path, {"a": "\ud800 ü"})
    assert load(path) == {"a": "\ud800 ü"}
    with pytest.raises(ValueError, match="Out of range"):
        harbor.write_json(path, {"a": float("nan")})
    assert load(path) == {"a": "\ud800 ü"}
    (tmp_path / "folder").mkdir()
    with pytest.raises(HarnessError, match="cannot write"):
        harbor.write_json(tmp_path / "folder", {})
    with pytest.raises(HarnessError, match="cannot write"):
        harbor.write_json(tmp_path / "no" / "x", {})
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "result.json"]


def test_jobs_and_files_are_to_be_had_from_one_place() -> None:
    assert harbor.job_result is harborjob.job_result
    assert harbor.write_json is harborfile.write_json
