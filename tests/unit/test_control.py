from __future__ import annotations

import asyncio

import pytest

from cell import control, gate, sshd
from cell.errors import HarnessError


class Sink:
    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data


def reader(data: bytes) -> asyncio.StreamReader:
    stream = asyncio.StreamReader()
    stream.feed_data(data)
    stream.feed_eof()
    return stream


async def test_a_frame_carries_a_document_and_bytes() -> None:
    sink = Sink()
    control._send(sink, {"method": "grade"}, b"\x00tests")
    assert await control._receive(reader(sink.data)) == ({"method": "grade", "blob": 6}, b"\x00tests")


async def test_a_torn_frame_is_the_end() -> None:
    sink = Sink()
    control._send(sink, {"method": "seal"})
    assert await control._receive(reader(sink.data[:-1])) is None
    assert await control._receive(reader(b"")) is None


async def test_a_frame_of_any_size_is_refused() -> None:
    with pytest.raises(HarnessError):
        await control._receive(reader((1 << 30).to_bytes(4, "big")))


def test_secrets_of_a_call_are_not_told_to_the_journal() -> None:
    assert control._told({"env": {"TOKEN": "s3cr3t"}, "reason": "done"}) == "reason=done"


def test_every_principal_of_the_gate_has_a_door() -> None:
    assert set(sshd.PRINCIPALS) == set(gate.PRINCIPALS)
