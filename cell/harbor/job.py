"""A job's three files, as Harbor 0.25 writes them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cell.harbor.file import NO_TOKENS, Json, local, utc, without

# Harbor never tries these again; a reader of lock.json may want to know.
_NOT_RETRIED: Final = (
    "AgentAuthenticationError",
    "ApiUsageLimitError",
    "AgentSafetyRefusalError",
    "RewardFileNotFoundError",
    "VerifierOutputParseError",
    "VerifierTimeoutError",
    "AgentTimeoutError",
    "RewardFileEmptyError",
    "UnsupportedModelParametersError",
    "ModelNotFoundError",
)


def job_config(
    *,
    job_name: str,
    agent: str = "oracle",
    datasets: Sequence[str] = (),
    tasks: Sequence[str] = (),
    environment: str = "cell:local",
    n_concurrent: int = 4,
    n_attempts: int = 1,
    jobs_dir: str = "jobs",
) -> Json:
    """Return a job's config.json, without what Harbor would assume anyway."""
    whole: Json = {
        "job_name": job_name,
        "jobs_dir": jobs_dir,
        "n_attempts": n_attempts,
        "n_concurrent_trials": n_concurrent,
        "environment": {"import_path": environment},
        "agents": [{"name": agent}],
        "datasets": [{"path": path} for path in datasets],
        "tasks": [{"path": path} for path in tasks],
    }
    assumed: Json = {
        "jobs_dir": "jobs",
        "n_attempts": 1,
        "n_concurrent_trials": 4,
        "datasets": [],
        "tasks": [],
    }
    assumed["agents"] = [{"name": "oracle"}]
    return without(whole, assumed)


def job_lock(trial_locks: Sequence[Json], *, created: float, n_concurrent: int, version: str) -> Json:
    """Return a job's lock.json. `version` names the program that ran it, which was not Harbor."""
    return {
        "schema_version": 3,
        "created_at": utc(created),
        "harbor": {"version": version, "is_editable": False},
        "n_concurrent_trials": n_concurrent,
        "retry": {
            "max_retries": 0,
            "exclude_exceptions": list(_NOT_RETRIED),
            "wait_multiplier": 1.0,
            "min_wait_sec": 1.0,
            "max_wait_sec": 60.0,
        },
        "trials": list(trial_locks),
    }


def job_result(
    results: Sequence[Json],
    *,
    job_id: str,
    n_total: int,
    started: float,
    updated: float,
    finished: float | None,
    n_running: int = 0,
) -> Json:
    """Return a job's result.json from the result.json of its finished trials.

    As Harbor's, the means in it count a trial without reward as 0.
    """
    failed = [result["exception_info"] for result in results if result["exception_info"]]
    evals: dict[str, list[Json]] = {}
    for result in results:
        evals.setdefault(_eval_name(result), []).append(result)
    return {
        "id": job_id,
        "started_at": local(started),
        "updated_at": local(updated),
        "finished_at": local(finished),
        "n_total_trials": n_total,
        "stats": {
            "n_completed_trials": len(results),
            "n_errored_trials": len(failed),
            "n_running_trials": n_running,
            "n_pending_trials": max(0, n_total - len(results) - n_running),
            "n_cancelled_trials": sum(info["exception_type"] == "CancelledError" for info in failed),
            "n_retries": 0,
            "evals": {name: _eval(group) for name, group in evals.items()},
            **NO_TOKENS,
        },
    }


def _eval_name(result: Json) -> str:
    """Return `<agent>__<model>__<dataset>`; a task that is of no dataset is `adhoc`."""
    model = (result["agent_info"].get("model_info") or {}).get("name")
    parts = (result["agent_info"]["name"], model, result["source"] or "adhoc")
    return "__".join(part for part in parts if part)


def _eval(results: list[Json]) -> Json:
    rewards: dict[str, dict[str, list[str]]] = {}
    totals: dict[str, float] = {}
    exceptions: dict[str, list[str]] = {}
    graded = 0
    for result in results:
        name = result["trial_name"]
        found = (result["verifier_result"] or {}).get("rewards") or {}
        graded += bool(found)
        for key, value in found.items():
            totals[key] = totals.get(key, 0) + value
            rewards.setdefault(key, {}).setdefault(str(value), []).append(name)
        if result["exception_info"]:
            exceptions.setdefault(result["exception_info"]["exception_type"], []).append(name)
    means = {key: total / len(results) for key, total in totals.items()}
    if len(means) < 2:
        means = {"mean": next(iter(means.values()), 0.0)}
    return {
        "n_trials": graded,
        "n_errors": sum(map(len, exceptions.values())),
        "metrics": [means],
        "pass_at_k": {},
        "reward_stats": rewards,
        "exception_stats": exceptions,
    }
