"""What is there on this machine, found by trying: facts for `doctor` to judge.

Nothing is concluded from a version where the thing itself can be tried: a sandbox is started, an
overlay is mounted, a system call is made, an engine is asked.
"""

from __future__ import annotations

import ctypes
import errno
import locale
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cell.terminalprobe import Abilities, ask

# Starts one sandbox with this bubblewrap and takes it down: why it cannot be had, or "" when it can.
Launch = Callable[[str], str]

_OPENAT2: Final = 437  # the same number on every architecture, as all system calls since 5.0
_FSMOUNT: Final = 432
_SO_PEERPIDFD: Final = 77
ABLE: Final = Abilities(answered=True, mouse=True, keyboard=True, true_colour=True)
_SECONDS: Final = 20.0  # for each thing that is tried


@dataclass(frozen=True)
class Facts:
    """What was found. Sizes are bytes; a reason is empty where the thing works."""

    root: bool = True
    bwrap: str = "/usr/bin/bwrap"
    bwrap_version: str = "bubblewrap 0.8.0"
    launch_failure: str = ""
    max_user_namespaces: int | None = 10000
    apparmor_restricts: bool = False
    unprivileged_clone: bool = True
    kernel: str = "6.8"
    pidfd: bool = True
    openat2: bool = True
    fsmount: bool = True
    peer_pidfd: bool = True
    overlay_failure: str = ""
    cgroups: str = "v2"
    cgroups_writable: tuple[str, ...] = ("memory", "pids")
    engine: str = "Docker 20.10.24"
    engine_failure: str = ""
    ssh: str = "OpenSSH_9.2"
    jobs: str = "jobs"
    jobs_failure: str = ""
    space: int = 1 << 40
    terminal: bool = True
    colours: str = "truecolor"
    encoding: str = "utf-8"
    abilities: Abilities = ABLE


def probe(jobs: Path, launch: Launch) -> Facts:
    """Look at this machine. Leaves nothing behind; takes well under a second where all is well."""
    bwrap = shutil.which("bwrap") or ""
    engine, engine_failure = _engine()
    near = _nearest(jobs)
    abilities = ask(0, 1) if sys.stdout.isatty() else Abilities()
    return Facts(
        root=os.geteuid() == 0,
        bwrap=bwrap,
        bwrap_version=_first_line([bwrap, "--version"]) if bwrap else "",
        launch_failure=launch(bwrap) if bwrap else "",
        max_user_namespaces=_number("/proc/sys/user/max_user_namespaces"),
        apparmor_restricts=_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1,
        unprivileged_clone=_number("/proc/sys/kernel/unprivileged_userns_clone") != 0,
        kernel=platform.release(),
        pidfd=_has_pidfd(),
        openat2=_has_call(_OPENAT2),
        fsmount=_has_call(_FSMOUNT),
        peer_pidfd=_has_peer_pidfd(),
        overlay_failure=_try_overlay(near),
        cgroups=_cgroups(),
        cgroups_writable=tuple(name for name in ("memory", "pids") if _can_limit(name)),
        engine=engine,
        engine_failure=engine_failure,
        ssh=_first_line(["ssh", "-V"]) if shutil.which("ssh") else "",
        jobs=str(jobs),
        jobs_failure=_why_not_writable(near),
        space=shutil.disk_usage(near).free,
        terminal=sys.stdout.isatty(),
        colours=_colours(
            os.environ.get("TERM", ""),
            "truecolor" if abilities.true_colour else os.environ.get("COLORTERM", ""),
        ),
        encoding=locale.getpreferredencoding(False),
        abilities=abilities,
    )


def try_launch(bwrap: str) -> str:
    """Start one sandbox with namespaces of its own; see `Launch`."""
    spaces = ("user", "pid", "ipc", "uts", "net")
    unshared = [f"--unshare-{space}" for space in spaces]
    mounts = ["--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--ro-bind", "/sys", "/sys"]
    return _failure([bwrap, *unshared, "--die-with-parent", *mounts, "true"])


def _failure(command: list[str]) -> str:
    """Run a command: the last line of what it complained about, or "" when it succeeded."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return f"no answer in {_SECONDS:.0f} s"
    except OSError as error:
        return str(error)
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if done.returncode == 0 else (said or [f"exit status {done.returncode}"])[-1]


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = (done.stdout or done.stderr).decode("utf-8", "replace").splitlines()
    return lines[0] if lines else ""


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


def _has_pidfd() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


def _has_call(number: int) -> bool:
    """Whether the kernel knows a system call: called with nothing valid, a known one complains otherwise."""
    libc = ctypes.CDLL(None, use_errno=True)
    ctypes.set_errno(0)
    libc.syscall(ctypes.c_long(number), ctypes.c_long(-1), None, None, ctypes.c_long(0))
    return ctypes.get_errno() != errno.ENOSYS


def _has_peer_pidfd() -> bool:
    near, far = socket.socketpair()
    with near, far:
        try:
            os.close(near.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD))
        except OSError:
            return False
    return True


def _try_overlay(beside: Path) -> str:
    """Mount an overlay beside the jobs, in a mount namespace that ends with it: why not, or ""."""
    if os.geteuid() != 0:
        return "not tried: needs root"
    if why := _why_not_writable(beside):
        return f"not tried: {beside}: {why}"
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=beside) as folder:
        for name in ("l", "u", "w", "m"):
            Path(folder, name).mkdir()
        mount = 'cd "$0" && mount -t overlay overlay -o lowerdir=l,upperdir=u,workdir=w m'
        return _failure(["unshare", "--mount", "sh", "-c", mount, folder])


def _cgroups() -> str:
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return "v2"
    return "v1" if Path("/sys/fs/cgroup/memory").is_dir() else ""


def _can_limit(controller: str) -> bool:
    group = Path("/sys/fs/cgroup")
    if _cgroups() != "v2":
        return os.access(group / controller, os.W_OK)
    known = (group / "cgroup.controllers").read_text().split()
    return controller in known and os.access(group, os.W_OK)


def _engine() -> tuple[str, str]:
    """Ask the engine that the environment names: who it is, or why there is none."""
    import docker  # slow to import, and only the doctor asks before it is needed
    from docker.errors import DockerException

    address = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    if address.startswith("unix://"):
        # The docker package leaks its socket where nobody listens (7.2.0), so that is found out here.
        with socket.socket(socket.AF_UNIX) as asked:
            try:
                asked.connect(address.removeprefix("unix://"))
            except OSError as error:
                return "", f"none answers ({_reason(error)})"
    try:
        # With a version named, the constructor asks nothing; the question below is the same in all.
        client = docker.from_env(version="1.41", timeout=5)
    except (DockerException, OSError, ValueError) as error:
        return "", f"none can be asked ({_reason(error)})"
    try:
        answer = client.api.version(api_version=False)
    except (DockerException, OSError, ValueError) as error:
        return "", f"none answers ({_reason(error)})"
    finally:
        client.close()
    return f"Docker {answer.get('Version', '?')} (API {answer.get('ApiVersion', '?')})", ""


def _reason(error: BaseException) -> str:
    """Return the innermost reason, where requests and urllib3 wrap one in another."""
    inner: BaseException | None = error
    while inner:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        inner = inner.__cause__ or inner.__context__
    return str(error)


def _nearest(path: Path) -> Path:
    """Return the folder itself, or the nearest one above it that exists."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def _why_not_writable(folder: Path) -> str:
    if not folder.is_dir():
        return "not a folder"
    return "" if os.access(folder, os.W_OK | os.X_OK) else "cannot be written"


def _colours(term: str, colorterm: str) -> str:
    if colorterm in {"truecolor", "24bit"} or term.endswith("-direct"):
        return "true colour"
    return "256 colours" if "256color" in term else "16 colours" if term not in {"", "dumb"} else ""
