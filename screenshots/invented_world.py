"""What the invented cells are made of, and a recording that is long enough to be sought through."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import msgspec

from cell import records
from cell.records import CellInfo, Ends, Identity, Limit, Namespace, PhaseIdentity

_KINDS = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
_DOCKERS = "00000000a80425fb"


def _phase(person: str, uid: int, caps: str, bounding: str = _DOCKERS) -> PhaseIdentity:
    return PhaseIdentity(
        phase="agent" if uid else "verifier",
        user=person,
        uid=uid,
        gid=uid,
        groups=(27,) if uid else (),
        home=f"/home/{person}" if uid else "/root",
        workdir="/app",
        cap_bounding=bounding,
        cap_effective=caps,
        network_declared="allowlist",
        network_used="allowlist",
    )


def _identity(n: int, *, leak: bool = False) -> Identity:
    return Identity(
        namespaces=tuple(
            Namespace(kind=kind, inode=4026532300 + 10 * n + i, shared=leak and kind == "cgroup")
            for i, kind in enumerate(_KINDS)
        ),
        uid_map=((0, 0, 4294967295),)
        if n % 2
        else ((0, 100000, 1000), (1000, 1000, 1), (1001, 101001, 64535)),
        gid_map=((0, 0, 4294967295),) if n % 2 else ((0, 100000, 65536),),
        seccomp="docker's default profile",
        hostname="app",
        root="image",
        phases=(
            _phase("agent", 1000, "0000000000000000"),
            _phase("root", 0, "00000008a80425fb", "00000008a80425fb"),
        ),
        limits=(
            Limit(name="memory", value="4 GiB", enforced=True),
            Limit(name="pids", value="4096", enforced=True),
            Limit(name="storage", value="10 GiB", enforced=False, why="this file system has no quotas"),
        ),
        ends=Ends(
            listeners=("127.0.0.1:3128", "127.0.0.1:53"),
            transparent=True,
            ipv6=True,
            resolver="nameserver 127.0.0.1",
        ),
        notes=("the cgroup namespace is the machine's: its paths can be read inside",) if leak else (),
    )


def tell(job: Path) -> None:
    """Give every cell its identity, and one of them a longer recording."""
    for n, folder in enumerate(sorted(job.glob("*__*"))):
        file = folder / "cell/cell.json"
        kept = file.stat()
        info = msgspec.json.decode(file.read_bytes(), type=CellInfo)
        leak = folder.name.endswith("51d9c30")
        file.write_bytes(records.encode(msgspec.structs.replace(info, identity=_identity(n, leak=leak))))
        os.utime(file, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    (flask,) = job.glob("*__e02b77a")
    _record(flask / "cell/sessions/2.cast")


def _record(file: Path) -> None:
    """Write a recording anew: commands typed over nine minutes, and what they printed."""
    kept = file.stat()
    header = json.loads(file.read_text().split("\n", 1)[0])
    told: list[list[object]] = [header]
    rolls = random.Random(4045)  # noqa: S311
    prompt = "\x1b[32magent@app\x1b[0m:\x1b[34m~/flask\x1b[0m$ "
    t = 0.1
    told.append([t, "o", prompt])
    for at, command, printed, lines, mark in _TYPED:
        t = at
        if mark:
            told.append([t, "m", mark])
        for char in command:
            t += 0.07
            told.append([round(t, 2), "i", char])
            told.append([round(t, 2), "o", char])
        told.append([round(t + 0.1, 2), "i", "\r"])
        told.append([round(t + 0.1, 2), "o", "\r\n"])
        for n in range(lines):
            t += rolls.uniform(0.05, 0.9)
            told.append([round(t, 2), "o", printed[n % len(printed)] + "\r\n"])
        told.append([round(t + 0.4, 2), "o", prompt])
    told.append([548.0, "m", "end exit=0"])
    file.write_text("".join(json.dumps(one) + "\n" for one in told))
    os.utime(file, ns=(kept.st_atime_ns, kept.st_mtime_ns))


_GIT = ("4f1c2a9 Redirect after login", "b07d6e1 Cache static files", "91aa3c0 Blueprints nest")
_PIP = ("Collecting flask", "Collecting werkzeug>=3.0", "Installing collected packages: werkzeug, flask")
_CLONE = (
    "Cloning into 'flask'...",
    "\x1b[31mfatal: unable to access: CONNECT tunnel failed, response 403\x1b[0m",
)
_LS = ("-rw-r--r-- 1 agent agent  4096 app.py", "-rw-r--r-- 1 agent agent 21042 blueprints.py")
_TESTS = (
    "tests/test_basic.py::test_session_cookie \x1b[32mPASSED\x1b[0m",
    "tests/test_basic.py::test_blueprint_url \x1b[32mPASSED\x1b[0m",
    "tests/test_basic.py::test_login_redirect \x1b[31mFAILED\x1b[0m",
    "tests/test_basic.py::test_static_cache \x1b[33mXFAIL\x1b[0m",
)
_CODE = (
    "    def create_url_adapter(self, request):",
    "        if request is not None:",
    "            subdomain = None",
)
_CLEAN = ("On branch main", "nothing to commit, working tree clean")
_TYPED: tuple[tuple[float, str, tuple[str, ...], int, str], ...] = (
    (4.0, "git log --oneline | head", _GIT, 6, ""),
    (16.0, "pip install flask pytest", _PIP, 14, ""),
    (24.5, "git clone https://github.example/pallets/flask", _CLONE, 2, ""),
    (60.0, "ls -la src/flask", _LS, 9, ""),
    (95.0, "python -m pytest -v tests", _TESTS, 60, ""),
    (210.0, "sed -n 200,220p src/flask/app.py", _CODE, 20, ""),
    (300.0, "git status", _CLEAN, 2, "typed by operator"),
    (330.0, "git diff", _CODE, 40, "typed by agent"),
    (430.0, "python -m pytest -v tests", _TESTS, 70, ""),
    (520.0, "exit", ("logout",), 1, ""),
)
