from __future__ import annotations

import asyncio
import json

import pytest

from cell import control
from cell.errors import HarnessError


def reader(data: bytes) -> asyncio.StreamReader:
    stream = asyncio.StreamReader()
    stream.feed_data(data)
    stream.feed_eof()
    return stream


def frame(document: object) -> bytes:
    raw = json.dumps(document).encode()
    return len(raw).to_bytes(4, "big") + raw


async def test_frames_follow_one_another() -> None:
    stream = reader(frame({"n": 1, "blob": 3}) + b"abc" + frame({"n": 2}))
    assert await control._receive(stream) == ({"n": 1, "blob": 3}, b"abc")
    assert await control._receive(stream) == ({"n": 2}, b"")
    assert await control._receive(stream) is None


@pytest.mark.parametrize("length", [-1, (1 << 30) + 1])
async def test_a_blob_of_any_length_is_refused(length: int) -> None:
    with pytest.raises(HarnessError, match="a blob of"):
        await control._receive(reader(frame({"blob": length})))


async def test_a_torn_blob_is_the_end() -> None:
    assert await control._receive(reader(frame({"blob": 3}) + b"ab")) is None
