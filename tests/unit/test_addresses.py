from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cell.policy.addresses import NEVER, RANGES, classify, described, embedded, special


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        # positive control: what the internet is
        ("1.1.1.1", "public"),
        ("93.184.216.34", "public"),
        ("172.15.255.255", "public"),
        ("172.32.0.0", "public"),
        ("100.63.255.255", "public"),
        ("100.128.0.0", "public"),
        ("126.255.255.255", "public"),
        ("169.253.255.255", "public"),
        ("223.255.255.255", "public"),
        ("168.63.129.15", "public"),
        ("2606:4700:4700::1111", "public"),
        ("2a00:1450:4001:81b::200e", "public"),
        # 94
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("::1", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "this-network"),
        ("::", "unspecified"),
        ("10.255.0.1", "private"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("fd12:3456::1", "private"),
        ("100.64.0.1", "cgnat"),
        ("169.254.1.1", "link-local"),
        ("fe80::1", "link-local"),
        # 96
        ("169.254.169.254", "metadata"),
        ("169.254.170.2", "metadata"),
        ("168.63.129.16", "metadata"),
        ("100.100.100.200", "metadata"),
        ("192.0.0.192", "metadata"),
        ("fd00:ec2::254", "metadata"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.255", "multicast"),
        ("ff02::1", "multicast"),
        ("fec0::1", "site-local"),
        # what carries an IPv4 address, public ones too
        ("::ffff:127.0.0.1", "mapped"),
        ("::ffff:1.1.1.1", "mapped"),
        ("::ffff:0:127.0.0.1", "translated"),
        ("::7f00:1", "compatible"),
        ("64:ff9b::7f00:1", "nat64"),
        ("64:ff9b::101:101", "nat64"),
        ("64:ff9b:1::a00:1", "nat64"),
        ("2002:7f00:1::", "6to4"),
        ("192.88.99.1", "6to4"),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "teredo"),
        ("2606:4700::5efe:7f00:1", "isatap"),
        ("2606:4700::200:5efe:1.2.3.4", "isatap"),
        # the rest of the registry
        ("192.0.0.8", "protocol"),
        ("192.0.2.1", "documentation"),
        ("203.0.113.7", "documentation"),
        ("2001:db8::1", "documentation"),
        ("3fff::1", "documentation"),
        ("198.18.0.1", "benchmarking"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "broadcast"),
        ("100::1", "discard"),
        ("4000::1", "reserved"),
        ("1::1", "reserved"),
        ("5f00::1", "segment-routing"),
    ],
)
def test_every_special_range_has_a_name(address: str, kind: str) -> None:
    assert classify(ipaddress.ip_address(address)) == kind


@pytest.mark.parametrize(
    ("address", "inner", "said"),
    [
        ("::ffff:127.0.0.1", "127.0.0.1", "mapped (loopback)"),
        ("64:ff9b::a9fe:a9fe", "169.254.169.254", "nat64 (metadata)"),
        ("64:ff9b::101:101", "1.1.1.1", "nat64 (public)"),
        ("2002:a00:1::", "10.0.0.1", "6to4 (private)"),
        ("::7f00:1", "127.0.0.1", "compatible (loopback)"),
        ("2606:4700::5efe:7f00:1", "127.0.0.1", "isatap (loopback)"),
    ],
)
def test_what_an_address_carries_is_said(address: str, inner: str, said: str) -> None:
    ip = ipaddress.ip_address(address)
    assert embedded(ip) == ipaddress.ip_address(inner)
    assert described(ip) == said


def test_most_addresses_carry_nothing() -> None:
    for text in ("10.0.0.1", "2606:4700:4700::1111", "fe80::1"):
        ip = ipaddress.ip_address(text)
        assert embedded(ip) is None
        assert described(ip) == classify(ip)


def test_every_range_has_a_source_and_names_its_first_address() -> None:
    for known in RANGES:
        assert known.source
        assert special(known.network.network_address) is not None


def test_the_names_that_nothing_opens_are_names_of_the_table() -> None:
    assert {known.name for known in RANGES} | {"own", "isatap"} >= NEVER


@given(st.ip_addresses())
def test_public_is_never_more_than_what_the_standard_library_calls_global(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if classify(ip) == "public":
        assert ip.is_global
        assert not (ip.is_multicast or ip.is_loopback or ip.is_link_local or ip.is_reserved)
