"""The agents a rollout can have: `nop`, `oracle`, `human`, `exec:COMMAND`. Each works from outside, over SSH.

An agent returns how it ended; its deadline is the rollout's. Whatever it says is kept in the trial's
`agent/` folder while it runs.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import tarfile
from pathlib import Path

import asyncssh

from . import control
from .errors import HarnessError, UsageError
from .sandbox import Ended
from .task import Task


def check(agent: str) -> None:
    """UsageError unless `agent` is one that this version knows."""
    if agent not in ("nop", "oracle", "human") and not (agent.startswith("exec:") and agent[5:].strip()):
        raise UsageError(f"there is no agent {agent!r}; say nop, oracle, human or exec:COMMAND")


def name_of(agent: str) -> str:
    """Return the agent's name for records: `exec` stands for every command."""
    return agent.partition(":")[0]


def output_file(agent: str) -> str:
    """Return where an agent's output is kept, below the trial's folder."""
    return "agent/oracle.txt" if agent == "oracle" else "agent/exec.txt"


def archive(folder: Path) -> bytes:
    """Return a folder's contents as a tar; everything in it belongs to root."""
    buffer = io.BytesIO()

    def owned(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        return info

    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for entry in sorted(folder.iterdir()):
            tar.add(entry, arcname=entry.name, filter=owned)
    return buffer.getvalue()


async def prepare(agent: str, task: Task, link: control.Link) -> None:
    """Bring into the world what the agent declares to need there, before its phase begins."""
    if agent == "oracle":
        await link.call("upload", archive(task.path / "solution"))


async def run(agent: str, task: Task, trial: Path, runtime: Path) -> Ended:
    """Work until the agent has ended."""
    if agent == "nop":
        return Ended(0, None)
    if agent == "human":  # who says when it is over, by `finish`
        await asyncio.get_running_loop().create_future()
    file = trial / output_file(agent)
    with file.open("wb") as output:
        if agent == "oracle":
            ended = await _oracle(task, output, runtime)
        else:
            ended = await _exec(agent[5:], task, output, trial)
    if ended.code != 0:
        code = ended.code if ended.code is not None else -(ended.signal or 0)
        (trial / "agent" / "exit-code.txt").write_text(f"{code}\n", "ascii")
    return ended


async def _oracle(task: Task, output: io.BufferedWriter, runtime: Path) -> Ended:
    connection = await control.connect(runtime, "agent")
    try:
        process: asyncssh.SSHClientProcess[bytes] = await connection.create_process(
            "chmod +x /solution/solve.sh; exec /solution/solve.sh 2>&1",
            env=dict(task.solution_env) or None,
            encoding=None,
        )
        process.stdin.write_eof()
        while data := await process.stdout.read(1 << 16):
            output.write(data)
            output.flush()
        await process.wait_closed()
        if process.exit_signal:
            return Ended(None, getattr(signal, f"SIG{process.exit_signal[0]}", signal.SIGKILL))
        if process.exit_status is None:
            raise HarnessError("the status of the agent's command was lost")
        return Ended(process.exit_status, None)
    except (asyncssh.Error, OSError) as error:
        raise HarnessError(f"the agent's session broke: {error}") from error
    finally:
        connection.abort()


async def _exec(command: str, task: Task, output: io.BufferedWriter, trial: Path) -> Ended:
    environment = {
        **os.environ,
        "CELL_SSH_CONFIG": str(trial / "cell" / "ssh_config"),
        "CELL_INSTRUCTION": str(task.path / "instruction.md"),
        "CELL_TRIAL": str(trial),
    }
    # it ends with this process, however that ends: a client that went on typing would have no owner
    tether = Path(__file__).with_name("tether.py")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(tether), "/bin/sh", "-c", command),
        stdin=asyncio.subprocess.PIPE,
        stdout=output,
        stderr=output,
        env=environment,
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        code = await process.wait()
    finally:
        process.stdin.close()
        await process.wait()
    return Ended(code, None) if code >= 0 else Ended(None, -code)
