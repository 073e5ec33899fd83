"""What the name server answers: from its pool, once reported, and nothing of the outside."""

from __future__ import annotations

import ipaddress
import struct

import pytest

from cell.egress.names import NameServer
from cell.egress.pool import Pool
from cell.wire import dnsname

CLIENT = ("127.0.0.1", 40000)


class Asking:
    def __init__(
        self, *, ipv6: bool = False, capacity: int = 10, most: int = 100, strangers: tuple[int, ...] = ()
    ) -> None:
        self.reports: list[tuple[str, str, int]] = []
        self.server = NameServer(
            Pool(capacity),
            lambda name, kind, client, datagram, code: self.reports.append((name, kind, code)),
            may_name=lambda client, datagram: client[1] not in strangers,
            ipv6=ipv6,
            most_reports=most,
        )

    def ask(self, name: str, kind: int = dnsname.A, port: int = 40000) -> tuple[int, list[bytes]]:
        """Return the code, and the data of each answer."""
        question = dnsname.encode_name(name) + struct.pack("!HH", kind, 1)
        reply = self.server.respond(struct.pack("!6H", 5, 0x0100, 1, 0, 0, 0) + question, (CLIENT[0], port))
        assert reply is not None
        _, flags, _, count, _, _ = struct.unpack_from("!6H", reply)
        at, data = 12 + len(question), []
        for _ in range(count):
            (length,) = struct.unpack_from("!H", reply, at + 10)
            data.append(reply[at + 12 : at + 12 + length])
            at += 12 + length
        return flags & 15, data


def test_a_name_gets_an_address_of_the_pool_and_is_reported_once() -> None:
    asking = Asking()
    assert asking.ask("pkg.example.org") == (0, [ipaddress.IPv4Address("198.18.0.1").packed])
    assert asking.ask("PKG.example.ORG") == (0, [ipaddress.IPv4Address("198.18.0.1").packed])
    assert asking.server.name_of(ipaddress.IPv4Address("198.18.0.1")) == "pkg.example.org"
    assert asking.reports == [("pkg.example.org", "A", 0)]
    asking.server.begin_anew()
    asking.ask("pkg.example.org")
    assert len(asking.reports) == 2


@pytest.mark.parametrize("kind", [2, 5, 6, 15, 16, 33, 35, 64, 65, 99, 257])
def test_other_types_are_empty_and_not_an_error(kind: int) -> None:
    assert Asking().ask("pkg.example.org", kind) == (0, [])


def test_ipv6_is_answered_only_where_it_leads_somewhere() -> None:
    assert Asking().ask("pkg.example.org", dnsname.AAAA) == (0, [])
    assert Asking(ipv6=True).ask("pkg.example.org", dnsname.AAAA) == (
        0,
        [ipaddress.IPv6Address("2001:2::1").packed],
    )


@pytest.mark.parametrize(
    "name", ["db", "a.local", "x.invalid", "a.onion", "-x.example.org", "a b.example", "127.1", "1.2.3.4"]
)
def test_what_no_resolver_knows_does_not_exist(name: str) -> None:
    asking = Asking()
    assert asking.ask(name) == (dnsname.NXDOMAIN, [])
    assert len(asking.reports) == 1


def test_localhost_is_here() -> None:
    asking = Asking()
    assert asking.ask("localhost") == (0, [b"\x7f\0\0\1"])
    assert asking.ask("a.localhost", dnsname.AAAA) == (0, [b"\0" * 15 + b"\1"])
    assert asking.ask("1.0.0.127.in-addr.arpa", dnsname.PTR) == (0, [b"\x09localhost\0"])
    assert asking.reports == []


def test_the_names_of_the_pool_are_told_backwards_and_no_others() -> None:
    asking = Asking()
    asking.ask("pkg.example.org")
    assert asking.ask("1.0.18.198.in-addr.arpa", dnsname.PTR) == (0, [b"\3pkg\7example\3org\0"])
    assert asking.ask("2.0.18.198.in-addr.arpa", dnsname.PTR) == (dnsname.NXDOMAIN, [])
    assert asking.ask("8.8.8.8.in-addr.arpa", dnsname.PTR) == (dnsname.NXDOMAIN, [])
    assert [name for name, _, _ in asking.reports] == [
        "pkg.example.org",
        "2.0.18.198.in-addr.arpa",
        "8.8.8.8.in-addr.arpa",
    ]


def test_where_the_pool_is_used_up_the_answer_is_a_failure() -> None:
    asking = Asking(capacity=1)
    asking.ask("a.example")
    assert asking.ask("b.example") == (dnsname.SERVFAIL, [])
    assert asking.ask("a.example")[0] == 0


def test_a_program_that_makes_up_names_does_not_fill_the_journal() -> None:
    asking = Asking(capacity=10, most=3)
    for number in range(20):
        asking.ask(f"{number}.example")
    assert len(asking.reports) == 3


def test_what_cannot_be_recorded_is_not_answered() -> None:
    asking = Asking()
    recorded = asking.server._asked

    def fails(*_: object) -> None:
        raise OSError("the disk is full")

    asking.server._asked = fails
    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            asking.ask("pkg.example.org")
    asking.server._asked = recorded
    assert asking.ask("pkg.example.org")[0] == 0
    assert len(asking.reports) == 1


def test_who_may_have_no_new_address_gets_those_that_there_are() -> None:
    asking = Asking(strangers=(6,))
    assert asking.ask("a.example", port=6) == (dnsname.REFUSED, [])
    assert asking.reports == []
    known = asking.ask("a.example")
    assert known[0] == 0 and asking.ask("a.example", port=6) == known
    assert asking.ask("b.example", port=6) == (dnsname.REFUSED, [])


def test_when_another_phase_begins_there_is_room_for_all_that_nobody_is_connected_to() -> None:
    asking = Asking(capacity=3)
    names = [f"{letter}.example" for letter in "abc"]
    first = [asking.ask(name) for name in names]
    assert asking.ask("d.example") == (dnsname.SERVFAIL, [])
    held = ipaddress.IPv4Address(first[1][1][0])
    asking.server.pool.opened(held)
    asking.server.begin_anew()
    assert asking.server.name_of(held) == "b.example"
    assert [asking.ask(name)[0] for name in ("d.example", "e.example", "b.example")] == [0, 0, 0]
    assert asking.ask("f.example") == (dnsname.SERVFAIL, [])
    assert asking.ask("b.example") == first[1]
