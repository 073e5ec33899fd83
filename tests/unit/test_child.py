from __future__ import annotations

import signal

from cell.child import Ended, Who


def test_the_wall_is_one_capability_more_and_locked_for_root() -> None:
    root, other = Who(0, 0, ()), Who(1000, 1000, ())
    assert root.bounding == 0xA80425FB
    for who in (root, other):
        assert who.walled.bounding == who.bounding | 1 << 35
        assert who.walled.ambient == 1 << 35
    assert (root.walled.securebits, other.walled.securebits) == (0b1100, 0)


def test_signals_by_name() -> None:
    assert Ended(None, signal.SIGKILL).signal_name == "KILL"
    assert Ended(None, 40).signal_name == "RT40"
    assert Ended(0, None).signal_name is None
