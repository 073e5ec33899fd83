"""Section H: what a terminal and a session must bear (SPEC S1, T1–T5)."""

from __future__ import annotations

import asyncio
import subprocess
import time
from pathlib import Path

import asyncssh
import pytest
from world import LiveCell, until

from cell import control, kernel

pytestmark = pytest.mark.live


class Typist:
    """A person at a terminal of the cell: types, and waits for what is to appear."""

    def __init__(self, process: asyncssh.SSHClientProcess[str]) -> None:
        self.process, self.seen = process, ""

    async def types(self, text: str, until: str) -> str:
        self.process.stdin.write(text)
        while until not in self.seen:
            piece = await asyncio.wait_for(self.process.stdout.read(65536), 20)
            assert piece, ("the terminal ended", self.seen)
            self.seen += piece
        before, _, self.seen = self.seen.partition(until)
        return before


GROUP = 'python3 -c \'import os; t = os.open("/dev/tty", 2); print(os.tcgetpgrp(t) == os.getpgrp() != os.getsid(0), "gro" + "up")\''


def test_107_a_terminal_is_a_terminal_and_the_keyboard_survives(cell: LiveCell) -> None:
    async def act() -> None:
        connection = await control.connect(cell.runtime, "agent")
        async with connection.create_process(term_type="xterm", term_size=(80, 24)) as process:
            person = Typist(process)
            await person.types(
                "PS1=; test -t 0 -a -t 1 -a -t 2 && : >/dev/tty && echo is''tty $TERM\n", "istty xterm"
            )
            assert "True" in await person.types(f"{GROUP}\n", "group"), "its jobs have the terminal"
            await person.types("sleep 4107\n", "sleep 4107")
            assert await asyncio.to_thread(until, lambda: named(cell, "sleep 4107"))
            await person.types("\x1a", "Stopped")
            assert state(named(cell, "sleep 4107")) == "T"
            await person.types("bg; echo bac''k\n", "back")
            assert await asyncio.to_thread(until, lambda: state(named(cell, "sleep 4107")) == "S")
            await person.types("fg\n", "sleep 4107")
            await asyncio.sleep(
                0.3
            )  # not for readiness: the shell says `fg` before it hands the terminal over
            await person.types("\x03", "^C")
            assert await asyncio.to_thread(until, lambda: not named(cell, "sleep 4107"))
            for number in range(300):
                process.change_terminal_size(100 + number % 50, 40 + number % 7)
                if number % 10 == 0:
                    process.stdin.write(":\n")
            process.change_terminal_size(123, 45)
            await person.types("until test \"$(stty size)\" = '45 123'; do :; done; echo si''zed\n", "sized")
            await person.types("echo ali''ve; exit 7\n", "alive")
            assert (await asyncio.wait_for(process.wait(), 20)).exit_status == 7
        connection.close()
        await connection.wait_closed()

    asyncio.run(act())


def named(cell: LiveCell, command: str) -> int:
    for pid in kernel.processes_in(cell.pid_namespace):
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip() == command:
                return pid
        except OSError:
            continue
    return 0


def state(pid: int) -> str:
    return (kernel.stat_fields(pid) or "?")[0]


@pytest.mark.parametrize("tty", [False, True])
def test_108_a_server_in_the_background_is_there_for_all_that_follows(cell: LiveCell, tty: bool) -> None:
    get = "python3 -c \"import urllib.request as u; print(u.urlopen('http://localhost:4108/').read().decode())\""
    assert cell.ssh(get).returncode != 0, "control: nothing answers before"
    cell.inside(
        "cd /srv; echo here > index.html; setsid nohup python3 -m http.server 4108 >/dev/null 2>&1 & sleep 0.2",
        tty=tty,
    )
    assert until(lambda: cell.ssh(get).stdout.strip()) == "here"
    cell.inside("true", tty=True)
    assert "here" in cell.grade(f"#!/bin/sh\n{get}\n")["output"]
    server = named(cell, "python3 -m http.server 4108")
    assert server
    cell.stop()
    assert not Path(f"/proc/{server}").exists()


@pytest.mark.parametrize("tty", [False, True])
def test_109_a_noisy_command_that_is_stopped_has_said_all_it_said(cell: LiveCell, tty: bool) -> None:
    noise = "i=0; while :; do i=$((i+1)); echo line $i; echo $i >> /tmp/count; done"
    with subprocess.Popen(
        cell.argv(noise, tty=tty),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as client:
        assert client.stdout and client.stderr
        assert client.stdout.readline().strip() == b"line 1"
        time.sleep(0.3)  # not for readiness: there is to be some noise
        cell.seal()
        rest, errors = client.communicate(timeout=20)
    numbers = [
        int(line.split()[1]) for line in rest.replace(b"\r", b"").split(b"\n") if line.count(b" ") == 1
    ]
    assert numbers == list(range(2, len(numbers) + 2)), "in order, and without a gap"
    count = (cell.trial / "cell/root/upper/tmp/count").read_text().count("\n")
    assert abs(numbers[-1] - count) <= 1, "to the last line"
    assert b"stopped: sealed" in errors + rest
    assert client.returncode != 0


def test_110_a_slow_reader_loses_nothing_and_costs_no_memory(cell: LiveCell) -> None:
    def held() -> int:
        status = Path(f"/proc/{cell.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    size = 100_000_000
    flood = f"stty -opost; head -c {size} /dev/zero | tr '\\0' x; echo done > /tmp/done"
    done = cell.trial / "cell/root/upper/tmp/done"
    before = held()
    with subprocess.Popen(
        cell.argv(flood, tty=True),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as client:
        assert client.stdout
        got = len(client.stdout.read(1 << 20))
        time.sleep(1)  # the reader is slow: what it has not taken stays with the one who wrote it
        assert not done.exists(), "the writer waits"
        most = held()
        while piece := client.stdout.read1(1 << 20):
            got += len(piece)
            most = max(most, held())
    assert got == size
    assert done.exists()
    assert most - before < 64_000, f"{before} → {most} kB"
