from __future__ import annotations

import os

import pytest

from cell.session import _WATCHER_LIMIT, Pipes, Watcher


async def test_o1_a_stalled_watcher_is_told_how_much_it_lost() -> None:
    watcher = Watcher()
    for _ in range(_WATCHER_LIMIT // 1000 + 1):
        watcher.feed(b"x" * 1000)
    watcher.feed(b"late")
    data, lost = await watcher.next() or (b"", 0)
    assert len(data) + lost == (_WATCHER_LIMIT // 1000 + 1) * 1000 + 4
    assert data == b"late"
    watcher.close()
    assert await watcher.next() is None


def test_our_ends_of_the_pipes_never_block() -> None:
    pipes = Pipes.make()
    for descriptor in (pipes.stdout, pipes.stderr):
        with pytest.raises(BlockingIOError):
            os.read(descriptor, 1)
    pipes.lent()
    assert os.read(pipes.stdout, 1) == b""
    for descriptor in (pipes.stdin, pipes.stdout, pipes.stderr):
        os.close(descriptor)
