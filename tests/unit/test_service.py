from __future__ import annotations

import json
import subprocess
import sys

from cell import service


def test_a_spec_that_cannot_be_read_is_said_in_one_line_and_ends_it() -> None:
    assert callable(service.main)
    for said in (b"", b"{}", b"[1", b"\xff"):
        done = subprocess.run(
            [sys.executable, "-m", "cell.service"], input=said, capture_output=True, timeout=30
        )
        answer = json.loads(done.stdout)
        assert answer["kind"] == "harness" and "cannot be read" in answer["error"]
        assert (done.returncode, done.stderr) == (3, b"")
