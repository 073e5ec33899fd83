"""The rules by which every TCP connection of a world meets the way out; made and taken away by raw netlink.

Three things of the kernel: a rule by which TCP, and TCP alone, finds a local default route; nftables'
`tproxy`, by which what came that way meets our listener; and a chain that drops all else. There is no
address translation, so the accepted connection's own two ends are the client's two ends: `getsockname`
is the address meant, and the owner can be looked up exactly. Anything else than TCP finds no route, as in
a world without any.
"""

from __future__ import annotations

import errno
import os
import socket
import struct

_NETLINK_ROUTE, _NETLINK_NETFILTER = 0, 12
_REQUEST, _ACK, _CREATE, _EXCL, _APPEND, _NESTED = 1, 4, 0x400, 0x200, 0x800, 0x8000
_LO, _TABLE = 1, 100
_V4_LOOPBACK, _V6_LOOPBACK = b"\x7f\0\0\1", b"\0" * 15 + b"\1"
_FAMILIES = ((socket.AF_INET, _V4_LOOPBACK), (socket.AF_INET6, _V6_LOOPBACK))
_MADE = _CREATE | _EXCL | _ACK
# what takes one away again has the next number
_ADD_ADDRESS, _ADD_ROUTE, _ADD_RULE, _ADD_TABLE, _DELETE_TABLE = 20, 24, 32, 0, 2
# what was never there is not left behind
_NEVER_THERE = (0, errno.ENOENT, errno.ESRCH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def steer(port: int, refused: list[str], *, ipv6: bool) -> tuple[bool, bool]:
    """Bring every TCP connect to elsewhere to `port` of the loopback, where transparent sockets are bound.

    Returns whether that is so for IPv4 and for IPv6; `refused` gets what the kernel said where it is not.
    """
    if not _filter(port, refused) or not _route(socket.AF_INET, refused):
        return False, False
    _second_address(refused)
    return True, ipv6 and _route(socket.AF_INET6, refused)


def straighten() -> list[str]:
    """Take away all that `steer` made; return what the kernel would not let go."""
    refused: list[str] = []
    made = [*_routes(socket.AF_INET), *_routes(socket.AF_INET6)]
    made.append((_ADD_ADDRESS, "second loopback address", _SECOND))
    # a rule before its route: nothing is to find half of it
    for kind, what, body in sorted(made, key=lambda one: -one[0]):
        number = _ask(_NETLINK_ROUTE, [(kind + 1, _ACK, body)])
        _said(refused, what, 0 if number in _NEVER_THERE else number)
    number = _ask(_NETLINK_NETFILTER, _batch(_message(_DELETE_TABLE, 0, _attribute(1, _TABLE_NAME))))
    _said(refused, "nftables", 0 if number in _NEVER_THERE else number)
    return refused


def bring_up(refused: list[str]) -> None:
    """Have lo up."""
    body = struct.pack("=BxHiII", 0, 0, _LO, 1, 1)
    _said(refused, "lo", _ask(_NETLINK_ROUTE, [(16, _ACK, body)]))


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


_SECOND = struct.pack("=BBBBI", socket.AF_INET, 8, 0, 254, _LO)
_SECOND += _attribute(2, b"\x7f\0\0\2") + _attribute(1, b"\x7f\0\0\2")


def _second_address(refused: list[str]) -> None:
    """Give lo 127.0.0.2, too: where there is 127.0.0.1 alone, glibc says that IPv4 is not configured.

    It then answers AI_ADDRCONFIG lookups of IPv4 addresses with "no such name", and asks nobody.
    """
    _said(refused, "second loopback address", _ask(_NETLINK_ROUTE, [(_ADD_ADDRESS, _MADE, _SECOND)]))


def _routes(family: int) -> tuple[tuple[int, str, bytes], ...]:
    """What gives TCP a local default route, by which any address is this one's own, for TCP alone."""
    loopback = _V4_LOOPBACK if family == socket.AF_INET else _V6_LOOPBACK
    local, host_scope, boot = 2, 254 if family == socket.AF_INET else 0, 3
    route = struct.pack("=BBBBBBBBI", family, 0, 0, 0, _TABLE, boot, host_scope, local, 0)
    route += _attribute(4, struct.pack("=I", _LO)) + _attribute(7, loopback)
    rule = struct.pack("=BBBBBBBBI", family, 0, 0, 0, _TABLE, 0, 0, 1, 0)
    rule += _attribute(6, struct.pack("=I", _TABLE)) + _attribute(22, bytes([socket.IPPROTO_TCP]))
    word = "ipv4" if family == socket.AF_INET else "ipv6"
    return (_ADD_ROUTE, f"{word} route", route), (_ADD_RULE, f"{word} rule", rule)


def _route(family: int, refused: list[str]) -> bool:
    return all(
        _said(refused, what, _ask(_NETLINK_ROUTE, [(kind, _MADE, body)]))
        for kind, what, body in _routes(family)
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


def _filter(port: int, refused: list[str]) -> bool:
    """Bring every TCP connect to elsewhere to the listener; drop all that is neither TCP nor loopback.

    In nft's words: `chain in { type filter hook prerouting priority mangle; }` with
    `meta l4proto tcp ip daddr != 127.0.0.0/8 tproxy ip to 127.0.0.1:PORT accept`, the same with
    `reject with tcp reset` for when nobody listens any more, their twins for IPv6, and
    `chain out { type filter hook output priority raw; ip daddr 127.0.0.0/8 accept; … drop; }`.
    """
    # before 5.9 nothing is rejected that early: then a dead way out is a connect that waits
    number = _load_ruleset(port, resets=True) and _load_ruleset(port, resets=False)
    return _said(refused, "nftables tproxy", number)


def _load_ruleset(port: int, *, resets: bool) -> int:
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
        target = [_load(1, loopback), _load(2, struct.pack(">H", port))]
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

    messages = [_message(_ADD_TABLE, _EXCL | _CREATE, _attribute(1, _TABLE_NAME))]
    for chain, hook, priority in ((_IN, _PREROUTING, -150), (_OUT, _OUTPUT, -300)):
        hooked = _nest(4, _attribute(1, _be(hook)), _attribute(2, _be(priority)))
        named = _attribute(1, _TABLE_NAME) + _attribute(3, chain)
        messages.append(_message(3, _EXCL | _CREATE, named, hooked, _attribute(7, b"filter\0")))
    for chain, expressions in rules:
        named = _attribute(1, _TABLE_NAME) + _attribute(2, chain)
        messages.append(_message(6, _APPEND | _CREATE, named, _nest(4, *expressions)))
    return _ask(_NETLINK_NETFILTER, _batch(*messages))


def _message(kind: int, flags: int, *parts: bytes) -> tuple[int, int, bytes]:
    body = struct.pack("=BBH", _INET, 0, 0) + b"".join(parts)
    return 10 << 8 | kind, flags | _ACK, body


def _batch(*messages: tuple[int, int, bytes]) -> list[tuple[int, int, bytes]]:
    bounds = struct.pack("=BBH", 0, 0, socket.htons(10))
    return [(16, 0, bounds), *messages, (17, 0, bounds)]
