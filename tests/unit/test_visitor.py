from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import msgspec
import pytest

from cell import visitor
from cell.errors import HarnessError
from cell.weighing import Grading, weigh


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def test_the_test_script_becomes_executable(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_PATH)
    visitor._unpack(tar((tarfile.TarInfo("test.sh"), b"#!/bin/sh\n")), descriptor)
    os.close(descriptor)
    assert (tmp_path / "test.sh").stat().st_mode & 0o111 == 0o111


def test_tests_that_lead_out_are_refused(tmp_path: Path) -> None:
    link = tarfile.TarInfo("out")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    descriptor = os.open(tmp_path, os.O_PATH)
    with pytest.raises(HarnessError, match="could not be laid out"):
        visitor._unpack(tar((link, b"")), descriptor)
    os.close(descriptor)


def grading(**found: object) -> Grading:
    plain = Grading(
        attempt=1,
        exit=0,
        signal=None,
        ms=1.0,
        started=0.0,
        stopped="",
        rewards={"reward": 0.0},
        reward_file="reward.txt",
        fault=None,
        tests=(),
        notes=(),
        programs=(),
        interference=(),
        interference_outside=False,
        interference_proved=False,
        sure=True,
        output="",
    )
    return msgspec.structs.replace(plain, **found)


PASSED = {"rewards": {"reward": 1.0}}
KILLED = {"rewards": None, "exit": None, "signal": "KILL"}
SENT = {"interference": ("SIGKILL to 'sleep'",), "interference_outside": True}
UNCLEAR = {"interference": ("SIGKILL to 'sleep', F_SETOWN",), "unclear": True}
STARVED = {"interference": ("SIGKILL from the kernel",), "unclear": True, "starved": True}
LIMITS = {"interference": ("the limits changed",)}


@pytest.mark.parametrize(
    ("first", "second", "held", "proved", "left"),
    [
        # by the kernel's word: a second verification that nobody disturbs proves it, whatever it gives
        (SENT, {}, 1, True, True),
        (SENT, PASSED, 1, True, True),
        (SENT, {}, 0, True, True),
        (SENT, KILLED, 1, False, True),
        # only suspected: it must go better when the agent's processes cannot act
        (LIMITS, PASSED, 1, True, True),
        (LIMITS, {}, 1, False, False),
        (LIMITS, {**PASSED, **LIMITS}, 1, False, False),
        (LIMITS, PASSED, 0, False, True),
        # nobody is known as its sender: what the verifier does to itself, it does again
        (UNCLEAR, {}, 1, True, True),
        ({**PASSED, **UNCLEAR}, {}, 1, True, True),
        (UNCLEAR, UNCLEAR, 1, False, False),
        ({**KILLED, **STARVED}, PASSED, 1, True, True),
        ({**KILLED, **STARVED}, {**KILLED, **STARVED}, 1, False, False),
        # killed, and signals could not be traced
        ({**KILLED, "sure": False}, PASSED, 1, True, True),
        ({**KILLED, "sure": False}, {**KILLED, "sure": False}, 1, False, True),
    ],
)
def test_a_second_verification_proves_or_clears(
    first: dict[str, object], second: dict[str, object], held: int, proved: bool, left: bool
) -> None:
    found = weigh(grading(**first), grading(**second), held=held)
    assert found.interference_proved is proved
    assert bool(found.interference) is left
    assert found.rewards == grading(**first).rewards, "the first one is what was graded"
    assert left or any("went the same" in note for note in found.notes)
