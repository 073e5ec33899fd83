"""Which hosts a phase may reach: Harbor's `network_mode` and `allowed_hosts`, decided for one host and port.

- `public` any host; `allowlist` what an entry names; `no-network` nothing.
- An entry is an exact name (itself only, not its subdomains), `*.` and a name (its subdomains only), an
  IP literal, or a CIDR block; every port of it, unless it names one. The port is our extension
  (`pkg.example:443`, `[2001:db8::7]:443`, `192.0.2.0/24:443`); Harbor knows entries without one.
- A name is decided by its spelling; where it leads is vetted when it is dialled, and has to be public.
- A literal address is decided here. In a special range (`addresses`) it needs an entry that is inside
  that range, as `10.0.0.7` or `10.0.0.0/8`: then the task meant it. `0.0.0.0/0` is the internet, not the
  substrate's neighbours. Loopback, link-local, metadata services and IPv6 forms that hide an IPv4 address
  are opened by no entry, nor by `public`, because they are places of the substrate.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from cell.policy import addresses, hosts
from cell.policy.hosts import Host

MODES = ("public", "no-network", "allowlist")

# Harbor's own grammar: no underscore, and no hyphen at either end.
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_BRACKETS = re.compile(r"\[(?P<host>[^\[\]]*)\]:(?P<port>.*)")
# Said to a person: a longer list is in the task.
_SHOWN = 6
# Likeness from which an entry may be what was meant.
_NEAR = 0.5


@dataclass(frozen=True)
class Entry:
    """One host entry, `text` its canonical spelling.

    `network` is None for a name, `port` None for every port. `by` is who
    allowed it while the cell ran; empty for the task itself.
    """

    text: str
    name: str = ""
    wildcard: bool = False
    network: addresses.Network | None = None
    port: int | None = None
    by: str = ""

    def names(self, host: Host) -> bool:
        """Say whether the host is one of this entry's, whatever the port."""
        if self.network is not None:
            return host.ip is not None and host.ip.version == self.network.version and host.ip in self.network
        if host.ip is not None:
            return False
        return host.text.endswith(f".{self.name}") if self.wildcard else host.text == self.name


@dataclass(frozen=True)
class Decision:
    """What was decided, by which rule (an entry, or the mode), and why, in words for a person.

    `address_class` is known for a literal address only; `reason` never holds more of an address
    than the client itself sent.
    """

    allowed: bool
    rule: str
    reason: str
    address_class: str = ""


@dataclass(frozen=True)
class Policy:
    """What one phase may reach. `where` names the table of the task that says so, as `[agent]`."""

    mode: str
    entries: tuple[Entry, ...] = ()
    where: str = "[environment]"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f'network_mode must be one of {", ".join(MODES)}, not "{self.mode}"')

    def decide(self, host: Host, port: int) -> Decision:
        """Decide for one canonical host and port."""
        kind = addresses.described(host.ip) if host.ip is not None else ""
        entry = next((e for e in self.entries if e.names(host) and e.port in {None, port}), None)
        if entry is None and self.mode != "public":
            return Decision(False, *self._missing(host, port), kind)
        if host.ip is not None and not _may_open(host.ip, entry):
            return Decision(
                False,
                f"address: {kind}",
                f"denied: {host} is a {kind} address, which {_opener(entry, host.ip)}",
                kind,
            )
        if entry is None:
            return Decision(True, "public", f'allowed: {self.where} has network_mode = "public"', kind)
        by = f", which {entry.by} allowed" if entry.by else f" of {self.where}"
        return Decision(True, entry.text, f"allowed by {entry.text}{by}", kind)

    def also(self, text: str, by: str) -> Policy:
        """Return this policy with one entry more, allowed by `by` while the cell runs.

        `no-network` becomes an allowlist of that entry. Raises ValueError for what is no entry.
        """
        mode = "allowlist" if self.mode == "no-network" else self.mode
        return replace(self, mode=mode, entries=(*self.entries, replace(entry(text), by=by)))

    def _missing(self, host: Host, port: int) -> tuple[str, str]:
        if self.mode == "no-network":
            return "no-network", f'denied: {self.where} has network_mode = "no-network"'
        if not self.entries:
            return "allowlist", f"denied: {host} is not in allowed_hosts of {self.where}, which is empty"
        other = next((e for e in self.entries if e.names(host)), None)
        if other is not None:
            return (
                other.text,
                f"denied: port {port} of {host}: allowed_hosts of {self.where} has {other.text}",
            )
        shown = ", ".join(e.text for e in self.entries[:_SHOWN])
        more = len(self.entries) - _SHOWN
        listed = f"{shown} and {more} more" if more > 0 else shown
        said = f"denied: {host} is not in allowed_hosts of {self.where} ({listed})"
        near = _nearest(host.text, self.entries)
        return "allowlist", f"{said}; nearest {near}" if near else said


def resolved(mode: str, allowed_hosts: Iterable[str], key: str) -> Policy:
    """Return the policy of a phase as a task has it: `key` is what decided it, as `agent.network_mode`.

    Raises ValueError for a mode or an entry that is not understood: it is never read as `public`.
    """
    table = key.partition(" ")[0].rpartition(".")[0] or "environment"
    return Policy(mode, tuple(entry(text) for text in allowed_hosts), f"[{table}]")


def entry(text: str) -> Entry:
    """Read one entry of `allowed_hosts`.

    Blanks around it and one trailing dot are dropped, letters lowered. Raises ValueError with what
    it must be.
    """
    written = text.strip().lower()
    if "://" in written:
        raise ValueError("must be a host, without scheme")
    if "@" in written:
        raise ValueError("must be a host, without user information")
    host, port = written, None
    brackets = _BRACKETS.fullmatch(written)
    if brackets or written.count(":") == 1:
        host, _, number = (brackets["host"], "", brackets["port"]) if brackets else written.rpartition(":")
        if brackets and ":" not in host:
            raise ValueError("must have only an IPv6 address in brackets")
        try:
            port = hosts.port(number)
        except ValueError:
            raise ValueError("must have a port from 1 to 65535 after its colon") from None
    host = host.removesuffix(".")
    if not host:
        raise ValueError("must not be empty")
    network = _network(host)
    if network is not None:
        single = network.prefixlen == network.max_prefixlen and "/" not in host
        host = network.network_address.compressed if single else network.compressed
        at = f"[{host}]" if network.version == 6 else host
        return Entry(host if port is None else f"{at}:{port}", network=network, port=port)
    _check_name(host)
    shown = host if port is None else f"{host}:{port}"
    return Entry(shown, host.removeprefix("*."), host.startswith("*."), port=port)


def nothing_opens(text: str) -> bool:
    """Say whether an entry is a place that no entry opens. Raises ValueError for no entry."""
    read = entry(text)
    network = read.network
    if network is None:
        return read.name == "localhost" or read.name.endswith(".localhost")
    place = addresses.special(network.network_address)
    return (
        place is not None and place.name in addresses.NEVER and network.prefixlen >= place.network.prefixlen
    )


def _network(host: str) -> addresses.Network | None:
    if "%" in host:
        raise ValueError("must have no zone identifier")
    try:
        return ipaddress.ip_network(host)
    except ValueError:
        pass
    if "/" in host:
        raise ValueError("must be a host or a CIDR block with no host bits set, without path")
    if ":" in host or "[" in host:
        raise ValueError("must be a host or an IPv6 literal, which is in brackets only before a port")
    return None


def _check_name(host: str) -> None:
    name = host.removeprefix("*.")
    if host in ("*", "*.*"):
        raise ValueError('must not be every host: that is network_mode = "public"')
    if "*" in name:
        raise ValueError("must have its wildcard as a leading *.")
    if not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise ValueError("must be a host name of letters, digits, hyphens and dots")
    try:
        read = hosts.canonical(name)
    except ValueError as error:
        raise ValueError(f"must be a host: {error}") from None
    if read.ip is not None:
        raise ValueError("must have a host name after *.")


def _may_open(ip: hosts.IP, by: Entry | None) -> bool:
    place = addresses.special(ip)
    if place is None:
        return True
    if place.name in addresses.NEVER or by is None or by.network is None:
        return False
    # Versions agree, as the entry names this address; to the type checker they are two kinds.
    written, around = by.network, place.network
    return written.prefixlen >= around.prefixlen and written.network_address in around


def _opener(by: Entry | None, ip: hosts.IP) -> str:
    if addresses.classify(ip) in addresses.NEVER:
        return "nothing opens"
    return f"{by.text} is too wide to open" if by is not None else 'network_mode = "public" does not open'


def _nearest(host: str, entries: tuple[Entry, ...]) -> str:
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(host)
    best, nearest = _NEAR, ""
    for candidate in entries[:200]:
        matcher.set_seq1(candidate.name or candidate.text)
        if matcher.real_quick_ratio() > best and (likeness := matcher.ratio()) > best:
            best, nearest = likeness, candidate.text
    return nearest
