"""Through the whole way: a person's keys, the cockpit, ssh, a terminal in the cell, and back (V7, O1, O3–O5)."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable, Iterator

import pytest

from .conftest import LiveCell, until
from .desk import Desk
from .driving import Seat

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

PREFIX = "\x1d"
SHELL = "PS1='ready$ ' bash --norc --noprofile -i"


@pytest.fixture
def agent(cell: LiveCell) -> Iterator[Seat]:
    """The agent's terminal, 100×30, with a shell in it."""
    seat = Seat(cell, "agent", SHELL, cols=100, rows=30)
    seat.wait_for(b"ready$ ")
    yield seat
    seat.close()


@pytest.fixture
def desk(cell: LiveCell, agent: Seat) -> Iterator[Callable[..., Desk]]:
    desks: list[Desk] = []

    def sit(*more: str, **options: object) -> Desk:
        desks.append(Desk(cell.trial, *more, seats=[agent], **options))  # type: ignore[arg-type]
        return desks[-1]

    yield sit
    for one in desks:
        one.close()


def attached(desk: Callable[..., Desk], *more: str, **options: object) -> Desk:
    made = desk("--attach", "1", *more, **options)
    made.sees("ATTACHED")
    made.sees("ready$")
    return made


# ── programs that own a terminal ──────────────────────────────────────────────────────────────


def test_v7_vim(cell: LiveCell, desk: Callable[..., Desk]) -> None:
    hud = attached(desk)
    hud.type("vim -u NONE -c 'set noswapfile' /tmp/note\r").sees("[New")
    hud.type("ihello from vim").sees("hello from vim")
    hud.type("\x1b").type("yyp:%s/hello/HELLO/\r").sees(lambda s: s.count("HELLO from vim") == 2)
    hud.type(":wq\r").sees("ready$")
    hud.type("\x1b[24~").sees("the keyboard is the agent's again")
    assert cell.inside("cat /tmp/note") == "HELLO from vim\nHELLO from vim\n"


def test_v7_less(desk: Callable[..., Desk]) -> None:
    hud = attached(desk)
    hud.type("seq -f 'line %g' 1 500 | less\r").sees("line 29")
    hud.type("G").sees("line 500")
    hud.type("?line 123\r").sees("line 123")
    hud.type("\x1b[5~").sees("line 95")
    hud.type("q").sees("ready$")


def test_v7_htop_with_function_keys_and_the_mouse(desk: Callable[..., Desk]) -> None:
    hud = attached(desk)
    hud.type("htop\r").sees("F10Quit")
    hud.type("\x1bOP").sees("Process state")
    hud.type(" ").sees("F10Quit")
    row = next(y for y, line in enumerate(hud.screen.splitlines()) if "F10Quit" in line)
    col = hud.screen.splitlines()[row].index("F10") + 2
    hud.type(f"\x1b[<0;{col + 1};{row + 1}M\x1b[<0;{col + 1};{row + 1}m").sees("ready$")


def test_v7_job_control(desk: Callable[..., Desk]) -> None:
    hud = attached(desk)
    hud.type("sleep 1000 & wait $!\r").sees("[1] ")
    hud.type("\x03").sees("^C")
    hud.type("fg\r").sees(lambda s: s.count("sleep 1000") >= 2)
    hud.type("\x1a").sees("Stopped")
    hud.type("bg; jobs\r").sees("Running")
    hud.type("kill %1; wait; jobs; echo gone-$((1+1))\r").sees("gone-2")
    hud.type("jobs; echo none-$((1+1))\r").sees("none-2")


def test_v7_python(desk: Callable[..., Desk]) -> None:
    hud = attached(desk)
    hud.type("python3 -q\r").sees(">>>")
    hud.type("for n in range(2):\r\tprint('né', n)\r\r").sees("né 1")
    hud.type("\x03").sees("KeyboardInterrupt")
    hud.type("\x04").sees("ready$")


def test_v7_tmux_in_the_terminal(desk: Callable[..., Desk]) -> None:
    hud = attached(desk)
    hud.type("TMUX= tmux -L inside -f /dev/null new-session 'PS1=mux: sh -i'\r").sees("mux:")
    hud.type("echo in-$((40+2))\r").sees("in-42")
    hud.type("\x02%").sees(lambda screen: "│" in screen.partition("━┓")[2])
    hud.type("exit\r").sees(lambda screen: "│" not in screen.partition("━┓")[2] and "0:sh*" in screen)
    hud.type("exit\r").sees("ready$")


# ── size, paste, flood ────────────────────────────────────────────────────────────────────────


def test_t5_a_hundred_resizes_of_my_window_change_nothing_inside(
    cell: LiveCell, desk: Callable[..., Desk]
) -> None:
    hud = attached(desk)
    hud.type("winch=0; trap 'winch=$((winch+1))' WINCH; echo set-$((1+1))\r").sees("set-2")
    for n in range(100):
        hud.resize(60 + n % 70, 20 + n % 30)
        hud.watch(0.01)
    hud.resize(120, 40)
    hud.type("echo winches=$winch; stty size\r").sees("winches=0")
    hud.sees("30 100")
    assert '"r"' not in (cell.trial / "cell/sessions/1.cast").read_text()
    # a hundred resizes may still be under way: it is the size that the pane has by then
    until(lambda: "116×35" in hud.type(PREFIX + "r").sees("session 1 is"), seconds=20)
    hud.type("stty size\r").sees("35 116")


def test_v7_a_megabyte_pasted(cell: LiveCell, desk: Callable[..., Desk]) -> None:
    take = (
        "import sys,tty,hashlib; tty.setraw(0); sys.stdout.write('\\x1b[?2004h'); print('paste now',flush=True); "
        "d=b''\nwhile b'\\x1b[201~' not in d[-9:]: d+=sys.stdin.buffer.raw.read(65536)\n"
        "print('\\x1b[?2004lgot',len(d),hashlib.md5(d[6:-6]).hexdigest(), end='\\r\\n')"
    )
    cell.ssh("cat > /tmp/take.py", input=take)
    hud = attached(desk)
    hud.type("python3 /tmp/take.py; stty sane\r").sees("paste now")
    text = "".join(f"{n:06} was pasted by a person\n" for n in range(34_000))
    hud.type("\x1b[200~" + text + "\x1b[201~")
    hud.sees(f"got {len(text) + 12} {hashlib.md5(text.encode()).hexdigest()}", seconds=90)


def test_typing_beside_a_flood(cell: LiveCell, desk: Callable[..., Desk]) -> None:
    """The agent's other terminal floods; keys in this one are still answered."""
    flood = Seat(cell, "agent", "yes 'a flood of output that nobody reads'", cols=80, rows=24)
    try:
        hud = attached(desk)
        hud.seats.append(flood)
        for n in range(5):
            hud.type(f"echo {n}-$((n={n}*2))\r").sees(f"{n}-{n * 2}", seconds=20)
    finally:
        flood.close()


# ── who drives ────────────────────────────────────────────────────────────────────────────────


def test_o1_two_cockpits_and_one_keyboard(cell: LiveCell, desk: Callable[..., Desk]) -> None:
    ann = attached(desk, who="ann")
    bob = desk("--attach", "1", who="bob")
    bob.sees("The keyboard is taken")
    assert "ann" in bob.screen
    bob.type("\r").sees(lambda screen: "is taken" not in screen and "ann@" in screen)  # who watches is told
    bob.type("a").sees("The keyboard is taken")
    bob.type("j\r").sees("ATTACHED")
    ann.sees("detached:")
    assert "took the keyboard of session 1" in ann.screen
    bob.type("echo by-bob-$((40+2))\r").sees("by-bob-42")
    ann.sees("by-bob-42")
    holders = [event["holder"].partition("@")[0] for event in cell.events("lease")]
    assert holders == ["ann", "bob"]


def test_the_name_that_was_given_is_the_name_on_the_lease(cell: LiveCell, desk: Callable[..., Desk]) -> None:
    attached(desk, "--who", "ann o'neil")
    assert cell.events("lease")[-1]["holder"] == "ann o'neil"


def test_o5_a_cockpit_that_is_killed_gives_the_keyboard_back(
    cell: LiveCell, agent: Seat, desk: Callable[..., Desk]
) -> None:
    hud = attached(desk)
    hud.type("echo half")
    hud.sees("echo half")
    os.kill(hud.process.pid, signal.SIGKILL)
    assert until(lambda: cell.events("lease")[-1]["holder"] == "")
    agent.type(b" and-the-rest-$((1+1))\r").wait_for(b"half and-the-rest-2")


def test_the_screen_says_that_the_cell_has_died(cell: LiveCell, desk: Callable[..., Desk]) -> None:
    hud = attached(desk)
    cell.kill()
    hud.sees("has died with all in it")
    hud.type("a").sees("has ended; only its records are left")


def test_a_shell_of_our_own_beside_the_agent(cell: LiveCell, agent: Seat, desk: Callable[..., Desk]) -> None:
    hud = desk()
    hud.sees(cell.id)
    hud.type("s").sees("A shell in")
    hud.type("jj\r").sees("YOUR SHELL in")
    assert "as root" in hud.screen
    hud.type("echo mine-$((40+2)); stty size\r").sees("mine-42")
    hud.sees("35 116")
    hud.type("exit\r").sees("your shell has ended")
    assert b"mine-42" not in agent.seen


# ── hostile output ────────────────────────────────────────────────────────────────────────────


def test_o3_nothing_from_inside_reaches_the_outer_terminal_unparsed(
    cell: LiveCell, agent: Seat, desk: Callable[..., Desk]
) -> None:
    evil = (
        "printf '\\033]0;OWNED-TITLE\\007\\033]52;c;T1dORUQ=\\007\\033]8;;http://evil.example\\007link\\033]8;;\\007'; "
        "printf '\\033P+q544e\\033\\\\\\033_Gf=32;OWNED\\033\\\\\\033^OWNED\\033\\\\\\0333J\\033[21t\\033c'; "
        "printf '\\342\\200\\256gnp.exe\\302\\233 2J \\377\\376 [red]markup[/red]\\n'; "
        "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo '[red]markup[/red]'; echo done-$((1+1))"
    )
    cell.ssh("cat > /tmp/evil.sh", input=evil)
    hud = attached(desk)
    hud.type("sh /tmp/evil.sh\r").sees("done-2", seconds=60)
    hud.type(PREFIX + "d").sees("watching")
    hud.type("3").sees("Commands")
    hud.type("2d").sees("principal")
    for word in (
        b"OWNED",
        b"evil.example",
        b"]52;",
        b"T1dORUQ",
        b"\x1bc",
        b"\x1b_",
        b"\x1bP+q",
        "\u202e".encode(),
    ):
        assert word not in hud.written, word
    assert b"[red]markup" in hud.written, "the control: the text itself is shown"
