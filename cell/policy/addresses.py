"""What kind of place an address is: every special range by name, with the document that says so.

`ipaddress.is_global` is no guard: it is True for NAT64, 6to4, IPv4-compatible addresses, multicast, and
for the addresses at which clouds answer with credentials. Only what stands in none of these ranges is
`public`, and only that may be dialled for an allowed name.
"""

from __future__ import annotations

import functools
import ipaddress
from typing import NamedTuple

from cell.policy.hosts import IP

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

PUBLIC = "public"
# Never opened, whatever a task wrote: this machine itself, its links, what gives out its credentials, and
# the block from which a world's name server takes addresses that stand for names (egress.pool).
NEVER = frozenset(
    {"own", "loopback", "unspecified", "this-network", "link-local", "metadata", "multicast", "broadcast"}
    | {"benchmarking", "mapped", "compatible", "nat64", "6to4", "teredo", "isatap", "translated"}
)


class Range(NamedTuple):
    """One special range: its name here, and the source that makes it special."""

    name: str
    network: Network
    source: str


def _range(name: str, network: str, source: str) -> Range:
    return Range(name, ipaddress.ip_network(network), source)


# The first that fits names an address, so single addresses stand before the ranges around them.
RANGES = (
    # Metadata and host services of clouds, with the vendor who answers there.
    _range("metadata", "169.254.169.254/32", "AWS, GCP, Azure, OpenStack, DigitalOcean, Hetzner"),
    _range("metadata", "169.254.169.253/32", "AWS VPC resolver"),
    _range("metadata", "169.254.169.123/32", "AWS time service"),
    _range("metadata", "169.254.170.0/24", "AWS ECS and EKS task credentials"),
    _range("metadata", "168.63.129.16/32", "Azure wire server"),
    _range("metadata", "100.100.100.200/32", "Alibaba Cloud"),
    _range("metadata", "192.0.0.192/32", "Oracle Cloud"),
    _range("metadata", "fd00:ec2::/32", "AWS over IPv6"),
    _range("metadata", "fd20:ce::254/128", "GCP over IPv6"),
    _range("metadata", "fd00:42::42/128", "Scaleway over IPv6"),
    # IPv4
    _range("unspecified", "0.0.0.0/32", "RFC 1122"),
    _range("this-network", "0.0.0.0/8", "RFC 791"),
    _range("private", "10.0.0.0/8", "RFC 1918"),
    _range("cgnat", "100.64.0.0/10", "RFC 6598"),
    _range("loopback", "127.0.0.0/8", "RFC 1122"),
    _range("link-local", "169.254.0.0/16", "RFC 3927"),
    _range("private", "172.16.0.0/12", "RFC 1918"),
    _range("protocol", "192.0.0.0/24", "RFC 6890"),
    _range("documentation", "192.0.2.0/24", "RFC 5737"),
    _range("as112", "192.31.196.0/24", "RFC 7535"),
    _range("amt", "192.52.193.0/24", "RFC 7450"),
    _range("6to4", "192.88.99.0/24", "RFC 7526"),
    _range("private", "192.168.0.0/16", "RFC 1918"),
    _range("as112", "192.175.48.0/24", "RFC 7534"),
    _range("benchmarking", "198.18.0.0/15", "RFC 2544"),
    _range("documentation", "198.51.100.0/24", "RFC 5737"),
    _range("documentation", "203.0.113.0/24", "RFC 5737"),
    _range("multicast", "224.0.0.0/4", "RFC 5771"),
    _range("broadcast", "255.255.255.255/32", "RFC 919"),
    _range("reserved", "240.0.0.0/4", "RFC 1112"),
    # IPv6
    _range("unspecified", "::/128", "RFC 4291"),
    _range("loopback", "::1/128", "RFC 4291"),
    _range("mapped", "::ffff:0:0/96", "RFC 4291"),
    _range("translated", "::ffff:0:0:0/96", "RFC 2765"),
    _range("compatible", "::/96", "RFC 4291"),
    _range("nat64", "64:ff9b::/96", "RFC 6052"),
    _range("nat64", "64:ff9b:1::/48", "RFC 8215"),
    _range("discard", "100::/64", "RFC 6666"),
    _range("dummy", "100:0:0:1::/64", "RFC 9780"),
    _range("teredo", "2001::/32", "RFC 4380"),
    _range("benchmarking", "2001:2::/48", "RFC 5180"),
    _range("orchid", "2001:10::/28", "RFC 4843"),
    _range("orchid", "2001:20::/28", "RFC 7343"),
    _range("protocol", "2001::/23", "RFC 2928"),
    _range("documentation", "2001:db8::/32", "RFC 3849"),
    _range("6to4", "2002::/16", "RFC 3056"),
    _range("as112", "2620:4f:8000::/48", "RFC 7534"),
    _range("documentation", "3fff::/20", "RFC 9637"),
    _range("segment-routing", "5f00::/16", "RFC 9602"),
    _range("private", "fc00::/7", "RFC 4193"),
    _range("link-local", "fe80::/10", "RFC 4291"),
    _range("site-local", "fec0::/10", "RFC 3879"),
    _range("multicast", "ff00::/8", "RFC 4291"),
)

# IANA hands out unicast addresses from this block only (RFC 3587).
_UNICAST = ipaddress.ip_network("2000::/3")
# The interface identifier of ISATAP, which tunnels to the IPv4 address in its last 32 bits (RFC 5214).
_ISATAP = {0x00005EFE, 0x02005EFE}


@functools.lru_cache(maxsize=1024)
def special(ip: IP) -> Range | None:
    """Return the special range an address is in, None for one that anybody on the internet can have."""
    for known in RANGES:
        if ip.version == known.network.version and ip in known.network:
            return known
    if isinstance(ip, ipaddress.IPv6Address):
        if ip not in _UNICAST:
            return _range("reserved", "::/0", "RFC 3587")
        if (int(ip) >> 32) & 0xFFFFFFFF in _ISATAP:
            return _range("isatap", f"{ip}/128", "RFC 5214")
    return None


def classify(ip: IP) -> str:
    """Return `public`, or the name of the special range. Forms that carry an IPv4 address are special."""
    found = special(ip)
    return found.name if found else PUBLIC


def embedded(ip: IP) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address an IPv6 one carries (mapped, compatible, NAT64, 6to4, ISATAP), if any."""
    if isinstance(ip, ipaddress.IPv4Address):
        return None
    name, bits = classify(ip), int(ip)
    if name == "6to4":
        return ipaddress.IPv4Address((bits >> 80) & 0xFFFFFFFF)
    if name in {"mapped", "translated", "compatible", "nat64", "isatap"}:
        return ipaddress.IPv4Address(bits & 0xFFFFFFFF)
    return None


def described(ip: IP) -> str:
    """Return the class for a record: `private`, or with what is inside, `nat64 (loopback)`."""
    inner = embedded(ip)
    return f"{classify(ip)} ({classify(inner)})" if inner is not None else classify(ip)


def gives_credentials(ip: IP) -> bool:
    """Say whether a metadata service answers there, also by an address inside of it: the operator's own
    word (a peer, a pinned name) does not open that either."""
    return "metadata" in described(ip)
