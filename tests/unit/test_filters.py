"""The filter language."""

from __future__ import annotations

import pytest

from cell.filters import FilterError, parse

ROW = {
    "task": "flask-4045",
    "cell": "e02b77a",
    "agent": "claude-code",
    "state": "kept passed",
    "score": 0.5,
    "cause": "network",
    "tests": None,
}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("   ", True),
        ("flask", True),
        ("FLASK", True),
        ("django", False),
        ("flask claude", True),
        ("flask codex", False),
        ("codex | flask", True),
        ("codex | django", False),
        ("codex|flask", True),
        ("!codex", True),
        ("!flask", False),
        ("!!flask", True),
        ("!codex !django", True),
        ("!(codex | flask)", False),
        ("(codex | flask) network", True),
        ("codex | flask django", False),
        ("task~4045", True),
        ("task:4045", False),
        ("task:flask-4045", True),
        ("state:passed", True),
        ("state:kept", True),
        ("state:pass", False),
        ("score>=0.5", True),
        ("score>0.5", False),
        ("score<=0.5 score<0.6", True),
        ("score=0.5", True),
        ("tests>=0", False),
        ("!tests>=0", True),
        ("host~x", False),
        ('"claude-code"', True),
        ('"flask claude"', False),
        ('agent~"claude-c"', True),
        ("flask |", True),
        ("| flask", True),
        ("django |", False),
    ],
)
def test_what_a_filter_matches(text: str, matches: bool) -> None:
    assert parse(text)(ROW) is matches


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("(flask", "not closed"),
        ("flask)", "not expected"),
        ("!", "needs something"),
        ("colour:red", "no field is called `colour`"),
        ("score>=many", "needs a number"),
        ("(" * 60 + "x", "too many"),
    ],
)
def test_what_is_no_filter_says_why(text: str, says: str) -> None:
    with pytest.raises(FilterError, match=says):
        parse(text)
