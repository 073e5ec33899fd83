from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from cell import policy
from cell.errors import TaskError
from cell.events import Egress, Fault
from cell.policy import learning

TASK = """# a task of ours
version = "1.0"

[agent]  # who works
timeout_sec = 60.0

[environment]
allow_internet = true
"""


def hit(host: str, *, allowed: bool = True, phase: Any = "agent", way: Any = "proxy") -> Egress:
    return Egress(hit=1, phase=phase, way=way, method="CONNECT", host=host, port=443, allowed=allowed)


def test_what_a_phase_needed_is_what_was_let_through() -> None:
    happened = [
        hit("b.example"),
        hit("a.example"),
        hit("a.example", way="transparent"),
        hit("c.example", allowed=False),
        hit("d.example", way="name"),
        hit("db", way="peer"),
        hit("v.example", phase="verifier"),
        Fault(where="x", message="y"),
    ]
    assert learning.needed(happened) == {"agent": ("a.example", "b.example"), "verifier": ("v.example",)}


def test_several_rollouts_are_added_up() -> None:
    one, two = learning.needed([hit("a.example")]), learning.needed([hit("b.example")])
    assert learning.merged([one, two]) == {"agent": ("a.example", "b.example"), "verifier": ()}


def test_a_task_is_rewritten_and_all_else_stays() -> None:
    text = learning.rewritten(TASK, {"agent": ("a.example", "b.example"), "verifier": ()})
    assert text.startswith("# a task of ours\n") and "[agent]  # who works\ntimeout_sec = 60.0\n" in text
    document = tomllib.loads(text)
    assert document["agent"]["allowed_hosts"] == ["a.example", "b.example"]
    assert document["verifier"] == {"network_mode": "no-network"}
    for name in document["agent"]["allowed_hosts"]:
        assert policy.entry(name).text == name
    # what is written says what it says already
    assert learning.rewritten(text, {"agent": ("a.example", "b.example"), "verifier": ()}) == text


def test_a_phase_that_needs_nothing_any_more_loses_its_list() -> None:
    text = learning.rewritten(TASK, {"agent": ("a.example",)})
    assert "allowed_hosts" not in learning.rewritten(text, {"agent": ()})


@pytest.mark.parametrize("text", ["[agent", "agent = 3", "\x00"])
def test_what_cannot_be_changed_names_the_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "task.toml"
    file.write_text(text)
    with pytest.raises(TaskError, match=r"task\.toml: cannot be changed"):
        learning.change(file, {"agent": ("a.example",)})


def test_the_change_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "task.toml"
    file.write_text(TASK)
    after, shown = learning.change(file, {"agent": ("a.example",)})
    assert '+network_mode = "allowlist"' in shown and file.read_text() == TASK
    file.write_text(after)
    assert learning.change(file, {"agent": ("a.example",)})[1] == ""
