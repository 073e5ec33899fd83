from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cell.events import Lease, Paused
from cell.lease import Occupied, Turns


class Book(list[Any]):
    """What was journalled, and how often cell.json was written."""

    changes = 0

    def changed(self) -> None:
        self.changes += 1


def made(*, alone: bool = False) -> tuple[Turns, Book]:
    book = Book()
    return Turns(book.append, book.changed, alone=alone), book


async def never() -> None:
    await asyncio.get_running_loop().create_future()


async def soon(turns: Turns) -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_keyboard_has_one_driver_until_it_is_taken_over() -> None:
    turns, book = made()
    ann = turns.take(1, "ann", over=False)
    with pytest.raises(Occupied, match=r"ann has the keyboard of session 1 since .*--take"):
        turns.take(1, "bob", over=False)
    assert not ann.lost.done()
    turns.take(2, "bob", over=False)
    bob = turns.take(1, "bob", over=True)
    assert ann.lost.result() == "bob took the keyboard of session 1"
    turns.give_back(ann, "detached")
    assert turns.drivers[1] is bob, "what is not theirs any more they cannot give back"
    turns.give_back(bob, "detached")
    assert [(e.session, e.holder, e.reason) for e in book] == [
        (1, "ann", "taken"),
        (2, "bob", "taken"),
        (1, "bob", "taken over from ann"),
        (1, "", "detached"),
    ]
    assert all(isinstance(event, Lease) for event in book)
    assert book.changes == 4


async def test_the_agent_waits_for_a_lent_keyboard_and_for_any_new_session() -> None:
    turns, _ = made()
    assert turns.free(1, agent=True)
    assert turns.free(None, agent=True)
    driver = turns.take(1, "ann", over=False)
    assert not turns.free(1, agent=True)
    assert not turns.free(1, agent=False), "whoever's session it is"
    assert turns.free(2, agent=True)
    assert not turns.free(None, agent=True)
    turns.give_back(driver, "detached")
    assert turns.free(1, agent=True)


async def test_a_pause_is_the_agents_alone() -> None:
    turns, book = made()
    turns.pause("operator", frozen=True)
    assert not turns.free(1, agent=True)
    assert not turns.free(None, agent=True)
    assert turns.free(1, agent=False)
    turns.resume("operator")
    turns.resume("operator")
    assert turns.free(None, agent=True)
    assert [(e.paused, e.frozen) for e in book if isinstance(e, Paused)] == [(True, True), (False, False)]


async def test_those_who_wait_go_on_in_order_and_some_wait_on() -> None:
    turns, _ = made()
    turns.pause("operator", frozen=False)
    went: list[int] = []

    async def one(number: int, session: int | None) -> None:
        await turns.claim(session, agent=True, gone=never)
        went.append(number)

    tasks = [asyncio.create_task(one(n, None if n % 2 else 7)) for n in range(6)]
    await soon(turns)
    assert turns.waiting == 6
    driver = turns.take(7, "ann", over=False)
    turns.resume("operator")
    await soon(turns)
    assert went == [], "a lent keyboard holds them all"
    assert turns.waiting == 6
    turns.give_back(driver, "detached")
    await asyncio.gather(*tasks)
    assert went == [0, 1, 2, 3, 4, 5]
    assert turns.waiting == 0


async def test_one_that_goes_away_waits_no_longer() -> None:
    turns, _ = made()
    turns.pause("operator", frozen=False)
    left: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def gone() -> None:
        await left

    waiting = asyncio.create_task(turns.claim(None, agent=True, gone=gone))
    await soon(turns)
    assert turns.waiting == 1
    left.set_result(None)
    with pytest.raises(ConnectionResetError):
        await waiting
    await soon(turns)
    assert turns.waiting == 0


async def test_the_clock_stops_while_the_agent_waits_for_whatever_reason() -> None:
    turns, _ = made()
    assert (turns.held, turns.told().since) == (0.0, 0.0)
    driver = turns.take(1, "ann", over=False)
    turns.pause("operator", frozen=False)
    began = turns.told().since
    assert began > 0
    assert turns.told().drivers[1][0] == "ann"
    turns.give_back(driver, "detached")
    assert turns.told().since == began, "one reason is enough"
    assert turns.told().total(began + 5) == 5
    turns.resume("operator")
    assert turns.told().since == 0
    assert turns.told().total(began + 5) == pytest.approx(turns.held, abs=0.01)


async def test_a_person_who_is_the_agent_stops_no_clock_by_working() -> None:
    turns, _ = made(alone=True)
    turns.take(1, "ann", over=False)
    assert turns.told().since == 0
    turns.pause("operator", frozen=False)
    assert turns.told().since > 0
