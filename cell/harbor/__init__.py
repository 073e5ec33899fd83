"""Harbor's files, as Harbor 0.25 writes them, built as plain dicts (promise R1).

    jobs/<job>/            config.json  job_config      lock.json  job_lock      result.json  job_result
    jobs/<job>/<trial>/    config.json  sparse(…)       lock.json  trial_lock    result.json  trial_result
               artifacts/  manifest.json  artifacts_manifest

The jobs' are made in `harborjob`, names and times in `harborfile`; all are to be had from here.
Every function is pure but `new_id` and `write_json`. Times are taken as seconds since the epoch and
written as Harbor does: trials in UTC with a `Z`, jobs in local time without a zone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from cell.harbor.file import (
    NO_TOKENS,
    Json,
    Span,
    digest,
    local,
    new_id,
    trial_name,
    utc,
    without,
    write_json,
)
from cell.harbor.job import job_config, job_lock, job_result
from cell.records import Verdict

__all__ = [
    "Json",
    "Span",
    "artifacts_manifest",
    "digest",
    "exception_info",
    "exception_of",
    "job_config",
    "job_lock",
    "job_result",
    "local",
    "new_id",
    "sparse",
    "trial_config",
    "trial_lock",
    "trial_name",
    "trial_result",
    "utc",
    "write_json",
]

_NAMED: Final = re.compile(r"([A-Z]\w*Error): (.*)", re.DOTALL)
# What an ungraded verdict's cause is called where Harbor wants the name of an exception.
_ERRORS: Final = {
    "task": "TaskError",
    "sandbox": "SandboxError",
    "network": "NetworkError",
    "verifier": "VerifierError",
    "agent": "VerifierInterferenceError",
    "model": "ModelProviderError",
    "operator": "CancelledError",
}


def trial_config(
    *,
    task_path: str,
    source: str | None,
    name: str,
    trials_dir: str,
    job_id: str,
    agent: str = "oracle",
    agent_kwargs: Mapping[str, Any] | None = None,
    environment: str = "cell:local",
    agent_timeout_sec: float | None = None,
    verifier_timeout_sec: float | None = None,
    delete: bool = True,
) -> Json:
    """Return a trial's whole configuration, as result.json holds it; config.json holds `sparse` of it.

    `environment` is `module:Class` in Harbor; ours names the substrate. The timeouts are overrides.
    """
    task = {"git_url": None, "git_commit_id": None, "name": None, "ref": None, "overwrite": False}
    return {
        "task": {"path": task_path, **task, "download_dir": None, "source": source},
        "trial_name": name,
        "trials_dir": trials_dir,
        "install_only": False,
        "timeout_multiplier": 1.0,
        "agent_timeout_multiplier": None,
        "verifier_timeout_multiplier": None,
        "agent_setup_timeout_multiplier": None,
        "environment_build_timeout_multiplier": None,
        "agent": {
            **dict.fromkeys(("import_path", "model_name", "base_url", "model_api_key_name")),
            "name": agent,
            "model_api_format": None,
            "skip_model_parsing": False,
            "n_concurrent": None,
            "concurrency_group": None,
            "skills": [],
            "override_timeout_sec": agent_timeout_sec,
            "override_setup_timeout_sec": None,
            "max_timeout_sec": None,
            "resume_trajectory": False,
            "load_trajectory": None,
            "extra_allowed_hosts": [],
            "kwargs": dict(agent_kwargs or {}),
            "mcp_servers": [],
        },
        "user_agent": None,
        "environment": {
            "type": None,
            "import_path": environment,
            "force_build": False,
            "delete": delete,
            "stream": False,
            "cpu_enforcement_policy": "auto",
            "memory_enforcement_policy": "auto",
            **{f"override_{what}": None for what in ("cpus", "memory_mb", "storage_mb", "gpus", "tpu")},
            "mounts": None,
            "extra_docker_compose": [],
            "kwargs": {},
            "extra_allowed_hosts": [],
        },
        "verifier": {
            "override_timeout_sec": verifier_timeout_sec,
            "max_timeout_sec": None,
            "disable": False,
        },
        "artifacts": [],
        "extra_instruction_paths": [],
        "extra_instructions": [],
        "job_id": job_id,
        "source_trial": None,
    }


def sparse(config: Json) -> Json:
    """Return a trial's configuration without what Harbor would assume anyway."""
    blank = trial_config(task_path="", source=None, name="", trials_dir="", job_id="", environment="")
    return without(config, blank)


def trial_lock(config: Json, *, task_digest: str, environment_mode: str | None = "shared") -> Json:
    """Return what a trial was run with; `task_digest` is `digest` of the task folder."""
    task = config["task"]
    agent = {key: value for key, value in config["agent"].items() if value is not None}
    verifier: Json = {"disable": False}
    if environment_mode is not None:
        verifier["environment_mode"] = environment_mode
    return {
        "schema_version": 2,
        "task": {
            "name": Path(task["path"]).name,
            "type": "local",
            "digest": f"sha256:{task_digest}",
            **({"source": task["source"]} if task["source"] else {}),
            "path": task["path"],
        },
        "install_only": False,
        "timeout_multiplier": config["timeout_multiplier"],
        "agent": agent,
        "bridge_inputs": {},
        "skills": [],
        "environment": {key: value for key, value in config["environment"].items() if value is not None},
        "verifier": verifier,
    }


def exception_info(kind: str, message: str, at: float, traceback: str = "") -> Json:
    """Return Harbor's record of an exception; `kind` is the name of Harbor's class where it has one."""
    return {
        "exception_type": kind,
        "exception_message": message,
        "exception_traceback": traceback or f"{kind}: {message}\n",
        "occurred_at": utc(at),
    }


def exception_of(verdict: Verdict, *, at: float, agent_late_sec: float | None = None) -> Json | None:
    """Return the exception Harbor would have recorded for a verdict; None for a plain one.

    `agent_late_sec` is the agent's timeout when it ran out of it: such a trial has a reward as well.
    """
    if verdict.verdict == "graded":
        if agent_late_sec is None:
            return None
        message = f"Agent execution timed out after {agent_late_sec} seconds"
        return exception_info("AgentTimeoutError", message, at)
    if named := _NAMED.fullmatch(verdict.fault):
        return exception_info(named[1], named[2], at)
    cause = verdict.causes[0].cause if verdict.causes else "harness"
    return exception_info(_ERRORS.get(cause, "HarnessError"), verdict.fault, at)


def trial_result(
    *,
    trial_id: str,
    task_name: str,
    trial_dir: Path,
    config: Json,
    checksum: str,
    verdict: Verdict,
    exception: Json | None,
    whole: Span,
    agent_version: str = "1.0.0",
    environment_setup: Span | None = None,
    agent_setup: Span | None = None,
    agent_execution: Span | None = None,
    verifier: Span | None = None,
    environment_mode: str | None = "shared",
) -> Json:
    """Return a finished trial's result.json. `trial_dir` is absolute; `trial_id` a UUID."""
    graded = verdict.verdict == "graded"
    return {
        "id": trial_id,
        "task_name": task_name,
        "trial_name": config["trial_name"],
        "trial_uri": "file://" + quote(str(trial_dir).encode("utf-8", "surrogateescape")),
        "task_id": {"path": config["task"]["path"]},
        "source": config["task"]["source"],
        "task_checksum": checksum,
        "config": config,
        "agent_info": {"name": config["agent"]["name"], "version": agent_version, "model_info": None},
        "agent_result": {**NO_TOKENS, "model_usage": None, "rollout_details": None, "metadata": None},
        "verifier_result": {"rewards": dict(verdict.rewards)} if graded else None,
        "verifier_environment_mode": environment_mode,
        "exception_info": exception,
        "started_at": utc(whole.started),
        "finished_at": utc(whole.finished),
        "environment_setup": _span(environment_setup),
        "agent_setup": _span(agent_setup),
        "agent_execution": _span(agent_execution),
        "verifier": _span(verifier),
        "step_results": None,
    }


def artifacts_manifest(status: str) -> list[Json]:
    """Return artifacts/manifest.json; `status` is `ok`, `empty` or `failed`."""
    where = {"source": "/logs/artifacts", "destination": "artifacts/logs/artifacts"}
    return [{**where, "type": "directory", "status": status, "service": None, "exclude": []}]


def _span(span: Span | None) -> Json | None:
    return None if span is None else {"started_at": utc(span.started), "finished_at": utc(span.finished)}
