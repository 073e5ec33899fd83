from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from cell.gate import Grant
from cell.grants import Grants


def until(seconds: float) -> float:
    return time.time() + seconds


async def test_a_key_proves_its_grant_at_its_principals_socket_only() -> None:
    grants = Grants()
    ann = grants.add(Grant(principal="viewer", holder="ann", until=until(60)), b"a")
    assert grants.find("viewer", b"a") is ann
    assert grants.find("operator", b"a") is None
    assert grants.find("viewer", b"b") is None
    grants.revoke("ann")


async def test_what_a_grant_has_open_is_cut_when_it_ends() -> None:
    grants, cut = Grants(), list[str]()
    ann = grants.add(Grant(principal="viewer", holder="ann", until=until(60)), b"a")
    bob = grants.add(Grant(principal="viewer", holder="bob", until=until(60)), b"b")
    ann.cuts.add(lambda: cut.append("ann"))
    bob.cuts.add(lambda: cut.append("bob"))
    assert grants.revoke("nobody") == []
    assert grants.revoke("ann") == [ann]
    assert cut == ["ann"]
    assert grants.find("viewer", b"a") is None
    assert grants.revoke(bob.id) == [bob]
    assert cut == ["ann", "bob"]
    assert grants.told() == []


async def test_an_expired_grant_ends_by_itself() -> None:
    grants, cut = Grants(), asyncio.Event()
    gone = grants.add(Grant(principal="viewer", until=until(-1)), b"a")
    assert grants.find("viewer", b"a") is None, "also before its timer ran"
    gone.cuts.add(cut.set)
    await asyncio.wait_for(cut.wait(), 10)
    assert grants.told() == []


async def test_what_is_told_of_a_grant_is_not_its_key() -> None:
    grants = Grants()
    given = grants.add(Grant(principal="operator", holder="ann", sessions=frozenset({2, 1})), b"secret")
    told: dict[str, Any] = given.told()
    assert told == {
        "id": given.id,
        "principal": "operator",
        "holder": "ann",
        "until": None,
        "sessions": [1, 2],
        "connections": 0,
    }
    with pytest.raises(KeyError):
        told["key"]
