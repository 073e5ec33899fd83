from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence

import pytest

from cell.egress.dial import Dialer, Found, NoWay, classify, is_own
from cell.policy.hosts import IP, Host, canonical


def answers(*texts: str) -> Dialer:
    """A dialer whose resolver knows these addresses, and no name."""
    found = [ipaddress.ip_address(text) for text in texts]

    async def resolve(name: str) -> Sequence[IP]:
        if not found:
            raise OSError(name)
        return found

    return Dialer(resolve, own=lambda _ip: False, classify=classify)


async def test_a_name_that_leads_to_the_internet_is_found() -> None:
    found = await answers("1.1.1.1", "2606:4700:4700::1111").find(Host("ok.example"))
    assert [str(ip) for ip in found.addresses] == ["1.1.1.1", "2606:4700:4700::1111"]
    assert found.kind == "public"


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        # 94
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("10.0.0.1", "private"),
        ("172.16.0.1", "private"),
        ("192.168.0.1", "private"),
        ("100.64.0.1", "cgnat"),
        ("169.254.1.1", "link-local"),
        ("fe80::1", "link-local"),
        # 96
        ("168.63.129.16", "metadata"),
        ("100.100.100.200", "metadata"),
        ("192.0.0.192", "metadata"),
        ("169.254.169.254", "metadata"),
        ("fd00:ec2::254", "metadata"),
        ("224.0.0.1", "multicast"),
        ("fec0::1", "site-local"),
        ("::ffff:1.1.1.1", "mapped (public)"),
        ("64:ff9b::7f00:1", "nat64 (loopback)"),
        ("2002:7f00:1::", "6to4 (loopback)"),
    ],
)
async def test_a_name_that_leads_elsewhere_is_refused_and_the_client_is_told_the_class(
    address: str, kind: str
) -> None:
    with pytest.raises(NoWay) as caught:
        await answers(address).find(Host("ok.example"))
    no = caught.value
    assert (no.status, no.denied, no.address, no.kind) == (
        403,
        True,
        str(ipaddress.ip_address(address)),
        kind,
    )
    assert no.words == f"denied: ok.example leads to an address that is not public ({kind})"
    assert no.address not in no.words


async def test_of_many_addresses_only_public_ones_are_dialled() -> None:
    found = await answers("10.0.0.1", "1.1.1.1", "::1", "1.1.1.1").find(Host("ok.example"))
    assert [str(ip) for ip in found.addresses] == ["1.1.1.1"]


async def test_a_name_is_resolved_once() -> None:  # 97
    asked = []

    async def rebinding(name: str) -> Sequence[IP]:
        asked.append(name)
        return [ipaddress.ip_address("1.1.1.1" if len(asked) == 1 else "127.0.0.1")]

    dialer = Dialer(rebinding)
    found = await dialer.find(Host("ok.example"))
    assert asked == ["ok.example"]
    assert [str(ip) for ip in found.addresses] == ["1.1.1.1"]


async def test_an_operators_network_is_opened_to_names_but_nothing_of_the_substrate_is() -> None:
    also = [ipaddress.ip_network(text) for text in ("10.1.0.0/16", "127.0.0.0/8", "169.254.0.0/16")]
    given = ["10.1.2.3", "10.2.2.3", "127.0.0.1", "169.254.169.254"]

    async def resolve(name: str) -> Sequence[IP]:
        return [ipaddress.ip_address(given[int(name[1])])]

    dialer = Dialer(resolve, own=lambda _ip: False, also=also)
    assert (await dialer.find(Host("h0"))).kind == "private"
    for name in ("h1", "h2", "h3"):
        with pytest.raises(NoWay):
            await dialer.find(Host(name))


async def test_a_name_that_nobody_knows() -> None:
    with pytest.raises(NoWay, match="cannot be resolved") as caught:
        await answers().find(Host("no.example"))
    assert (caught.value.status, caught.value.denied) == (502, False)


async def test_a_resolver_that_does_not_answer() -> None:
    async def never(_name: str) -> Sequence[IP]:
        await asyncio.get_running_loop().create_future()
        return []

    with pytest.raises(NoWay, match="in time") as caught:
        await Dialer(never, patience=0.01).find(Host("ok.example"))
    assert caught.value.status == 504


@pytest.mark.parametrize("literal", ["10.0.0.7", "1.1.1.1", "203.0.113.7"])
async def test_a_literal_that_the_policy_allowed_is_found(literal: str) -> None:
    found = await answers().find(canonical(literal))
    assert found.addresses == (ipaddress.ip_address(literal),)


@pytest.mark.parametrize("literal", ["127.0.0.1", "::1", "169.254.169.254", "::ffff:1.1.1.1", "224.0.0.1"])
async def test_a_literal_of_the_substrate_is_refused_even_if_the_policy_slept(literal: str) -> None:
    with pytest.raises(NoWay) as caught:
        await answers().find(canonical(literal))
    assert caught.value.denied


async def test_an_address_of_this_machine_is_its_own_whatever_its_range() -> None:
    dialer = Dialer(own=lambda ip: str(ip) == "10.0.0.7")
    with pytest.raises(NoWay, match="own"):
        await dialer.find(canonical("10.0.0.7"))


def test_the_kernel_says_what_is_its_own() -> None:
    assert is_own(ipaddress.ip_address("127.0.0.1"))
    assert is_own(ipaddress.ip_address("127.9.9.9"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("1.1.1.1", 9))
        except OSError:
            pytest.skip("this machine has no route to anywhere")
        mine = probe.getsockname()[0]
    assert is_own(ipaddress.ip_address(mine))
    assert not is_own(ipaddress.ip_address("1.1.1.1"))


class Silent(asyncio.Protocol):
    pass


async def test_the_first_address_that_answers_is_taken_and_no_other_stays_open() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    ips = tuple(ipaddress.ip_address(text) for text in ("127.0.0.2", "127.0.0.1"))
    transport, _ = await Dialer().connect(Found(Host("ok.example"), ips, "public"), port, Silent)
    assert transport.get_extra_info("peername")[0] == "127.0.0.1"
    transport.abort()
    server.close()


async def test_a_refusal_is_told_without_the_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        found = Found(Host("ok.example"), (ipaddress.ip_address("127.0.0.1"),), "public")
        with pytest.raises(NoWay) as caught:
            await Dialer().connect(found, port, Silent)
    assert caught.value.words == f"ok.example:{port} cannot be reached: connection refused"
    assert (caught.value.status, caught.value.denied) == (502, False)
