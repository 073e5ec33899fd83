"""What this machine can do: `cell doctor`.

`machine` looks; this decides what it means (`judge`, without touching anything) and says it, each
line with its remedy, and one sentence at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cell.child import StartFailed, Who
from cell.errors import CellError, HarnessError
from cell.machine import Facts, Launch, probe, try_launch
from cell.plain import plain
from cell.sandbox import Plan, hold

# Said in words in the last sentence, so the names are written once.
ROOT: Final = "root"
BWRAP: Final = "bubblewrap"
NAMESPACES: Final = "namespaces"
LAUNCH: Final = "sandbox"
KERNEL: Final = "kernel"
OVERLAY: Final = "overlay"
LIMITS: Final = "limits"
ENGINE: Final = "engine"
SSH: Final = "ssh client"
JOBS: Final = "jobs folder"
TERMINAL: Final = "terminal"

REQUIRED: Final = (ROOT, BWRAP, NAMESPACES, LAUNCH, KERNEL, OVERLAY, JOBS)
_SECONDS: Final = 30.0  # for one sandbox; it takes milliseconds
SPACE_NEEDED: Final = 200 << 20  # bytes: below this a trial can hardly be recorded
SPACE_WANTED: Final = 2 << 30  # bytes: an image's filesystem and some overlays


@dataclass(frozen=True)
class Check:
    """One line. `ok` None: cells run, but something they could have is not there."""

    name: str
    ok: bool | None
    found: str
    remedy: str = ""


def judge(facts: Facts) -> tuple[Check, ...]:
    """Return what the facts mean, in the order in which a person would mend them."""
    return (
        _root(facts),
        Check(BWRAP, True, f"{facts.bwrap_version} at {facts.bwrap}")
        if facts.bwrap
        else Check(BWRAP, False, "not installed", "apt-get install bubblewrap"),
        _namespaces(facts),
        _launch(facts),
        _kernel(facts),
        _overlay(facts),
        _limits(facts),
        Check(ENGINE, True, facts.engine)
        if facts.engine
        else Check(
            ENGINE,
            None,
            facts.engine_failure or "none",
            "for tasks with an image: apt-get install docker.io, and start it; tasks without one need none",
        ),
        Check(SSH, True, facts.ssh)
        if facts.ssh
        else Check(SSH, None, "not installed", "for `ssh -F`: apt-get install openssh-client"),
        _jobs(facts),
        _terminal(facts),
    )


def _root(facts: Facts) -> Check:
    if facts.root:
        return Check(ROOT, True, "root")
    instead = "what works without: cell plan, cell ls, and hudtui on trial folders"
    return Check(ROOT, False, "not root", f"run with sudo; {instead}")


def _namespaces(facts: Facts) -> Check:
    if facts.max_user_namespaces == 0:
        return Check(
            NAMESPACES, False, "user namespaces are switched off", "sysctl -w user.max_user_namespaces=10000"
        )
    if facts.max_user_namespaces is None:
        return Check(
            NAMESPACES, False, "this kernel has no user namespaces", "a kernel with CONFIG_USER_NS=y"
        )
    only = [
        name
        for name, set_so in (
            ("kernel.apparmor_restrict_unprivileged_userns=1", facts.apparmor_restricts),
            ("kernel.unprivileged_userns_clone=0", not facts.unprivileged_clone),
        )
        if set_so
    ]
    allowed = f"at most {facts.max_user_namespaces}" + (f"; root only ({', '.join(only)})" if only else "")
    return Check(NAMESPACES, True, allowed)


def _launch(facts: Facts) -> Check:
    if not facts.bwrap:
        return Check(LAUNCH, False, "not tried", f"first: {BWRAP}")
    if not facts.launch_failure:
        return Check(LAUNCH, True, "one was started with the options of a session")
    if not facts.root and (facts.apparmor_restricts or not facts.unprivileged_clone):
        remedy = "this machine lets only root make namespaces: run with sudo"
    else:
        remedy = "in a container: it must be allowed to make namespaces and mount proc; else see the reason"
    return Check(LAUNCH, False, facts.launch_failure, remedy)


def _kernel(facts: Facts) -> Check:
    needed = (
        ("pidfd", "5.3", facts.pidfd),
        ("openat2", "5.6", facts.openat2),
        ("fsmount", "5.2", facts.fsmount),
    )
    lacks = [f"{name} (Linux {since})" for name, since, there in needed if not there]
    if lacks:
        return Check(KERNEL, False, f"Linux {facts.kernel} has no {', '.join(lacks)}", "Linux 5.6 or newer")
    if not facts.peer_pidfd:
        found = f"Linux {facts.kernel}, without SO_PEERPIDFD: callers are told apart by pid and start time"
        return Check(KERNEL, None, found, "Linux 6.5 or newer")
    return Check(KERNEL, True, f"Linux {facts.kernel}: pidfd, openat2, fsmount, SO_PEERPIDFD")


def _overlay(facts: Facts) -> Check:
    if not facts.overlay_failure:
        return Check(OVERLAY, True, "overlays can be mounted beside the jobs folder")
    if not facts.root:
        return Check(OVERLAY, None, facts.overlay_failure)
    remedy = "modprobe overlay, or --jobs-dir on a filesystem that can hold one (ext4, xfs, tmpfs)"
    return Check(OVERLAY, False, facts.overlay_failure, remedy)


def _limits(facts: Facts) -> Check:
    missing = [name for name in ("memory", "pids") if name not in facts.cgroups_writable]
    if not missing:
        return Check(LIMITS, True, f"cgroups {facts.cgroups}: memory and pids can be limited")
    found = f"cgroups {facts.cgroups or 'absent'}: {' and '.join(missing)} not enforced"
    return Check(
        LIMITS, None, found, "as root on the host, /sys/fs/cgroup mounted writable; a cell says what it lacks"
    )


def _jobs(facts: Facts) -> Check:
    if facts.jobs_failure:
        return Check(
            JOBS, False, f"{facts.jobs}: {facts.jobs_failure}", "--jobs-dir DIR that you may write to"
        )
    free = f"{facts.jobs}: {size(facts.space)} free"
    if facts.space < SPACE_NEEDED:
        return Check(JOBS, False, free, f"at least {size(SPACE_NEEDED)}, or another --jobs-dir")
    if facts.space < SPACE_WANTED:
        return Check(JOBS, None, free, f"{size(SPACE_WANTED)} leave room for images and what agents write")
    return Check(JOBS, True, free)


def _terminal(facts: Facts) -> Check:
    if not facts.terminal:
        return Check(TERMINAL, None, "none here", "the cockpit needs one; commands do not")
    if facts.encoding.lower().replace("-", "") != "utf8":
        return Check(TERMINAL, None, f"encoding {facts.encoding}", "export LC_ALL=C.UTF-8")
    if not facts.colours:
        return Check(TERMINAL, None, "no colours", "export TERM=xterm-256color, if the terminal has them")
    found = f"{facts.colours}, {facts.encoding.lower()}"
    able = facts.abilities
    if not able.answered:
        return Check(
            TERMINAL, None, f"{found}; it does not say what it can do", "all is reached by plain keys"
        )
    if not able.mouse:
        return Check(TERMINAL, None, f"{found}, no mouse", "all is reached by keys")
    keys = (
        "keyboard protocol: every key is told apart"
        if able.keyboard
        else "no keyboard protocol: ctrl+i is tab, ctrl+m is enter"
    )
    return Check(TERMINAL, True, f"{found}, mouse, {keys}")


def ready(checks: Sequence[Check]) -> bool:
    """Whether a cell can be made on this machine."""
    return all(check.ok is not False for check in checks if check.name in REQUIRED)


def summary(checks: Sequence[Check]) -> str:
    """Return the one sentence that sums it up."""
    wrong = [check.name for check in checks if check.ok is False and check.name in REQUIRED]
    if wrong:
        what = " and ".join([", ".join(wrong[:-1]), wrong[-1]] if len(wrong) > 1 else wrong)
        return f"No cell can be made here yet: first mend {what}."
    if any(check.name == ENGINE and check.ok for check in checks):
        return "This machine runs cells, for tasks with an image and for tasks without one."
    return "This machine runs cells for tasks without an image; those with one need an engine."


def render(checks: Sequence[Check]) -> str:
    """Return the checks as lines of text, each with its remedy below it, and the sentence."""
    marks = {True: "✓", False: "×", None: "▲"}
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{marks[check.ok]} {check.name:<{width}}  {plain(check.found)}")
        if check.remedy:
            lines.append(f"  {'':<{width}}  → {check.remedy}")
    return "\n".join([*lines, "", summary(checks)])


def as_json(checks: Sequence[Check]) -> dict[str, Any]:
    """Return the same as a JSON object; `ok` is true, false, or null for "without it"."""
    rows = [{"name": c.name, "ok": c.ok, "found": c.found, "remedy": c.remedy} for c in checks]
    return {"ready": ready(checks), "summary": summary(checks), "checks": rows}


def size(count: int) -> str:
    """Return a number of bytes for people, as `1.5 GB`."""
    for unit, factor in (("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}".replace(".0 ", " ")
    return f"{count >> 10} kB"


def launch_session(bwrap: str) -> str:
    """Hold a sandbox as a cell does and run one command in it; see `Launch`.

    The root is this machine's own, and nothing is written to it. Without root no cell is held, so then
    it is tried with bubblewrap alone.
    """
    if os.geteuid() != 0:
        return try_launch(bwrap)
    try:
        asyncio.run(_one_session())
    except (CellError, StartFailed, OSError, TimeoutError) as error:
        return str(error) or type(error).__name__
    return ""


async def _one_session() -> None:
    # a flag of the machine's own root that no sandbox may take away
    set_id = () if os.statvfs("/").f_flag & os.ST_NOSUID else ("/",)
    plan = Plan("/", "doctor", suid_mounts=set_id)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        async with asyncio.timeout(_SECONDS), hold(plan) as sandbox:
            commands = [[path] for path in ("/bin/true", "/usr/bin/true")]
            who = Who(0, 0, (0,))
            child = sandbox.spawn(commands, who=who, env={}, cwd="/", stdio=(null, null, null))
            ended = await child.ended
    finally:
        os.close(null)
    if ended.code != 0:
        raise HarnessError(f"a command in it ended with {ended.code or ended.signal_name}")


def checks(jobs: Path, *, launch: Launch = launch_session) -> tuple[Check, ...]:
    """Look at this machine and judge it. `jobs` is where trial folders would go; it need not exist.

    `launch` starts one sandbox as a session would and takes it down; it returns why it cannot, or "".
    """
    return judge(probe(jobs, launch))


def main_doctor(args: argparse.Namespace, *, launch: Launch = launch_session) -> int:
    """Run `cell doctor`. `args` may have `jobs_dir` (a path) and `json` (a flag).

    Returns the exit status: 0 when a cell can be made here, else 2.
    """
    found = checks(Path(getattr(args, "jobs_dir", None) or "jobs"), launch=launch)
    text = json.dumps(as_json(found), ensure_ascii=False) if getattr(args, "json", False) else render(found)
    sys.stdout.write(text + "\n")
    return 0 if ready(found) else 2
