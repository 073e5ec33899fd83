"""A real cell for a test: a serving process on a composed system root, stock ssh, and the control channel."""

from __future__ import annotations

import asyncio
import io
import json
import os
import secrets
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cell import control, kernel
from cell.errors import CellError
from cell.serve import RUNTIME, PhaseSpec, Spec

SOURCE = Path(__file__).parents[1]
GOOD = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def until(met: Callable[[], Any], *, seconds: float = 10.0) -> Any:
    """Return what `met` gives as soon as that is true; the last answer when the time is over."""
    deadline = time.monotonic() + seconds
    while not (answer := met()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return answer


def phase(user: str) -> PhaseSpec:
    return PhaseSpec(user=user, key="agent.user", network_declared="no-network", network_used="no-network")


class LiveCell:
    """A cell that runs. `stop` ends it and says with which status it exited.

    `within` is a command that runs the serving process: in other namespaces, for example.
    """

    def __init__(self, trial: Path, *, within: Sequence[str] = (), **overrides: Any) -> None:
        _, named, self.id = trial.name.rpartition("__")
        self.id = self.id if named else secrets.token_hex(4)[:7]
        self._pin = -1
        self.trial = trial
        self.runtime = RUNTIME / self.id
        trial.mkdir(parents=True)
        settings: dict[str, Any] = {
            "cell": self.id,
            "task": "t",
            "task_path": "/t",
            "trial": str(trial),
            "agent": "test",
            "image_root": None,
            "image_env": (("PATH", PATH),),
            "env": (),
            "workdir": "/app",
            "agent_phase": phase("root"),
            "verifier_phase": phase("root"),
            "runner": kernel.process(os.getpid()),
        }
        spec = Spec(**{**settings, **overrides})
        self.process = subprocess.Popen(
            [*within, sys.executable, "-m", "cell.service"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=SOURCE,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(msgspec.json.encode(spec))
        self.process.stdin.close()
        said = json.loads(self.process.stdout.readline() or b'{"error": "it said nothing"}')
        if said != {"ready": True}:
            self.stop()
            raise AssertionError(said)
        # while it is open, no other cell's namespace is given the same number
        inside = kernel.processes_in(self.pid_namespace)
        self._pin = os.open(f"/proc/{min(inside)}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    @property
    def config(self) -> str:
        return str(self.trial / "cell/ssh_config")

    @property
    def info(self) -> dict[str, Any]:
        return dict(json.loads((self.trial / "cell/cell.json").read_bytes()))

    @property
    def pid_namespace(self) -> int:
        found = [space for space in self.info["identity"]["namespaces"] if space["kind"] == "pid"]
        assert not found[0]["shared"]
        return int(found[0]["inode"])

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        lines = (self.trial / "cell/events.jsonl").read_text().splitlines()
        found = [json.loads(line)["event"] for line in lines]
        return [event for event in found if kind in (None, event["kind"])]

    def argv(self, command: str | None = None, *, tty: bool = False, principal: str = "agent") -> list[str]:
        line = ["ssh", "-F", self.config, *(("-tt",) if tty else ()), principal]
        return line if command is None else [*line, command]

    def ssh(
        self,
        command: str | None = None,
        *,
        tty: bool = False,
        input: bytes | str | None = None,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as the agent, with the ssh client of this machine."""
        given = input.encode() if isinstance(input, str) else input
        done = self.ssh_bytes(command, tty=tty, input=given, timeout=timeout)
        texts = (done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))
        return subprocess.CompletedProcess(done.args, done.returncode, *texts)

    def ssh_bytes(
        self,
        command: str | None = None,
        *,
        tty: bool = False,
        input: bytes | None = None,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[bytes]:
        source: dict[str, Any] = {"stdin": subprocess.DEVNULL} if input is None else {"input": input}
        return subprocess.run(self.argv(command, tty=tty), capture_output=True, timeout=timeout, **source)

    def inside(self, script: str, *, tty: bool = False, timeout: float = 60) -> str:
        """What a script that must go well prints."""
        done = self.ssh(script, tty=tty, timeout=timeout)
        assert done.returncode == 0, (script, done)
        return done.stdout.replace("\r\n", "\n") if tty else done.stdout

    def call(self, method: str, blob: bytes = b"", *, principal: Any = "runner", **args: Any) -> Any:
        """Ask on the control channel; raises what the cell answers."""

        async def ask() -> Any:
            link = await control.Link.open(self.runtime, principal)
            try:
                return await link.call(method, blob, **args)
            finally:
                await link.close()

        return asyncio.run(ask())

    def begin(self) -> LiveCell:
        self.call("begin")
        return self

    def seal(self) -> Any:
        return self.call("seal", reason="done")

    def grade(
        self, script: str, env: Mapping[str, str] | None = None, timeout: float = 20, **files: bytes
    ) -> dict[str, Any]:
        """Seal if that is still to be done, and verify with this test.sh (and more files of tests/)."""
        if self.info["phase"] == "agent":
            self.seal()
        blob = tests({"test.sh": script.encode(), **files})
        return dict(self.call("grade", blob, env=dict(env or {}), timeout=timeout))

    def left(self) -> list[int]:
        """Return what still lives of a cell that has ended; its namespace's number is free from now on."""
        found = kernel.processes_in(self.pid_namespace)
        if self._pin >= 0:
            os.close(self._pin)
            self._pin = -1
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self._close()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
            raise
        finally:
            self._close()
        return status

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()


def tests(files: Mapping[str, bytes]) -> bytes:
    """A tests folder as the tar that travels to the cell."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o755
            archive.addfile(member, io.BytesIO(data))
    return whole.getvalue()


@pytest.fixture
def make_cell(tmp_path: Path) -> Iterator[Callable[..., LiveCell]]:
    """Start cells; the agent phase has begun unless `begun=False`. All are stopped, and must have exited."""
    made: list[LiveCell] = []

    def make(*, begun: bool = True, **overrides: Any) -> LiveCell:
        for name in ("agent_phase", "verifier_phase"):
            if isinstance(overrides.get(name), str):
                overrides[name] = phase(overrides[name])
        made.append(LiveCell(tmp_path / f"trial{len(made)}__{secrets.token_hex(4)[:7]}", **overrides))
        return made[-1].begin() if begun else made[-1]

    yield make
    failures = []
    for live in made:
        ended = live.process.returncode
        try:
            status = live.stop()
        except (subprocess.TimeoutExpired, CellError) as error:
            failures.append(f"{live.id} did not stop: {error}")
            continue
        if status != 0 and ended is None:
            failures.append(f"{live.id} exited with {status}")
        if (left := live.left()) and ended is None:
            failures.append(f"{live.id} left {left}")
    assert not failures


@pytest.fixture
def cell(make_cell: Callable[..., LiveCell]) -> LiveCell:
    """One cell in its agent phase, all as root."""
    return make_cell()
