"""An invented job: trial folders of ours in every state, at a moment that never moves.

The pictures and the tests of the cockpit are made from it. Nothing in it ran.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cell import events, records
from cell.records import Cause, CellInfo, Evidence, Process, TestResult, Verdict
from screenshots import invented_egress, invented_world

NOW = 1796075400.0
"""The moment of all pictures: a night in November 2026, in epoch seconds."""

GONE = Process(pid=2**22 - 1, start=1, boot="not-this-boot")


class Cast(NamedTuple):
    """A session: what was printed when (seconds, text), and how it ended (None: it runs)."""

    command: str | None
    output: Sequence[tuple[float, str]]
    exit: int | None = 0
    tty: bool = True
    cols: int = 120
    rows: int = 36
    user: str = "agent"
    phase: records.PhaseName = "agent"


def this_process() -> Process:
    """Return the identity of the process that runs now, so that a cell can be said to live."""
    start = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return Process(pid=os.getpid(), start=start, boot=boot)


def trial(
    job: Path,
    task: str,
    id_: str,
    *,
    agent: str = "claude-code",
    took: float = 120.0,
    ago: float = 0.0,
    verdict: Verdict | None = None,
    serve: Process = GONE,
    phase: records.PhaseName = "finished",
    kept: bool = False,
    finished: bool | None = None,
    sessions: Sequence[Cast] = (),
    happened: Sequence[events.AnyEvent] = (),
    output: str = "",
) -> Path:
    """Write one trial folder; it ended `ago` seconds before NOW and took `took` seconds."""
    path = job / f"{task[:32]}__{id_}"
    for folder in ("cell/sessions", "agent", "verifier", "artifacts"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    end = NOW - ago
    start = end - took
    done = verdict is not None if finished is None else finished
    config = {"task": {"path": f"tasks/{task}"}, "trial_name": path.name, "agent": {"name": agent}}
    (path / "config.json").write_text(json.dumps(config))
    (path / "trial.log").write_text("")
    info = CellInfo(
        version="0.1.0",
        cell=id_,
        task=task,
        task_path=f"tasks/{task}",
        agent=agent,
        substrate="local",
        started=start,
        serve=serve,
        runner=serve,
        phase=phase,
        kept=kept,
        sockets={"operator": f"/run/cell/{id_}/operator.sock"} if serve != GONE else {},
    )
    (path / "cell/cell.json").write_bytes(records.encode(info))
    _events(
        path,
        start=start,
        took=took,
        phase=phase,
        agent=agent,
        sessions=sessions,
        happened=happened,
        done=done,
    )
    for n, session in enumerate(sessions, 1):
        cast(path / f"cell/sessions/{n}.cast", session, n, start)
    if output:
        (path / "verifier/test-stdout.txt").write_text(output)
    if verdict is not None:
        (path / "cell/verdict.json").write_bytes(records.encode(verdict))
    if done:
        result = {
            "task_name": task,
            "trial_name": path.name,
            "agent_info": {"name": agent, "version": "1.0", "model_info": None},
            "verifier_result": {"rewards": verdict.rewards} if verdict and verdict.rewards else None,
            "exception_info": None,
            "started_at": _iso(start),
            "finished_at": _iso(end),
        }
        (path / "result.json").write_text(json.dumps(result))
    for found in sorted(path.rglob("*")):
        os.utime(found, (end, end))
    return path


def _events(
    path: Path,
    *,
    start: float,
    took: float,
    phase: records.PhaseName,
    agent: str,
    sessions: Sequence[Cast],
    happened: Sequence[events.AnyEvent],
    done: bool,
) -> None:
    told: list[tuple[float, events.AnyEvent]] = [
        (0.0, events.CellStarted(cell=path.name[-7:], task=path.name, agent=agent, substrate="local")),
        (0.0, events.PhaseChanged(phase="starting", by="cell")),
        (0.02, events.PhaseChanged(phase="agent", by="runner")),
    ]
    for n, session in enumerate(sessions, 1):
        at = 0.1 + n
        told.append(
            (
                at,
                events.SessionOpened(
                    n=n,
                    principal="agent",
                    phase=session.phase,
                    user=session.user,
                    command=session.command,
                    tty=session.tty,
                    cols=session.cols,
                    rows=session.rows,
                ),
            )
        )
        if session.exit is not None:
            ms = 1000 * max((t for t, _ in session.output), default=0.0)
            ended = events.SessionClosed(n=n, exit=session.exit, signal=None, bytes_in=0, bytes_out=0, ms=ms)
            told.append((at + ms / 1000, ended))
    order: tuple[records.PhaseName, ...] = ("agent", "sealed", "verifier", "finished", "closed")
    reached = order.index(phase) if phase in order else 0
    for step, share in zip(order[1 : reached + 1], (0.8, 0.81, 0.99, 1.0), strict=False):
        told.append((took * share, events.PhaseChanged(phase=step, by="runner")))
    told += [(took * 0.5, event) for event in happened]
    told.sort(key=lambda item: item[0])
    lines = [records.encode(events.Line(seq=n, t=start + t, event=e)) for n, (t, e) in enumerate(told, 1)]
    (path / "cell/events.jsonl").write_bytes(b"".join(one + b"\n" for one in lines))
    assert done or phase != "closed"


def cast(path: Path, session: Cast, n: int = 1, start: float = NOW) -> None:
    """Write an asciicast, with the last event's line whole."""
    header = {
        "version": 2,
        "width": session.cols,
        "height": session.rows,
        "timestamp": int(start),
        "title": session.command,
        "env": {"TERM": "xterm-256color"},
        "cell": {
            "n": n,
            "tty": session.tty,
            "principal": "agent",
            "phase": session.phase,
            "user": session.user,
        },
    }
    lines = [json.dumps(header), *(json.dumps([t, "o", text]) for t, text in session.output)]
    if session.exit is not None:
        lines.append(json.dumps([99.0, "m", f"end exit={session.exit}"]))
    path.write_text("\n".join(lines) + "\n")


def _iso(t: float) -> str:
    return datetime.fromtimestamp(t, UTC).isoformat().replace("+00:00", "Z")


_PROMPT = "\x1b[32magent@app\x1b[0m:\x1b[34m~/flask\x1b[0m$ "
_SHELL = Cast(
    None,
    (
        (0.1, _PROMPT),
        (1.0, "git diff --stat\r\n"),
        (1.1, " src/flask/blueprints.py | 12 \x1b[32m+++++++\x1b[31m-----\x1b[0m\r\n"),
        (1.1, " tests/test_basic.py     |  9 \x1b[32m+++++++++\x1b[0m\r\n"),
        (1.1, " 2 files changed, 16 insertions(+), 5 deletions(-)\r\n" + _PROMPT),
        (4.0, "python -m pytest -q tests/test_basic.py\r\n"),
        (6.0, ".....................................\x1b[31mFF\x1b[0m" + " " * 30 + "[100%]\r\n\r\n"),
        (6.0, "\x1b[31m" + "=" * 30 + " FAILURES " + "=" * 30 + "\x1b[0m\r\n"),
        (6.0, "\x1b[31;1m" + "_" * 24 + " test_login_redirect " + "_" * 25 + "\x1b[0m\r\n\r\n"),
        (6.0, '    def test_login_redirect(client):\r\n\x1b[31m>       assert client.get("/login")'),
        (6.0, ".status_code == 200\r\nE       assert 302 == 200\x1b[0m\r\n\r\n"),
        (6.0, "tests/test_basic.py:\x1b[1m214\x1b[0m: AssertionError\r\n"),
        (6.0, "\x1b[31;1m2 failed\x1b[0m, \x1b[32m38 passed\x1b[0m in 4.71s\r\n" + _PROMPT),
        (9.0, "sed -n 200,220p src/flask/app.py"),
    ),
    exit=None,
)
_LS = Cast("ls -la /app", ((0.01, "total 12\n-rw-r--r-- 1 root root 120 app.py\n"),), tty=False)
_BUILD = Cast(
    "make -C /app test", ((0.4, "cc -O2 -c main.c\n"), (2.1, "make: *** [test] Error 1\n")), 2, tty=False
)


def _passed(*names: str) -> tuple[TestResult, ...]:
    return tuple(TestResult(name=name, status="passed", ms=90.0 + 20 * n) for n, name in enumerate(names))


def _graded(reward: float, *, n: int = 0, failed: int = 0, **values: object) -> Verdict:
    tests = _passed(*(f"test_case_{i:02}" for i in range(n - failed)))
    tests += tuple(TestResult(name=f"test_edge_{i:02}", status="failed", ms=12.0) for i in range(failed))
    return Verdict(verdict="graded", rewards={"reward": reward}, **({"tests": tests} | values))  # type: ignore[arg-type]


_FLASK = Verdict(
    verdict="graded",
    rewards={"reward": 0.0},
    suspect=True,
    tests=(
        TestResult(
            name="test_login_redirect", status="failed", message="AssertionError: 302 != 200", ms=410.0
        ),
        TestResult(
            name="test_static_cache",
            status="failed",
            message="ModuleNotFoundError: No module named 'pytest_httpx'",
            ms=20.0,
        ),
        *_passed("test_blueprint_url", "test_session_cookie", *(f"test_case_{i:02}" for i in range(36))),
    ),
    causes=(
        Cause(
            cause="network",
            certainty="shown",
            summary="the verifier could not install its tools",
            evidence=(
                Evidence(
                    kind="file",
                    text="test.sh: line 23: uv: command not found",
                    ref="verifier/test-stdout.txt:3",
                ),
                Evidence(kind="event", text="the verifier ended with exit status 127", ref="9"),
            ),
        ),
        Cause(
            cause="agent",
            certainty="assumed",
            summary="2 tests failed before the tools were missed",
            evidence=(Evidence(kind="fact", text="test_login_redirect failed by itself"),),
        ),
    ),
)
_FLASK_OUTPUT = (
    "collecting tests\n40 items\n/tests/test.sh: line 23: uv: command not found\n"
    "\x1b[31mFAILED\x1b[0m tests/test_basic.py::test_login_redirect\n2 failed, 38 passed in 4.71s\n"
)


def build(jobs: Path) -> Path:
    """Write the invented job below `jobs` and return its folder."""
    job = jobs / "2026-11-29__22-10"
    job.mkdir(parents=True)
    live = this_process()
    (job / "config.json").write_text(json.dumps({"job_name": job.name}))
    about = {"n_total_trials": 53, "started_at": "2026-11-29T22:10:00", "finished_at": None}
    (job / "result.json").write_text(json.dumps(about))
    trial(job, "django-11099", "k3f9a1c", serve=live, phase="agent", took=252, sessions=(_LS, _BUILD, _SHELL))
    trial(job, "qemu-startup", "b71e0d4", agent="codex", serve=live, phase="verifier", took=467, ago=2)
    trial(
        job,
        "configure-git-web",
        "9ac41f2",
        agent="terminus-2",
        serve=live,
        kept=True,
        took=391,
        ago=48,
        verdict=_graded(1.0, n=4),
    )
    trial(
        job,
        "flask-4045",
        "e02b77a",
        took=700,
        ago=500,
        verdict=_FLASK,
        output=_FLASK_OUTPUT,
        sessions=(_LS, _SHELL._replace(exit=0)),
        happened=(events.Fault(where="network", message="the way out refused wheels.example:443"),),
    )
    agents_doing = Cause(cause="agent", certainty="shown", summary="5 of 36 tests failed")
    trial(
        job,
        "sympy-20590",
        "51d9c30",
        took=552,
        ago=900,
        verdict=_graded(0.0, n=36, failed=5, causes=(agents_doing,)),
    )
    verifiers = Cause(cause="verifier", certainty="proved", summary="a re-grade of the same world passed")
    trial(
        job,
        "sphinx-8721",
        "77c0ab9",
        agent="codex",
        took=175,
        ago=1300,
        verdict=_graded(0.0, n=17, failed=17, suspect=True, causes=(verifiers,)),
    )
    nowhere = Cause(cause="sandbox", certainty="shown", summary="the world could not be made: no space left")
    trial(
        job,
        "fix-permissions",
        "1f4e8d3",
        agent="codex",
        took=9,
        ago=1200,
        verdict=Verdict(verdict="ungraded", fault="sandbox: no space left on device", causes=(nowhere,)),
    )
    trial(job, "hello-world", "c8a25b6", agent="oracle", took=14, ago=1300, verdict=_graded(1.0, n=2))
    trial(job, "build-cython-ext", "0b6d9e1", took=468, ago=1400, verdict=_graded(1.0, n=11))
    typed = Cause(cause="operator", certainty="proved", summary="an operator typed into session 1")
    trial(
        job,
        "chess-best-move",
        "d44f3a8",
        agent="codex",
        took=320,
        ago=1500,
        verdict=_graded(1.0, n=3, touched=True, causes=(typed,)),
        happened=(events.Intervention(principal="operator", what="typed 12 characters", session=1),),
    )
    trial(job, "pytorch-cli", "a0e7712", agent="terminus-2", phase="agent", took=240, ago=10800)
    invented_egress.tell(job)
    invented_world.tell(job)
    return job
