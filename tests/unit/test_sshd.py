from __future__ import annotations

import signal
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from cell import control, gate, journal, sshd
from cell.errors import HarnessError, Refused
from cell.events import GateCall
from cell.grants import Grants
from cell.sandbox import Plan, hold
from cell.workspace import Workspace


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Path]:
    """A real server on real sockets, before a world without walls: none of this needs root."""

    async def status(principal: str, args: dict[str, Any], blob: bytes) -> dict[str, Any]:
        return {"principal": principal, "args": args}

    with journal.Journal(tmp_path / "events.jsonl") as book:
        async with hold(Plan(root=None, hostname="")) as sandbox:
            workspace = Workspace(tmp_path, sandbox, book, {}, (), (), "/", ())
            async with sshd.listen(workspace, tmp_path, {"status": status}, Grants()):
                yield tmp_path


def test_the_principals_are_the_gates() -> None:
    assert sshd.PRINCIPALS == gate.PRINCIPALS


def test_the_signals_that_ssh_can_name_are_those_of_rfc_4254() -> None:
    names = {
        "ABRT",
        "ALRM",
        "FPE",
        "HUP",
        "ILL",
        "INT",
        "KILL",
        "PIPE",
        "QUIT",
        "SEGV",
        "TERM",
        "USR1",
        "USR2",
    }
    assert names == sshd._SSH_SIGNALS
    assert all(hasattr(signal, f"SIG{name}") for name in names)


async def test_keys_and_sockets_are_their_owners_alone(runtime: Path) -> None:
    for principal in sshd.PRINCIPALS:
        for file in (runtime / f"{principal}.key", runtime / f"{principal}.sock"):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_call_is_answered_and_a_refused_one_says_why(runtime: Path) -> None:
    link = await control.Link.open(runtime, "viewer")
    try:
        assert await link.call("status", what="now") == {"principal": "viewer", "args": {"what": "now"}}
        with pytest.raises(Refused):
            await link.call("grade")
        with pytest.raises(Refused, match="not done by this version"):
            await link.call("events")
    finally:
        await link.close()
    told = [line.event for line in journal.read(runtime / "events.jsonl")]
    assert [(e.method, e.allowed) for e in told if isinstance(e, GateCall)] == [
        ("status", True),
        ("grade", False),
        ("events", True),
    ]


async def test_a_key_opens_only_its_own_socket(runtime: Path) -> None:
    (runtime / "operator.key").write_bytes((runtime / "viewer.key").read_bytes())
    with pytest.raises(HarnessError, match="does not answer"):
        await control.connect(runtime, "operator")


@pytest.mark.parametrize(
    ("principal", "channel"),
    [
        ("agent", {"subsystem": "control"}),
        ("viewer", {"subsystem": "other"}),
        ("viewer", {"command": "true"}),
        ("runner", {"command": "true"}),
        ("viewer", {"command": "watch 1"}),
        ("viewer", {"command": "watch no"}),
        ("agent", {"command": "true"}),  # its phase has not begun
    ],
)
async def test_what_a_principal_has_no_door_to_is_refused_in_words(
    runtime: Path, principal: Any, channel: dict[str, str]
) -> None:
    connection = await control.connect(runtime, principal)
    try:
        process: asyncssh.SSHClientProcess[bytes] = await connection.create_process(**channel, encoding=None)
        done = await process.wait()
    finally:
        connection.close()
        await connection.wait_closed()
    assert done.exit_status == 126
    assert isinstance(done.stderr, bytes)
    assert done.stderr.startswith(b"cell: refused: ")


async def test_there_is_no_sftp(runtime: Path) -> None:
    connection = await control.connect(runtime, "agent")
    try:
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.create_process(subsystem="sftp", encoding=None)
    finally:
        connection.close()
        await connection.wait_closed()
