"""Section I, the network: a cell of which a part dies is closed, and what is not written down does not leave (SPEC N11)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from world import until

from .bench import init_of
from .internet import Internet, spec

pytestmark = pytest.mark.live

# holds a tunnel open, and asks anew all the time by both ways
BUSY = """
import socket, threading, time
def ask(to, head):
    while True:
        try:
            with socket.create_connection(to, 5) as one:
                one.settimeout(5)
                one.sendall(head)
                one.recv(100)
        except OSError:
            pass
        time.sleep(0.01)
url = "GET %sbusy HTTP/1.1\\r\\nHost: example.com\\r\\nConnection: close\\r\\n\\r\\n"
for to, where in ((("127.0.0.1", 3128), "http://example.com/"), (("example.com", 80), "/")):
    threading.Thread(target=ask, args=(to, (url % where).encode()), daemon=True).start()
with socket.create_connection(("127.0.0.1", 3128), 5) as one:
    one.sendall(b"CONNECT example.com:PORT HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
    time.sleep(600)
"""


@pytest.mark.parametrize("victim", ["serving process", "holder"])
def test_116_who_dies_leaves_no_way_open(internet: Internet, tmp_path: Path, victim: str) -> None:
    ended: list[bool] = []

    def wait(link: object) -> None:
        try:
            link.recv(1)  # type: ignore[attr-defined]
        finally:
            ended.append(True)

    port = internet.far.serve(wait)
    cell = internet.cell(tmp_path / "trial", agent_phase=spec("allowlist", "example.com"))
    # an address of the substrate on which nothing of the cell may stand
    script = BUSY.replace("PORT", str(port))
    cell.ssh("cat > /opt/busy.py", input=script)
    before = len(internet.far.came)
    cell.inside("nohup python3 /opt/busy.py >/dev/null 2>&1 &")
    assert until(lambda: len(internet.far.came) > before + 20), "control: it gets out all the time"
    assert not ended, "control: the tunnel is open"
    os.kill(cell.process.pid if victim == "serving process" else init_of(cell), signal.SIGKILL)
    assert until(lambda: cell.process.poll() is not None)
    assert until(lambda: not cell.left())
    assert until(lambda: ended), "the tunnel was cut"
    came = len(internet.far.came)
    assert cell.ssh("curl -s http://example.com/").returncode == 255
    assert len(internet.far.came) == came
    if victim == "holder":
        assert [event["message"] for event in cell.events("fault")] == ["the sandbox died"]
    cell.kill()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 MB below which a cell of this test has its trial."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(tmp_path)], check=True)
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


FILL = """
import socket
def ask(number):
    to, where = ((("127.0.0.1", 3128), "http://example.com"), (("example.com", 80), ""))[number % 2]
    try:
        with socket.create_connection(to, 5) as one:
            one.settimeout(5)
            one.sendall(f"GET {where}/full{number} HTTP/1.1\\r\\nHost: example.com\\r\\nConnection: close\\r\\n\\r\\n".encode())
            return one.recv(100)
    except OSError:
        return b""
assert ask(0) and ask(1)
fill, piece = open("/fill", "wb", buffering=0), bytes(1 << 20)
while piece:
    try:
        fill.write(piece)
    except OSError:
        piece = piece[: len(piece) // 2]
for number in range(2, 3000):
    ask(number)
"""


def test_116_what_cannot_be_recorded_does_not_leave(internet: Internet, small_disk: Path) -> None:
    cell = internet.cell(small_disk / "trial", agent_phase=spec("allowlist", "example.com"))
    came = len(internet.far.came)
    assert cell.ssh("python3 -", input=FILL, timeout=60).returncode == 255
    assert until(lambda: cell.process.poll() is not None), "it does not go on without a record"
    records = 0
    for line in (cell.trial / "cell/events.jsonl").read_text().splitlines():
        try:
            event = json.loads(line)["event"]
        except ValueError:
            continue  # the line that was being written
        records += event["kind"] == "egress" and event["way"] != "name" and event["allowed"]
    left = len(internet.far.came) - came
    assert 2 <= left <= records, "control: two went, and whoever went is recorded"
    assert left < 2000
    assert not cell.left()
    cell.kill()


# a tunnel that stays, then attempts by every way, some over one connection, until nobody answers any more
FLOOD = """
import json, socket, sys
tunnel = socket.create_connection(("127.0.0.1", 3128), 5)
try:
    tunnel.sendall(b"CONNECT example.com:PORT HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
    tunnel.recv(1000)
except OSError:
    pass
get = "GET %s/flood HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n"
answered, unheard = 0, {"proxy": 0, "many": 0, "direct": 0, "denied": 0}
ways = {
    "proxy": (("127.0.0.1", 3128), [get % "http://example.com"]),
    "many": (("127.0.0.1", 3128), [get % "http://evil.net"] * 5),
    "direct": (("example.com", 80), [get % ""]),
    "denied": (("evil.net", 80), [get % ""]),
}
for number in range(3000):
    way = list(ways)[number % 4]
    to, requests = ways[way]
    got = 0
    try:
        with socket.create_connection(to, 5) as one:
            one.settimeout(5)
            for request in requests:
                one.sendall(request.encode())
                got += bool(one.recv(1000))
    except TimeoutError:
        sys.exit("it hung")
    except OSError:
        pass
    answered += got
    unheard[way] += not got
    if min(unheard["proxy"], unheard["many"], unheard["direct"]) >= 20:
        break
tunnel.settimeout(5)
try:
    last = tunnel.recv(1000).decode()
except OSError as error:
    last = type(error).__name__
print(json.dumps({"answered": answered, "unheard": unheard, "tunnel": last, "tried": number + 1}))
"""
MOST = 100_000
CUT = ("", "ConnectionResetError")


def test_125_n10_the_record_of_attempts_has_an_end_and_the_ways_end_with_it(
    internet: Internet, tmp_path: Path, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    port = internet.far.serve(lambda link: link.recv(1))  # type: ignore[func-returns-value]
    cell = internet.cell(
        tmp_path / "trial",
        agent_phase=spec("allowlist", "example.com"),
        verifier_phase=spec("allowlist", "example.com"),
        egress_bytes=MOST,
    )
    request.addfinalizer(lambda: cell.kill() if cell.process.poll() is None else None)
    journal = cell.trial / "cell/events.jsonl"
    came = len(internet.far.came)
    told = json.loads(cell.ssh("python3 -", input=FLOOD.replace("PORT", str(port))).stdout)
    assert told["answered"] > 20, "control: it got out, and was answered"
    assert min(told["unheard"].values()) >= 20, told
    assert told["tunnel"] in CUT, "what was open is cut"
    full = len(internet.far.came)
    hits = [one for one in cell.events("egress") if one["way"] != "name"]
    assert full - came <= sum(one["allowed"] for one in hits), "whoever left is in the record"
    (last,) = [one for one in hits if one["rule"] == "record limit"]
    assert hits[-1] == last and not last["allowed"] and "is full" in last["reason"]
    size = journal.stat().st_size
    assert MOST < size < 2 * MOST
    # more of it, and nothing grows
    again = json.loads(cell.ssh("python3 -", input=FLOOD.replace("PORT", str(port))).stdout)
    assert again["answered"] == 0 and again["tunnel"] in CUT
    assert len(internet.far.came) == full
    assert journal.stat().st_size < size + 3000, "two sessions, and no attempt"
    # what the agent used up is not the verifier's
    cell.inside("echo 'import time; time.sleep(600)' > /x.py; nohup python3 /x.py >/dev/null 2>&1 &")
    grading = cell.grade(
        "#!/bin/sh\ncurl -sf http://example.com/ && curl -sf --noproxy '*' http://example.com/ "
        "&& echo 1 > /logs/verifier/reward.txt\n"
    )
    assert grading["rewards"] == {"reward": 1.0}, grading["output"]
    assert len(internet.far.came) == full + 2
    assert cell.stop() == 0
    (end,) = [one for one in cell.events("egress-end") if one["hit"] == last["hit"]]
    refused = int(end["error"].split(" ")[0].replace(",", ""))
    assert refused >= sum(told["unheard"].values()) + again["tried"] - 2 * told["unheard"]["denied"], end
    assert "Traceback" not in capfd.readouterr().err, "nor are complaints written without end"
    assert not cell.left()
