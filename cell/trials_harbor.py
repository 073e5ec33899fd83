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

from cell.plain import plain
from cell.records import Cause, CauseName, Certainty, Evidence, Record, TestResult, Verdict
from cell.trials_files import entries, inner, is_folder, load_object, read_regular, when, word

# exception → cause, certainty. What is not here says nothing about whose fault it was.
_EXCEPTIONS: dict[str, tuple[CauseName, Certainty]] = {
    "AgentTimeoutError": ("agent", "shown"),
    "RewardFileNotFoundError": ("verifier", "shown"),
    "RewardFileEmptyError": ("verifier", "shown"),
    "VerifierOutputParseError": ("verifier", "shown"),
    "VerifierTimeoutError": ("verifier", "shown"),
    "AddTestsDirError": ("harness", "assumed"),
    "DownloadVerifierDirError": ("harness", "assumed"),
    "EnvironmentStartTimeoutError": ("sandbox", "shown"),
    "EnvironmentBuildTimeoutError": ("sandbox", "shown"),
    "AgentSetupTimeoutError": ("harness", "assumed"),
    "CancelledError": ("operator", "assumed"),
}

# Lines of a verifier's output that name their cause. The first one that matches is shown.
_OUTPUT: tuple[tuple[re.Pattern[bytes], CauseName, str], ...] = (
    (
        re.compile(
            rb"could not resolve host|temporary failure in name resolution|network is unreachable", re.I
        ),
        "network",
        "the verifier could not reach the network",
    ),
    (
        re.compile(rb": command not found|: not found$"),
        "verifier",
        "a tool that the verifier runs is missing",
    ),
    (
        re.compile(rb"no space left on device|cannot allocate memory", re.I),
        "sandbox",
        "the machine ran out of something",
    ),
)

_OUTPUT_LIMIT = 256 << 10
_TESTS = 20_000


class PhaseSpan(Record):
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
    """Conclude a verdict from a finished Harbor trial."""
    rewards = rewards_of(result)
    kind = word(inner(result, "exception_info", "exception_type"))
    message = word(inner(result, "exception_info", "exception_message"))
    tests = tests_of(trial)
    draft = Verdict(
        verdict="graded" if rewards else "ungraded",
        rewards=rewards,
        fault="" if rewards else (f"{kind}: {message}" if kind else "no reward was recorded"),
        tests=tests,
    )
    if draft.clean and not kind:
        return draft
    causes = _causes(trial, result, kind, message, tests)
    return Verdict(
        verdict=draft.verdict,
        rewards=rewards,
        fault=draft.fault,
        tests=tests,
        causes=causes,
        notes=_near_miss(trial),
    )


def _causes(
    trial: Path, result: Mapping[str, Any], kind: str, message: str, tests: tuple[TestResult, ...]
) -> tuple[Cause, ...]:
    found: list[Cause] = []
    evidence = _exception_evidence(trial, kind, message)
    said = _output_cause(trial)
    if kind in _EXCEPTIONS:
        cause, certainty = _EXCEPTIONS[kind]
        summary = _SUMMARIES.get(kind, f"{kind} ended the trial")
        if said and said.cause == cause:
            summary, evidence = f"{summary}: {said.summary}", (*evidence, *said.evidence)
            said = None
        found.append(Cause(cause=cause, certainty=certainty, summary=summary, evidence=evidence))
    elif kind:
        found.append(
            Cause(cause="unknown", certainty="assumed", summary=f"{kind} ended the trial", evidence=evidence)
        )
    if said:
        found.append(said)
    if code := _exit_code(trial):
        found.append(code)
    if not found:
        failed = sum(test.status not in ("passed", "skipped") for test in tests)
        facts = (
            Evidence(kind="file", text=f"{failed} of {len(tests)} tests failed", ref="verifier/ctrf.json"),
        )
        found.append(
            Cause(
                cause="unknown",
                certainty="assumed",
                summary="the tests failed, and nothing recorded says whose doing it was",
                evidence=facts if tests else (),
            )
        )
    return tuple(found)


_SUMMARIES = {
    "AgentTimeoutError": "the agent ran out of its time",
    "RewardFileNotFoundError": "the verifier wrote no reward",
    "RewardFileEmptyError": "the verifier wrote an empty reward",
    "VerifierOutputParseError": "the verifier's reward is not a number",
    "VerifierTimeoutError": "the verifier ran out of its time",
    "AddTestsDirError": "the tests could not be brought in",
    "DownloadVerifierDirError": "the verifier's files could not be fetched",
    "CancelledError": "the run was cancelled",
}


def _exception_evidence(trial: Path, kind: str, message: str) -> tuple[Evidence, ...]:
    if not kind:
        return ()
    data = read_regular(trial / "exception.txt", limit=_OUTPUT_LIMIT)
    text = f"{kind}: {plain(message, limit=300)}" if message else kind
    if data is None:
        return (Evidence(kind="file", text=text, ref="result.json"),)
    return (Evidence(kind="file", text=text, ref=f"exception.txt:{data.rstrip().count(10) + 1}"),)


def _output_cause(trial: Path) -> Cause | None:
    data = read_regular(trial / "verifier/test-stdout.txt", limit=_OUTPUT_LIMIT)
    for number, line in enumerate((data or b"").split(b"\n"), 1):
        for pattern, cause, summary in _OUTPUT:
            if pattern.search(line[:2000]):
                seen = Evidence(
                    kind="file", text=plain(line, limit=200), ref=f"verifier/test-stdout.txt:{number}"
                )
                return Cause(cause=cause, certainty="shown", summary=summary, evidence=(seen,))
    return None


def _exit_code(trial: Path) -> Cause | None:
    data = read_regular(trial / "agent/exit-code.txt", limit=64)
    if data is None or not (text := plain(data.strip(), limit=20)):
        return None
    seen = Evidence(kind="file", text=f"the agent's program ended with {text}", ref="agent/exit-code.txt")
    if text.startswith("-"):
        return Cause(
            cause="unknown",
            certainty="assumed",
            summary="something killed the agent's program",
            evidence=(seen,),
        )
    return Cause(cause="agent", certainty="assumed", summary="the agent's program failed", evidence=(seen,))


def _near_miss(trial: Path) -> tuple[str, ...]:
    if (trial / "verifier/rewards.json").is_file():
        return ("the verifier wrote rewards.json; only reward.json and reward.txt are read",)
    return ()


def tests_of(trial: Path) -> tuple[TestResult, ...]:
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
