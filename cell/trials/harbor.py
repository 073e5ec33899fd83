"""What Harbor's own files say about a trial: a verdict, causes with evidence, phases, tests.

Harbor keeps no verdict of our kind; it is concluded here from result.json, exception.txt and the
verifier's files. A trial without a reward is ungraded, never 0. A cause needs evidence: without
any it is `unknown`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from cell.plain import plain
from cell.records import Evidence, TestResult, Verdict
from cell.rewards import FaultName, RewardFault, Rewards
from cell.trials.files import entries, inner, is_folder, load_object, read_regular, when, word
from cell.verdict import AgentOutcome, Facts, conclude

# Exceptions whose name alone says where it happened, as Harbor's own cause words.
_WORDS: Mapping[str, str] = {
    "EnvironmentStartTimeoutError": "sandbox_failed",
    "EnvironmentBuildTimeoutError": "sandbox_failed",
    "AgentSafetyRefusalError": "agent_refused_task",
    "AgentAuthenticationError": "model_provider_failed",
    "ApiUsageLimitError": "model_provider_failed",
    "ModelNotFoundError": "model_provider_failed",
    "UnsupportedModelParametersError": "model_provider_failed",
    "AddTestsDirError": "harbor_failed",
    "DownloadVerifierDirError": "harbor_failed",
}
_NO_REWARD: tuple[FaultName, ...] = (
    "RewardFileNotFoundError",
    "RewardFileEmptyError",
    "VerifierOutputParseError",
)

_OUTPUT_LIMIT = 256 << 10
_TESTS = 20_000


class PhaseSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One phase on the timeline; `finished` is None while it runs or when nobody wrote it down."""

    name: str
    started: float
    finished: float | None


def rewards_of(result: object) -> dict[str, float]:
    """Return the finite numbers among the verifier's rewards."""
    found = inner(result, "verifier_result", "rewards")
    if not isinstance(found, Mapping):
        return {}
    return {
        str(name): float(value)
        for name, value in found.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    }


def verdict_of(trial: Path, result: Mapping[str, Any]) -> Verdict:
    """Conclude a verdict from a finished Harbor trial, by the rules of `cell.verdict`.

    Harbor records neither what the world really was nor what the verifier could reach, so a failed
    test is never more than a reason to assume that it was the agent.
    """
    kind = word(inner(result, "exception_info", "exception_type"))
    message = plain(word(inner(result, "exception_info", "exception_message")), limit=500)
    facts = _facts(trial, result, kind, message)
    given = conclude(facts)
    seen = _exception_evidence(trial, kind, message)
    causes = tuple(
        msgspec.structs.replace(
            cause,
            certainty="assumed" if cause.cause == "agent" and not facts.agent.timed_out else cause.certainty,
            evidence=tuple(e for e in (*(seen if at == 0 else ()), *cause.evidence) if _says(e, message)),
        )
        for at, cause in enumerate(given.causes)
    )
    fault = given.fault
    if given.verdict == "ungraded":
        fault = f"{kind}: {message}" if kind else "no reward was recorded"
    return msgspec.structs.replace(given, causes=causes, fault=fault)


def _facts(trial: Path, result: Mapping[str, Any], kind: str, message: str) -> Facts:
    values = rewards_of(result)
    rewards: Rewards | RewardFault | None = None
    if values:
        names = ("reward.json", "reward.txt")
        rewards = Rewards(
            values=values, file=next((n for n in names if (trial / "verifier" / n).is_file()), "")
        )
    else:
        for name in _NO_REWARD:
            if kind == name:
                rewards = RewardFault(name=name, message=message)
    output = read_regular(trial / "verifier/test-stdout.txt", limit=_OUTPUT_LIMIT) or b""
    said = f"{kind}: {message}" if kind else ""
    code = _exit_code(trial)
    return Facts(
        rewards=rewards,
        tests=ctrf_of(trial),
        verifier_stopped="timed out" if kind == "VerifierTimeoutError" else "",
        verifier_output=output.decode("utf-8", "replace"),
        agent=AgentOutcome(
            name=word(inner(result, "agent_info", "name")),
            exit=code if code is not None and code >= 0 else None,
            signal=str(-code) if code is not None and code < 0 else None,
            timed_out=kind == "AgentTimeoutError",
            exception=said,
            harbor_cause=_WORDS.get(kind, ""),
        ),
        cancelled=message or "cancelled" if kind == "CancelledError" else "",
        notes=_near_miss(trial),
    )


def _says(evidence: Evidence, message: str) -> bool:
    """Whether the evidence says anything: Harbor keeps no exit status, and its message is said already."""
    unknown = evidence.text == "the verifier ended with exit status None"
    return not unknown and not (evidence.kind == "fact" and evidence.text == message)


def _exception_evidence(trial: Path, kind: str, message: str) -> tuple[Evidence, ...]:
    if not kind:
        return ()
    data = read_regular(trial / "exception.txt", limit=_OUTPUT_LIMIT)
    text = f"{kind}: {plain(message, limit=300)}" if message else kind
    if data is None:
        return (Evidence(kind="file", text=text, ref="result.json"),)
    return (Evidence(kind="file", text=text, ref=f"exception.txt:{data.rstrip().count(10) + 1}"),)


def _exit_code(trial: Path) -> int | None:
    """Return what the agent's program ended with; Harbor writes it down only when it is not 0."""
    text = (read_regular(trial / "agent/exit-code.txt", limit=16) or b"").strip()
    return int(text) if re.fullmatch(rb"-?\d{1,9}", text) else None


def _near_miss(trial: Path) -> tuple[str, ...]:
    if (trial / "verifier/rewards.json").is_file():
        return ("the verifier wrote rewards.json; only reward.json and reward.txt are read",)
    return ()


def ctrf_of(trial: Path) -> tuple[TestResult, ...]:
    """Return the per-test results of verifier/ctrf.json (steps included), in their order."""
    files = [("", trial / "verifier/ctrf.json")]
    files += [
        (f"{entry.name}/", Path(entry.path) / "verifier/ctrf.json")
        for entry in entries(trial / "steps")
        if is_folder(entry)
    ]
    found: list[TestResult] = []
    for prefix, file in files:
        listed = inner(load_object(file), "results", "tests")
        for test in listed[:_TESTS] if isinstance(listed, list) else ():
            if isinstance(test, Mapping):
                ms = test.get("duration")
                found.append(
                    TestResult(
                        name=prefix + word(test.get("name"), "?"),
                        status=word(test.get("status"), "other"),
                        message=word(test.get("message")) or word(test.get("trace")),
                        ms=float(ms) if isinstance(ms, (int, float)) and math.isfinite(ms) else None,
                    )
                )
    return tuple(found)


_PHASES = (
    ("environment_setup", "environment"),
    ("agent_setup", "agent setup"),
    ("agent_execution", "agent"),
    ("verifier", "verifier"),
)


def phases_of(result: object) -> tuple[PhaseSpan, ...]:
    """Return the phases whose times result.json holds, those of its steps included."""
    found = list(_spans(result, ""))
    steps = inner(result, "step_results")
    for step in steps if isinstance(steps, list) else ():
        found += _spans(step, word(inner(step, "step_name"), "step") + " · ")
    return tuple(found)


def _spans(holder: object, prefix: str) -> list[PhaseSpan]:
    found = []
    for key, name in _PHASES:
        started = when(inner(holder, key, "started_at"))
        if started is not None:
            found.append(
                PhaseSpan(
                    name=prefix + name, started=started, finished=when(inner(holder, key, "finished_at"))
                )
            )
    return found


_FOLD = (
    (re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]"), ""),
    (re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b"), "#"),
    (re.compile(r"(?:/[\w.+@-]+){2,}"), "/…"),
    (re.compile(r"\d+(?:\.\d+)?"), "0"),
    (re.compile(r"\s+"), " "),
)
_ERROR = re.compile(r"error|fail|exception|not found|denied|assert|timed? ?out", re.I)


def signature_of(trial: Path, fault: str = "") -> str:
    """Return the last error line with numbers, ids and paths folded, so that alike faults group."""
    data = read_regular(trial / "verifier/test-stdout.txt", limit=16 << 10, offset=-(16 << 10)) or b""
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if _ERROR.search(line[:2000])), "")
    text = (said or fault or (lines[-1] if lines else ""))[:400]
    for pattern, instead in _FOLD:
        text = pattern.sub(instead, text)
    return plain(text.strip(), limit=120)
