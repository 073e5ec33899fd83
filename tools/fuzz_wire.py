#!/usr/bin/env python3
"""Fuzz `cell.wire` with atheris: what two liars say, in pieces, must come to nothing but refusals.

    pip install atheris          # in a venv of its own, with what the package needs, and hypothesis
    tools/fuzz_wire.py -max_total_time=600 [CORPUS]

It holds the same promises as tests/unit/test_wire_fuzz.py, whose Driver it uses, but is led by coverage.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris  # type: ignore[import-not-found]

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/unit")]

with atheris.instrument_imports(include=["cell", "h11"]):
    from test_wire_fuzz import LINES, Driver

    from cell.wire import orders  # noqa: F401

# Whole messages, so that a second exchange over the same connections is not a matter of luck.
WHOLE = [
    *(line + b"\r\n" for line in LINES[:7]),
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
]


def text(given: atheris.FuzzedDataProvider) -> bytes:
    """Return one piece of what a side says: known lines as often as bytes of any kind."""
    parts = []
    for _ in range(given.ConsumeIntInRange(1, 6)):
        kind = given.ConsumeIntInRange(0, 2)
        if kind < 2:
            parts.append(given.PickValueInList((LINES, WHOLE)[kind]))
        else:
            parts.append(given.ConsumeBytes(given.ConsumeIntInRange(0, 24)))
    return b"".join(parts)


def one(data: bytes) -> None:
    """Have one conversation, and end it."""
    given, driver = atheris.FuzzedDataProvider(data), Driver()
    wire, gone = driver.wire, False
    while given.remaining_bytes() and not (driver.closed or driver.tunnel):
        choice = given.ConsumeIntInRange(0, 9)
        if wire.more:
            driver.carry_out(wire.go_on())
        elif driver.dialling is not None and choice < 3:
            attempt, driver.dialling = driver.dialling, None
            if choice < 2:
                tunnel = attempt.method == "CONNECT"
                driver.origin = None if tunnel else (attempt.host.text, attempt.port)
                driver.carry_out(wire.reached())
            else:
                driver.carry_out(wire.failed(502, "no way"))
        elif choice < 6 and not gone:
            piece = text(given)
            gone = not piece
            driver.carry_out(wire.from_client(piece))
        elif choice < 9 and driver.origin is not None:
            piece = text(given)
            driver.carry_out(wire.from_origin(piece))
        elif driver.origin is not None:
            driver.carry_out(wire.origin_lost("reset"))
        elif choice == 9:
            driver.carry_out(wire.refuse(408, "too slow"))
    turns = 0
    while wire.more and not (driver.closed or driver.tunnel):
        driver.carry_out(wire.go_on())
        turns += 1
        assert turns < 1000, "it has an end"
    if not (driver.closed or driver.tunnel):
        driver.carry_out(wire.client_lost())
        assert driver.recorded == driver.over, "every attempt ends"


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
