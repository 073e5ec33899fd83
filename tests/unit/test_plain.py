from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from cell.plain import plain


@given(st.text(st.characters(), max_size=300))
def test_o3_nothing_that_moves_hides_or_turns_is_left(text: str) -> None:
    assert not [c for c in plain(text) if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]


@given(st.binary(max_size=300))
def test_bytes_are_taken_as_they_are(data: bytes) -> None:
    assert "\x1b" not in plain(data)


def test_what_is_shown_instead() -> None:
    assert plain("a\x1b[31m\u202eb\n") == "a␛[31m<202E>b␊"
    assert plain("naïve ✓ 日本") == "naïve ✓ 日本"
    assert plain("x" * 50, limit=10) == "x" * 9 + "…"
