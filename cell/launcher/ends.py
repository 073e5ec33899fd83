"""What stands in a sandbox's network namespace: the ends of the ways out, made inside, kept outside.

Its functions run in a forked child that has joined the sandbox's user and network namespaces (not
its mounts), with every capability there. A socket belongs to the namespace it was made in, whoever
holds it: so nothing of ours runs inside, and what is bound here cannot be bound by the agent.

How every TCP connection is brought to such an end is `steering`'s. Where the agent's phase has no network
and the verifier's has one, that is there only while the verifier runs (`visit`, then `leave`): until then
the world has to look as without any network.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

from .steering import bring_up, steer, straighten

WAY_PORT, VERIFIER_PORT, NAMES_PORT = 3128, 3129, 53
BACKLOG = 1024

_IP_TRANSPARENT, _IPV6_TRANSPARENT, _IPV6_V6ONLY = 19, 75, 26
_NETLINK_INET_DIAG = 4


def prepare(request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Make what the request asks for; return what came of it, and the descriptors to keep outside.

    The request: `proxy` (is there a way out at all), `transparent`, `visiting` (instead: it is to be there
    for the verifier alone), and `peers`, a list of [name, port]. The facts: `sockets`, a label for each
    descriptor in its order (`diag`, `way`, `way6`, `verifier`, `verifier6`, `names`, `names-tcp`, `peer:N`);
    `peers`, a list of [name, address, port] in the order of the request; `transparent`, `visiting` and
    `ipv6`, whether they are there, or can be; `refused`, what the kernel said where they are not.
    `verifier` and `verifier6` are bound and do not listen.

    Errors: OSError when an end that the world cannot be without is not to be had.
    """
    kept: list[tuple[str, int]] = []
    refused: list[str] = []
    transparent = visiting = ipv6 = False
    bring_up(refused)
    _like_docker()
    kept.append(("diag", socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_INET_DIAG).detach()))
    if request["proxy"]:
        way = _bound(socket.AF_INET, "127.0.0.1", WAY_PORT)
        own = _bound(socket.AF_INET, "127.0.0.1", VERIFIER_PORT)
        if request["transparent"]:
            six = _transparent_listener6(WAY_PORT, refused)
            if _allow_foreign(way, refused):
                transparent, ipv6 = steer(WAY_PORT, refused, ipv6=six is not None)
            if six is not None and ipv6:
                six.listen(BACKLOG)
                kept.append(("way6", six.detach()))
            elif six is not None:
                six.close()
        elif request.get("visiting"):
            six = _transparent_listener6(VERIFIER_PORT, refused)
            if _allow_foreign(own, refused):
                # tried now, when there is time to say that it cannot be
                visiting, ipv6 = steer(VERIFIER_PORT, refused, ipv6=six is not None)
                refused += straighten()
            if six is not None and ipv6:
                kept.append(("verifier6", six.detach()))
            elif six is not None:
                six.close()
        kept.append(("verifier", own.detach()))
        way.listen(BACKLOG)
        kept.append(("way", way.detach()))
    if transparent:
        names = _bound(socket.AF_INET, "127.0.0.1", NAMES_PORT)
        names.listen(BACKLOG)
        kept.append(("names-tcp", names.detach()))
        kept.append(("names", _bound(socket.AF_INET, "127.0.0.1", NAMES_PORT, socket.SOCK_DGRAM).detach()))
    peers = []
    places = _peers(request["peers"])
    for number, (name, port) in enumerate(request["peers"]):
        peer, address = places[name, port]
        peer.listen(BACKLOG)
        peers.append([name, address, port])
        kept.append((f"peer:{number}", peer.detach()))
    facts = {
        "sockets": [label for label, _ in kept],
        "peers": peers,
        "transparent": transparent,
        "visiting": visiting,
        "ipv6": ipv6,
        "refused": refused,
    }
    return facts, [descriptor for _, descriptor in kept]


def visit(request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Bring what connects to elsewhere to the verifier's end, and make a name server's sockets.

    The request: `ipv6`. The facts: `names`, the address of the name server, the first one of the loopback
    of which port 53 is free by UDP and TCP, empty where an agent's program has it on all of them; `refused`.
    The descriptors are `names` and `names-tcp`.

    Errors: OSError when the connections cannot be brought there; nothing of it is left then.
    """
    refused: list[str] = []
    there, _ = steer(VERIFIER_PORT, refused, ipv6=request["ipv6"])
    if not there:
        straighten()
        raise OSError(errno.ENOTSUP, "; ".join(refused))
    address, made = _names()
    return {"names": address, "refused": refused}, [one.detach() for one in made]


def leave(request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Take away what `visit` brought about. The facts: `refused`, what would not go."""
    return {"refused": straighten()}, []


def _names() -> tuple[str, list[socket.socket]]:
    """Bind a name server's port, in UDP and TCP, where the agent's programs leave it free."""
    for last in range(1, 255):
        address = f"127.0.0.{last}"
        made: list[socket.socket] = []
        try:
            made.append(_bound(socket.AF_INET, address, NAMES_PORT, socket.SOCK_DGRAM))
            made.append(_bound(socket.AF_INET, address, NAMES_PORT))
            made[1].listen(BACKLOG)
        except OSError:
            for one in made:
                one.close()
        else:
            return address, made
    return "", []


def _bound(family: int, host: str, port: int, kind: int = socket.SOCK_STREAM) -> socket.socket:
    # neither SO_REUSEADDR nor SO_REUSEPORT: with them another socket could be bound beside it
    made = socket.socket(family, kind)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, _IPV6_V6ONLY, 1)
    made.bind((host, port))
    return made


def _peers(wanted: list[tuple[str, int]]) -> dict[tuple[str, int], tuple[socket.socket, str]]:
    """Bind the peers' ports on 127.0.0.1, or on the next loopback address where they are free.

    All ports of one name are on one address: of two, a client would also try the one without it.
    """
    made = {}
    for name in dict.fromkeys(name for name, _ in wanted):
        ports = [port for other, port in wanted if other == name]
        sockets, address = _side_by_side(ports)
        made.update({(name, port): (one, address) for port, one in zip(ports, sockets, strict=True)})
    return made


def _side_by_side(ports: list[int]) -> tuple[list[socket.socket], str]:
    failure: OSError | None = None
    for last in range(1, 255):
        address, made = f"127.0.0.{last}", list[socket.socket]()
        try:
            for port in ports:
                made.append(_bound(socket.AF_INET, address, port))
        except OSError as error:
            failure = error
            for one in made:
                one.close()
        else:
            return made, address
    raise failure or OSError(0, "no loopback address")


def _like_docker() -> None:
    """Let every user bind low ports and ping, as in Docker's own network namespaces."""
    for path, value in (
        (b"/proc/sys/net/ipv4/ip_unprivileged_port_start", b"0"),
        (b"/proc/sys/net/ipv4/ping_group_range", b"0 65535"),
        (b"/proc/sys/net/ipv4/ping_group_range", b"0 2147483647"),  # where so many are mapped
    ):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, value)
            finally:
                os.close(descriptor)
        except OSError:
            continue  # an old kernel, or ids that are not mapped: it stays as kernels have it


def _transparent_listener6(port: int, refused: list[str]) -> socket.socket | None:
    try:
        six = _bound(socket.AF_INET6, "::1", port)
        six.setsockopt(socket.IPPROTO_IPV6, _IPV6_TRANSPARENT, 1)
    except OSError as error:
        refused.append(f"ipv6: {error.strerror}")
        return None
    return six


def _allow_foreign(way: socket.socket, refused: list[str]) -> bool:
    try:
        way.setsockopt(socket.IPPROTO_IP, _IP_TRANSPARENT, 1)
    except OSError as error:
        refused.append(f"a listener for any address: {error.strerror}")
        return False
    return True
