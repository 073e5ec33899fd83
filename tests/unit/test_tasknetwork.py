from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cell.errors import TaskError
from cell.task.file import Table
from cell.task.network import Network, baseline, for_phase


def table(name: str, values: dict[str, Any]) -> Table:
    return Table(Path("task.toml"), name, values)


@pytest.mark.parametrize(
    ("values", "network"),
    [
        ({}, Network("public", (), "environment.network_mode (default)")),
        ({"network_mode": "no-network"}, Network("no-network", (), "environment.network_mode")),
        ({"allow_internet": False}, Network("no-network", (), "environment.allow_internet")),
        ({"allow_internet": True}, Network("public", (), "environment.allow_internet")),
        # an empty list says nothing about the mode, so it opens nothing
        (
            {"allow_internet": False, "allowed_hosts": []},
            Network("no-network", (), "environment.allow_internet"),
        ),
        # the new key wins over the deprecated one
        (
            {"allow_internet": False, "network_mode": "public"},
            Network("public", (), "environment.network_mode"),
        ),
        (
            {"network_mode": "allowlist", "allowed_hosts": ["B.com."]},
            Network("allowlist", ("b.com",), "environment.network_mode"),
        ),
    ],
)
def test_baseline(values: dict[str, Any], network: Network) -> None:
    assert baseline(table("environment", values)) == network


BASE = Network("allowlist", ("a.com",), "environment.network_mode")


@pytest.mark.parametrize(
    ("values", "network"),
    [
        ({}, BASE),
        ({"network_mode": "no-network"}, Network("no-network", (), "agent.network_mode")),
        # an own allowlist replaces the environment's, it does not add to it
        (
            {"network_mode": "allowlist", "allowed_hosts": ["b.com"]},
            Network("allowlist", ("b.com",), "agent.network_mode"),
        ),
        ({"network_mode": "allowlist"}, Network("allowlist", (), "agent.network_mode")),
    ],
)
def test_for_phase(values: dict[str, Any], network: Network) -> None:
    assert for_phase(table("agent", values), BASE) == network


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"network_mode": "publc"}, "agent.network_mode"),
        ({"network_mode": "PUBLIC"}, "agent.network_mode"),
        ({"network_mode": ""}, "agent.network_mode"),
        ({"network_mode": False}, "agent.network_mode"),
        ({"network_mode": "public", "allowed_hosts": ["a.com"]}, "agent.allowed_hosts"),
        ({"allowed_hosts": ["a.com"]}, "agent.allowed_hosts"),
        ({"network_mode": "allowlist", "allowed_hosts": ["a.com", "b.com:0"]}, "agent.allowed_hosts[1]"),
        ({"network_mode": "allowlist", "allowed_hosts": "a.com"}, "agent.allowed_hosts"),
    ],
)
def test_a_policy_that_is_not_understood_is_never_public(values: dict[str, Any], key: str) -> None:
    with pytest.raises(TaskError) as caught:
        for_phase(table("agent", values), BASE)
    assert caught.value.key == key
