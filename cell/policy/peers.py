"""Services of the substrate that are handed to a world on purpose (promise N9).

    db:5432=127.0.0.1:15432        on the command line (`--peer`): NAME:PORT=TARGET
    [peers]                        in `cell.toml` beside `task.toml`, in the same notation
    "db:5432" = "127.0.0.1:15432"

Inside, the name and port answer as the task expects; TARGET is an address of the substrate, connected
to from there. A peer is the operator's word: it goes past the policy, and is recorded like all else.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from cell.errors import TaskError, UsageError
from cell.plain import plain
from cell.policy import hosts
from cell.policy.addresses import gives_credentials
from cell.records import Record

_LARGEST = 1 << 16  # bytes of a cell.toml
_MOST = 64


class Peer(Record, frozen=True, kw_only=True):
    """`name`:`port` inside leads to `host`:`target` of the substrate."""

    name: str
    port: int
    host: str
    target: int

    def __str__(self) -> str:
        return f"{self.name}:{self.port}={hosts.canonical(self.host).at(self.target)}"


def parse(inside: str, outside: str) -> Peer:
    """Return the peer of `NAME:PORT` and `HOST:PORT`. Raises ValueError with what is wrong."""
    try:
        name, port = hosts.authority(inside)
    except ValueError as error:
        raise ValueError(f"{error}; NAME:PORT is what the world sees") from None
    if name.ip is not None or name.text == "localhost":
        raise ValueError("a peer has a name of its own, not an address or localhost")
    try:
        host, target = hosts.authority(outside)
    except ValueError as error:
        raise ValueError(f"{error}; HOST:PORT is where it is") from None
    if host.ip is not None and gives_credentials(host.ip):
        raise ValueError(f"{host} is a metadata address, which nothing opens")
    return Peer(name=name.text, port=port, host=host.text, target=target)


def from_options(texts: list[str]) -> tuple[Peer, ...]:
    """Return the peers of the command line. Raises UsageError."""
    found = []
    for text in texts:
        inside, mark, outside = text.partition("=")
        try:
            if not mark:
                raise ValueError("must be NAME:PORT=HOST:PORT")
            found.append(parse(inside, outside))
        except ValueError as error:
            raise UsageError(f"--peer {plain(text, limit=80)}: {error}") from None
    return _all(found)


def load(task: Path) -> tuple[Peer, ...]:
    """Return the peers of the task's `cell.toml`; none where there is no such file. Raises TaskError."""
    file = task / "cell.toml"
    try:
        with file.open("rb") as opened:
            data = opened.read(_LARGEST + 1)
        document = tomllib.loads(data.decode("utf-8"))
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TaskError(file, "", f"cannot be read: {plain(str(error), limit=120)}") from None
    if len(data) > _LARGEST:
        raise TaskError(file, "", f"is larger than {_LARGEST} bytes")
    for key in document:
        if key != "peers":
            raise TaskError(file, plain(key, limit=80), "is not understood; there is only [peers]")
    table = document.get("peers", {})
    if not isinstance(table, dict):
        raise TaskError(file, "peers", 'must be a table of "NAME:PORT" = "HOST:PORT"')
    found = []
    for inside, outside in table.items():
        key = f"peers.{plain(inside, limit=80)}"
        if not isinstance(outside, str):
            raise TaskError(file, key, "must be text, HOST:PORT")
        try:
            found.append(parse(inside, outside))
        except ValueError as error:
            raise TaskError(file, key, str(error)) from None
    try:
        return _all(found)
    except UsageError as error:
        raise TaskError(file, "peers", str(error)) from None


def together(declared: tuple[Peer, ...], given: tuple[Peer, ...]) -> tuple[Peer, ...]:
    """Return a task's peers and those of the command line, which says where a peer is that is in both."""
    places = {(peer.name, peer.port): peer for peer in (*declared, *given)}
    return tuple(places.values())


def _all(found: list[Peer]) -> tuple[Peer, ...]:
    if len(found) > _MOST:
        raise UsageError(f"at most {_MOST} peers")
    seen: set[tuple[str, int]] = set()
    for peer in found:
        if (peer.name, peer.port) in seen:
            raise UsageError(f"the peer {peer.name}:{peer.port} is there twice")
        seen.add((peer.name, peer.port))
    return tuple(found)
