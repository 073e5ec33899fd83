"""What is in a world's network, by mode: SPEC's table, row by row (N1), tried from inside."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cell.launcher import ends

from .network import World, world

pytestmark = pytest.mark.live
SOURCE = Path(__file__).parents[2]

MODES: dict[str, dict[str, Any]] = {
    "no-network": {"peers": [("db", 5432)]},
    "proxy only": {"proxy": True, "peers": [("db", 5432)]},
    "transparent": {"proxy": True, "transparent": True, "peers": [("db", 5432)]},
}
LISTENERS = {
    "no-network": {"tcp 127.0.0.1:5432"},
    "proxy only": {"tcp 127.0.0.1:3128", "tcp 127.0.0.1:5432"},
    "transparent": {
        "tcp 127.0.0.1:3128",
        "tcp [::1]:3128",
        "tcp 127.0.0.1:53",
        "udp 127.0.0.1:53",
        "tcp 127.0.0.1:5432",
    },
}

# Tries to send something and prints, for each, the error's name, or what happened instead.
TRY = """
import errno, json, socket, sys, time
said = {}
for label, family, kind, protocol, address in json.loads(sys.argv[1]):
    begun = time.monotonic()
    try:
        one = socket.socket(getattr(socket, family), getattr(socket, kind), protocol)
        one.settimeout(5)
        one.connect(tuple(address))
        if kind != "SOCK_STREAM":
            one.send(bytes(8 if protocol != 255 else 40))
        word = "sent"
    except TimeoutError:
        word = "hung"
    except OSError as error:
        word = errno.errorcode[error.errno]
    said[label] = [word, time.monotonic() - begun < 2]
print(json.dumps(said))
"""
NOT_TCP = [
    ("udp", "AF_INET", "SOCK_DGRAM", 0, ["8.8.8.8", 53]),
    ("udp of the metadata", "AF_INET", "SOCK_DGRAM", 0, ["169.254.169.254", 80]),
    ("udp to many", "AF_INET", "SOCK_DGRAM", 0, ["224.0.0.251", 5353]),
    ("udp6", "AF_INET6", "SOCK_DGRAM", 0, ["2001:4860:4860::8888", 53]),
    ("udp6 to many", "AF_INET6", "SOCK_DGRAM", 0, ["ff02::fb", 5353, 0, 1]),
    ("icmp", "AF_INET", "SOCK_RAW", 1, ["8.8.8.8", 0]),
    ("icmp6", "AF_INET6", "SOCK_RAW", 58, ["2001:4860:4860::8888", 0]),
    ("ping", "AF_INET", "SOCK_DGRAM", 1, ["8.8.8.8", 0]),
    ("raw", "AF_INET", "SOCK_RAW", 255, ["8.8.8.8", 0]),
    ("gre", "AF_INET", "SOCK_RAW", 47, ["8.8.8.8", 0]),
    ("sctp by hand", "AF_INET", "SOCK_RAW", 132, ["8.8.8.8", 0]),
    ("sctp", "AF_INET", "SOCK_STREAM", 132, ["8.8.8.8", 80]),
    ("udp-lite", "AF_INET", "SOCK_DGRAM", 136, ["8.8.8.8", 80]),
]
TCP = [
    ("public", "AF_INET", "SOCK_STREAM", 0, ["93.184.216.34", 443]),
    ("private", "AF_INET", "SOCK_STREAM", 0, ["10.0.0.1", 3128]),
    ("metadata", "AF_INET", "SOCK_STREAM", 0, ["169.254.169.254", 80]),
    ("pool", "AF_INET", "SOCK_STREAM", 0, ["198.18.0.1", 22]),
    ("ipv6", "AF_INET6", "SOCK_STREAM", 0, ["2606:2800:220:1::1", 443]),
    ("ipv6 of its own", "AF_INET6", "SOCK_STREAM", 0, ["fd00:ec2::254", 80]),
    ("ipv4 in ipv6", "AF_INET6", "SOCK_STREAM", 0, ["::ffff:93.184.216.34", 443]),
    ("multipath", "AF_INET", "SOCK_STREAM", 262, ["93.184.216.34", 80]),
]
LOOPBACK = [
    ("own", "AF_INET", "SOCK_DGRAM", 0, ["127.0.0.1", 9]),
    ("own icmp", "AF_INET", "SOCK_RAW", 1, ["127.0.0.1", 0]),
]


async def tried(here: World, attempts: list[Any], uid: int = 0) -> dict[str, list[Any]]:
    said = await here.run(["/usr/bin/python3", "-c", TRY, json.dumps(attempts)], uid=uid)
    return dict(json.loads(said))


@pytest.mark.parametrize("mode", MODES)
async def test_n1_35_interfaces_routes_and_listeners_are_the_tables(tmp_path: Path, mode: str) -> None:
    async with world(tmp_path / "s", **MODES[mode]) as here:
        assert here.facts["refused"] == []
        assert here.facts["transparent"] == here.facts["ipv6"] == (mode == "transparent")
        links = json.loads(await here.shell("ip -j link"))
        assert [(link["ifname"], "UP" in link["flags"]) for link in links] == [("lo", True)]
        assert await here.shell("ip route; ip -6 route show table main | grep -v '^::1 '") == ""
        default = await here.shell("ip route show table 100; ip -6 route show table 100")
        lines = [" ".join(line.split()[:5]) for line in default.splitlines() if not line.startswith("Error")]
        local = ["local default dev lo scope", "local default dev lo src"]
        assert [line for line in lines if line.startswith("local")] == (
            local if mode == "transparent" else []
        )
        heard = await here.shell("ss -Hltn | awk '{print \"tcp\", $4}'; ss -Hlun | awk '{print \"udp\", $4}'")
        assert set(heard.splitlines()) == LISTENERS[mode]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("uid", [0, 1000])
async def test_n1_39_what_is_not_tcp_fails_at_once(tmp_path: Path, mode: str, uid: int) -> None:
    async with world(tmp_path / "s", **MODES[mode]) as here:
        said = await tried(here, NOT_TCP, uid)
        assert {label for label, (word, _) in said.items() if word in {"sent", "hung"}} == set()
        assert all(at_once for _, at_once in said.values())
        usable = LOOPBACK if uid == 0 else LOOPBACK[:1]
        assert {word for word, _ in (await tried(here, usable, uid)).values()} == {"sent"}, (
            "the positive control"
        )


async def test_n1_39_nothing_gets_out_through_an_interface_by_name_either(tmp_path: Path) -> None:
    script = """
    import socket
    for family, address in ((socket.AF_INET, ("8.8.8.8", 53)), (socket.AF_INET6, ("2001:4860:4860::8888", 53))):
        one = socket.socket(family, socket.SOCK_DGRAM)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
        try:
            one.sendto(b"x", address)
            print("sent")
        except OSError as error:
            print(error.strerror)
    """
    async with world(tmp_path / "s", **MODES["transparent"]) as here:
        assert "sent" not in await here.python(script)


@pytest.mark.parametrize("mode", ["no-network", "proxy only"])
async def test_n1_41_42_tcp_to_elsewhere_fails_at_once_without_the_transparent_way(
    tmp_path: Path, mode: str
) -> None:
    async with world(tmp_path / "s", **MODES[mode]) as here:
        said = await tried(here, TCP)
        assert {word for word, _ in said.values()} == {"ENETUNREACH"}
        assert all(at_once for _, at_once in said.values())
        own = await tried(here, [("peer", "AF_INET", "SOCK_STREAM", 0, ["127.0.0.1", 5432])])
        assert own["peer"][0] == "sent", "the positive control"


async def test_n1_every_tcp_connection_is_caught_with_the_address_meant(tmp_path: Path) -> None:
    async with world(tmp_path / "s", **MODES["transparent"]) as here:
        for uid in (0, 1000):
            said = await tried(here, TCP, uid)
            assert {word for word, _ in said.values()} == {"sent"}
            found = set()
            for way in ("way", "way6"):
                here.sockets[way].settimeout(0.2)
                while True:
                    try:
                        connection, _ = here.sockets[way].accept()
                    except TimeoutError:
                        break
                    found.add(connection.getsockname()[:2])
                    connection.close()
            meant = {tuple(address) for *_, address in TCP} - {("::ffff:93.184.216.34", 443)}
            assert found == meant


async def test_36_the_machines_own_loopback_is_not_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as outside:
        port = outside.getsockname()[1]
        for mode, ways in MODES.items():
            async with world(tmp_path / mode.replace(" ", "-"), **ways) as here:
                said = await tried(here, [("it", "AF_INET", "SOCK_STREAM", 0, ["127.0.0.1", port])])
                assert said["it"][0] == "ECONNREFUSED"
        socket.create_connection(("127.0.0.1", port), 5).close()


STEAL = """
import errno, json, socket, sys
said = []
for port in map(int, sys.argv[1:]):
    for kind in (socket.SOCK_STREAM,) if port != 53 else (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            for options in ((), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)):
                one = socket.socket(family, kind)
                for option in options:
                    one.setsockopt(socket.SOL_SOCKET, option, 1)
                try:
                    one.bind((host, port))
                    if kind == socket.SOCK_STREAM:
                        one.listen()
                    said.append(f"taken: {host} {port} {kind!r} {options}")
                except OSError as error:
                    said.append(errno.errorcode[error.errno])
                one.close()
print(json.dumps(said))
"""


@pytest.mark.parametrize("uid", [0, 1000])
async def test_44_our_ports_cannot_be_taken(tmp_path: Path, uid: int) -> None:
    async with world(tmp_path / "s", **MODES["transparent"]) as here:
        said = await here.run(["/usr/bin/python3", "-c", STEAL, "3128", "3129", "53", "5432"], uid=uid)
        assert set(json.loads(said)) == {"EADDRINUSE"}
        free = json.loads(await here.run(["/usr/bin/python3", "-c", STEAL, "80"], uid=uid))
        assert all(word.startswith("taken") for word in free), (
            "the positive control, and low ports are for all"
        )


async def test_44_the_verifiers_way_refuses_until_it_is_opened_and_again_when_it_is_closed(
    tmp_path: Path,
) -> None:
    attempt = [("it", "AF_INET", "SOCK_STREAM", 0, ["127.0.0.1", ends.VERIFIER_PORT])]
    async with world(tmp_path / "s", **MODES["proxy only"]) as here:
        ours = here.sockets["verifier"]
        for _ in range(2):
            assert (await tried(here, attempt))["it"][0] == "ECONNREFUSED"
            ours.listen(16)
            assert (await tried(here, attempt))["it"][0] == "sent"
            ours.shutdown(socket.SHUT_RD)
        assert (await tried(here, attempt))["it"][0] == "ECONNREFUSED"
        stolen = await here.run(["/usr/bin/python3", "-c", STEAL, "3129"])
        assert set(json.loads(stolen)) == {"EADDRINUSE"}


async def test_n1_the_agents_own_server_is_reached_on_every_loopback_address_and_nowhere_else(
    tmp_path: Path,
) -> None:
    script = """
    import socket
    server = socket.create_server(("0.0.0.0", 8080))
    six = socket.create_server(("::1", 8080), family=socket.AF_INET6)
    for host in ("127.0.0.1", "127.0.0.5", "127.255.255.254", "0.0.0.0", "localhost", "::1"):
        one = socket.create_connection((host, 8080), 5)
        (six if one.family == socket.AF_INET6 else server).accept()[0].sendall(b"own")
        print(host, one.recv(3).decode())
    server.settimeout(0.3)
    one = socket.create_connection(("93.184.216.34", 8080), 5)
    try:
        server.accept()
        print("it came to us")
    except TimeoutError:
        print("not ours")
    """
    async with world(tmp_path / "s", **MODES["transparent"]) as here:
        said = (await here.python(script)).splitlines()
        assert said == [
            *(
                f"{host} own"
                for host in ("127.0.0.1", "127.0.0.5", "127.255.255.254", "0.0.0.0", "localhost", "::1")
            ),
            "not ours",
        ]


async def test_45_nothing_of_the_network_can_be_changed_inside(tmp_path: Path) -> None:
    script = """
    for c in "nft flush ruleset" "nft list ruleset" "ip link set lo down" "ip addr add 9.9.9.9/32 dev lo" \
             "ip route add default dev lo" "ip rule del pref 100" "ip rule add pref 1 lookup 100"; do
        $c >/dev/null 2>&1 && echo "done: $c"
    done; ip rule | grep -c ipproto
    """
    async with world(tmp_path / "s", **MODES["transparent"]) as here:
        assert await here.shell(script) == "1\n"


async def test_46_a_forged_connection_has_no_owner(tmp_path: Path) -> None:
    # a handshake made by hand: what comes is from no socket, so it is nobody's
    script = """
    import socket, struct, sys
    def checksum(data):
        data += b"\\0" * (len(data) % 2)
        total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
        while total >> 16:
            total = (total & 0xffff) + (total >> 16)
        return ~total & 0xffff
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
    raw.bind(("127.0.0.1", 0))
    raw.settimeout(5)
    def send(flags, number, acknowledged):
        head = struct.pack("!HHIIBBHHH", 5555, 3128, number, acknowledged, 80, flags, 65535, 0, 0)
        both = socket.inet_aton("127.0.0.1") * 2 + struct.pack("!BBH", 0, 6, len(head))
        head = head[:16] + struct.pack("!H", checksum(both + head)) + head[18:]
        raw.sendto(head, ("127.0.0.1", 0))
    send(2, 1000, 0)
    while True:
        packet = raw.recv(4096)[20:]
        source, target, number, _, _, flags = struct.unpack_from("!HHIIBB", packet)
        if (source, target) == (3128, 5555) and flags & 2:
            break
    send(16, 1001, number + 1)
    print("opened", flush=True)
    sys.stdin.read()
    import time
    time.sleep(1)
    """
    async with world(tmp_path / "s", **MODES["transparent"]) as here:
        # the kernel would reset what it knows no socket of
        way = here.sockets["way"]
        way.settimeout(5)
        await here.python(script)
        try:
            connection, peer = way.accept()
        except TimeoutError:
            return  # the world's own kernel reset it first
        assert peer == ("127.0.0.1", 5555)
        assert here.owners.of(connection) is None
        connection.close()


async def test_n9_a_peer_whose_port_is_not_free_has_the_next_loopback_address(tmp_path: Path) -> None:
    async with world(
        tmp_path / "s", proxy=True, peers=[("a", 5432), ("b", 5432), ("c", 3128), ("d", 3129)]
    ) as here:
        assert here.facts["peers"] == [
            ["a", "127.0.0.1", 5432],
            ["b", "127.0.0.2", 5432],
            ["c", "127.0.0.2", 3128],
            ["d", "127.0.0.2", 3129],
        ]
        said = await tried(
            here, [(n, "AF_INET", "SOCK_STREAM", 0, [a, p]) for n, a, p in here.facts["peers"]]
        )
        assert {word for word, _ in said.values()} == {"sent"}


async def test_n9_all_ports_of_a_peer_are_on_one_address(tmp_path: Path) -> None:
    # On two, a client that asks for the name would try the proxy, or the name server, at the first.
    peers = [("db", 5432), ("a", 5432), ("db", 53), ("db", 3128)]
    async with world(tmp_path / "s", proxy=True, transparent=True, peers=peers) as here:
        assert here.facts["peers"] == [
            ["db", "127.0.0.2", 5432],
            ["a", "127.0.0.1", 5432],
            ["db", "127.0.0.2", 53],
            ["db", "127.0.0.2", 3128],
        ]
        said = await tried(
            here, [(f"{n}:{p}", "AF_INET", "SOCK_STREAM", 0, [a, p]) for n, a, p in here.facts["peers"]]
        )
        assert {word for word, _ in said.values()} == {"sent"}


async def test_n9_as_many_peers_as_may_be_declared_are_there(tmp_path: Path) -> None:
    peers = [(f"p{number}", 5432) for number in range(64)]
    async with world(tmp_path / "s", proxy=True, transparent=True, peers=peers) as here:
        assert len({address for _, address, _ in here.facts["peers"]}) == 64
        assert len(here.sockets) == 64 + 6


async def test_n11_when_nobody_holds_the_ends_any_more_the_world_is_closed(tmp_path: Path) -> None:
    async with world(tmp_path / "s", **MODES["transparent"]) as here:
        assert {word for word, _ in (await tried(here, TCP)).values()} == {"sent"}, "the positive control"
        for one in here.sockets.values():
            one.close()
        said = await tried(here, TCP)
        assert {word for word, _ in said.values()} == {"ECONNREFUSED"}
        assert all(at_once for _, at_once in said.values())


PREPARE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from cell.launcher import ends
print(json.dumps(ends.prepare({"proxy": True, "transparent": True, "peers": [["db", 5432]]})[0]))
"""


def prepared(before: str) -> dict[str, Any]:
    """What comes of it in a network namespace where something was done before."""
    script = f"ip link set lo up; {before} {sys.executable} -c '{PREPARE}' {SOURCE}"
    done = subprocess.run(
        ["unshare", "-Urn", "sh", "-c", script], capture_output=True, text=True, timeout=30, check=True
    )
    return dict(json.loads(done.stdout))


def test_where_the_kernel_refuses_the_proxy_is_all_there_is_and_the_reason_is_said() -> None:
    facts = prepared("exec setpriv --bounding-set=-net_admin,-net_raw --inh-caps=-net_admin,-net_raw")
    assert (facts["transparent"], facts["ipv6"]) == (False, False)
    assert set(facts["sockets"]) == {"diag", "way", "verifier", "peer:0"}
    assert any("Operation not permitted" in line for line in facts["refused"])
    assert prepared("")["transparent"], "the positive control"


def test_where_there_is_no_ipv6_the_rest_is_there() -> None:
    facts = prepared("sysctl -qw net.ipv6.conf.all.disable_ipv6=1;")
    assert (facts["transparent"], facts["ipv6"]) == (True, False)
    assert "way6" not in facts["sockets"]
    assert any(line.startswith("ipv6") for line in facts["refused"])
