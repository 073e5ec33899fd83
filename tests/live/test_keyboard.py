"""Every key that a person's terminal sends arrives in the cell as it was sent (V7)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .conftest import LiveCell, until
from .desk import Desk
from .driving import Seat

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

LOGGER = (
    "import os,sys,tty\ntty.setraw(0)\nsys.stdout.write(sys.argv[1].encode().decode('unicode_escape')+'logger is ready\\r\\n')\n"
    "while True:\n sys.stdout.flush()\n sys.stdout.write(os.read(0,65536).hex())\n"
)

SAME = [
    *(b"\x1b" + bytes([code]) for code in range(0x20, 0x7F) if code not in b"[O"),  # alt+letter, digit, sign, space
    *(b"\x1b" + bytes([code]) for code in (*range(0x1B), *range(0x1C, 0x20), 0x7F)),  # alt+enter, +tab, +ctrl+letter
    *(bytes([code]) for code in (*range(0x1B), 0x1C, 0x1E, 0x1F, 0x7F, 0x08)),  # all of ctrl but the prefix
    *(bytes([code]) for code in range(0x20, 0x7F)),
    b"\x1b[Z", b"\x1b\x1b", b"\x1b[", b"\x1bO",  # shift+tab, esc esc, alt+[, alt+O
    *(b"\x1bO" + key for key in (b"P", b"Q", b"R", b"S")),
    *(b"\x1b[%d~" % n for n in (1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 23, 25, 26, 28, 29)),
    *(b"\x1b[1;%d%c" % (mods, key) for mods in range(2, 9) for key in b"ABCDHFPQRS"),
    *(b"\x1b[%d;%d~" % (key, mods) for key in (2, 3, 5, 6, 15, 23) for mods in range(2, 9)),
    b"\x1bO2P", b"\x1bO5Q", b"\x1b[25~", b"\x1b[[A", b"\x1b[a", b"\x1bOa", b"\x1b[3$", b"\x1b[3^",  # of older terminals
    b"\x1b[13;5u", b"\x1b[27;5;13~", b"\x1b[27;2;13~", b"\x1b[99999999999;5u",
    "é€漢👩‍🔬🇩🇪e\u0301".encode(), "\x1bé".encode(),
    b"\xff\xfe", b"\xc3(", b"\xe2\x82", b"\x80",
]  # fmt: skip


@pytest.fixture
def desk(cell: LiveCell) -> Iterator[Callable[..., Desk]]:
    opened: list[Desk] = []
    seats: list[Seat] = []

    def sit(modes: str = "") -> Desk:
        cell.ssh("cat > /tmp/logger.py", input=LOGGER)
        seats.append(Seat(cell, "agent", f"python3 /tmp/logger.py '{modes}'", cols=100, rows=30))
        seats[-1].wait_for(b"logger is ready")
        opened.append(Desk(cell.trial, "--attach", "2", seats=seats))
        opened[-1].sees("ATTACHED")
        opened[-1].sees("logger is ready")
        return opened[-1]

    yield sit
    for one in (*opened, *seats):
        one.close()


def arrived(cell: LiveCell, hud: Desk, sent: list[bytes]) -> list[bytes]:
    """What came of each stroke; between two stands a mark that is no part of any."""
    mark = b"|=|"
    for one in sent:
        hud.type(one)
        for _ in range(8 if one.endswith((b"\x1b", b"[", b"O", b"$", b"\x82", b"\xc3")) else 0):
            hud.watch(0.02)  # the start of something longer, unless nothing follows
        hud.type(mark)

    def read() -> bytes:
        lines = (cell.trial / "cell/sessions/2.cast").read_text().splitlines()[1:]
        printed = "".join(event[2] for event in map(json.loads, lines) if event[1] == "o")
        return bytes.fromhex(printed.partition("ready\r\n")[2])

    def whole() -> bool:
        hud.watch()
        return read().count(mark) == len(sent)

    assert until(whole), read()
    return read().split(mark)[:-1]


def test_every_key_arrives_as_it_was_sent(cell: LiveCell, desk: Callable[..., Desk]) -> None:
    hud = desk()
    for sent, came in zip(SAME, arrived(cell, hud, SAME), strict=True):
        assert came == sent
    hud.type("\x1b[24~").sees("the keyboard is the agent's again")


def test_cursor_keys_are_those_that_the_program_asked_for(cell: LiveCell, desk: Callable[..., Desk]) -> None:
    hud = desk(r"\x1b[?1h")
    sent = [b"\x1b[A", b"\x1b[H", b"\x1b[1;5C", b"\x1bOB", b"x"]
    assert arrived(cell, hud, sent) == [b"\x1bOA", b"\x1bOH", b"\x1b[1;5C", b"\x1bOB", b"x"]


def test_a_program_that_wants_newer_keys_gets_them_from_a_terminal_that_has_them(
    cell: LiveCell, desk: Callable[..., Desk]
) -> None:
    hud = desk(r"\x1b[>3u")
    while b"\x1b[=3;1u" not in hud.written:
        hud.watch()
    sent = [b"\x1b[97;5u", b"\x1b[13;2u", b"\x1b[97;1:1u\x1b[97;1:3u", b"\x1b[57442;5:1u", b"\x1b[57442;1:3u"]
    assert arrived(cell, hud, sent) == sent
    hud.type("\x1b[57442;5:1u\x1b[93;5:1u\x1b[93;5:3u").sees("d detach · z list")
    hud.type("\x1b[57442;1:3u\x1b[100;1:1u").sees("the keyboard is the agent's again")
    assert until(lambda: hud.watch() or hud.written.rindex(b"\x1b[=0;1u") > hud.written.rindex(b"\x1b[=3;1u"))


def test_reports_of_our_own_terminal_stay_here(cell: LiveCell, desk: Callable[..., Desk]) -> None:
    hud = desk()
    sent = [b"\x1b[I\x1b[Oa", b"\x1b[?2026;2$yb", b"\x1b[?62;22cc", b"\x1b[<35;20;10Md"]
    assert arrived(cell, hud, sent) == [b"a", b"b", b"c", b"d"]


def test_a_paste_is_bracketed_only_where_it_was_asked_for(cell: LiveCell, desk: Callable[..., Desk]) -> None:
    assert arrived(cell, desk(), [b"\x1b[200~a\xffb\xc3\x1b[201~"]) == [b"a\xffb\xc3"]


def test_a_broken_byte_ends_no_cockpit(tmp_path: Path) -> None:
    hud = Desk(tmp_path)
    try:
        hud.sees("Fleet")
        hud.type(b"\xff\xfe\xc3\x28\x80\x1b[99999999999;5u\x1b[200~\xff\x1b[201~").type(":").sees(": a view")
        hud.type(b"\x1b[200~\xff\xc3\x1b[201~x")
        hud.sees("��x")
        hud.type("\x1b").sees(lambda screen: "��x" not in screen)
        hud.type(":").sees(": a view")
        hud.type("q\r")
        assert until(lambda: hud.watch() or hud.process.poll() is not None)
        assert b"Traceback" not in hud.written
    finally:
        hud.close()
