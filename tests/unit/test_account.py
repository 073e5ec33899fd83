from __future__ import annotations

import asyncio

import pytest
from proxying import AGENT, POLICY, Cell

from cell.egress.account import Account
from cell.egress.context import Caller, Limits
from cell.egress.dial import Found, NoWay
from cell.egress.patience import Patience
from cell.policy.hosts import Host, canonical
from cell.wire.orders import Attempt

ATTEMPT = Attempt("GET", Host("ok.example"), 80, "/a", True, "ok.example", "allowed")


def test_an_attempt_is_opened_with_where_it_leads_and_closed_once() -> None:
    cell = Cell(POLICY)
    account = Account(cell)
    account.caller = AGENT
    ip = canonical("1.1.1.1").ip
    assert ip is not None
    account.opened(ATTEMPT, Found(ATTEMPT.host, (ip,), "public"))
    account.closed(200, 3, 4)
    account.closed(0, 0, 0, error="again")
    (hit,), (end,) = cell.hits, cell.ends
    assert (hit.hit, hit.address, hit.address_class, hit.pid, hit.session) == (1, "1.1.1.1", "public", 7, 3)
    assert (end.hit, end.status, end.sent, end.received, end.error) == (1, 200, 3, 4, "")


def test_a_refused_address_is_a_denied_attempt() -> None:
    cell = Cell(POLICY)
    no = NoWay(403, "denied: private", denied=True, address="10.0.0.1", kind="private")
    Account(cell).opened(ATTEMPT, no=no)
    (hit,) = cell.hits
    assert (hit.allowed, hit.rule, hit.reason) == (False, "address: private", "denied: private")
    assert (hit.address, hit.phase, hit.pid) == ("10.0.0.1", "agent", 0)


def test_what_failed_without_being_refused_stays_allowed() -> None:
    cell = Cell(POLICY)
    Account(cell).opened(ATTEMPT, no=NoWay(502, "ok.example cannot be resolved"))
    (hit,) = cell.hits
    assert (hit.allowed, hit.rule, hit.reason, hit.status) == (True, "ok.example", "allowed", 502)


def test_what_could_not_be_opened_is_not_closed() -> None:
    cell = Cell(POLICY)
    cell.refuses = OSError("full")
    account = Account(cell)
    with pytest.raises(OSError, match="full"):
        account.opened(ATTEMPT)
    account.closed(200, 0, 0)
    assert cell.events == []


def test_a_caller_is_who_it_was() -> None:
    assert Caller("verifier") == Caller("verifier", 0, "", None)


async def test_only_what_happens_in_an_exchange_gives_it_more_time() -> None:
    late: list[str] = []
    patience = Patience(Limits(head=0.05, stall=30), late.append)
    patience.wait_for("head")
    patience.wait_for("head")
    while not late:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    assert late == ["head"]
    patience.wait_for("reply")
    patience.wait_for("reply", anew=True)
    assert late == ["head"]
    patience.stop()
