"""A person's way to what the agent serves, and to nothing else; and an empty room for the verifier (G1, G2)."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable

import pytest
from world import GOOD

from .conftest import LiveCell, until

pytestmark = pytest.mark.live
SERVER = "cd /tmp && nohup python3 -m http.server --bind 127.0.0.1 8123 > /dev/null 2>&1 &"
ASK = b"GET /big HTTP/1.0\r\n\r\n"


def through(
    cell: LiveCell, place: str, principal: str = "operator", data: bytes = ASK
) -> subprocess.CompletedProcess[bytes]:
    line = ["ssh", "-F", cell.config, "-W", place, principal]
    return subprocess.run(line, input=data, capture_output=True, timeout=30)


@pytest.fixture
def serving(cell: LiveCell) -> LiveCell:
    if cell.ssh("command -v python3").returncode:
        pytest.skip("the world has no python3")
    cell.inside("head -c 5000000 /dev/urandom > /tmp/big; " + SERVER)
    assert until(lambda: through(cell, "127.0.0.1:8123").stdout.startswith(b"HTTP/1.0 200"))
    return cell


def test_an_operator_reaches_what_the_agent_serves(serving: LiveCell) -> None:
    expected = serving.inside("sha256sum < /tmp/big").split()[0]
    for name in ("localhost", "127.0.0.1"):
        answer = through(serving, f"{name}:8123").stdout
        assert hashlib.sha256(answer.partition(b"\r\n\r\n")[2]).hexdigest() == expected
    assert "connected to port 8123 inside" in [e["what"] for e in serving.events("intervention")]
    calls = [e for e in serving.events("gate") if e["method"] == "forward"]
    assert calls[-1]["detail"] == "127.0.0.1:8123"


@pytest.mark.parametrize(
    ("place", "principal", "words"),
    [
        ("127.0.0.1:8124", "operator", b"refused"),
        ("192.0.2.1:8123", "operator", b"loopback"),
        ("example.com:80", "operator", b"loopback"),
        ("127.0.0.1:8123", "viewer", b"viewer may not forward"),
        ("127.0.0.1:8123", "agent", b"agent may not forward"),
    ],
)
def test_nobody_else_and_to_no_other_place(
    serving: LiveCell, place: str, principal: str, words: bytes
) -> None:
    line = ["ssh", "-F", serving.config, "-o", "LogLevel=INFO", "-W", place, principal]
    done = subprocess.run(line, input=ASK, capture_output=True, timeout=30)
    assert (done.returncode, done.stdout) == (255, b""), done
    assert words in done.stderr.lower(), done


def test_g2_the_verifier_finds_an_empty_room(make_cell: Callable[..., LiveCell]) -> None:
    cell = make_cell()
    cell.seal()
    shell = subprocess.Popen(
        cell.argv("echo in; cat", principal="operator"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert shell.stdin and shell.stdout
    assert shell.stdout.readline() == b"in\n"
    assert cell.grade(GOOD)["rewards"] == {"reward": 1.0}
    shell.communicate(timeout=15)
    ended = cell.events("session-end")[0]
    assert ended["reason"] == "the verifier begins"
    kinds = [(e["kind"], e.get("phase")) for e in cell.events() if e["kind"] in ("session-end", "phase")]
    assert kinds.index(("session-end", None)) < kinds.index(("phase", "verifier"))
