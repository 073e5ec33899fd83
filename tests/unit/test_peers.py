from __future__ import annotations

import socket
from pathlib import Path

import pytest

from cell.egress.peers import reach, vetted
from cell.errors import TaskError, UsageError
from cell.policy import peers
from cell.policy.peers import Peer

DB = Peer(name="db", port=5432, host="127.0.0.1", target=15432)


def test_a_peer_of_the_command_line() -> None:
    assert peers.from_options(["DB.:5432=127.0.0.1:15432"]) == (DB,)
    assert str(DB) == "db:5432=127.0.0.1:15432"
    assert str(peers.parse("db:1", "[::1]:2")) == "db:1=[::1]:2"


@pytest.mark.parametrize(
    "text",
    [
        "db",
        "db:5432",
        "db=127.0.0.1:1",
        "db:0=127.0.0.1:1",
        "db:1=127.0.0.1",
        "db:1=127.0.0.1:99999",
        "127.0.0.1:1=127.0.0.1:1",
        "localhost:1=127.0.0.1:1",
        "d b:1=127.0.0.1:1",
        "db:1=a@b:1",
        "db:1=169.254.169.254:80",
        "db:1=[::ffff:169.254.169.254]:80",
        "=",
    ],
)
def test_what_is_no_peer_is_one_clear_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--peer "):
        peers.from_options([text])


def test_the_same_place_twice() -> None:
    with pytest.raises(UsageError, match="db:1 is there twice"):
        peers.from_options(["db:1=127.0.0.1:1", "db:1=127.0.0.1:2"])


def test_the_command_line_says_where_a_peer_of_the_task_is() -> None:
    other, moved = peers.parse("web:80", "127.0.0.1:8000"), peers.parse("db:5432", "127.0.0.1:7777")
    assert peers.together((DB, other), (moved,)) == (moved, other)


def test_a_file_beside_the_task(tmp_path: Path) -> None:
    assert peers.load(tmp_path) == ()
    (tmp_path / "cell.toml").write_text('[peers]\n"db:5432" = "127.0.0.1:15432"\n')
    assert peers.load(tmp_path) == (DB,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[peers", "cell.toml: cannot be read"),
        ("peers = 3", "cell.toml: peers: must be a table"),
        ("[peers]\ndb = 3", "cell.toml: peers.db: must be text"),
        ('[peers]\ndb = "x:1"', "cell.toml: peers.db: the port is missing"),
        ("[egress]", "cell.toml: egress: is not understood"),
        ("# " + "x" * 70000, "cell.toml: is larger than"),
    ],
)
def test_a_file_that_is_wrong_names_itself_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "cell.toml").write_text(text)
    with pytest.raises(TaskError) as raised:
        peers.load(tmp_path)
    assert said in str(raised.value)


def test_a_peers_name_leads_to_no_metadata_service() -> None:
    found = ["169.254.169.254", "192.0.2.1", "::ffff:169.254.169.254", "fe80::1%lo", "192.0.2.1", "127.0.0.1"]
    assert vetted(found) == ["192.0.2.1", "fe80::1%lo", "127.0.0.1"], "the operator's own machine is meant"


async def test_a_peer_that_is_a_name_is_reached_where_the_machine_has_it() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        transport, _ = await reach("localhost", listener.getsockname()[1])
        transport.abort()
    with pytest.raises(OSError):
        await reach("localhost", listener.getsockname()[1])
