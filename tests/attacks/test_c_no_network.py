"""Section C for the mode `no-network`: only lo, and what is elsewhere fails at once (SPEC N1, N2)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from world import LiveCell, until

from .bench import attack, init_of, linger, outside, unhindered
from .test_b_filesystem import listening

pytestmark = pytest.mark.live

FAR = ("8.8.8.8", "1.1.1.1", "192.0.2.1", "169.254.169.254", "10.0.0.1", "100.100.100.200", "224.0.0.1")
FAR_6 = ("2001:4860:4860::8888", "fd00:ec2::254", "fe80::1", "64:ff9b::a9fe:a9fe")
NOWHERE = {"ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "EINVAL", "ECONNREFUSED"}


class Canary:
    """A service of this machine, by TCP and UDP, on every address; `came` is who reached it."""

    def __init__(self, family: socket.AddressFamily) -> None:
        self.came: list[str] = []
        everywhere = "::" if family == socket.AF_INET6 else "0.0.0.0"
        self.tcp = socket.create_server((everywhere, 0), family=family)
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(family, socket.SOCK_DGRAM)
        self.udp.bind((everywhere, self.port))
        for work in (self._tcp, self._udp):
            threading.Thread(target=work, daemon=True).start()

    def _tcp(self) -> None:
        while True:
            try:
                link, (host, *_) = self.tcp.accept()
            except OSError:
                return
            with link:
                self.came.append(f"tcp {host}")
                link.sendall(b"S3CRET")

    def _udp(self) -> None:
        while True:
            try:
                data, sender = self.udp.recvfrom(100)
            except OSError:
                return
            if not data:
                return
            self.came.append(f"udp {sender[0]}")
            self.udp.sendto(b"S3CRET", sender)

    def close(self) -> None:
        self.tcp.shutdown(socket.SHUT_RDWR)
        self.tcp.close()
        with socket.socket(self.udp.family, socket.SOCK_DGRAM) as last:
            last.sendto(b"", ("::1" if self.udp.family == socket.AF_INET6 else "127.0.0.1", self.port))
        self.udp.close()


@pytest.fixture(scope="module")
def canary() -> Iterator[Canary]:
    service = Canary(socket.AF_INET)
    yield service
    service.close()


def addresses() -> list[str]:
    """The IPv4 addresses of this machine, the loopback's among them."""
    said = subprocess.run(["ip", "-j", "-4", "addr"], capture_output=True, text=True, check=True).stdout
    return [entry["local"] for link in json.loads(said) for entry in link["addr_info"]]


def test_035_there_is_lo_and_nothing_else(standing: LiveCell) -> None:
    told, control = attack(standing, "network"), outside("network")
    assert (told["interfaces"], told["sysfs"]) == (["lo"], ["lo"])
    assert (told["routes"], told["neighbours"], told["proxies"]) == ([], [], [])
    assert set(told["routes 6"]) <= {"lo"}
    assert set(told["addresses 6"]) <= {"lo"}
    assert set(map(tuple, told["sockets"].values())) == {()}, "nobody listens"
    assert (told["unix"], told["resolv"]) == ([], [])
    name = standing.info["identity"]["hostname"]
    assert {line.split()[1] for line in told["hosts"] if line.startswith("127.")} == {"localhost", name}
    assert control["sockets"]["tcp"] + control["sockets"]["tcp6"] + control["unix"], (
        "control: the program sees such"
    )
    assert set(control["interfaces"]) - {"lo"} or control["routes"] or control["interfaces"] == ["lo"]
    standing.inside(
        "python3 -c 'import socket, time; s = socket.create_server((\"0.0.0.0\", 4035)); time.sleep(2)' >/dev/null 2>&1 &"
    )
    assert until(lambda: attack(standing, "network")["sockets"]["tcp"] == ["00000000:0FC3"]), (
        "control: its own is seen"
    )


def test_036_no_service_of_the_substrate_is_reached(standing: LiveCell, canary: Canary) -> None:
    names = (
        socket.gethostname(),
        "host.docker.internal",
        "gateway.docker.internal",
        "host.containers.internal",
    )
    aims = [["tcp", host, canary.port] for host in addresses()]
    told = attack(standing, "reach", json.dumps([*aims, *(["name", name, canary.port] for name in names)]))
    for kind, host, answer in told:
        if kind == "name":
            assert answer in ("EAI_AGAIN", "EAI_NONAME"), (host, answer)
        else:
            assert answer == ("ECONNREFUSED" if host.startswith("127.") else "ENETUNREACH"), (host, answer)
    assert canary.came == []
    assert {answer for _, _, answer in outside("reach", json.dumps(aims))} == {"S3CRET"}, (
        "control: it answers at each"
    )
    assert len(canary.came) == len(aims)
    canary.came.clear()


def test_037_no_channel_to_the_harness(standing: LiveCell) -> None:
    real = sorted(map(str, standing.runtime.glob("*.sock")))
    assert len(real) >= 4, "control: the cell's sockets exist"
    abstract = f"@bench-{os.getpid()}"
    with ExitStack() as stack:
        came = stack.enter_context(listening(abstract))
        told = attack(standing, "sockets", abstract, *real)
        assert told["answers"].pop(abstract) == "ECONNREFUSED"
        assert set(told["answers"].values()) == {"ENOENT"}
        assert came == []
        assert outside("sockets", "--answers", abstract)["answers"][abstract] == "S3CRET", (
            "control: it answers outside"
        )
    assert not [name for name in told["listed"] if "hudtui" in name or standing.id in name]
    ports = attack(
        standing,
        "reach",
        json.dumps([["tcp", "127.0.0.1", port] for port in (22, 80, 2375, 3128, 3129, 8080)]),
    )
    assert {answer for _, _, answer in ports} == {"ECONNREFUSED"}
    # and what the harness brings in by itself, its descriptors, are no way out
    # (another row's own server may still be on its way out)
    assert until(lambda: "socket:" not in standing.inside("ls -l /proc/[0-9]*/fd 2>/dev/null; true"))


def test_039_no_other_protocol_gets_anywhere(standing: LiveCell, canary: Canary) -> None:
    own = [host for host in addresses() if not host.startswith("127.")]
    kinds = ("udp", "icmp", "ping", "raw", "gre", "sctp", "sctp packets", "tcp")
    aims = [[kind, host, canary.port] for kind in kinds for host in (*FAR, *own)]
    aims += [[kind, host, canary.port] for kind in ("udp", "tcp", "icmp6") for host in FAR_6]
    before = Path(f"/proc/{init_of(standing)}/net/dev").read_text()
    told = attack(standing, "reach", json.dumps(aims))
    for kind, host, answer in told:
        if kind in ("ping", "sctp", "sctp packets"):
            assert answer in NOWHERE | {"EACCES", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT"}, (kind, host, answer)
        else:
            assert answer in NOWHERE, (kind, host, answer)
    assert Path(f"/proc/{init_of(standing)}/net/dev").read_text() == before, (
        "not one packet was sent, on lo either"
    )
    names = [["name", name, 443] for name in ("secret.evil.example", "example.com", "localhost")]
    told = [answer for *_, answer in attack(standing, "reach", json.dumps(names))]
    assert told.pop() in ("127.0.0.1", "::1"), "control: the hosts file is asked"
    assert set(told) <= {"EAI_AGAIN", "EAI_NONAME"}, told
    assert canary.came == []
    local = attack(standing, "reach", json.dumps([["udp", "127.0.0.1", 9], ["icmp", "127.0.0.1", 0]]))
    assert local[0][2] == "ECONNREFUSED", local
    assert local[1][2] not in NOWHERE, "control: on lo a ping comes back"
    outside("reach", json.dumps([["udp", host, canary.port] for host in addresses()]))
    assert len(canary.came) == len(addresses()), "control: by UDP it is reached from outside"
    canary.came.clear()


def test_045_the_network_cannot_be_changed(standing: LiveCell) -> None:
    told = attack(standing, "reconfigure")
    assert told.pop("tun") in {"ENOENT", "EPERM", "EACCES"}
    assert told.pop("sysctl") == "EROFS"
    assert set(told.values()) == {"EPERM"}, told
    assert attack(standing, "network")["interfaces"] == ["lo"]
    control = unhindered(standing, "reconfigure", new="-n")
    assert {control[what] for what in ("up", "down", "address", "nft")} == {"ok"}, control


def test_046_a_sniffer_sees_no_credential(cell: LiveCell) -> None:
    """The verifier talks to the agent's service; of what it was given nothing is on the wire."""
    upper = cell.trial / "cell/root/upper/tmp"
    cell.inside(
        "mkdir -p /srv/www; echo page > /srv/www/index.html; cd /srv/www; nohup python3 -m http.server 4046 >/dev/null 2>&1 &"
    )
    linger(cell, "sniff")
    assert until(lambda: (upper / "packets").exists() and b"listening" in (upper / "packets").read_bytes())
    get = "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:4046/?m4rker').read().decode())\""
    assert until(lambda: "page" in cell.ssh(get).stdout)
    graded = cell.grade(
        f"#!/bin/sh\n{get}\necho 1 > /logs/verifier/reward.txt\n",
        env={"TOKEN": "V-S3CRET", "KEY": "K-S3CRET"},
    )
    assert "page" in graded["output"], "control: the verifier reached the service"
    (Path(f"/proc/{init_of(cell)}/root/tmp/enough")).touch()
    packets = (upper / "packets").read_bytes()
    assert packets.count(b"GET /?m4rker") >= 4, "control: both requests are seen, once each way"
    assert b"S3CRET" not in packets
    keys = [file.read_text().split("\n")[1].encode() for file in cell.runtime.glob("*.key")]
    assert keys
    assert not [key for key in keys if key in packets]
