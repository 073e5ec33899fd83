"""The ways out of a real cell (promises N1–N3, N7–N11): by proxy and by the transparent way."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cell import border, kernel, ways
from cell.describe import PhaseSpec
from cell.egress import peers as peer_ways
from cell.errors import Refused
from cell.policy.peers import Peer
from cell.records import Limit
from tests.world import LiveCell, until
from tests.world import tests as packed

pytestmark = pytest.mark.live
Maker = Callable[..., LiveCell]
PIDS = Limit(name="pids", value="8192", enforced=False)
ASK = """python3 - <<'P'
import urllib.request as r
plain = r.build_opener(r.ProxyHandler({}))
for name, opener in (("proxy", r.build_opener()), ("direct", plain)):
    for url in %r:
        try:
            print(name, url, opener.open(url, timeout=10).read().decode())
        except OSError as error:
            print(name, url, "failed", getattr(error, "code", ""))
P"""


class Origin:
    """A server of this machine, on an address of its loopback. It counts who came."""

    def __init__(self, address: str) -> None:
        self.server = socket.create_server((address, 0))
        self.port = self.server.getsockname()[1]
        self.came = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                one, _ = self.server.accept()
            except OSError:
                return
            self.came += 1
            one.recv(65536)
            one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
            one.close()


@pytest.fixture
def origin() -> Iterator[Origin]:
    one = Origin("127.0.0.9")
    yield one
    one.server.close()


def phase(mode: str, *hosts: str, key: str = "agent.network_mode") -> PhaseSpec:
    return PhaseSpec(
        user="root",
        key="agent.user",
        network_declared=mode,
        network_used=mode,
        allowed_hosts=hosts,
        network_key=key,
    )


def hits(cell: LiveCell, **wanted: Any) -> list[dict[str, Any]]:
    return [one for one in cell.events("egress") if all(one[key] == value for key, value in wanted.items())]


def asked(cell: LiveCell, *urls: str) -> dict[tuple[str, str], str]:
    lines = cell.inside(ASK % (list(urls),)).splitlines()
    return {(way, url): said for way, url, said in (line.split(" ", 2) for line in lines)}


def test_n2_n10_both_ways_follow_the_list_and_all_of_it_is_recorded(make_cell: Maker, origin: Origin) -> None:
    assert ways.Ways and border.Border and peer_ways.PeerWay
    cell = make_cell(
        agent_phase=phase("allowlist", "pkg.example"),
        pins=(("pkg.example", "127.0.0.9"), ("other.example", "127.0.0.9")),
    )
    good, bad = f"http://pkg.example:{origin.port}/", f"http://other.example:{origin.port}/"
    said = asked(cell, good, bad, f"http://127.0.0.9:{origin.port}/")
    assert said["proxy", good] == said["direct", good] == "hello"
    assert said["proxy", bad].startswith("failed 403") and said["direct", bad].startswith("failed")
    # the substrate's own loopback is another one than the world's
    assert said["proxy", f"http://127.0.0.9:{origin.port}/"].startswith("failed")
    assert said["direct", f"http://127.0.0.9:{origin.port}/"].startswith("failed")
    assert origin.came == 2
    for way in ("proxy", "transparent"):
        (passed,) = hits(cell, way=way, host="pkg.example")
        assert passed["allowed"] and passed["rule"] == "pkg.example" and passed["session"] == 1
        assert passed["phase"] == "agent" and "python3" in passed["command"]
        denied = hits(cell, way=way, host="other.example")
        # a client that is reset while it still connects tries the name's other address: an attempt of its own
        assert len(denied) == 1 or (way == "transparent" and len(denied) == 2), denied
        for one in denied:
            assert not one["allowed"] and "allowed_hosts of [agent]" in one["reason"]
    tried = {one["hit"] for one in hits(cell) if one["way"] != "name"}
    assert until(lambda: {one["hit"] for one in cell.events("egress-end")} == tried)
    numbers = [one["hit"] for one in hits(cell)]
    assert numbers == sorted(set(numbers))


def test_n1_without_a_network_there_is_neither_a_way_nor_a_variable(make_cell: Maker, origin: Origin) -> None:
    cell = make_cell(pins=(("pkg.example", "127.0.0.9"),))
    assert "proxy" not in cell.inside("env").lower()
    said = asked(cell, f"http://pkg.example:{origin.port}/")
    assert all(answer.startswith("failed") for answer in said.values())
    assert (hits(cell), origin.came) == ([], 0)
    assert cell.info["identity"]["ends"]["listeners"] == []


def test_n1_proxy_only_leaves_the_rest_to_fail_at_once(make_cell: Maker, origin: Origin) -> None:
    cell = make_cell(agent_phase=phase("public"), proxy_only=True, pins=(("pkg.example", "127.0.0.9"),))
    url = f"http://pkg.example:{origin.port}/"
    said = asked(cell, url)
    assert said["proxy", url] == "hello" and said["direct", url].startswith("failed")
    assert cell.inside("cat /etc/resolv.conf") == ""


def test_g2_when_the_agent_phase_closes_its_open_connections_are_cut(make_cell: Maker) -> None:
    server = socket.create_server(("127.0.0.9", 0))
    port = server.getsockname()[1]
    cell = make_cell(agent_phase=phase("public"), pins=(("pkg.example", "127.0.0.9"),))
    holds = "import socket; s = socket.create_connection(('pkg.example', PORT));s.sendall(b'x'); s.recv(1)"
    cell.inside(f'nohup python3 -c "{holds.replace("PORT", str(port))}" >/dev/null 2>&1 &')
    server.settimeout(10)
    one, _ = server.accept()
    one.settimeout(10)
    assert one.recv(1) == b"x"
    cell.seal()
    assert one.recv(1) == b""
    (hit,) = hits(cell, way="transparent")
    ends = [end for end in cell.events("egress-end") if end["hit"] == hit["hit"]]
    assert "agent phase is over" in ends[0]["error"] and ends[0]["sent"] == 1
    one.close()
    server.close()


def test_g2_a_sealed_agent_gets_nowhere_but_where_an_operator_lets_it(
    make_cell: Maker, origin: Origin
) -> None:
    cell = make_cell(
        agent_phase=phase("allowlist", "pkg.example"),
        pins=(("pkg.example", "127.0.0.9"), ("also.example", "127.0.0.9")),
    )
    tries = f"""nohup sh -c 'while :; do for host in pkg also; do
        curl -s -m 5 -o /dev/null -w "$host %{{http_code}}\\n" http://$host.example:{origin.port}/ >> /tmp/said
        curl -s -m 5 --noproxy "*" -o /dev/null -w "$host-direct %{{http_code}}\\n" \
            http://$host.example:{origin.port}/ >> /tmp/said
        sleep 0.1; done; done' >/dev/null 2>&1 &"""
    cell.inside(tries)

    def said() -> str:
        root = next(Path(f"/proc/{pid}/root") for pid in kernel.processes_in(cell.pid_namespace))
        return (root / "tmp/said").read_text() if (root / "tmp/said").exists() else ""

    assert until(lambda: "pkg 200" in said() and "pkg-direct 200" in said() and "also 403" in said())
    cell.seal()
    came = origin.came
    seen = len(said())
    assert until(lambda: "pkg 403" in said()[seen:] and "pkg-direct 000" in said()[seen:])
    # what was under way when the phase closed may have come to its end
    assert "200" not in said()[seen:].split("pkg 403", 1)[1]
    reasons = {hit["reason"] for hit in hits(cell, host="pkg.example", allowed=False)}
    assert reasons == {"denied: the agent phase is over"}
    assert origin.came <= came + 1
    cell.call("allow", principal="operator", host="also.example", phase="agent")
    assert until(lambda: "also 200" in said()[seen:])


VERIFIER = """#!/bin/sh
for i in 1 2 3; do
curl -s -m 10 -o /logs/verifier/own -w '%%{http_code}\\n' http://v.example:%(port)d/
curl -s -m 10 -o /dev/null -w '%%{http_code}\\n' http://a.example:%(port)d/
curl -s -m 10 --noproxy '*' -o /dev/null -w '%%{http_code}\\n' http://v.example:%(port)d/
curl -s -m 10 -o /dev/null -w '%%{http_code}\\n' http://127.0.0.1:8000/ --noproxy '*'
done
until [ -e /tmp/tried ]; do sleep 0.1; done
echo 1 > /logs/verifier/reward.txt
"""
ONCE = b"curl -s -m 10 -o /dev/null -w '%%{http_code}\\n' http://v.example:%d/\n"
# the agent's own, which waits for the verifier's way and tries it
TRIES = """nohup python3 - >/tmp/said 2>&1 <<'P' &
import socket, time, threading, http.server, os, socketserver
os.chdir("/tmp")
threading.Thread(target=http.server.ThreadingHTTPServer(("0.0.0.0", 8000), http.server.SimpleHTTPRequestHandler).serve_forever, daemon=True).start()
def tried():
    with socket.create_connection(("127.0.0.1", 3129), 5) as one:
        one.sendall(b"GET http://v.example:%(port)d/ HTTP/1.1\\r\\nHost: v.example\\r\\n\\r\\n")
        return one.recv(12)
print("before", end=" ", flush=True)
try:
    print(tried(), flush=True)
except ConnectionRefusedError:
    print("refused", flush=True)
while True:
    try:
        print("during", tried(), flush=True)
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
open("/tmp/tried", "w").close()
time.sleep(600)
P
"""


def test_n8_the_verifier_has_its_own_way_and_reaches_what_the_agent_serves(
    make_cell: Maker, origin: Origin
) -> None:
    cell = make_cell(
        agent_phase=phase("allowlist", "a.example"),
        verifier_phase=phase("allowlist", "v.example", key="verifier.network_mode"),
        pins=(("a.example", "127.0.0.9"), ("v.example", "127.0.0.9")),
    )
    cell.inside(TRIES % {"port": origin.port})
    assert until(lambda: "refused" in cell.inside("cat /tmp/said"))
    url = f"http://v.example:{origin.port}/"
    assert asked(cell, url)["proxy", url].startswith("failed 403")
    cell.seal()
    grading = cell.grade(VERIFIER % {"port": origin.port})
    assert grading["rewards"] == {"reward": 1.0}
    told = grading["output"].split()
    assert told == ["200", "403", "200", "200"] * 3
    strangers = hits(cell, rule="owner")
    assert strangers, "the agent's try at the verifier's way is recorded"
    ours = [hit for hit in hits(cell, phase="verifier") if hit["way"] != "name" and hit not in strangers]
    assert {(hit["host"], hit["allowed"]) for hit in ours} == {("v.example", True), ("a.example", False)}
    # and once more: the port was nobody's in between, though nobody else could have it
    cell.call("keep", principal="operator")
    again = cell.call(
        "grade",
        packed({"test.sh": b"#!/bin/sh\n" + ONCE % origin.port}),
        principal="operator",
        timeout=20,
        env={},
    )
    assert again["output"].split() == ["200"]
    refused = cell.call("fidelity", principal="viewer")
    assert "127.0.0.1:3129" not in next(line["found"] for line in refused if line["name"] == "listeners")


def test_n9_a_declared_peer_answers_by_its_name_and_nothing_else_of_the_machine(
    make_cell: Maker, origin: Origin
) -> None:
    other = Origin("127.0.0.1")
    peer = Peer(name="db", port=5432, host="127.0.0.9", target=origin.port)
    cell = make_cell(peers=(peer,))
    get = 'python3 -c \'import socket; s = socket.create_connection(("%s", %d), 5); s.sendall(b"x"); print(s.recv(99)[:15])\''
    assert "200 OK" in cell.inside(get % ("db", 5432))
    assert cell.ssh(get % ("127.0.0.1", other.port)).returncode != 0
    assert (origin.came, other.came) == (1, 0)
    (hit,) = hits(cell, way="peer")
    assert (hit["host"], hit["port"], hit["allowed"]) == ("db", 5432, True)
    assert cell.info["identity"]["ends"]["listeners"] == ["127.0.0.1:5432"]
    # it is no way out of a policy, and stays for what the agent started
    cell.seal()
    other.server.close()


@pytest.mark.parametrize("only", [False, True])
def test_what_is_not_tls_on_443_is_let_pass_or_cut(make_cell: Maker, only: bool) -> None:
    with socket.create_server(("127.0.0.10", 443)) as server:
        server.settimeout(10)
        cell = make_cell(agent_phase=phase("public"), pins=(("pkg.example", "127.0.0.10"),), tls_only=only)
        said = cell.inside(
            'nohup python3 -c \'import socket; s = socket.create_connection(("pkg.example", 443), 5);'
            ' s.sendall(b"not a hello\\n"); s.settimeout(5); print(s.recv(9))\' > /tmp/said 2>&1 & echo $!'
        )
        assert said.strip().isdigit()
        one, _ = server.accept()
        with one:
            one.settimeout(10)
            # what is refused is held back: nothing of it arrives
            assert one.recv(99) == (b"" if only else b"not a hello\n")
        ends = until(lambda: cell.events("egress-end"))
        assert ("not TLS" in ends[0]["error"]) == only


def test_n11_when_the_serving_process_dies_nothing_answers_any_more(make_cell: Maker, origin: Origin) -> None:
    cell = make_cell(agent_phase=phase("public"), pins=(("pkg.example", "127.0.0.9"),))
    url = f"http://pkg.example:{origin.port}/"
    assert asked(cell, url)["proxy", url] == "hello"
    before = origin.came
    cell.process.kill()
    cell.process.wait(10)
    assert cell.ssh("true").returncode != 0
    assert origin.came == before


def test_an_operator_allows_a_host_for_once_and_for_good(make_cell: Maker, origin: Origin) -> None:
    cell = make_cell(agent_phase=phase("allowlist"), pins=(("pkg.example", "127.0.0.9"),))
    url = f"http://pkg.example:{origin.port}/"
    assert asked(cell, url)["proxy", url].startswith("failed 403")
    cell.call("allow", principal="operator", host="pkg.example", once=True)
    first = asked(cell, url)
    assert (first["proxy", url], first["direct", url].split()[0]) == ("hello", "failed")
    cell.call("allow", principal="operator", host="pkg.example")
    second = asked(cell, url)
    assert second["proxy", url] == second["direct", url] == "hello"
    interventions = [one["what"] for one in cell.events("intervention")]
    assert len(interventions) == 2 and all("pkg.example" in what for what in interventions)
    assert hits(cell, host="pkg.example", way="proxy")[-1]["reason"] == (
        "allowed by pkg.example, which operator allowed"
    )


def test_what_cannot_be_allowed_is_refused_not_promised(make_cell: Maker) -> None:
    for overrides, host, why in (
        ({}, "pkg.example", "no way out for the agent"),
        ({"agent_phase": phase("allowlist")}, "127.0.0.1", "opened by nothing"),
        ({"agent_phase": phase("allowlist")}, "no host", "no host"),
    ):
        cell = make_cell(**overrides)
        with pytest.raises(Refused, match=why):
            cell.call("allow", principal="operator", host=host)
        assert cell.events("intervention") == []
        cell.stop()


def test_a_neighbours_crowd_costs_nobody_its_network(make_cell: Maker, origin: Origin) -> None:
    """Whose connection it is, is asked of this cell's processes, not of all that the machine has."""
    settings = {"agent_phase": phase("public"), "pins": (("pkg.example", "127.0.0.9"),)}
    crowd, cell = make_cell(limits=(PIDS,)), make_cell(limits=(PIDS,), **settings)
    crowd.inside(
        "nohup python3 -c 'import os, time\nfor n in range(2500):\n  if os.fork() == 0: time.sleep(600)\n"
        'open("/tmp/there", "w").close(); time.sleep(600)\' >/dev/null 2>&1 &'
    )
    assert until(lambda: crowd.ssh("test -e /tmp/there").returncode == 0, seconds=60)
    url = f"http://pkg.example:{origin.port}/"
    for _ in range(3):
        said = asked(cell, url)
        assert said["proxy", url] == said["direct", url] == "hello"
    assert hits(cell, rule="owner") == []


def test_no_secret_of_a_request_is_written_down(make_cell: Maker, origin: Origin) -> None:
    cell = make_cell(agent_phase=phase("public"), pins=((f"pkg.example:{origin.port}", "127.0.0.9"),))
    at = f"pkg.example:{origin.port}"
    cell.inside(
        "python3 - <<'P'\nimport socket\n"
        f"for target in ('http://bob:pa55word@{at}/', 'http://{at}/x?token=t0ken&b=2'):\n"
        "    one = socket.create_connection(('127.0.0.1', 3128), 5)\n"
        f"    one.sendall((f'GET {{target}} HTTP/1.1\\r\\nHost: {at}\\r\\nAuthorization: Bearer b3arer\\r\\n\\r\\n').encode())\n"
        "    one.recv(999)\nP"
    )
    (passed,) = hits(cell, host="pkg.example", allowed=True)
    assert passed["path"] == "/x?token=…&b=…", "control: it was recorded"
    told = [event for event in cell.events() if event["kind"].startswith("egress")]
    for secret in ("pa55word", "t0ken", "b3arer"):
        assert not any(secret in str({**event, "command": ""}) for event in told), secret


def test_fidelity_looks_from_inside_as_each_user(make_cell: Maker) -> None:
    for overrides in (
        {},
        {"agent_phase": phase("public")},
        {"agent_phase": phase("public"), "proxy_only": True},
    ):
        cell = make_cell(**overrides)
        lines = cell.call("fidelity", principal="viewer")
        assert [line for line in lines if not line["ok"]] == []
        assert {line["phase"] for line in lines} == {"agent", "verifier"} and len(lines) > 50
        cell.stop()
