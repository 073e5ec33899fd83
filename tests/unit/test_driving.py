from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cell import deadline, driving, forwarding, freeze
from cell.errors import Refused


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("attach 3", (3, False, "operator")),
        ("attach 3 --take", (3, True, "operator")),
        ("attach --take 3 --who ann", (3, True, "ann")),
        ("attach 3 --who 'ann b\x1b[31m'", (3, False, "ann b␛[31m")),
        ("attach 3 --who ''", (3, False, "operator")),
    ],
)
def test_an_attachment_is_asked_for_in_words(command: str, expected: tuple[int, bool, str]) -> None:
    assert driving.asked(command) == expected


@pytest.mark.parametrize(
    "command",
    ["attach", "attach x", "attach 1 2", "attach 1 --tak", "attach 1 --help", "attach '1", "attach -h"],
)
def test_what_is_not_understood_is_refused_with_the_words_that_are(command: str) -> None:
    with pytest.raises(Refused, match="say attach N"):
        driving.asked(command)


def test_a_name_is_short() -> None:
    assert len(driving.asked("attach 1 --who " + "x" * 4000)[2]) <= 41


def test_elders_are_stopped_before_those_they_started() -> None:
    outer = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE)
    assert outer.stdout
    inner = int(outer.stdout.readline())
    try:
        assert freeze._elders_first({inner, outer.pid}) == [outer.pid, inner]
        assert freeze._families([outer.pid]) >= {outer.pid, inner}
        assert freeze._signal(inner, "0", 0) is False, "another process of the same pid is left alone"  # type: ignore[arg-type]
    finally:
        os.kill(inner, 9)
        outer.kill()
        outer.communicate()


def test_a_trial_without_records_has_waited_for_nothing(tmp_path: Path) -> None:
    assert deadline.waited(tmp_path) == 0.0


async def test_the_deadline_comes(tmp_path: Path) -> None:
    await deadline.expired(tmp_path, 0.0)


def test_only_the_worlds_own_loopback_is_led_to() -> None:
    assert {"localhost", "127.0.0.1", "::1"} == forwarding._LOOPBACK
