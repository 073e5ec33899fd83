"""What a task says about the network: a mode per phase, and its `allowed_hosts`.

`policy` knows what an entry means; here it is found, inherited, or refused by file and key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cell.plain import plain
from cell.policy import MODES, entry, nothing_opens
from cell.task.file import Table


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
    if mode is None and internet is not None and not hosts:
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


def unopened(table: Table) -> Iterator[tuple[str, str]]:
    """Yield key and text of each entry of `allowed_hosts` that is a place which nothing opens."""
    for number, text in enumerate(table.texts("allowed_hosts") or ()):
        if nothing_opens(text):
            yield table.key(f"allowed_hosts[{number}]"), entry(text).text


def _hosts(table: Table) -> tuple[str, ...] | None:
    entries = table.texts("allowed_hosts")
    if entries is None:
        return None
    hosts = []
    for number, text in enumerate(entries):
        try:
            hosts.append(entry(text).text)
        except ValueError as error:
            table.fail(f"allowed_hosts[{number}]", f'"{plain(text, limit=80)}" {error}')
    return tuple(hosts)
