"""Another allowlist: which of the recorded denials would pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudtui.lines.what_if import edit, outcome, outcome_lines

from .conftest import SIZES, Open
from .test_egress import hit


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_picture(size: tuple[int, int], jobs: Path, cockpit: Open, picture) -> None:
    async with cockpit(jobs, size=size) as hud:
        await hud.press("4", "exclamation_mark", "G", "e")
        picture(hud.app, f"what-if_{size[0]}x{size[1]}")


def test_an_edit_is_read_word_by_word() -> None:
    change = edit("a.example, +*.b.example -c.example 192.0.2.0/24:443 http://x + -")
    assert [each.text for each in change.more] == ["a.example", "*.b.example", "192.0.2.0/24:443"]
    assert change.less == ("c.example",)
    assert change.wrong == ("http://x must be a host, without scheme",)


def test_only_what_the_list_decided_is_decided_again() -> None:
    hits = [
        hit(host="a.b.example", rule="allowlist"),
        hit(host="b.example", rule="no-network"),
        hit(host="a.b.example", rule="address: private"),
        hit(host="a.b.example", port=80, rule="a.b.example:443"),
        hit(host="c.example", rule="c.example", allowed=True),
        hit(host="x.b.example", rule="x.b.example", allowed=True),
        hit(host="bad host", rule="allowlist"),
        hit(host="y.b.example", rule="owner"),
        hit(host="z.b.example", rule="limit"),
        hit(host="any host", port=0, rule="record limit"),
        hit(host="", rule="malformed"),
    ]
    found = outcome(hits, edit("*.b.example -c.example -x.b.example"))
    assert sorted(found.passing) == ["a.b.example:443", "a.b.example:80"]
    assert sorted(found.denied) == ["b.example:443", "bad host:443"]
    assert list(found.others) == ["a.b.example:443", ":443"]
    assert list(found.unknown) == ["y.b.example:443", "z.b.example:443", "any host"]
    said = "\n".join(one.text for one in outcome_lines(found, edit("*.b.example")))
    assert "would let 2 of 9 recorded denials through" in said
    assert "not known: no list was asked · 3" in said
    assert list(found.cut) == ["c.example:443"], "what another entry covers still passes"
