"""The one canonical spelling of a host and a port, as clients send them.

A resolver is far more generous than a policy may be: to `getaddrinfo` the strings `127.1`,
`2130706433`, `0x7f000001` and `127.0.0.1\\0.example.com` are all this machine. So a host is read once,
strictly, and what was read is what is decided, dialled and recorded. What has more than one reading
is refused.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from dataclasses import dataclass

IP = ipaddress.IPv4Address | ipaddress.IPv6Address

# RFC 1035 counts 255 octets with length bytes and the root; 253 characters are left for us.
_LONGEST_NAME = 253
# Letters, digits, hyphens, and the underscore that real names have. A hyphen first reads as an option.
_LABEL = re.compile(r"[a-z0-9_][a-z0-9_-]{0,62}")
# WHATWG URL, "ends in a number": such a host is an IPv4 address or nothing.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[0-9]{1,5}")
_AUTHORITY = re.compile(r"(?:\[(?P<v6>[^\[\]]*)\]|(?P<host>[^:\[\]]*))(?P<port>:.*)?", re.DOTALL)


@dataclass(frozen=True)
class Host:
    """A host in its canonical spelling: `text` is the name or the address, `ip` is None for a name."""

    text: str
    ip: IP | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def bracketed(self) -> str:
        """The host as it stands in a URL: an IPv6 address in brackets."""
        return f"[{self.text}]" if self.ip is not None and self.ip.version == 6 else self.text

    def at(self, port: int, default: int | None = None) -> str:
        """Return `host:port`, without the port where it is `default`: a CONNECT target, or a Host header."""
        return self.bracketed if port == default else f"{self.bracketed}:{port}"


def canonical(host: str) -> Host:
    """Return the canonical form of a bare host: no port, no brackets.

    Lower case, one trailing dot removed, addresses as RFC 5952 writes them. Raises ValueError with
    the reason for everything that has another reading elsewhere: user information, control and
    non-ASCII characters (only A-labels are names), zone identifiers, short, decimal, octal or
    hexadecimal IPv4 addresses, empty labels, names beyond 253 characters.
    """
    if not host:
        raise ValueError("the host is empty")
    if "@" in host:
        raise ValueError("user information before a host is not allowed")
    if not host.isascii():
        raise ValueError("a host must be ASCII: international names are sent as xn-- labels")
    if any(char <= " " or char == "\x7f" for char in host):
        raise ValueError("a host has no blanks or control characters")
    if "%" in host:
        raise ValueError("a host has no zone identifier and no percent sign")
    if ":" in host:
        return _address(host, "is not an IPv6 address")
    name = host.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _address(name, "is neither a name nor an IPv4 address of four decimal numbers")
    if "" in labels:
        raise ValueError("the host has an empty label")
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"the host is longer than {_LONGEST_NAME} characters")
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("a host has labels of at most 63 letters, digits, hyphens and underscores")
    return Host(name)


def port(text: str) -> int:
    """Return a port from 1 to 65535. Raises ValueError for any other spelling."""
    if not _PORT.fullmatch(text) or not 0 < int(text) < 65536:
        raise ValueError("a port is a number from 1 to 65535")
    return int(text)


@functools.lru_cache(maxsize=512)
def authority(text: str, default_port: int | None = None) -> tuple[Host, int]:
    """Read `host:port`, an IPv6 address in brackets. Without a port it is `default_port`.

    Raises ValueError with the reason where it does not fit, and where the port is missing and
    there is no default.
    """
    if "@" in text:
        raise ValueError("user information before a host is not allowed")
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        raise ValueError("must be host:port, an IPv6 address in brackets")
    if match["v6"] is not None:
        if ":" not in match["v6"]:
            raise ValueError("only an IPv6 address stands in brackets")
        host = canonical(match["v6"])
    else:
        host = canonical(match["host"])
    if match["port"] is not None:
        return host, port(match["port"][1:])
    if default_port is None:
        raise ValueError("the port is missing")
    return host, default_port


def _address(text: str, otherwise: str) -> Host:
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(f"the host {otherwise}") from None
    return Host(ip.compressed, ip)
