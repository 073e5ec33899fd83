"""Section F: where an allowed name may lead (SPEC N4). The resolver is real, and every address would answer."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable

import pytest
from world import LiveCell

from .bench import answered, asking, connecting, conversed, direct
from .internet import NIC, NIC_6, PUBLIC, Audit, Internet

pytestmark = pytest.mark.live
Worlds = Callable[..., LiveCell]

# what a name must not lead to, and the class that is told; `far` has all of them but those of the substrate
INSIDE = {
    "127.0.0.1": "loopback", "127.9.9.9": "loopback", "::1": "loopback", "0.0.0.0": "unspecified", "0.1.2.3": "this-network",
    "10.1.2.3": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.1.1": "private",
    "100.64.0.1": "cgnat", "169.254.1.1": "link-local", "fe80::1": "link-local", "fd12::1": "private", "::": "unspecified",
    NIC: "own", NIC_6: "own",
}  # fmt: skip
CLOUDS = {
    "169.254.169.254": "metadata", "168.63.129.16": "metadata", "100.100.100.200": "metadata", "192.0.0.192": "metadata",
    "fd00:ec2::254": "metadata", "224.0.0.1": "multicast", "239.1.1.1": "multicast", "ff02::1": "multicast",
    "255.255.255.255": "broadcast", "fec0::1": "site-local", "::ffff:10.0.0.1": "mapped", "64:ff9b::a9fe:a9fe": "nat64",
    "2002:7f00:1::": "6to4", "::10.0.0.1": "compatible", "198.18.0.1": "benchmarking", "240.0.0.1": "reserved", "192.0.2.1": "documentation",
}  # fmt: skip
# of these a client on the substrate is not answered here, whoever asks
SILENT = ("0.", "224.", "239.", "255.", "240.", "fe80:", "ff02:", "::ffff:", "::10.")


def named(number: int) -> str:
    return f"n{number}.pkg.example"


def led_inside(worlds: Worlds, internet: Internet, places: dict[str, str]) -> None:
    """Each name leads to one of the places: refused with the class, and where to is the operator's to know."""
    hosts = {named(number): place for number, place in enumerate(places)}
    internet.names |= {host: [place] for host, place in hosts.items()}
    for mode, entries in (("allowlist", ("*.pkg.example",)), ("public", ())):
        cell = worlds(mode, *entries)
        audit, far, near = Audit(cell), len(internet.far.came), len(internet.near.came)
        told = conversed(cell, *(talk for host in hosts for talk in (connecting(host), asking(host))))
        assert [answered(one) for one in told] == [403] * len(told), told
        records = audit.all()
        assert len(records) == len(told)
        for one, record in zip(told, records, strict=True):
            place = hosts[record["host"]]
            kind = places[place]
            assert f"leads to an address that is not public ({kind}" in one["got"], (place, one)
            # the resolver's answer is not told: it may be a place of the substrate's
            assert place not in one["got"].replace(record["host"], ""), (place, one)
            assert (record["allowed"], record["status"], record["phase"]) == (False, 403, "agent")
            assert record["rule"].split()[1] == kind, record
            assert ipaddress.ip_address(record["address"]) == ipaddress.ip_address(place)
            assert record["address_class"].startswith(kind)
        audit = Audit(cell)
        few = list(hosts)[::4]
        told = conversed(cell, *(direct(host, 80) for host in few))
        assert {one["how"] for one in told} == {"reset"}, told
        refused = audit.all(way="transparent")
        assert {one["host"] for one in refused} == set(few)
        assert {(one["allowed"], one["rule"].partition(":")[0]) for one in refused} == {(False, "address")}
        assert len(internet.far.came) == far, internet.far.came[far:]
        assert len(internet.near.came) == near, internet.near.came[near:]
    # the control: from the substrate they can be reached, so it was the vetting that did it
    aims = [["tcp", place, 80] for place in places if not place.startswith(SILENT) and place != "::"]
    reached = dict(internet.tell("calls_out", json.dumps(aims)))
    assert {place for place, answer in reached.items() if answer != "hello"} == set(), reached


def test_094_n4_names_that_lead_inside(worlds: Worlds, internet: Internet) -> None:
    led_inside(worlds, internet, INSIDE)
    cell = worlds("allowlist", "*.pkg.example")
    # and one of a name's addresses that is public is the one that is dialled
    internet.names["both.pkg.example"] = ["10.1.2.3", "127.0.0.1", PUBLIC]
    before = len(internet.far.came)
    told = conversed(
        cell, asking("public.pkg.example"), asking("both.pkg.example"), direct("both.pkg.example", 80)
    )
    assert all(one["got"].endswith("hello /") for one in told), told
    assert internet.far.came[before:] == [(PUBLIC, 80)] * 3


def test_096_n4_names_that_lead_to_what_gives_out_credentials(worlds: Worlds, internet: Internet) -> None:
    led_inside(worlds, internet, CLOUDS)
    told = conversed(worlds("public"), asking("public.pkg.example"))
    assert told[0]["got"].endswith("hello /"), "control"
    # as a literal neither, whatever was allowed
    before = internet.visits()
    for cell in (worlds("public"), worlds("allowlist", "0.0.0.0/0", "::/0")):
        audit = Audit(cell)
        literals = [f"[{place}]" if ":" in place else place for place in (*CLOUDS, *INSIDE)]
        told = conversed(cell, *(asking(literal) for literal in literals))
        assert {answered(one) for one in told} == {403}, told
        assert {one["allowed"] for one in audit.all()} == {False}
    assert internet.visits() == before
    (told,) = conversed(worlds("allowlist", "0.0.0.0/0", "::/0"), asking(PUBLIC))
    assert told["got"].endswith("hello /"), "control"


def test_097_n4_a_name_that_leads_elsewhere_the_second_time(worlds: Worlds, internet: Internet) -> None:
    cell = worlds("allowlist", "*.pkg.example")
    for number, talk in enumerate((asking, connecting, lambda host: direct(host, 80))):
        host = f"rebound{number}.pkg.example"
        # for each resolution that is made, one answer
        internet.names[host] = [[PUBLIC], ["127.0.0.1"], ["10.1.2.3"]]
        asked, far, near = len(internet.asked), len(internet.far.came), len(internet.near.came)
        audit = Audit(cell)
        (first,) = conversed(cell, talk(host))
        assert first["got"].endswith("hello /"), first
        # by IPv4 and IPv6: once, and what was vetted is what was dialled
        assert internet.asked[asked:] == [host, host], internet.asked[asked:]
        assert internet.far.came[far:] == [(PUBLIC, 80)]
        (record,) = [one for one in audit.all() if one["way"] != "name"]
        assert (record["address"], record["address_class"]) == (PUBLIC, "public")
        (second,) = conversed(cell, talk(host))
        assert "hello" not in second["got"]
        assert len(internet.far.came) == far + 1 and len(internet.near.came) == near
        assert "address: loopback" in {one["rule"] for one in audit.all()}


def test_099_a_redirect_to_where_nobody_may(worlds: Worlds, internet: Internet) -> None:
    cell = worlds("allowlist", "*.pkg.example")
    internet.names["inside.pkg.example"] = ["169.254.169.254"]
    for target, status in (
        ("evil.net", 403),
        ("inside.pkg.example", 403),
        ("169.254.169.254", 403),
        ("other.pkg.example", 200),
    ):
        port = internet.far.serve(
            lambda link, to=target: link.sendall(
                f"HTTP/1.1 302 Found\r\nLocation: http://{to}/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode() if link.recv(65536) else b""
            )
        )  # fmt: skip
        for proxied in (True, False):
            audit, before = Audit(cell), len(internet.far.came)
            direct_ = "" if proxied else "--noproxy '*'"
            done = cell.ssh(
                f"curl -s -m 10 -L -o /dev/null {direct_} -w '%{{http_code}} %{{num_redirects}}' http://pkg.pkg.example:{port}/"
            )
            assert done.stdout.endswith(" 1"), "the redirect was followed"
            if proxied or status == 200:
                assert done.stdout == f"{status} 1", (target, done)
            else:
                assert done.returncode != 0, (target, done)
            assert len(internet.far.came) == before + 1 + (status == 200)
            last = [one for one in audit.all() if one["way"] != "name"][-1]
            assert (last["host"], last["allowed"]) == (target, status == 200)
            assert ipaddress.ip_address(last["address"] or "0.0.0.0").is_global == (status == 200)
