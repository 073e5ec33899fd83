"""What a session promises to an agent's ssh (T1–T10), with stock ssh and asyncssh."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import pty
import subprocess
import time
from collections.abc import Callable

import asyncssh
import pytest

from cell import control

from .conftest import LiveCell, until

pytestmark = pytest.mark.live


def test_t1_100_mb_through_a_pipe_arrive_whole(cell: LiveCell) -> None:
    size = 100_000_000
    done = cell.ssh_bytes(f"yes 0123456789 | head -c {size}")
    expected = (b"0123456789\n" * (size // 11 + 1))[:size]
    assert len(done.stdout) == size
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(expected).digest()


def test_t1_20_mb_through_a_terminal_arrive_whole(cell: LiveCell) -> None:
    size = 20_000_000
    done = cell.ssh_bytes(f"stty -opost; yes 0123456789 | head -c {size}", tty=True)
    expected = (b"0123456789\n" * (size // 11 + 1))[:size]
    assert len(done.stdout) == size
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(expected).digest()


def test_t1_a_child_that_holds_stdout_does_not_hold_the_command(cell: LiveCell) -> None:
    began = time.monotonic()
    assert cell.inside("sleep 300 & echo told") == "told\n"
    assert time.monotonic() - began < 10


def test_t3_a_held_shell_keeps_its_state(cell: LiveCell) -> None:
    typed = (
        "cd /tmp\nexport KEPT=yes\nshopt -s expand_aliases\nalias hi='echo aliased'\npwd\necho $KEPT\nhi\n"
    )
    done = cell.ssh("bash", input=typed)
    assert (done.returncode, done.stdout) == (0, "/tmp\nyes\naliased\n")


def test_t4_a_terminal_is_one(cell: LiveCell) -> None:
    script = (
        "import fcntl, os, pty, sys; print(all(map(os.isatty, (0, 1, 2))), bool(os.environ['TERM'])); "
        "os.close(os.open('/dev/tty', os.O_RDWR))"
    )
    assert cell.inside(f'python3 -c "{script}"', tty=True) == "True True\n"


def test_t4_t7_ctrl_c_ends_the_foreground_and_not_the_shell(cell: LiveCell) -> None:
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "rows", "33", "cols", "111"], stdin=theirs, check=True)
    client = subprocess.Popen(
        cell.argv("bash --norc -i", tty=True),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "vt100"},
    )
    os.close(theirs)
    seen = b""
    os.set_blocking(ours, False)

    def shown(text: bytes) -> bool:
        nonlocal seen
        with contextlib.suppress(OSError):
            seen += os.read(ours, 65536)
        return text in seen

    try:
        os.write(ours, b"stty size; echo term=$TERM; echo rea''dy; sleep 300\n")
        assert until(lambda: shown(b"ready\r\n")), seen
        assert b"33 111\r\n" in seen
        assert b"term=vt100\r\n" in seen
        time.sleep(0.3)
        os.write(ours, b"\x03")
        time.sleep(0.3)
        os.write(ours, b"echo al''ive; exit 5\n")
        assert until(lambda: shown(b"alive\r\n")), seen
        assert client.wait(10) == 5
    finally:
        client.kill()
        client.wait()
        os.close(ours)


def test_t5_107_a_resize_storm_ends_at_the_last_size(cell: LiveCell) -> None:
    async def storm() -> bytes:
        async with await control.connect(cell.runtime, "agent") as link:
            process = await link.create_process(
                "bash --norc", term_type="xterm", term_size=(80, 24), encoding=None
            )
            for n in range(100):
                process.change_terminal_size(60 + n, 20 + n)
            process.stdin.write(b"stty size; exit\n")
            done = await asyncio.wait_for(process.wait(), 20)
            return bytes(done.stdout)

    assert b"119 159\r\n" in asyncio.run(storm())


def test_t6_the_environment_is_declared_and_arrives(make_cell: Callable[..., LiveCell]) -> None:
    cell = make_cell(env=(("FOO.BAR", "x"),))
    names = {
        line.partition("=")[0] for line in cell.inside("cat /proc/self/environ | tr '\\0' '\\n'").splitlines()
    }
    raw = cell.inside("tr '\\0' '\\n' < /proc/$$/environ").splitlines()
    assert "FOO.BAR=x" in raw
    told = {line.partition("=")[0] for line in raw}
    assert {"PATH", "HOME"} <= told
    assert told <= {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "LANG", "PWD", "FOO.BAR"}, told
    assert not [name for name in names if name.startswith(("SSH", "CELL", "PYTHON"))]


@pytest.mark.parametrize("tty", [False, True])
def test_t7_stock_ssh(cell: LiveCell, tty: bool) -> None:
    assert (
        cell.inside("echo in; test -t 1 && echo tty || echo pipe", tty=tty)
        == f"in\n{'tty' if tty else 'pipe'}\n"
    )


def test_t8_bytes_are_not_text(cell: LiveCell) -> None:
    assert cell.ssh_bytes("printf '\\377\\376\\200ok'").stdout == b"\xff\xfe\x80ok"


def test_t8_a_channel_that_breaks_off_leaves_the_connection(cell: LiveCell) -> None:
    async def talk() -> bytes:
        async with await control.connect(cell.runtime, "agent") as link:
            broken = await link.create_process("yes", encoding=None)
            other = await link.create_process("cat", encoding=None)
            await broken.stdout.read(1000)
            broken.channel.abort()
            await asyncio.sleep(0.3)
            other.stdin.write(b"still here\n")
            other.stdin.write_eof()
            return bytes((await asyncio.wait_for(other.wait(), 20)).stdout)

    assert asyncio.run(talk()) == b"still here\n"


@pytest.mark.parametrize("term", [None, "xterm"])
def test_t9_exit_status_and_signal(cell: LiveCell, term: str | None) -> None:
    async def run(command: str) -> asyncssh.SSHCompletedProcess:
        async with await control.connect(cell.runtime, "agent") as link:
            return await asyncio.wait_for(link.run(command, term_type=term), 20)

    assert asyncio.run(run("exit 7")).exit_status == 7
    ended = asyncio.run(run("kill -9 $$"))
    assert ended.exit_signal is not None
    assert ended.exit_signal[0] == "KILL"


def test_t10_a_workdir_that_is_only_inside(make_cell: Callable[..., LiveCell]) -> None:
    inside = "/only/inside"
    assert not os.path.exists(inside)
    assert make_cell(workdir=inside).inside("pwd") == f"{inside}\n"
    assert not os.path.exists(inside)
