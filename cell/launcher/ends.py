"""What stands in a sandbox's network namespace: the ends of the ways out, made inside, kept outside.

Its one function runs in a forked child that has joined the sandbox's user and network namespaces (not
its mounts), with every capability there. A socket belongs to the namespace it was made in, whoever
holds it: so nothing of ours runs inside, and what is bound here cannot be bound by the agent.

The transparent way needs three things of the kernel: a rule by which TCP, and TCP alone, finds a
local default route; nftables' `tproxy`, by which what came that way meets our listener; and a chain
that drops all else. There is no address translation, so the accepted connection's own two ends are
the client's two ends: `getsockname` is the address meant, and the owner can be looked up exactly.
Anything else than TCP finds no route, as in a world without any.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Any

WAY_PORT, VERIFIER_PORT, NAMES_PORT = 3128, 3129, 53
BACKLOG = 1024

_IP_TRANSPARENT, _IPV6_TRANSPARENT, _IPV6_V6ONLY = 19, 75, 26
_NETLINK_ROUTE, _NETLINK_INET_DIAG, _NETLINK_NETFILTER = 0, 4, 12
_REQUEST, _ACK, _CREATE, _EXCL, _APPEND, _NESTED = 1, 4, 0x400, 0x200, 0x800, 0x8000
_LO, _TABLE = 1, 100
_V4_LOOPBACK, _V6_LOOPBACK = b"\x7f\0\0\1", b"\0" * 15 + b"\1"
_FAMILIES = ((socket.AF_INET, _V4_LOOPBACK), (socket.AF_INET6, _V6_LOOPBACK))


def prepare(request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Make what the request asks for; return what came of it, and the descriptors to keep outside.

    The request: `proxy` (is there a way out at all), `transparent`, and `peers`, a list of
    [name, port]. The facts: `sockets`, a label for each descriptor in its order (`diag`, `way`,
    `way6`, `verifier`, `names`, `names-tcp`, `peer:N`); `peers`, a list of [name, address, port] in
    the order of the request; `transparent` and `ipv6`, whether they are there; `refused`, what the
    kernel said where they are not. `verifier` is bound and does not listen.

    Errors: OSError when an end that the world cannot be without is not to be had.
    """
    kept: list[tuple[str, int]] = []
    refused: list[str] = []
    transparent = ipv6 = False
    _bring_up(refused)
    _like_docker()
    kept.append(("diag", socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_INET_DIAG).detach()))
    if request["proxy"]:
        way = _bound(socket.AF_INET, "127.0.0.1", WAY_PORT)
        kept.append(("verifier", _bound(socket.AF_INET, "127.0.0.1", VERIFIER_PORT).detach()))
        if request["transparent"]:
            six = _transparent_listener6(refused)
            if _allow_foreign(way, refused) and _filter(refused):
                transparent = _route(socket.AF_INET, refused)
                ipv6 = transparent and six is not None and _route(socket.AF_INET6, refused)
            if six is not None and ipv6:
                six.listen(BACKLOG)
                kept.append(("way6", six.detach()))
            elif six is not None:
                six.close()
        way.listen(BACKLOG)
        kept.append(("way", way.detach()))
    if transparent:
        _second_address(refused)
        names = _bound(socket.AF_INET, "127.0.0.1", NAMES_PORT)
        names.listen(BACKLOG)
        kept.append(("names-tcp", names.detach()))
        kept.append(("names", _bound(socket.AF_INET, "127.0.0.1", NAMES_PORT, socket.SOCK_DGRAM).detach()))
    peers = []
    for number, (name, port) in enumerate(request["peers"]):
        peer, address = _peer(port)
        peer.listen(BACKLOG)
        peers.append([name, address, port])
        kept.append((f"peer:{number}", peer.detach()))
    facts = {
        "sockets": [label for label, _ in kept],
        "peers": peers,
        "transparent": transparent,
        "ipv6": ipv6,
        "refused": refused,
    }
    return facts, [descriptor for _, descriptor in kept]


def _bound(family: int, host: str, port: int, kind: int = socket.SOCK_STREAM) -> socket.socket:
    # neither SO_REUSEADDR nor SO_REUSEPORT: with them another socket could be bound beside it
    made = socket.socket(family, kind)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, _IPV6_V6ONLY, 1)
    made.bind((host, port))
    return made


def _peer(port: int) -> tuple[socket.socket, str]:
    """Bind a peer's port on 127.0.0.1, or on the next loopback address where it is free."""
    failure: OSError | None = None
    for last in range(1, 255):
        address = f"127.0.0.{last}"
        try:
            return _bound(socket.AF_INET, address, port), address
        except OSError as error:
            failure = error
    raise failure or OSError(0, "no loopback address")


def _like_docker() -> None:
    """Let every user bind low ports and ping, as in Docker's own network namespaces."""
    for path, value in (
        (b"/proc/sys/net/ipv4/ip_unprivileged_port_start", b"0"),
        (b"/proc/sys/net/ipv4/ping_group_range", b"0 65535"),
    ):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, value)
            finally:
                os.close(descriptor)
        except OSError:
            continue  # an old kernel, or ids that are not mapped: it stays as kernels have it


def _transparent_listener6(refused: list[str]) -> socket.socket | None:
    try:
        six = _bound(socket.AF_INET6, "::1", WAY_PORT)
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


# ── netlink ───────────────────────────────────────────────────────────────────────────────────


def _attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", len(data) + 4, kind) + data + b"\0" * (-len(data) % 4)


def _nest(kind: int, *parts: bytes) -> bytes:
    return _attribute(kind | _NESTED, b"".join(parts))


def _ask(protocol: int, messages: list[tuple[int, int, bytes]]) -> int:
    """Send messages of (type, flags, body) at once; return the first errno, or 0."""
    whole = b""
    for number, (kind, flags, body) in enumerate(messages):
        whole += struct.pack("=IHHII", 16 + len(body), kind, flags | _REQUEST, number + 1, 0) + body
    link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    try:
        link.bind((0, 0))
        link.sendto(whole, (0, 0))
        awaited = sum(1 for _, flags, _ in messages if flags & _ACK)
        while awaited:
            # the kernel has answered when the sending returns
            answers = link.recv(1 << 16, socket.MSG_DONTWAIT)
            while answers:
                length, kind, _, _, _ = struct.unpack("=IHHII", answers[:16])
                if kind == 2:
                    (number,) = struct.unpack("=i", answers[16:20])
                    if number:
                        return -int(number)
                    awaited -= 1
                answers = answers[(length + 3) & ~3 :]
    except OSError as error:
        return error.errno or 1
    finally:
        link.close()
    return 0


def _said(refused: list[str], what: str, number: int) -> bool:
    if number:
        refused.append(f"{what}: {os.strerror(number)}")
    return not number


def _bring_up(refused: list[str]) -> None:
    body = struct.pack("=BxHiII", 0, 0, _LO, 1, 1)
    _said(refused, "lo", _ask(_NETLINK_ROUTE, [(16, _ACK, body)]))


def _second_address(refused: list[str]) -> None:
    """Give lo 127.0.0.2, too: where there is 127.0.0.1 alone, glibc says that IPv4 is not configured.

    It then answers AI_ADDRCONFIG lookups of IPv4 addresses with "no such name", and asks nobody.
    """
    body = struct.pack("=BBBBI", socket.AF_INET, 8, 0, 254, _LO)
    body += _attribute(2, b"\x7f\0\0\2") + _attribute(1, b"\x7f\0\0\2")
    _said(refused, "second loopback address", _ask(_NETLINK_ROUTE, [(20, _CREATE | _EXCL | _ACK, body)]))


def _route(family: int, refused: list[str]) -> bool:
    """Give TCP a local default route: any address is this one's own, for TCP alone."""
    loopback = _V4_LOOPBACK if family == socket.AF_INET else _V6_LOOPBACK
    local, host_scope, boot = 2, 254 if family == socket.AF_INET else 0, 3
    route = struct.pack("=BBBBBBBBI", family, 0, 0, 0, _TABLE, boot, host_scope, local, 0)
    route += _attribute(4, struct.pack("=I", _LO)) + _attribute(7, loopback)
    rule = struct.pack("=BBBBBBBBI", family, 0, 0, 0, _TABLE, 0, 0, 1, 0)
    rule += _attribute(6, struct.pack("=I", _TABLE)) + _attribute(22, bytes([socket.IPPROTO_TCP]))
    made = _CREATE | _EXCL | _ACK
    word = "ipv4" if family == socket.AF_INET else "ipv6"
    return _said(refused, f"{word} route", _ask(_NETLINK_ROUTE, [(24, made, route)])) and _said(
        refused, f"{word} rule", _ask(_NETLINK_ROUTE, [(32, made, rule)])
    )


# ── nftables ──────────────────────────────────────────────────────────────────────────────────

_TABLE_NAME, _IN, _OUT = b"way\0", b"in\0", b"out\0"
_INET, _PREROUTING, _OUTPUT = 1, 0, 3


def _be(value: int) -> bytes:
    return struct.pack(">i", value)


def _expression(name: bytes, *parts: bytes) -> bytes:
    return _nest(1, _attribute(1, name + b"\0"), _nest(2, *parts))


def _meta(key: int) -> bytes:
    return _expression(b"meta", _attribute(2, _be(key)), _attribute(1, _be(1)))


def _compare(data: bytes, *, equal: bool = True) -> bytes:
    return _expression(
        b"cmp", _attribute(1, _be(1)), _attribute(2, _be(0 if equal else 1)), _nest(3, _attribute(1, data))
    )


def _payload(offset: int, length: int) -> bytes:
    """Load a piece of the network header."""
    return _expression(
        b"payload",
        _attribute(1, _be(1)),
        _attribute(2, _be(1)),
        _attribute(3, _be(offset)),
        _attribute(4, _be(length)),
    )


def _load(register: int, data: bytes) -> bytes:
    return _expression(b"immediate", _attribute(1, _be(register)), _nest(2, _attribute(1, data)))


def _verdict(code: int) -> bytes:
    return _expression(b"immediate", _attribute(1, _be(0)), _nest(2, _nest(2, _attribute(1, _be(code)))))


def _filter(refused: list[str]) -> bool:
    """Bring every TCP connect to elsewhere to the listener; drop all that is neither TCP nor loopback.

    In nft's words: `chain in { type filter hook prerouting priority mangle; }` with
    `meta l4proto tcp ip daddr != 127.0.0.0/8 tproxy ip to 127.0.0.1:3128 accept`, the same with
    `reject with tcp reset` for when nobody listens any more, their twins for IPv6, and
    `chain out { type filter hook output priority raw; ip daddr 127.0.0.0/8 accept; … drop; }`.
    """
    # before 5.9 nothing is rejected that early: then a dead way out is a connect that waits
    number = _load_ruleset(resets=True) and _load_ruleset(resets=False)
    return _said(refused, "nftables tproxy", number)


def _load_ruleset(*, resets: bool) -> int:
    family_key, protocol_key = 15, 16
    tcp = [_meta(protocol_key), _compare(bytes([socket.IPPROTO_TCP]))]
    # where the destination stands in the header, and what of it is loopback
    places = {socket.AF_INET: (16, b"\x7f"), socket.AF_INET6: (24, _V6_LOOPBACK)}
    rules: list[tuple[bytes, list[bytes]]] = []
    for family, loopback in _FAMILIES:
        offset, head = places[family]
        of_family = [_meta(family_key), _compare(bytes([family])), _payload(offset, len(head))]
        elsewhere = [*of_family, _compare(head, equal=False), *tcp]
        # registers are 16 bytes wide: 2 is the one after an IPv6 address
        target = [_load(1, loopback), _load(2, struct.pack(">H", WAY_PORT))]
        steer = _expression(
            b"tproxy", _attribute(1, _be(family)), _attribute(2, _be(1)), _attribute(3, _be(2))
        )
        rules.append((_IN, [*elsewhere, *target, steer, _verdict(1)]))
        if resets:
            reset = _expression(b"reject", _attribute(1, _be(1)), _attribute(2, b"\0"))
            rules.append((_IN, [*elsewhere, reset]))
        rules.append((_OUT, [*of_family, _compare(head), _verdict(1)]))
    rules.append((_OUT, [*tcp, _verdict(1)]))
    rules.append((_OUT, [_verdict(0)]))

    def message(kind: int, flags: int, *parts: bytes) -> tuple[int, int, bytes]:
        body = struct.pack("=BBH", _INET, 0, 0) + b"".join(parts)
        return 10 << 8 | kind, flags | _CREATE | _ACK, body

    batch = struct.pack("=BBH", 0, 0, socket.htons(10))
    messages = [(16, 0, batch), message(0, _EXCL, _attribute(1, _TABLE_NAME))]
    for chain, hook, priority in ((_IN, _PREROUTING, -150), (_OUT, _OUTPUT, -300)):
        hooked = _nest(4, _attribute(1, _be(hook)), _attribute(2, _be(priority)))
        named = _attribute(1, _TABLE_NAME) + _attribute(3, chain)
        messages.append(message(3, _EXCL, named, hooked, _attribute(7, b"filter\0")))
    for chain, expressions in rules:
        named = _attribute(1, _TABLE_NAME) + _attribute(2, chain)
        messages.append(message(6, _APPEND, named, _nest(4, *expressions)))
    messages.append((17, 0, batch))
    return _ask(_NETLINK_NETFILTER, messages)
