"""Addresses that stand for names: stable, bounded, never given away while they may be in use."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest

from cell.egress import pool
from cell.egress.pool import REST, Pool


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_name_keeps_its_address_and_the_address_its_name() -> None:
    names = Pool()
    first, second = names.address("a.example"), names.address("b.example")
    assert first == IPv4Address("198.18.0.1")
    assert second == IPv4Address("198.18.0.2")
    assert names.address("a.example") == first
    assert names.address("a.example", 6) == IPv6Address("2001:2::1")
    assert [names.name(IPv4Address("198.18.0.2")), names.name(IPv6Address("2001:2::1"))] == [
        "b.example",
        "a.example",
    ]
    assert len(names) == 2


@pytest.mark.parametrize("address", ["198.18.0.0", "198.18.0.3", "198.17.255.255", "127.0.0.1", "8.8.8.8"])
def test_what_was_not_lent_stands_for_nothing(address: str) -> None:
    names = Pool()
    names.address("a.example")
    assert names.name(IPv4Address(address)) is None
    assert names.name(IPv6Address("2606:4700::1")) is None


def test_the_block_is_known() -> None:
    assert pool.holds(IPv4Address("198.19.255.255"))
    assert pool.holds(IPv6Address("2001:2::9"))
    assert not pool.holds(IPv4Address("198.20.0.0"))
    assert not pool.holds(IPv6Address("2001:db8::1"))


def test_an_address_is_lent_again_only_when_it_has_rested() -> None:
    clock = Clock()
    names = Pool(2, clock)
    a, b = names.address("a.example"), names.address("b.example")
    assert names.address("c.example") is None
    clock.now += REST - 1
    assert names.address("b.example") == b  # told again: it is in use
    clock.now += 2
    assert names.address("c.example") == a
    assert names.name(IPv4Address("198.18.0.1")) == "c.example"
    assert names.address("a.example") is None
    assert len(names) == 2


def test_an_address_with_an_open_connection_is_never_lent_again() -> None:
    clock = Clock()
    names = Pool(2, clock)
    a, b = names.address("a.example"), names.address("b.example")
    assert a is not None
    names.opened(a)
    clock.now += 10 * REST
    assert names.address("c.example") == b
    assert names.address("d.example") is None
    names.closed(a)
    assert names.address("d.example") is None
    clock.now += REST + 1
    assert names.address("d.example") == a or names.address("d.example") == b


def test_a_pool_larger_than_its_block_is_refused() -> None:
    with pytest.raises(ValueError, match="block"):
        Pool(1 << 20)
