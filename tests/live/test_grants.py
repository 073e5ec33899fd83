"""Access handed on: narrowed, with an end, revocable, and pasted by a colleague as it is printed (G3)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from world import SOURCE

from cell import control
from cell.errors import HarnessError, Refused

from .conftest import LiveCell, until

pytestmark = pytest.mark.live


class Colleague:
    """One who has only what `cell grant` printed, pasted into a shell of a home of their own."""

    def __init__(self, cell: LiveCell, home: Path, *options: str) -> None:
        self.cell, self.home = cell, home
        home.mkdir()
        printed = cell_command("grant", cell.trial, *options)
        assert printed.returncode == 0, printed
        # This machine is not entered by ssh: what `ssh HOST` would run is run here.
        text = printed.stdout.replace("ProxyCommand ssh here cell", f"ProxyCommand {sys.executable} -m cell")
        assert text != printed.stdout
        pasted = subprocess.run(
            ["sh", "-e"],
            input=text,
            capture_output=True,
            text=True,
            env={"HOME": str(home), "PATH": os.environ["PATH"]},
        )
        assert pasted.returncode == 0, pasted
        self.told = pasted.stdout
        (self.config,) = home.glob(".config/cell/*/ssh_config")
        assert (self.config.parent / "key").stat().st_mode & 0o777 == 0o600

    def argv(self, *words: str) -> list[str]:
        return ["ssh", "-F", str(self.config), "-o", "BatchMode=yes", self.cell.id, *words]

    def ssh(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd=SOURCE,
            timeout=30,
        )


def cell_command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cell", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=SOURCE,
        timeout=30,
    )


def running(cell: LiveCell, count: int = 2) -> list[subprocess.Popen[bytes]]:
    made: list[subprocess.Popen[bytes]] = []
    for n in range(1, count + 1):
        line = cell.argv(f"echo this is {n}; cat", tty=True)
        made.append(subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
        assert until(lambda n=n: len(cell.events("session")) == n)
    return made


def ended(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.kill()
        process.communicate()


def test_g3_what_a_colleague_pastes_lets_them_watch_and_no_more(cell: LiveCell, tmp_path: Path) -> None:
    sessions = running(cell)
    try:
        ann = Colleague(
            cell,
            tmp_path / "h",
            "--as",
            "viewer",
            "--for",
            "1h",
            "--sessions",
            "2",
            "--who",
            "ann",
            "--host",
            "here",
        )
        assert "watch 2" in ann.told
        watching = subprocess.Popen(
            ann.argv("watch 2"), stdout=subprocess.PIPE, cwd=SOURCE, stdin=subprocess.DEVNULL
        )
        assert watching.stdout
        assert watching.stdout.readline() == b"this is 2\r\n"
        for words, reason in (
            ("watch 1", "other sessions (2)"),
            ("attach 2", "viewer may not attach"),
            ("id", "viewer opens no sessions"),
        ):
            done = ann.ssh(words)
            assert (done.returncode, done.stdout) == (126, ""), done
            assert reason in done.stderr, done
        calls = [(e["holder"], e["method"], e["allowed"]) for e in cell.events("gate") if e["holder"]]
        assert calls == [("ann", "watch", True), ("ann", "watch", False), ("ann", "attach", False)]
        listed = cell_command("grant", cell.trial, "--list")
        assert "ann" in listed.stdout and "1 open" in listed.stdout, listed
        revoked = cell_command("grant", cell.trial, "--revoke", "ann")
        assert revoked.returncode == 0, revoked
        assert watching.wait(15) == 255, "what they had open is cut"
        watching.stdout.close()
        late = ann.ssh("watch 2")
        assert (late.returncode, "Permission denied" in late.stderr) == (255, True), late
        assert cell_command("grant", cell.trial, "--revoke", "ann").returncode == 2
    finally:
        ended(sessions)


def test_g3_a_granted_operator_drives_under_their_own_name_and_grants_nothing(
    cell: LiveCell, tmp_path: Path
) -> None:
    sessions = running(cell, 1)
    try:
        bob = Colleague(
            cell, tmp_path / "h", "--as", "operator", "--for", "1h", "--who", "bob", "--host", "here"
        )
        done = subprocess.run(
            bob.argv("attach 1 --who ann"), input=b"hello\n", capture_output=True, cwd=SOURCE, timeout=30
        )
        assert done.returncode == 0, done
        assert [e["holder"] for e in cell.events("lease")] == ["bob", ""], "nobody else's name"
        assert bob.ssh("id -un").stdout == "root\n"
    finally:
        ended(sessions)


async def call(cell: LiveCell, key: str, principal_: Any, method: str, **args: Any) -> Any:
    (cell.runtime / "granted").mkdir(exist_ok=True)
    runtime = cell.runtime / "granted"
    for name in ("known_hosts", f"{principal_}.sock"):
        if not (runtime / name).exists():
            (runtime / name).symlink_to(cell.runtime / name)
    (runtime / f"{principal_}.key").write_text(key)
    (runtime / f"{principal_}.key").chmod(0o600)
    link = await control.Link.open(runtime, principal_)
    try:
        return await link.call(method, **args)
    finally:
        await link.close()


async def test_g3_a_grant_expires_and_is_never_widened(make_cell: Any) -> None:
    cell: LiveCell = await asyncio.to_thread(make_cell)
    link = await control.Link.open(cell.runtime, "operator")
    try:
        given = await link.call("grant", principal="operator", for_sec=3600, who="eve")
        assert (await call(cell, given["key"], "operator", "status"))["phase"] == "agent"
        for method in ("grant", "revoke"):
            with pytest.raises(Refused, match="not handed on"):
                await call(cell, given["key"], "operator", method, principal="operator", for_sec=9e9)
        await call(cell, given["key"], "operator", "pause", who="somebody else")
        assert cell.events("pause")[0]["by"] == "operator eve"
        with pytest.raises(HarnessError, match="does not answer"):
            await call(cell, given["key"], "runner", "status")
        with pytest.raises(HarnessError, match="does not answer"):
            await call(cell, given["key"], "viewer", "status")
        short = await link.call("grant", principal="viewer", for_sec=2)
        assert (await call(cell, short["key"], "viewer", "status"))["phase"] == "agent"
        await asyncio.sleep(max(0.0, short["until"] - time.time()) + 0.05)
        with pytest.raises(HarnessError, match="does not answer"):
            await call(cell, short["key"], "viewer", "status")
        assert [one["id"] for one in (await link.call("status"))["grants"]] == [given["id"]]
        for wrong in (
            {"principal": "runner", "for_sec": 9},
            {"principal": "viewer", "for_sec": 0},
            {"principal": "viewer"},
        ):
            with pytest.raises(Refused):
                await link.call("grant", **wrong)
    finally:
        await link.close()
