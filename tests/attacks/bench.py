"""How an attack is carried out, and how it is shown that the attack is a real one.

An attack is a program of `programs/`, run in a session of the agent. Most are harmless only because
something refuses them; `unhindered` runs the very same program in the same world with all that is
refused to the agent (every capability, no filter), in mounts of its own: what is refused to the one
must work for the other, or nothing was proved.
"""

from __future__ import annotations

import functools
import io
import json
import os
import shlex
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from world import LiveCell

from cell import kernel

PROGRAMS = Path(__file__).parent / "programs"
# the folder is removed before the program runs, so that an attack leaves no file of ours behind
_UNPACK = "d=$(mktemp -d) && tar -xC $d && python3 $d/{name}.py {args}; s=$?; rm -rf $d; exit $s"


@functools.cache
def bundle() -> bytes:
    """The programs as a tar, to be sent to where one is run."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for file in sorted(PROGRAMS.glob("*.py")):
            member = tarfile.TarInfo(file.name)
            member.size = file.stat().st_size
            archive.addfile(member, io.BytesIO(file.read_bytes()))
    return whole.getvalue()


def script(name: str, *args: object) -> str:
    return _UNPACK.format(name=name, args=shlex.join(map(str, args)))


def linger(cell: LiveCell, name: str, *args: object) -> None:
    """Start a program in the background of the agent's world, where it stays when the phase is over."""
    command = f"mkdir -p /opt/bench && tar -xC /opt/bench && (nohup python3 /opt/bench/{name}.py {shlex.join(map(str, args))}"
    assert (
        cell.ssh_bytes(f"{command} </dev/null >/dev/null 2>/opt/bench/errors &)", input=bundle()).returncode
        == 0
    )


def told(done: subprocess.CompletedProcess[bytes]) -> Any:
    assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return json.loads(done.stdout)


def attack(cell: LiveCell, name: str, *args: object, user: str = "") -> Any:
    """What a program tells that is run as the agent (or, by a root agent, as another user)."""
    command = script(name, *args)
    if user:
        command = f"su {user} -s /bin/sh -c {shlex.quote(command)}"
    return told(cell.ssh_bytes(command, input=bundle()))


def init_of(cell: LiveCell) -> int:
    """Pid 1 of the cell, as this machine numbers it."""
    for pid in kernel.processes_in(cell.pid_namespace):
        text = Path(f"/proc/{pid}/status").read_text()
        if text.partition("NSpid:")[2].split("\n")[0].split()[-1] == "1":
            return pid
    raise AssertionError("the cell has no pid 1")


def joined(cell: LiveCell, *command: str, spaces: str = "UmpiunC") -> list[str]:
    """The argv of a command in the cell's namespaces with every capability and no filter."""
    flags = [f"-{letter}" for letter in spaces]
    return ["nsenter", "-t", str(init_of(cell)), *flags, *command]


def unhindered(cell: LiveCell, name: str, *args: object, new: str = "-m") -> Any:
    """What the same program tells with everything that the agent lacks, in `new` namespaces of its own."""
    shell = ["sh", "-c", script(name, *args)]
    return told(
        subprocess.run(
            joined(cell, "unshare", new, *shell),
            input=bundle(),
            capture_output=True,
            timeout=60,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            cwd="/",
        )
    )


def outside(name: str, *args: object) -> Any:
    """What the same program tells when this machine's root runs it outside of every cell."""
    return told(
        subprocess.run(
            ["python3", "-I", str(PROGRAMS / "alone.py"), str(PROGRAMS / f"{name}.py"), *map(str, args)],
            capture_output=True,
            timeout=60,
            env=dict(os.environ),
        )
    )


def conversed(cell: LiveCell, *talks: list[Any]) -> list[dict[str, str]]:
    """What came of each conversation (programs/converse.py), in a row, by one process of the agent's."""
    return list(attack(cell, "converse", json.dumps(talks)))


def answered(talk: dict[str, str]) -> int:
    """The status of the first answer of a conversation; 0 when there was none."""
    return int(talk["got"].split(" ", 2)[1]) if talk["got"].startswith("HTTP/1.") else 0


def to_proxy(*steps: object, port: int = 3128) -> list[Any]:
    return ["127.0.0.1", port, *steps]


def get(host: str = "example.com", path: str = "/", more: str = "Connection: close\r\n") -> str:
    """A request as an origin has it."""
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"


def asking(authority: str, path: str = "/") -> list[Any]:
    """A request through the proxy, and its answer."""
    return to_proxy(
        f"GET http://{authority}{path} HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"
    )


def connecting(authority: str, *steps: object, missing: bool = False) -> list[Any]:
    """A tunnel through the proxy, and a request in it. Its port is 80 unless it is given, or `missing`."""
    bare = authority.rpartition("]")[2]
    if ":" not in bare and not missing:
        authority += ":80"
    head = f"CONNECT {authority} HTTP/1.1\r\nHost: example.com\r\n\r\n"
    return to_proxy(head, {"until": "\r\n\r\n"}, *(steps or (get(),)))


def direct(host: str, port: int, *steps: object) -> list[Any]:
    """A request by no proxy."""
    return [host, port, *(steps or (get(host),))]
