"""The one thing that is other when a cell is graded beside its score."""

from __future__ import annotations

import pytest

from cell.changes import KINDS, Change, parse


@pytest.mark.parametrize(
    ("text", "change", "within"),
    [
        ("timeout=x4", Change(text="timeout=x4", times=4.0), 40.0),
        ("timeout=20m", Change(text="timeout=20m", sec=1200.0), 1200.0),
        ("agent=still", Change(text="agent=still", still=True), 10.0),
        ("network=public", Change(text="network=public", public=True), 10.0),
    ],
)
def test_a_change_is_what_it_says(text: str, change: Change, within: float) -> None:
    assert parse(text) == change
    assert parse(text).within(10.0) == within


@pytest.mark.parametrize(
    "text",
    ["", "timeout", "timeout=x1", "timeout=x100", "timeout=0s", "network=none", "agent=still ", "\x1b"],
)
def test_anything_else_is_refused_and_what_there_is_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="say timeout=x4") as told:
        parse(text)
    assert str(told.value).isprintable()


def test_a_menu_offers_what_can_be_parsed() -> None:
    assert [parse(text).text for text in KINDS] == list(KINDS)
