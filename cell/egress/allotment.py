"""How much of the record the attempts of one role may fill: what is not written down is not attempted.

Each attempt to leave is a line on the operator's disk, and a hostile agent may make as many as it likes. So
that none is left out and the disk stays free, the ways out are closed when the lines have become too many:
one last line says so, and who comes after that is reset unheard, and only counted. The verifier has an
allotment of its own, which nobody else can use up.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST = 128 << 20
"""Bytes of the journal for each role's attempts, which is more than 100,000 of them."""


class Full(Exception):
    """There is no line left for an attempt; the connection that it was about ends with it."""


@dataclass
class Allotment:
    """What one role has `used` of its `most` bytes. `hit` is the last line, 0 while there is room."""

    most: int = MOST
    used: int = 0
    hit: int = 0
    refused: int = 0

    def claim(self) -> None:
        """Ask for the line of one attempt. Raises Full, and counts it."""
        if self.hit:
            self.refused += 1
            raise Full

    @property
    def spent(self) -> bool:
        """Whether the next line has to be the last."""
        return not self.hit and self.used >= self.most

    @property
    def said(self) -> str:
        """How it ended, for the end of the last line."""
        return f"{self.refused:,} more attempts were refused unheard"
