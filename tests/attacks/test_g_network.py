"""Section G, the network of the phases: each has its own way out, by who holds the connection (SPEC N2, N8, V5)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from world import GOOD, LiveCell, until
from world import tests as packed

from cell import ownway, trials

from .bench import answered, asking, attack, conversed, direct, init_of, linger, to_proxy
from .internet import PUBLIC, Audit, Internet, spec

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[2]
Maker = Callable[..., LiveCell]


@pytest.fixture
def phased(
    internet: Internet, tmp_path: Path
) -> Iterator[Callable[[tuple[str, ...], tuple[str, ...]], LiveCell]]:
    """Make cells with a (mode, hosts…) for the agent and another one for the verifier."""
    made: list[LiveCell] = []

    def make(agent: tuple[str, ...], verifier: tuple[str, ...]) -> LiveCell:
        made.append(
            internet.cell(
                tmp_path / f"trial{len(made)}",
                agent_phase=spec(*agent),
                verifier_phase=spec(*verifier, key="verifier.network_mode"),
            )
        )
        return made[-1]

    yield make
    for cell in made:
        assert cell.stop() == 0


def test_100_the_verifiers_way_out_is_not_the_agents(
    phased: Callable[[tuple[str, ...], tuple[str, ...]], LiveCell], internet: Internet
) -> None:
    cell = phased(("public",), ("allowlist", "v.example"))
    url = "http://v.example/from-the-agent"
    assert conversed(cell, to_proxy("x", port=3129))[0]["how"] == "ECONNREFUSED", "before it runs"
    assert answered(conversed(cell, asking("v.example"))[0]) == 200, (
        "control: in its own phase it may go there"
    )
    said = cell.trial / "cell/root/upper/tmp/said"
    linger(cell, "keeps_trying", 3129, url, "/tmp/said")
    # and on its own way, which is closed to it by then
    linger(cell, "keeps_trying", 3128, url, "/tmp/own")
    assert until(lambda: said.with_name("own.5").exists())
    cell.seal()
    own = said.with_name("own")
    before = len(own.read_text().splitlines())
    assert until(lambda: len(own.read_text().splitlines()) > before + 1)
    heads, audit = len(internet.far.heads), Audit(cell)
    graded = cell.grade(
        "#!/bin/sh\nuntil [ -e /tmp/said.5 ]; do sleep 0.05; done\n"
        "curl -s -m 10 http://v.example/from-the-verifier\necho 1 > /logs/verifier/reward.txt\n"
    )
    assert (graded["rewards"], graded["output"]) == ({"reward": 1}, "hello /from-the-verifier")
    assert [head.split(b" ")[1] for head in internet.far.heads[heads:]] == [b"/from-the-verifier"]
    lines = [line for line in said.read_text().splitlines() if line]  # none where its end cut one
    assert len(lines) >= 5 and all(
        line.startswith("HTTP/1.1 403 ") and "not its own" in line for line in lines
    )
    assert own.read_text().splitlines()[-1].startswith("HTTP/1.1 403 ")
    strangers = audit.all(rule="owner")
    assert len(strangers) >= 5 and not any(one["allowed"] for one in strangers)
    (ours,) = audit.all(path="/from-the-verifier")
    assert ours["allowed"] and ours["phase"] == "verifier" and "curl" in ours["command"]


ASK = """#!/bin/sh
for host in v.example a.example; do
curl -s -m 10 -o /dev/null -w '%{http_code} ' http://$host/
curl -s -m 10 -o /dev/null -w '%{http_code} ' --noproxy '*' http://$host/
done
"""


@pytest.mark.parametrize(
    ("agent", "verifier", "own", "others"),
    [
        (("allowlist", "a.example"), ("allowlist", "v.example"), [403, 0, 200, 200], "200 200 403 000 "),
        (("no-network",), ("public",), [0, 0, 0, 0], "200 200 200 200 "),
        (("public",), ("no-network",), [200, 200, 200, 200], "000 000 000 000 "),
    ],
    ids=["each its own", "only the verifier", "only the agent"],
)
def test_101_each_phase_has_its_own_list(
    phased: Callable[[tuple[str, ...], tuple[str, ...]], LiveCell],
    internet: Internet,
    agent: tuple[str, ...],
    verifier: tuple[str, ...],
    own: list[int],
    others: str,
) -> None:
    cell = phased(agent, verifier)
    talks = [talk for host in ("v.example", "a.example") for talk in (asking(host), direct(host, 80))]
    before = len(internet.far.came)
    told = conversed(cell, *talks)
    assert [answered(one) for one in told] == own, told
    assert len(internet.far.came) == before + own.count(200)
    assert {one["phase"] for one in cell.events("egress")} <= {"agent"}
    cell.seal()
    audit, before = Audit(cell), len(internet.far.came)
    graded = cell.grade(ASK + GOOD.partition("\n")[2])
    assert graded["output"] == others, graded
    assert graded["rewards"] == {"reward": 1}
    assert len(internet.far.came) == before + others.count("200")
    records = [one for one in audit.all() if one["way"] != "name"]
    assert {one["phase"] for one in records} <= {"verifier"}
    for one in records:
        wanted = verifier[0] == "public" or (one["host"] == "v.example" and verifier[0] != "no-network")
        assert one["allowed"] == wanted, one
        assert wanted or "[verifier]" in one["reason"], one


def of_the_kernel(cell: LiveCell) -> str:
    """All rules of a world's network, as its kernel tells them to this machine's root."""
    shown = (
        "ip rule; ip -6 rule; ip route show table all; ip -6 route show table all; ip addr; ss -Hlntu; "
        "nft list ruleset"
    )
    command = ["nsenter", "-t", str(init_of(cell)), "-n", "sh", "-c", shown]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout


# tries over and over to leave, and writes down how that goes, and what the world says of its names
TRIES = """
import errno, socket, sys, time
while True:
    words = []
    for to in (("%s", 80), ("v.example", 80)):
        try:
            with socket.create_connection(to, 5) as one:
                one.sendall(b"GET /agent HTTP/1.1\\r\\nHost: v.example\\r\\n\\r\\n")
                words.append("got" if one.recv(100) else "nothing")
        except socket.gaierror:
            words.append("NONAME")
        except OSError as error:
            words.append(errno.errorcode[error.errno])
    words.append(str(len(open("/etc/resolv.conf").read())))
    print(*words, flush=True)
    time.sleep(0.05)
"""
WHOLE = """#!/bin/sh
until tail -n 2 /tmp/tries | grep -q ECONNRESET; do sleep 0.05; done
exec 2>&1
curl -s -m 10 --noproxy '*' http://v.example/one; echo
curl -s -m 10 --noproxy '*' -6 http://v.example/two; echo
curl -s -m 10 http://v.example/three; echo
curl -s -m 10 --noproxy '*' -o /dev/null -w '%{http_code} ' http://a.example/
python3 - <<'P'
import socket
for kind, to in ((socket.SOCK_DGRAM, ("8.8.8.8", 53)), (socket.SOCK_STREAM, ("169.254.169.254", 80))):
    try:
        one = socket.socket(socket.AF_INET, kind)
        one.connect(to)
        one.sendall(b"x")
        print(repr(one.recv(10)))
    except OSError as error:
        print(error.strerror)
P
cat /etc/resolv.conf
echo 1 > /logs/verifier/reward.txt
"""
SAID = """hello /one
hello /two
hello /three
000 Network is unreachable
Connection reset by peer
nameserver 127.0.0.1
"""


def goes_on(file: Path) -> None:
    """Wait for three lines more."""
    so_far = len(file.read_text().splitlines())
    assert until(lambda: len(file.read_text().splitlines()) > so_far + 2)


def test_101_n1_n8_a_verifier_alone_has_the_transparent_way_and_only_while_it_runs(
    phased: Callable[[tuple[str, ...], tuple[str, ...]], LiveCell], internet: Internet
) -> None:
    assert ownway.OwnWay
    cell = phased(("no-network",), ("allowlist", "v.example"))
    assert cell.info["identity"]["ends"]["visiting"] and not cell.info["identity"]["ends"]["transparent"]
    told = attack(cell, "network")
    assert (told["routes"], told["resolv"], told["proxies"]) == ([], [], [])
    assert set(map(tuple, told["sockets"].values())) == {()}, "nobody listens"
    before = of_the_kernel(cell)
    assert "ipproto" not in before and "127.0.0.2" not in before and "tproxy" not in before
    cell.ssh("cat > /opt/tries.py", input=TRIES % PUBLIC)
    cell.inside("nohup python3 /opt/tries.py > /tmp/tries 2>&1 &")
    tries = cell.trial / "cell/root/upper/tmp/tries"
    assert until(tries.exists)
    goes_on(tries)
    cell.seal()
    cell.call("keep", principal="operator")
    for who in ("runner", "operator"):
        heads, audit, so_far = len(internet.far.heads), Audit(cell), len(tries.read_text().splitlines())
        graded = dict(
            cell.call(
                "grade",
                packed({"test.sh": WHOLE.encode()}),
                env={},
                timeout=30,
                principal=who,
            )
        )
        assert (graded["output"], graded["rewards"]) == (SAID, {"reward": 1})
        assert [head.split(b" ")[1] for head in internet.far.heads[heads:]] == [b"/one", b"/two", b"/three"]
        by_itself = audit.all(way="transparent", phase="verifier", host="v.example", allowed=True)
        assert [one["method"] for one in by_itself] == ["TCP", "TCP"] and "curl" in by_itself[0]["command"]
        (denied, *_) = audit.all(way="transparent", host="a.example")
        assert (denied["rule"], denied["phase"]) == ("allowlist", "verifier")
        strangers = audit.all(rule="owner")
        assert strangers and not any(one["allowed"] for one in strangers), "what the agent started is refused"
        goes_on(tries)
        assert of_the_kernel(cell) == before, "nothing of it is left"
        lines = tries.read_text().splitlines()
        assert set(lines[:2]) | {lines[-1]} == {"ENETUNREACH NONAME 0"}
        assert any("ECONNRESET" in line for line in lines[so_far:])
        assert {line[-2:] for line in lines} == {" 0"}, "the file that names our server is the verifier's own"
        assert not any("got" in line or "nothing" in line for line in lines)
    assert cell.events("fault") == []


HOLDS = """
import socket, time
held = [socket.socket(socket.AF_INET, kind) for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM)]
for one in held:
    one.bind(("%s", 53))
print("held", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("place", ["127.0.0.1", "0.0.0.0"])
def test_101_who_holds_the_port_of_names_is_told_of(
    phased: Callable[[tuple[str, ...], tuple[str, ...]], LiveCell], internet: Internet, place: str
) -> None:
    cell = phased(("no-network",), ("public",))
    cell.ssh("cat > /opt/holds.py", input=HOLDS % place)
    cell.inside(
        "nohup python3 /opt/holds.py > /tmp/held 2>&1 & until grep -q held /tmp/held; do sleep 0.05; done"
    )
    graded = cell.grade(
        f"#!/bin/sh\nfor to in v.example {PUBLIC}; do curl -s -m 10 --noproxy '*' http://$to/; echo; done\n"
        "cat /etc/resolv.conf\necho 1 > /logs/verifier/reward.txt\n"
    )
    notes = [text for text in graded["programs"] if "port 53" in text]
    if place == "127.0.0.1":
        assert (graded["output"], notes) == ("hello /\nhello /\nnameserver 127.0.0.2\n", [])
    else:
        assert graded["output"] == "\nhello /\n", "an address needs no name"
        assert notes == ["port 53: held by a program of the agent's, so no name is answered"]
    assert cell.events("fault") == []


TASK = """version = "1.0"
[agent]
timeout_sec = 20
network_mode = "no-network"
[verifier]
timeout_sec = 20
network_mode = "allowlist"
allowed_hosts = ["allowed.example"]
"""
FETCH = "curl -s -S -f -m 10 http://denied.example/data || curl -s -S -f -m 10 --noproxy '*' http://denied.example/data"
VERIFIERS = {
    "is-denied": f"{FETCH} || exit 7",
    "is-denied-after": f"echo 0 > /logs/verifier/reward.txt; {FETCH}",
    "control": "echo 1 > /logs/verifier/reward.txt",
}


def test_103_a_verifier_that_is_denied_a_host(tmp_path: Path) -> None:
    for name, script in VERIFIERS.items():
        task = tmp_path / "tasks" / name
        (task / "tests").mkdir(parents=True)
        (task / "task.toml").write_text(TASK)
        (task / "instruction.md").write_text("Do nothing.\n")
        (task / "tests/test.sh").write_text(f"#!/bin/sh\n{script}\n")
    done = subprocess.run(
        [sys.executable, "-m", "cell", "run", str(tmp_path / "tasks"), "-a", "nop", "-n", "3", "--jobs-dir",
         str(tmp_path / "jobs"), "--json"],
        capture_output=True, text=True, timeout=110, cwd=ROOT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    verdicts: dict[str, dict[str, Any]] = {
        trial.task: msgspec.to_builtins(trial.verdict)
        for job in (tmp_path / "jobs").iterdir()
        for trial in trials.read_job(job).trials
    }
    assert set(verdicts) == set(VERIFIERS), done
    assert (verdicts["control"]["verdict"], verdicts["control"]["rewards"]) == ("graded", {"reward": 1})
    assert not verdicts["control"]["suspect"]
    none, stands = verdicts["is-denied"], verdicts["is-denied-after"]
    assert (none["verdict"], none["rewards"]) == ("ungraded", {}), none
    assert (stands["verdict"], stands["rewards"], stands["suspect"]) == ("graded", {"reward": 0}, True), (
        stands
    )
    for said in (none, stands):
        causes = {cause["cause"]: cause for cause in said["causes"]}
        assert set(causes) == {"network"}, said
        evidence = [one for one in causes["network"]["evidence"] if "denied.example" in one["text"]]
        assert evidence and evidence[0]["kind"] == "event" and int(evidence[0]["ref"]) > 0, said
        assert "is not in allowed_hosts of [verifier]" in evidence[0]["text"]


@pytest.mark.parametrize("agent", [("public",), ("no-network",)], ids=["shared", "the verifier's own"])
def test_126_no_crowd_of_names_leaves_the_verifier_without(
    phased: Callable[[tuple[str, ...], tuple[str, ...]], LiveCell], internet: Internet, agent: tuple[str, ...]
) -> None:
    """There are as many addresses as the pool has, and the agent could ask for all of them."""
    cell = phased(agent, ("public",))
    said = cell.trial / "cell/root/upper/tmp/names"
    linger(cell, "floods_names", "/tmp/names")
    if agent == ("public",):
        assert until(lambda: said.exists() and " 2" in said.read_text(), seconds=60), "control: it had all"
    graded = cell.grade(
        "#!/bin/sh\nuntil [ -s /tmp/names ] && tail -n 1 /tmp/names | grep -qv ' 0'; do sleep 0.05; done\n"
        "curl -s -m 20 --noproxy '*' http://v.example/; echo\n"
        "curl -s -m 20 --noproxy '*' http://w.example/; echo\n"
        "echo 1 > /logs/verifier/reward.txt\n",
        timeout=60,
    )
    assert (graded["output"], graded["rewards"]) == ("hello /\nhello /\n", {"reward": 1}), said.read_text()[
        -500:
    ]
    asked = [one["host"] for one in cell.events("egress") if one["way"] == "name"]
    assert {"v.example", "w.example"} <= set(asked), "what the verifier asks for is recorded all the same"
    assert len(asked) < 40_000
