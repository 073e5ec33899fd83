"""What a serving process is told, and what it tells of its cell: values, and the text of a file."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any, Literal

from . import __version__, kernel
from .egress.allotment import MOST
from .errors import HarnessError, TaskError
from .identity import Person
from .policy import Policy, resolved
from .policy.peers import Peer
from .records import CellInfo, Ends, Identity, Limit, PhaseIdentity, Process, Record
from .sandbox import Sandbox


class PhaseSpec(Record, frozen=True, kw_only=True):
    """What a phase was declared to be. `key` names where its user was declared, for errors.

    `network_used` and `allowed_hosts` are its policy, `network_key` the key of the task that decided it.
    """

    user: str
    key: str
    network_declared: str
    network_used: str
    allowed_hosts: tuple[str, ...] = ()
    network_key: str = "environment.network_mode"


class Spec(Record, frozen=True, kw_only=True):
    """All that a serving process must know. Travels on stdin: it may hold secrets.

    `image_root` is the exported file system of an image; None composes a system root. `unowned_sec`
    is how long the cell lives when no runner drives it. `pins` are addresses that the operator gave for
    names; `proxy_only` leaves out the transparent way, `tls_only` admits
    nothing but TLS on port 443. `egress_bytes` is what the record of each role's attempts may be.
    """

    cell: str
    task: str
    task_path: str
    trial: str
    agent: str
    image_root: str | None
    image_env: tuple[tuple[str, str], ...]
    env: tuple[tuple[str, str], ...]
    workdir: str
    agent_phase: PhaseSpec
    verifier_phase: PhaseSpec
    runner: Process | None
    sandboxed: bool = True
    limits: tuple[Limit, ...] = ()
    warnings: tuple[str, ...] = ()
    unowned_sec: float = 3600.0
    peers: tuple[Peer, ...] = ()
    proxy_only: bool = False
    tls_only: bool = False
    pins: tuple[tuple[str, str], ...] = ()
    egress_bytes: int = MOST


def policies(spec: Spec) -> dict[Literal["agent", "verifier"], Policy]:
    """Return what each phase may reach. Raises TaskError for what is not understood."""
    return {
        "agent": _policy(spec.agent_phase),
        "verifier": _policy(spec.verifier_phase),
    }


_ALL_IDS = 65536  # what an image's files may be owned by


def _policy(phase: PhaseSpec) -> Policy:
    entries = phase.allowed_hosts if phase.network_used == "allowlist" else ()
    try:
        return resolved(phase.network_used, entries, phase.network_key)
    except ValueError as error:
        raise TaskError("", phase.network_key, str(error)) from None


def info(
    spec: Spec,
    sandbox: Sandbox,
    people: dict[Any, Person],
    paths: dict[str, str],
    *,
    hostname: str,
    ends: Ends | None = None,
) -> CellInfo:
    """Return a cell's identity record, as it was found when the sandbox stood."""
    me = kernel.process(os.getpid())
    if me is None:
        raise HarnessError("/proc does not know the serving process")
    uid_map, gid_map = sandbox.id_maps()
    identities = []
    for phase, declared in (("agent", spec.agent_phase), ("verifier", spec.verifier_phase)):
        person = people[phase]
        who = person.who if phase == "agent" else person.who.walled
        identities.append(
            PhaseIdentity(
                phase=phase,  # type: ignore[arg-type]
                user=person.name,
                uid=who.uid,
                gid=who.gid,
                groups=who.groups,
                home=person.home,
                workdir=person.workdir,
                cap_bounding=f"{who.bounding:016x}",
                cap_effective=f"{who.bounding if who.uid == 0 else who.ambient:016x}",
                network_declared=declared.network_declared,
                network_used=declared.network_used,
            )
        )
    notes = []
    full = sandbox.full_id_map and all(sum(n for _, _, n in ids) >= _ALL_IDS for ids in (uid_map, gid_map))
    if not sandbox.full_id_map:
        notes.append("the kernel refused the full id map: only the own id is mapped")
    elif not full:
        notes.append("this machine has only a few ids itself: the files of all others are nobody's")
    if ends is not None and ends.refused:
        notes.append(f"not all of the ways out could be had: {'; '.join(ends.refused)}")
    if not spec.sandboxed:
        notes.append("UNSANDBOXED: this is the machine itself, by the caller's word")
    return CellInfo(
        version=__version__,
        cell=spec.cell,
        task=spec.task,
        task_path=spec.task_path,
        agent=spec.agent,
        substrate="local",
        started=time.time(),
        serve=me,
        runner=spec.runner,
        sockets=paths,
        identity=Identity(
            namespaces=sandbox.namespaces(),
            uid_map=uid_map,
            gid_map=gid_map,
            full_id_map=full,
            seccomp="docker's default profile",
            hostname=hostname,
            root="image" if spec.image_root else ("system" if spec.sandboxed else "none"),
            sandboxed=spec.sandboxed,
            phases=tuple(identities),
            limits=spec.limits,
            notes=tuple(notes),
            ends=ends or Ends(),
        ),
        warnings=spec.warnings,
    )


def ssh_config(cell: str, runtime: Path) -> str:
    """Return the SSH configuration for agents and people, whose keys are in `runtime`."""
    connect = Path(__file__).with_name("connect.py")
    hosts = []
    for principal in ("agent", "viewer", "operator"):
        hosts.append(
            f"Host {principal}\n"
            f"  HostName cell\n"
            f"  User {principal}\n"
            f'  IdentityFile "{runtime}/{principal}.key"\n'
            f"  IdentitiesOnly yes\n"
            f'  ProxyCommand "{sys.executable}" -I -S "{connect}" "{runtime}/{principal}.sock"\n'
        )
    common = (
        "Host *\n"
        f'  UserKnownHostsFile "{runtime}/known_hosts"\n'
        "  GlobalKnownHostsFile none\n"
        "  StrictHostKeyChecking yes\n"
        "  Ciphers aes128-gcm@openssh.com\n"
        "  PasswordAuthentication no\n"
        "  ForwardAgent no\n"
        "  ForwardX11 no\n"
        "  LogLevel ERROR\n"
    )
    head = f"# How to enter the cell {cell} while it lives: ssh -F THIS_FILE agent\n\n"
    return head + "\n".join([*hosts, common])
