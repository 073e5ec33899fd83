"""Text from inside, made safe for a screen (promise O3).

Whatever an agent, an image or a task wrote may hold escape sequences, control characters or
bidirectional overrides. `plain` leaves printable text alone and shows the rest as symbols.
"""

from __future__ import annotations

import unicodedata

# C0 and DEL have pictures of their own at U+2400; everything else that moves the cursor, changes
# direction or hides is shown as its code point.
_PICTURES = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def plain(text: str | bytes, *, limit: int = 2000) -> str:
    """Return `text` on one line, with every control, format and unassigned character made visible.

    `limit` is the longest result in characters; what is cut is shown as `…`. Bytes are read as
    UTF-8, broken ones as U+FFFD.
    """
    if isinstance(text, bytes):
        text = text[: 4 * limit + 4].decode("utf-8", "replace")
    cut = len(text) > limit
    if not cut and text.isprintable():
        return text
    shown = "".join(_show(char) for char in text[:limit])
    return shown[: limit - 1] + "…" if cut or len(shown) > limit else shown


def _show(char: str) -> str:
    code = ord(char)
    if code in _PICTURES:
        return chr(_PICTURES[code])
    if code < 0x7F:
        return char
    if unicodedata.category(char) in _UNSEEN:
        return f"<{code:04X}>"
    return char
