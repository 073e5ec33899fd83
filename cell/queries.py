"""What a program asks of its terminal, taken out of output that is shown again.

A terminal answers a question by typing. When the latest output of a session is shown to one who now
has its keyboard, their terminal would answer questions that were answered long ago, and the answers
would be typed into the program. Pure.
"""

from __future__ import annotations

import re

_END = rb"(?:\x07|\x1b\\)"
_QUERIES = re.compile(
    rb"\x05"  # ENQ
    rb"|\x1b\[[>=]?[0-9;]*c"  # what are you (DA1, DA2, DA3)
    rb"|\x1b\[\??[0-9;]*n"  # status and cursor position (DSR)
    rb"|\x1b\[\??[0-9;]*\$p"  # is this mode set (DECRQM)
    rb"|\x1b\[[0-9;]*t"  # sizes and titles, among other window operations
    rb"|\x1b\[>[0-9;]*q"  # name and version
    rb"|\x1b\[\?[0-9;]*u"  # keyboard protocol
    rb"|\x1b\[[0-9;]*x"  # parameters (DECREQTPARM)
    rb"|\x1b\[[0-9;]*\*y"  # checksum of a rectangle
    rb"|\x1b\](?![0-28];)[0-9]+;[^\x07\x1b]*\?" + _END + rb"|\x1bP[$+]q[^\x1b]*\x1b\\"  # colours, clipboard
    rb"|\x1b_G[^\x1b]*\x1b\\"  # images, whose arrival is confirmed
)


def without_queries(output: bytes) -> bytes:
    """Return terminal output without the sequences that a terminal answers."""
    return _QUERIES.sub(b"", output)
