"""The keyboard comes back, however a driver leaves: handed over on purpose, or with the connection cut (O5, O1)."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from .conftest import LiveCell, until
from .desk import Desk
from .driving import Seat

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

# It draws its screen anew after each key, with the size that it finds.
READER = r"""
stty -echo raw
exec 3</dev/tty
seen=
while :; do
    set -- $(stty size)
    printf '\033[H\033[2J%s %s|\033[2;1Hkeys:%s|' "$1" "$2" "$seen"
    key=$(dd bs=1 count=1 2>/dev/null <&3)
    seen=$seen$key
    test "$key" = q && break
done
"""


class Relay:
    """A way to a cell's sockets that can be cut: what a colleague's ssh, or a tunnel, is."""

    def __init__(self, cell: LiveCell, folder: Path) -> None:
        # a socket's path is short
        self.runtime = Path(tempfile.mkdtemp(prefix="relay"))
        for name in ("operator.key", "known_hosts"):
            shutil.copy(cell.runtime / name, self.runtime / name)
        self._to = str(cell.runtime / "operator.sock")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.runtime / "operator.sock"))
        self._listener.listen()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()
        # the same records, and a cell.json that names this way
        self.trial = folder / cell.trial.name
        shutil.copytree(cell.trial, self.trial, copy_function=os.link, ignore=shutil.ignore_patterns("root"))
        info = cell.info
        info["sockets"]["operator"] = str(self.runtime / "operator.sock")
        (self.trial / "cell/cell.json").unlink()
        (self.trial / "cell/cell.json").write_text(json.dumps(info))

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._to)
            self._open += [near, far]
            threading.Thread(target=self._pump, args=(near, far), daemon=True).start()

    @staticmethod
    def _pump(near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while True:
                for one in select.select([near, far], [], [])[0]:
                    if not (data := one.recv(65536)):
                        return
                    (far if one is near else near).sendall(data)

    def cut(self) -> None:
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        self._listener.close()
        for one in self._open:
            one.close()
        shutil.rmtree(self.runtime)


@pytest.fixture
def seat(cell: LiveCell) -> Iterator[Callable[..., Seat]]:
    seats: list[Seat] = []

    def sit(*words: str, **size: int) -> Seat:
        seats.append(Seat(cell, *words, **size))  # type: ignore[arg-type]
        return seats[-1]

    yield sit
    for one in seats:
        one.close()


def test_o5_a_connection_that_is_cut_ends_the_lease_and_the_screen_says_so(
    cell: LiveCell, seat: Callable[..., Seat], tmp_path: Path
) -> None:
    agent = seat("agent", "PS1='ready$ ' bash --norc --noprofile -i", cols=100, rows=30)
    agent.wait_for(b"ready$ ")
    relay = Relay(cell, tmp_path / "relayed")
    desk = Desk(relay.trial, seats=[agent], who="ann")
    try:
        desk.sees(cell.id)
        desk.type("\ra").sees("ATTACHED")
        desk.type("echo half").sees("echo half")
        relay.cut()
        desk.sees(lambda screen: "ATTACHED" not in screen and "connection" in screen.splitlines()[-1])
        assert until(lambda: [one["holder"] for one in cell.events("lease")][-1] == "")
        agent.type(b"-and-the-rest-$((1+1))\r").wait_for(b"half-and-the-rest-2")
        desk.sees("half-and-the-rest-2")
        # nothing is lost: the keyboard can be taken again, over a way that is there again
        desk.type("a").sees("ATTACHED")
        desk.type("echo again-$((40+2))\r").sees("again-42")
    finally:
        desk.close()
        relay.close()


def test_o5_an_agent_that_reads_its_screen_is_not_disturbed_by_a_cockpit(
    cell: LiveCell, seat: Callable[..., Seat]
) -> None:
    agent = seat("agent", READER, cols=160, rows=40)
    agent.wait_for(b"40 160|")
    agent.type(b"a").wait_for(b"keys:a|")
    desk = Desk(cell.trial, cols=80, rows=24, seats=[agent], who="ann")
    try:
        desk.sees(cell.id)
        desk.type("\r").sees("keys:a|")
        desk.type("a").sees("ATTACHED")
        agent.type(b"c")
        desk.resize(100, 30)
        desk.type("b").sees("keys:ab|")
        desk.type("\x1b[24~").sees("keys:abc|")  # handed back: what the agent typed meanwhile comes now
        desk.type("p").sees("Pause")
        desk.type("j\r").sees("the agent waits")
        agent.type(b"d")
        assert cell.info["held"]["frozen"]
        desk.type("p").sees("the agent goes on")
        agent.wait_for(b"keys:abcd|")
        agent.type(b"q")
        assert agent.ended() == 0
    finally:
        desk.close()
    assert set(re.findall(rb"(\d+ \d+)\|", agent.seen)) == {b"40 160"}
    assert '"r",' not in (cell.trial / "cell/sessions/1.cast").read_text()
    assert [(one["paused"], one["by"].partition("@")[0]) for one in cell.events("pause")] == [
        (True, "operator ann"),
        (False, "operator ann"),
    ]
