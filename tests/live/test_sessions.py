"""Sessions as an agent has them: bytes, terminals, environment, ends. Named by promise."""

from __future__ import annotations

import asyncio
import hashlib
import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import asyncssh
import pytest

from cell import control, kernel

from .conftest import LiveCell, until

pytestmark = pytest.mark.live


def over_one_connection(
    cell: LiveCell, act: Callable[[asyncssh.SSHClientConnection], Coroutine[Any, Any, None]]
) -> None:
    async def go() -> None:
        connection = await control.connect(cell.runtime, "agent")
        try:
            async with asyncio.timeout(60):
                await act(connection)
        finally:
            connection.close()
            await connection.wait_closed()

    asyncio.run(go())


def config(cell: LiveCell) -> list[str]:
    return ["ssh", "-F", str(cell.trial / "cell" / "ssh_config")]


def test_t1_200_mb_through_the_pump_arrive_whole(cell: LiveCell) -> None:
    size = 200_000_000
    argv = [*config(cell), "agent", f"head -c {size} /dev/zero | tr '\\0' a"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        digest, got = hashlib.sha256(), 0
        assert process.stdout is not None
        while data := process.stdout.read(1 << 20):
            digest.update(data)
            got += len(data)
    expected = hashlib.sha256()
    for _ in range(200):
        expected.update(b"a" * 1_000_000)
    assert (got, digest.hexdigest()) == (size, expected.hexdigest())


def test_t1_a_background_child_that_holds_the_pipe_does_not_hold_the_command(cell: LiveCell) -> None:
    done = subprocess.run(
        [*config(cell), "agent", "sleep 300 & echo out; echo err >&2"], capture_output=True, timeout=20
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out\n", b"err\n")


def test_t1_a_terminal_loses_nothing_at_the_end(cell: LiveCell) -> None:
    for _ in range(5):
        argv = [*config(cell), "-tt", "agent", "head -c 1000000 /dev/zero | tr '\\0' b; printf end"]
        done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=20)
        assert done.stdout == b"b" * 1_000_000 + b"end"


def sleepers(cell: LiveCell, seconds: int) -> list[int]:
    found = []
    for pid in kernel.processes_in(cell.pid_namespace):
        with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            if file.read().split(b"\0")[:2] == [b"sleep", b"%d" % seconds]:
                found.append(pid)
    return found


def test_t2_an_abandoned_command_ends_as_a_group_a_completed_one_leaves_its_children(cell: LiveCell) -> None:
    with subprocess.Popen(
        [*config(cell), "agent", "sleep 4321 & sleep 4321"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as client:
        assert until(lambda: len(sleepers(cell, 4321)) == 2)
        client.kill()
    assert until(lambda: not sleepers(cell, 4321))
    subprocess.run([*config(cell), "agent", "nohup sleep 1234 >/dev/null 2>&1 &"], check=True, timeout=20)
    assert until(lambda: len(sleepers(cell, 1234)) == 1), "it may not have become `sleep` yet"


def test_t2_a_client_is_missed_also_by_a_command_that_reads_nothing(cell: LiveCell) -> None:
    with subprocess.Popen(
        [*config(cell), "agent", "exec 0<&-; exec sleep 4322"], stdin=subprocess.PIPE
    ) as client:
        assert until(lambda: sleepers(cell, 4322))
        assert client.stdin is not None
        client.stdin.write(b"nobody reads this\n")
        client.stdin.flush()
        time.sleep(0.3)  # not for readiness: the bytes must have met a closed pipe
        client.kill()
    assert until(lambda: not sleepers(cell, 4322))


def test_t3_a_held_shell_keeps_cwd_exports_and_aliases(cell: LiveCell) -> None:
    lines = "cd /tmp\nexport A=1\nshopt -s expand_aliases\nalias hi='echo there'\npwd; echo $A; hi\n"
    done = subprocess.run([*config(cell), "agent"], input=lines, capture_output=True, text=True, timeout=20)
    assert done.stdout.split() == ["/tmp", "1", "there"]


def test_t4_a_terminal_is_one(cell: LiveCell) -> None:
    """isatty on all three, the size, TERM, /dev/tty; Ctrl-C ends the job and not the shell."""
    pid, master = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        argv = [*config(cell), "agent"]
        os.execvp(argv[0], argv)
    import fcntl
    import struct
    import termios

    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
    os.kill(pid, signal.SIGWINCH)
    seen = b""

    def expect(word: bytes) -> None:
        nonlocal seen
        end = time.monotonic() + 15
        os.set_blocking(master, False)
        while word not in seen:
            assert time.monotonic() < end, seen
            with suppress(BlockingIOError):
                seen += os.read(master, 65536)
            time.sleep(0.01)
        seen = seen.partition(word)[2]

    try:
        os.write(
            master, b"test -t 0 -a -t 1 -a -t 2 && echo is''tty; echo $TERM; : >/dev/tty && echo ope''ned\n"
        )
        expect(b"istty")
        expect(b"xterm-256color")
        expect(b"opened")
        os.write(master, b"until test \"$(stty size)\" = '33 111'; do sleep 0.05; done; echo si''zed\n")
        expect(b"sized")
        os.write(master, b"echo be''gun; sleep 1000\n")
        expect(b"begun")
        assert until(lambda: sleepers(cell, 1000))
        os.write(master, b"\x03")
        assert until(lambda: not sleepers(cell, 1000))
        os.write(master, b"echo ali''ve\n")
        expect(b"alive")
        os.write(master, b"exit 5\n")
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 5
    finally:
        os.close(master)


def test_t5_a_hundred_resizes_cost_nothing(cell: LiveCell) -> None:
    async def act(connection: asyncssh.SSHClientConnection) -> None:
        async with connection.create_process(term_type="xterm", term_size=(80, 24)) as process:
            for number in range(100):
                process.change_terminal_size(100 + number, 50)
            process.stdin.write("until stty size | grep -q '50 199'; do :; done; echo si''zed; exit\n")
            assert "sized" in await process.stdout.read()

    over_one_connection(cell, act)


def test_t6_the_environment_is_exact(make_cell: Callable[..., LiveCell]) -> None:
    cell = make_cell(env=(("FOO.BAR", "declared"), ("TERM", "mine")))
    done = cell.ssh("cat /proc/self/environ | tr '\\0' '\\n'")
    names = {line.partition("=")[0] for line in done.stdout.split("\n") if line}
    assert "FOO.BAR=declared" in done.stdout
    # what bash adds by itself to what it was given
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"FOO.BAR", "TERM", "HOME", "PATH"}


@pytest.mark.parametrize("tty", [[], ["-tt"]])
def test_t7_stock_openssh_works(cell: LiveCell, tty: list[str]) -> None:
    argv = [*config(cell), *tty, "agent", "test -t 0 && echo tty || echo none"]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)
    assert (done.returncode, done.stdout.strip()) == (0, "tty" if tty else "none")


def test_t8_an_odd_session_harms_no_other(cell: LiveCell) -> None:
    async def act(connection: asyncssh.SSHClientConnection) -> None:
        async with connection.create_process("cat", encoding=None) as good:
            odd = await connection.create_process(
                "printf '\\377\\376'; exec >&- 2>&-; sleep 77", encoding=None
            )
            assert await odd.stdout.read(2) == b"\xff\xfe"
            odd.channel.abort()
            refused = await connection.run("exit 3", env={"OK": "1"})
            assert refused.exit_status == 3
            good.stdin.write(b"still")
            good.stdin.write_eof()
            assert await good.stdout.read() == b"still"

    over_one_connection(cell, act)
    assert until(lambda: not sleepers(cell, 77))


@pytest.mark.parametrize("term", [None, "xterm"])
def test_t9_status_and_signal_arrive_unchanged(cell: LiveCell, term: str | None) -> None:
    async def act(connection: asyncssh.SSHClientConnection) -> None:
        assert (await connection.run("exit 7", term_type=term)).exit_status == 7
        killed = await connection.run("kill -9 $$", term_type=term)
        assert killed.exit_signal is not None
        assert killed.exit_signal[0] == "KILL"

    over_one_connection(cell, act)


def test_t10_the_workdir_may_exist_only_inside(make_cell: Callable[..., LiveCell]) -> None:
    cell = make_cell(workdir="/only/inside")
    assert cell.ssh("pwd").stdout == "/only/inside\n"
