"""The attempts to leave of the invented job: nothing in it ran, and no host in it exists."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from cell import records
from cell.events import Egress, EgressEnd, Line
from cell.records import PhaseName

_PART = 0.318
_LIST = "packages.example, *.mirror.example"


class Try(NamedTuple):
    """One attempt, `at` seconds after the cell began; `over` is its end in ms, None for an open one."""

    at: float
    host: str
    port: int = 443
    method: str = "CONNECT"
    phase: PhaseName = "agent"
    session: int | None = None
    rule: str = ""
    path: str = ""
    command: str = ""
    sent: int = 204
    received: int = 0
    over: float | None = 1.0
    pid: int = 812
    kind: str = "global"


def _denied(at: float, host: str, command: str, **more: object) -> Try:
    return Try(at, host, command=command, **more)  # type: ignore[arg-type]


def _allowed(at: float, host: str, rule: str, command: str, **more: object) -> Try:
    return Try(at, host, rule=rule, command=command, **more)  # type: ignore[arg-type]


_PIP = "/usr/bin/python3 /usr/local/bin/pip install flask pytest"
_GIT = "git clone https://github.example/pallets/flask"
_DJANGO = (
    _allowed(
        2.1,
        "packages.example",
        "packages.example",
        _PIP,
        session=1,
        sent=1210,
        received=4_130_000,
        over=812.0,
    ),
    Try(
        3.0,
        "deb.mirror.example",
        80,
        "GET",
        session=1,
        rule="*.mirror.example",
        path="/debian/dists/stable/InRelease",
        command="/usr/lib/apt/methods/http",
        sent=310,
        received=151_000,
        over=96.0,
    ),
    _denied(7.9, "github.example", _GIT, session=3),
    _denied(8.4, "github.example", _GIT, session=3),
    Try(203.0, "203.0.113.9", 5432, "TCP", command="psql -h 203.0.113.9 app", sent=0, session=3),
    _denied(214.0, "metrics.example", "node /app/node_modules/.bin/next build", session=3),
    _denied(231.5, "github.example", "git fetch origin", session=3),
    _allowed(
        247.0, "packages.example", "packages.example", _PIP, session=3, sent=900, received=88_200, over=131.0
    ),
    _allowed(
        251.0, "files.mirror.example", "*.mirror.example", _PIP, session=3, sent=640, received=0, over=None
    ),
)
_QEMU = (
    _allowed(
        12.0,
        "deb.mirror.example",
        "*.mirror.example",
        "/usr/lib/apt/methods/https",
        sent=2000,
        received=9_800_000,
    ),
    _denied(455.0, "wheels.example", "uv pip install pytest-httpx", phase="verifier"),
)
_FLASK = (
    _allowed(
        20.0,
        "packages.example",
        "packages.example",
        _PIP,
        session=2,
        sent=1400,
        received=2_200_000,
        over=640.0,
    ),
    _denied(30.0, "github.example", _GIT, session=2),
    _denied(680.0, "wheels.example", "uv pip install pytest-httpx", phase="verifier"),
    _denied(680.2, "wheels.example", "uv pip install pytest-httpx", phase="verifier"),
    _denied(680.6, "wheels.example", "uv pip install pytest-httpx", phase="verifier"),
    Try(
        690.0,
        "169.254.169.254",
        80,
        "GET",
        phase="verifier",
        path="/latest/meta-data/",
        command="python3 -m boto",
        kind="link-local",
    ),
)


def tell(job: Path) -> None:
    """Add the attempts to the journals of the job's trials."""
    for name, tries in (("k3f9a1c", _DJANGO), ("b71e0d4", _QEMU), ("e02b77a", _FLASK)):
        (trial,) = job.glob(f"*__{name}")
        info = msgspec.json.decode((trial / "cell/cell.json").read_bytes(), type=records.CellInfo)
        append(trial / "cell/events.jsonl", info.started, tries)


def append(file: Path, start: float, tries: tuple[Try, ...]) -> None:
    """Write attempts to a journal's end; the file keeps its time."""
    kept = file.stat()
    told: list[Line] = []
    for hit, one in enumerate(tries, 1):
        told.append(Line(seq=0, t=start + one.at + _PART, event=_begun(hit, one)))
        if one.over is not None:
            end = EgressEnd(
                hit=hit,
                status=_status(one),
                sent=one.sent,
                received=one.received,
                ms=one.over,
                sni=one.host if one.method == "CONNECT" and one.rule else "",
            )
            told.append(Line(seq=0, t=start + one.at + _PART + one.over / 1000, event=end))
    with file.open("ab") as out:
        out.writelines(records.encode(line) + b"\n" for line in sorted(told, key=lambda line: line.t))
    os.utime(file, ns=(kept.st_atime_ns, kept.st_mtime_ns))


def _status(one: Try) -> int:
    return 0 if one.method == "TCP" else 200 if one.rule else 403


def _begun(hit: int, one: Try) -> Egress:
    table = f"[{one.phase}]"
    if one.rule:
        reason = f"allowed by {one.rule} of {table}"
    elif one.kind != "global":
        reason = f"denied: {one.host} is a {one.kind} address, which no entry opens"
    else:
        reason = f"denied: {one.host} is not in allowed_hosts of {table} ({_LIST})"
    return Egress(
        hit=hit,
        phase=one.phase,
        way="transparent" if one.method == "TCP" else "proxy",
        method=one.method,
        host=one.host,
        port=one.port,
        allowed=bool(one.rule),
        rule=one.rule or ("allowlist" if one.kind == "global" else f"address: {one.kind}"),
        reason=reason,
        path=one.path,
        session=one.session,
        pid=one.pid,
        command=one.command,
        address="203.0.113.80" if one.rule else one.host if one.host[0].isdigit() else "",
        address_class=one.kind if one.rule or one.host[0].isdigit() else "",
        status=_status(one) if not one.rule else 0,
    )
