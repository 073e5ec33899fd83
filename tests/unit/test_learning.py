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


def hit(
    host: str, *, allowed: bool = True, phase: Any = "agent", way: Any = "proxy", address: str = "192.0.2.1"
) -> Egress:
    return Egress(
        hit=1, phase=phase, way=way, method="CONNECT", host=host, port=443, allowed=allowed, address=address
    )


def places(*hosts: str) -> tuple[tuple[str, int], ...]:
    return tuple((host, 443) for host in hosts)


PUBLIC: dict[str, tuple[str, tuple[str, ...]]] = {"agent": ("public", ()), "verifier": ("public", ())}


def test_what_a_phase_needed_is_what_was_let_through() -> None:
    happened = [
        hit("b.example"),
        hit("a.example"),
        hit("a.example", way="transparent"),
        hit("c.example", allowed=False),
        hit("d.example", way="name"),
        hit("db", way="peer"),
        hit("typo.exmaple", address=""),
        hit("v.example", phase="verifier"),
        Fault(where="x", message="y"),
    ]
    needs = learning.needed(happened)
    assert needs == {"agent": places("a.example", "b.example"), "verifier": places("v.example")}
    assert learning.smallest((*needs["agent"], ("a.example", 80))) == ("a.example", "b.example")


def test_several_rollouts_are_added_up() -> None:
    one, two = learning.needed([hit("a.example")]), learning.needed([hit("b.example")])
    assert learning.merged([one, two]) == {"agent": places("a.example", "b.example"), "verifier": ()}


def test_a_task_is_rewritten_and_all_else_stays() -> None:
    needs = {"agent": places("a.example", "b.example"), "verifier": ()}
    text = learning.rewritten(TASK, needs, PUBLIC)
    assert text.startswith("# a task of ours\n") and "[agent]  # who works\ntimeout_sec = 60.0\n" in text
    document = tomllib.loads(text)
    assert document["agent"]["allowed_hosts"] == ["a.example", "b.example"]
    assert document["verifier"] == {"network_mode": "no-network"}
    for name in document["agent"]["allowed_hosts"]:
        assert policy.entry(name).text == name
    # what is written says what it says already
    now = {"agent": ("allowlist", ("a.example", "b.example")), "verifier": ("no-network", ())}
    assert learning.rewritten(text, needs, now) == text


LISTED = """[agent]
network_mode = "allowlist"
allowed_hosts = [
    "*.mirror.example",  # for the packages
    "once.example",
    "api.example:443",
]
"""


def test_a_list_keeps_its_entries_and_gets_what_none_of_them_names() -> None:
    declared = {"agent": ("allowlist", ("*.mirror.example", "once.example", "api.example:443"))}
    tried = {
        "agent": (("a.mirror.example", 443), ("api.example", 80), ("api.example", 443), ("new.example", 443))
    }
    text = learning.rewritten(LISTED, tried, declared)
    assert tomllib.loads(text)["agent"]["allowed_hosts"] == [
        *declared["agent"][1],
        "api.example:80",
        "new.example",
    ]
    assert '"*.mirror.example",  # for the packages\n' in text
    assert learning.unasked(tried["agent"], declared["agent"]) == ("once.example",)
    # nothing new is no change, and so is nothing at all
    for places_tried in ((("a.mirror.example", 443),), ()):
        assert learning.rewritten(LISTED, {"agent": places_tried}, declared) == LISTED


def test_a_list_that_is_inherited_is_kept_too() -> None:
    declared = {"agent": ("allowlist", ("x.example",)), "verifier": ("allowlist", ("x.example",))}
    needs = {"agent": places("a.example"), "verifier": places("x.example")}
    document = tomllib.loads(learning.rewritten(TASK, needs, declared))
    assert document["agent"]["allowed_hosts"] == ["x.example", "a.example"]
    assert "verifier" not in document, "what it inherits is enough"


@pytest.mark.parametrize(
    ("mode", "tried", "wanted"),
    [
        ("no-network", (), None),
        ("no-network", (("a.example", 443),), ("a.example",)),
        ("public", (), ()),
        ("public", (("2001:db8::9", 443), ("2001:db8::9", 80)), ("2001:db8::9",)),
    ],
)
def test_without_a_list_it_is_the_smallest(mode: str, tried: Any, wanted: Any) -> None:
    assert learning.wanted(tried, (mode, ())) == wanted


@pytest.mark.parametrize("text", ["[agent", "agent = 3", "\x00"])
def test_what_cannot_be_changed_names_the_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "task.toml"
    file.write_text(text)
    with pytest.raises(TaskError, match=r"task\.toml: cannot be changed"):
        learning.change(file, {"agent": places("a.example")}, PUBLIC)


def test_the_change_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "task.toml"
    file.write_text(TASK)
    after, shown = learning.change(file, {"agent": places("a.example")}, PUBLIC)
    assert '+network_mode = "allowlist"' in shown and file.read_text() == TASK
    file.write_text(after)
    now = {"agent": ("allowlist", ("a.example",))}
    assert learning.change(file, {"agent": places("a.example")}, now)[1] == ""


def test_the_line_ends_of_a_file_stay(tmp_path: Path) -> None:
    file = tmp_path / "task.toml"
    file.write_bytes(LISTED.replace("\n", "\r\n").encode())
    text, shown = learning.change(file, {"agent": places("a.example")}, {"agent": ("public", ())})
    learning.put(file, text)
    assert file.read_bytes().count(b"\n") == file.read_bytes().count(b"\r\n")
    assert '+    "a.example",\n' in shown and "\r" not in shown
    file.write_bytes(b"# one\r\n" + LISTED.encode())  # with both, each line keeps its own
    text, _ = learning.change(file, {"agent": places("a.example")}, {"agent": ("public", ())})
    assert text.startswith("# one\r\n[agent]\n")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    there, link = tmp_path / "there" / "real.toml", tmp_path / "task.toml"
    there.parent.mkdir()
    there.write_text(TASK)
    there.chmod(0o640)
    link.symlink_to(there)
    learning.put(link, LISTED)
    assert link.is_symlink() and there.read_text() == LISTED and there.stat().st_mode & 0o777 == 0o640
    full = tmp_path / ("n" * 250)  # no name beside it is short enough to be written first
    full.write_text(TASK)
    with pytest.raises(TaskError, match=r"cannot be written: .*; make the change that is shown by hand"):
        learning.put(full, LISTED)
    assert full.read_text() == TASK
    assert sorted(one.name for one in tmp_path.rglob("*.toml")) == ["real.toml", "task.toml"]
