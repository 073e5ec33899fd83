"""What a task says about the network: a mode per phase, and the spelling of `allowed_hosts`."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from cell.plain import plain
from cell.taskfile import Table

MODES = ("public", "no-network", "allowlist")


@dataclass(frozen=True)
class Network:
    """A resolved network policy, and the key that decided it."""

    mode: str
    allowed_hosts: tuple[str, ...]
    key: str


def baseline(environment: Table) -> Network:
    """Resolve `[environment]`'s policy: `network_mode`, the deprecated `allow_internet`, else public."""
    mode, hosts = environment.text("network_mode", MODES), _hosts(environment)
    key = environment.key("network_mode")
    internet = environment.flag("allow_internet")
    if mode is None and internet is not None and hosts is None:
        mode, key = ("public" if internet else "no-network"), environment.key("allow_internet")
    elif mode is None:
        mode, key = "public", f"{key} (default)"
    if hosts and mode != "allowlist":
        environment.fail("allowed_hosts", f'is only valid with network_mode = "allowlist", not "{mode}"')
    return Network(mode, hosts or (), key)


def for_phase(phase: Table, inherited: Network) -> Network:
    """Resolve a phase's policy: its own, else the environment's."""
    mode, hosts = phase.text("network_mode", MODES), _hosts(phase)
    if mode is None:
        if hosts is not None:
            phase.fail("allowed_hosts", f'is only valid with {phase.key("network_mode")} = "allowlist"')
        return inherited
    if hosts and mode != "allowlist":
        phase.fail("allowed_hosts", f'is only valid with network_mode = "allowlist", not "{mode}"')
    return Network(mode, hosts or (), phase.key("network_mode"))


_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def allowed_host(entry: str) -> str:
    """Return the canonical spelling of one `allowed_hosts` entry.

    An exact host name, `*.` and a host name, an IP literal, or a CIDR block; lower-cased, without
    trailing dot. Raises ValueError with the reason for anything else.
    """
    host = entry.strip().lower().rstrip(".")
    if not host:
        raise ValueError("must not be empty")
    if "://" in host:
        raise ValueError("must be a host, without scheme")
    if "%" not in host:
        try:
            return (
                ipaddress.ip_network(host).compressed
                if "/" in host
                else ipaddress.ip_address(host).compressed
            )
        except ValueError:
            pass
    if "/" in host:
        raise ValueError("must be a host or a CIDR block with no host bits set, without path")
    if ":" in host or "[" in host:
        raise ValueError("must be a host or a bare IPv6 literal, without port")
    name = host.removeprefix("*.")
    if "*" in name:
        raise ValueError("must have its wildcard as a leading *.")
    if not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise ValueError("must be a host name of letters, digits, hyphens and dots")
    if name != host and re.fullmatch(r"[0-9.]+", name):
        raise ValueError("must have a host name after *.")
    return host


def _hosts(table: Table) -> tuple[str, ...] | None:
    entries = table.texts("allowed_hosts")
    if entries is None:
        return None
    hosts = []
    for number, entry in enumerate(entries):
        try:
            hosts.append(allowed_host(entry))
        except ValueError as error:
            table.fail(f"allowed_hosts[{number}]", f'"{plain(entry, limit=80)}" {error}')
    return tuple(hosts)
