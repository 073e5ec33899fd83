"""One keyboard, one driver: lent, taken over, given back, cut; and the agent only ever waits (O1, O5, V7)."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from world import SOURCE

from cell import driving
from cell.errors import Refused

from .conftest import LiveCell, until
from .driving import Seat

pytestmark = pytest.mark.live


@pytest.fixture
def seat() -> Iterator[Callable[..., Seat]]:
    seats: list[Seat] = []

    def sit(cell: LiveCell, principal: str, command: str | None = None, **size: int) -> Seat:
        seats.append(Seat(cell, principal, command, **size))
        return seats[-1]

    yield sit
    for one in seats:
        one.close()


def cast(cell: LiveCell, number: int = 1) -> str:
    return (cell.trial / f"cell/sessions/{number}.cast").read_text()


def held(cell: LiveCell) -> Any:
    return cell.info["held"]


def test_o1_two_operators_one_lease_taken_over_only_by_saying_so(
    cell: LiveCell, seat: Callable[..., Seat]
) -> None:
    agent = seat(cell, "agent", "PS1='$ ' sh -i")
    agent.wait_for(b"$ ")
    ann = seat(cell, "operator", "attach 1 --who ann")
    ann.wait_for(b"$ ")
    ann.type(b"echo from-ann-$((40+2))\r").wait_for(b"from-ann-42\r\n")
    agent.wait_for(b"from-ann-42\r\n")
    assert until(lambda: held(cell)["drivers"])["1"][0] == "ann"

    bob = seat(cell, "operator", "attach 1 --who bob")
    assert bob.ended() == driving.OCCUPIED
    assert b"ann has the keyboard of session 1 since " in bob.seen
    ann.type(b"echo still-$((1+1))\r").wait_for(b"still-2\r\n")

    bob = seat(cell, "operator", "attach 1 --take --who bob")
    assert ann.ended() == driving.TAKEN_OVER
    assert b"bob took the keyboard" in ann.seen
    bob.type(b"echo from-bob-$((1+2))\r").wait_for(b"from-bob-3\r\n")
    leases = [(e["holder"], e["reason"]) for e in cell.events("lease")]
    assert leases == [("ann", "taken"), ("bob", "taken over from ann")]
    touched = [e["what"] for e in cell.events("intervention")]
    assert touched == ["took the keyboard of session 1 as ann", "took the keyboard of session 1 as bob"]
    assert all(e["session"] == 1 for e in cell.events("intervention"))
    text = cast(cell)
    assert text.index("typed by operator ann") < text.index("typed by operator bob")


def test_o5_what_the_agent_types_waits_and_is_never_mixed(cell: LiveCell, seat: Callable[..., Seat]) -> None:
    agent = seat(cell, "agent", "stty -echo; echo ready; cat")
    agent.wait_for(b"ready")
    agent.type(b"one\r").wait_for(b"one\r\n")
    ann = seat(cell, "operator", "attach 1")
    ann.wait_for(b"one")
    agent.type(b"two\r").type(b"three\r")
    ann.type(b"ann\r").wait_for(b"ann\r\n")
    asking = subprocess.Popen(cell.argv("echo in-order"), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert until(lambda: cell.call("status")["waiting"] == 2), "the keys, and the new session"
    assert b"two" not in ann.seen
    os.kill(ann.ssh.pid, signal.SIGKILL)
    agent.wait_for(b"two\r\nthree\r\n")
    assert asking.communicate(timeout=20)[0] == b"in-order\n"
    assert agent.seen.index(b"ann") < agent.seen.index(b"two")
    events = [e["kind"] for e in cell.events() if e["kind"] in ("lease", "session")]
    assert events == ["session", "lease", "lease", "session"]
    assert cell.events("lease")[-1]["reason"] == "connection lost"
    assert cell.events("lease")[-1]["holder"] == ""
    assert held(cell)["drivers"] == {}
    assert held(cell)["sec"] > 0


def test_o5_a_waiting_agent_that_goes_away_is_gone(cell: LiveCell, seat: Callable[..., Seat]) -> None:
    agent = seat(cell, "agent", "cat")
    until(lambda: cell.events("session"))
    ann = seat(cell, "operator", "attach 1")
    until(lambda: cell.events("lease"))
    asking = subprocess.Popen(cell.argv("echo never > /tmp/never"), stdin=subprocess.DEVNULL)
    assert until(lambda: cell.call("status")["waiting"] == 1)
    asking.kill()
    asking.wait()
    assert until(lambda: cell.call("status")["waiting"] == 0)
    agent.type(b"unread\r")
    assert until(lambda: cell.call("status")["waiting"] == 1)
    agent.ssh.kill()
    assert ann.ended() == 0
    assert b"the session ended" in ann.seen
    assert cell.events("session-end")[0]["reason"] == "client gone"
    assert cell.inside("ls /tmp/never 2>&1; true") != "/tmp/never\n"


def test_o5_a_driver_who_leaves_gives_back(cell: LiveCell, seat: Callable[..., Seat]) -> None:
    agent = seat(cell, "agent", "cat")
    until(lambda: cell.events("session"))
    done = subprocess.run(
        cell.argv("attach 1 --who ann", principal="operator"),
        input=b"hello\n",
        capture_output=True,
        timeout=20,
    )
    assert done.returncode == 0, "the end of what is typed is a detach"
    assert b"cell: detached" in done.stderr
    agent.wait_for(b"hello")
    assert [e["holder"] for e in cell.events("lease")] == ["ann", ""]
    assert agent.ssh.poll() is None


def test_t5_the_operators_window_changes_nothing_inside(cell: LiveCell, seat: Callable[..., Seat]) -> None:
    script = (
        "trap 'echo winch' WINCH; while sleep 0.05; do set -- $(stty size); "
        'test "$1x$2" = "$was" || { was=$1x$2; echo size $was; }; done'
    )
    agent = seat(cell, "agent", script, cols=160, rows=40)
    agent.wait_for(b"size 40x160")
    ann = seat(cell, "operator", "attach 1", cols=80, rows=24)
    ann.wait_for(b"size 40x160")
    for index in range(100):
        ann.resize(80 + index % 7, 24 + index % 5)
    ann.type(b"k")
    ann.wait_for(b"k")
    assert b"winch" not in agent.seen and b"size 24" not in agent.seen
    cell.call("resize", principal="operator", session=1, cols=100, rows=30)
    agent.wait_for(b"size 30x100")
    assert '"r","100x30"' in cast(cell)
    assert [e["what"] for e in cell.events("intervention")][
        -1
    ] == "resized the terminal of session 1 to 100x30"
    with pytest.raises(Refused, match="no terminal that could be"):
        cell.call("resize", principal="operator", session=1, cols=0, rows=30)
    with pytest.raises(Refused, match="viewer may not"):
        cell.call("resize", principal="viewer", session=1, cols=10, rows=30)


def test_what_cannot_be_attached_to_says_why(cell: LiveCell) -> None:
    running = subprocess.Popen(cell.argv("sleep 600"), stdin=subprocess.PIPE)
    until(lambda: cell.events("session"))
    try:
        for principal, command, words in (
            ("operator", "attach 7", "there is no live session 7"),
            ("operator", "attach 1", "session 1 has no terminal"),
            ("operator", "attach", "say attach N"),
            ("operator", "attach one", "say attach N"),
            ("operator", "attach 1 --steal", "say attach N"),
            ("viewer", "attach 1", "a viewer may not attach"),
        ):
            done = subprocess.run(
                cell.argv(command, principal=principal),
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
            )
            assert (done.returncode, words in done.stderr) == (126, True), (command, done)
    finally:
        running.kill()
        running.communicate()
    assert not cell.events("lease")


def test_o1_a_size_that_was_lent_returns_however_the_lease_ends(
    cell: LiveCell, seat: Callable[..., Seat]
) -> None:
    agent = seat(cell, "agent", "while sleep 0.1; do stty size; done", cols=80, rows=24)
    agent.wait_for(b"24 80")
    for n, end in enumerate((lambda ann: ann.ssh.kill(), lambda ann: ann.close()), start=1):
        ann = seat(cell, "operator", "attach 1 --who ann")
        assert until(lambda n=n: len(cell.events("lease")) == 2 * n - 1)
        cell.call("resize", principal="operator", session=1, cols=61, rows=17)
        cell.call("resize", principal="operator", session=1, cols=62, rows=18)
        agent.wait_for(b"18 62")
        end(ann)
        assert until(lambda n=n: len(cell.events("lease")) == 2 * n)
        agent.seen = b""
        agent.wait_for(lambda seen: seen.endswith(b"24 80\r\n"))
        agent.seen = b""
    cell.call("resize", principal="operator", session=1, cols=63, rows=19)
    agent.wait_for(b"19 63")
    assert cell.events("lease")[-1]["holder"] == "", "the control: without a lease it stays"


def test_o1_the_lease_ends_with_the_phase_and_the_cell(
    make_cell: Callable[..., LiveCell], seat: Callable[..., Seat]
) -> None:
    cell = make_cell()
    agent = seat(cell, "agent", "cat")
    until(lambda: cell.events("session"))
    ann = seat(cell, "operator", "attach 1")
    until(lambda: cell.events("lease"))
    asking = subprocess.Popen(cell.argv("echo in"), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert until(lambda: cell.call("status")["waiting"] == 1)
    cell.seal()
    assert ann.ended() == 0
    agent.ended()
    assert b"ended while this waited" in asking.communicate(timeout=20)[1]
    assert asking.returncode == 126
    assert [e["holder"] for e in cell.events("lease")] == ["operator", ""]
    shell = seat(cell, "operator", "cat")
    until(lambda: len(cell.events("session")) == 2)
    ann = seat(cell, "operator", "attach 2 --who ann")
    until(lambda: len(cell.events("lease")) == 3)
    cell.kill()
    assert ann.ended() == 255
    assert shell.ended() == 255


def test_v7_a_megabyte_pasted_by_a_driver_arrives(cell: LiveCell, seat: Callable[..., Seat]) -> None:
    seat(cell, "agent", "stty raw -echo; echo ready; head -c 1048576 | sha256sum; echo done; sleep 60")
    until(lambda: "ready" in cast(cell) if cell.events("session") else False)
    paste = os.urandom(1 << 19).hex().encode()
    ann = subprocess.Popen(
        cell.argv("attach 1", principal="operator"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert ann.stdin and ann.stdout
    ann.stdin.write(paste)
    ann.stdin.flush()
    assert until(lambda: hashlib.sha256(paste).hexdigest() in cast(cell))
    ann.kill()
    ann.communicate()


READER = r"""
stty -echo raw
exec 3</dev/tty
seen=
while :; do
    set -- $(stty size)
    printf '\033[H\033[2J%s %s|' "$1" "$2"
    key=$(dd bs=1 count=1 2>/dev/null <&3)
    seen=$seen$key
    printf '\033[2;1Hkeys:%s|' "$seen"
    test "$key" = q && break
done
"""


def test_o5_an_agent_that_reads_its_screen_is_not_disturbed(
    cell: LiveCell, seat: Callable[..., Seat]
) -> None:
    agent = seat(cell, "agent", READER, cols=160, rows=40)
    agent.wait_for(b"40 160|")
    agent.type(b"a").wait_for(b"keys:a|")
    looking = seat(cell, "viewer", "watch 1", cols=80, rows=24)
    looking.wait_for(b"keys:a|")
    ann = seat(cell, "operator", "attach 1 --who ann", cols=80, rows=24)
    ann.wait_for(b"keys:a|")
    agent.type(b"c")
    ann.resize(100, 30)
    ann.type(b"b").wait_for(b"keys:ab|")
    cell.call("pause", principal="operator", freeze=True)
    ann.ssh.kill()
    looking.close()
    assert until(lambda: not held(cell)["drivers"])
    cell.call("continue", principal="operator")
    agent.wait_for(b"keys:abc|")
    agent.type(b"q")
    assert agent.ended() == 0
    assert b"keys:abcq|" in agent.seen
    sizes = set(re.findall(rb"(\d+ \d+)\|", agent.seen))
    assert sizes == {b"40 160"}
    assert '"r",' not in cast(cell)


def test_a_word_typed_by_call_is_a_lease_of_a_moment(cell: LiveCell, seat: Callable[..., Seat]) -> None:
    agent = seat(cell, "agent", "cat")
    until(lambda: cell.events("session"))
    cell.call("type", b"hello\r", principal="operator", session=1, who="ann")
    agent.wait_for(b"hello\r\nhello")
    assert "typed by operator ann" in cast(cell)
    assert [e["holder"] for e in cell.events("lease")] == ["ann", ""]
    seat(cell, "operator", "attach 1 --who bob")
    until(lambda: len(cell.events("lease")) == 3)
    with pytest.raises(Refused, match="bob has the keyboard"):
        cell.call("type", b"x", principal="operator", session=1)
    cell.call("signal", principal="operator", session=1, signal="INT")
    assert agent.ended() in (130, 255)
    assert cell.events("session-end")[0]["signal"] == "INT"
    assert cell.events("intervention")[-1]["what"] == "sent SIGINT to session 1"
    with pytest.raises(Refused, match="no live session"):
        cell.call("signal", principal="operator", session=1, signal="INT")
    lines = cell.call("events", principal="viewer")
    after = cell.call("events", principal="viewer", after=lines[-2]["seq"])
    assert [line["seq"] for line in lines] == list(range(lines[0]["seq"], lines[0]["seq"] + len(lines)))
    assert after[0] == lines[-1]


def test_cell_attach_finds_the_latest_terminal_and_says_how_it_ended(
    cell: LiveCell, seat: Callable[..., Seat]
) -> None:
    def attach(*words: str) -> subprocess.CompletedProcess[bytes]:
        line = [sys.executable, "-m", "cell", "attach", str(cell.trial), *words]
        return subprocess.run(line, input=b"typed\n", capture_output=True, timeout=30, cwd=SOURCE)

    nothing = attach("--raw")
    assert nothing.returncode == 2
    assert b"no session runs" in nothing.stderr
    agent = seat(cell, "agent", "cat")
    until(lambda: cell.events("session"))
    plain = subprocess.Popen(cell.argv("echo out; cat"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    until(lambda: len(cell.events("session")) == 2)
    done = attach("--who", "ann o'hara")
    assert (done.returncode, cell.events("lease")[0]["session"]) == (0, 1), done
    assert cell.events("lease")[0]["holder"] == "ann o'hara"
    agent.wait_for(b"typed")
    seat(cell, "operator", "attach 1 --who bob")
    until(lambda: len(cell.events("lease")) == 3)
    assert attach("1").returncode == driving.OCCUPIED
    assert attach("1", "--take").returncode == 0
    plain.communicate()
    assert cell.events("lease")[-2]["reason"] == "taken over from bob"


def test_o5_who_takes_the_keyboard_is_not_asked_what_was_asked_before(
    cell: LiveCell, seat: Callable[..., Seat]
) -> None:
    agent = seat(
        cell, "agent", "stty -echo; printf 'old\\033[6nOLD\\n'; read x; printf 'new\\033[6nNEW\\n'; cat"
    )
    agent.wait_for(b"OLD")
    looking = seat(cell, "viewer", "watch 1")
    assert b"old\x1b[6nOLD" in looking.wait_for(b"OLD")
    ann = seat(cell, "operator", "attach 1")
    assert b"oldOLD" in ann.wait_for(b"OLD")
    assert b"new\x1b[6nNEW" in ann.type(b"\r").wait_for(b"NEW"), "what is asked now is"
