from __future__ import annotations

import asyncio
import os

from cell.session import _WATCHER_LIMIT, Pipes, Watcher


async def test_o1_after_a_loss_a_watcher_goes_on_as_before() -> None:
    watcher = Watcher()
    watcher.feed(b"x" * _WATCHER_LIMIT)
    watcher.feed(b"y")
    assert await watcher.next() == (b"", _WATCHER_LIMIT + 1)
    watcher.feed(b"new")
    watcher.feed(b"er")
    assert await watcher.next() == (b"newer", 0)


async def test_up_to_the_limit_nothing_is_lost() -> None:
    watcher = Watcher()
    watcher.feed(b"x" * _WATCHER_LIMIT)
    assert await watcher.next() == (b"x" * _WATCHER_LIMIT, 0)


async def test_what_came_before_the_end_is_still_told() -> None:
    watcher = Watcher()
    watcher.feed(b"last words")
    watcher.close()
    assert await watcher.next() == (b"last words", 0)
    assert await watcher.next() is None
    assert await watcher.next() is None


async def test_one_who_waits_is_woken_by_output_and_by_the_end() -> None:
    watcher = Watcher()
    for act, expected in ((lambda: watcher.feed(b"a"), (b"a", 0)), (watcher.close, None)):
        waiting = asyncio.create_task(watcher.next())
        await asyncio.sleep(0)
        assert not waiting.done()
        act()
        assert await waiting == expected


def test_merged_pipes_carry_errors_where_output_goes() -> None:
    pipes = Pipes.make(merged=True)
    _, theirs_out, theirs_err = pipes.theirs
    assert (pipes.stderr, theirs_out) == (-1, theirs_err)
    assert [os.get_blocking(d) for d in (pipes.stdin, pipes.stdout, *pipes.theirs)] == [
        False,
        False,
        *[True] * 3,
    ]
    os.write(theirs_err, b"oh")
    pipes.lent()
    assert os.read(pipes.stdout, 9) + os.read(pipes.stdout, 9) == b"oh"
    os.close(pipes.stdin)
    os.close(pipes.stdout)
