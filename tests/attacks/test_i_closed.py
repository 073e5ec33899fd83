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
