"""Who each phase is: its HOME, its folders' owners, and no service where nobody can become it (S5, I2, I3)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from world import SOURCE

from .conftest import LiveCell

pytestmark = pytest.mark.live

BEGIN = (
    "import asyncio, sys, pathlib\n"
    "from cell.control import Link\n"
    "async def main():\n"
    "    link = await Link.open(pathlib.Path(sys.argv[1]), 'runner')\n"
    "    await link.call('begin')\n"
    "    await link.close()\n"
    "asyncio.run(main())\n"
)


def narrow(count: int) -> tuple[str, ...]:
    return (
        "env",
        f"PYTHONPATH={SOURCE}",
        sys.executable,
        str(Path(__file__).with_name("narrow.py")),
        str(count),
    )


def within(cell: LiveCell, *command: str, **more: str) -> str:
    """What a command prints that runs where the serving process runs."""
    entering = ["nsenter", "--user", "--preserve-credentials", "--target", str(cell.process.pid)]
    done = subprocess.run([*entering, *command], capture_output=True, text=True, cwd=SOURCE, **more)  # type: ignore[call-overload]
    assert done.returncode == 0, done
    return str(done.stdout)


def test_i2_a_phase_that_drops_ids_has_its_own_home_and_the_root_keeps_its_owner(
    make_cell: Callable[..., LiveCell],
) -> None:
    cell = make_cell(agent_phase="agent:agent")
    script = "cd; pwd; stat -c %U .; echo mine > kept; cat kept; stat -c %u:%g / /etc /usr /root"
    home, owner, kept, *others = cell.inside(script).split()
    assert (owner, kept, home != "/root") == ("agent", "mine", True)
    assert others == ["0:0"] * 4, "nothing of the root was given to the agent"
    assert cell.ssh("touch /etc/mine").returncode, "control: and the agent is not root"
    said = cell.grade("#!/bin/sh\ncd; pwd; id -u; echo 1 > /logs/verifier/reward.txt\n")["output"]
    assert said.split() == ["/root", "0"], "the verifier has its own"


@pytest.mark.parametrize(
    ("user", "who"), [("1000", "user id 1000"), ("0:5000", "group id 5000"), ("agent", "user id 1000")]
)
@pytest.mark.parametrize("phase", ["agent", "verifier"])
def test_i3_who_cannot_drop_does_not_serve(
    make_cell: Callable[..., LiveCell], user: str, who: str, phase: str
) -> None:
    with pytest.raises(AssertionError) as refused:
        make_cell(begun=False, within=narrow(1000), **{f"{phase}_phase": user})
    (said,) = refused.value.args
    assert said["kind"] == "harness"
    assert f"the {phase}'s user" in said["error"]
    assert f"{who} is not mapped" in said["error"]


@pytest.mark.parametrize("count", [1000, 1])
def test_s5_with_few_ids_or_one_a_root_agent_still_works_and_the_record_says_which(
    make_cell: Callable[..., LiveCell], count: int
) -> None:
    cell = make_cell(begun=False, within=narrow(count))
    identity = cell.info["identity"]
    assert (identity["uid_map"], identity["full_id_map"]) == ([[0, 0, count]], False)
    assert any("only a few ids" in note for note in identity["notes"])
    within(cell, sys.executable, "-c", BEGIN, str(cell.runtime))
    script = "cat /proc/self/uid_map; id -G; stat -c %u /dev/null; echo x > /dev/null && echo written; chmod 600 /dev/null"
    said = within(cell, *cell.argv(f"{script} || echo kept")).split()
    assert said[:3] == ["0", "0", str(count)]
    assert said[3:] == ["0", "65534", "written", "kept"], (
        "the machine's devices are used, and nobody can change them"
    )
