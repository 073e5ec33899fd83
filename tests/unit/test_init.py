"""The committed pid 1 is what its source says."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT / "cell" / "data"
BUILT_WITH = "12.2.0"
MACHINE_CODE = {"x86_64": 62, "aarch64": 183}
own_machine = pytest.mark.skipif(platform.machine() not in MACHINE_CODE, reason="no pid 1 for this machine")


def compiler(machine: str) -> str:
    return "gcc" if machine == platform.machine() else f"{machine}-linux-gnu-gcc"


def same_compiler(machine: str) -> bool:
    says = subprocess.run([compiler(machine), "-dumpfullversion"], capture_output=True, text=True, check=True)
    return says.stdout.strip() == BUILT_WITH


@pytest.mark.parametrize("machine", MACHINE_CODE)
def test_it_is_a_small_static_program_that_needs_nothing(machine: str) -> None:
    program = (DATA / f"init.{machine}").read_bytes()
    assert program[:5] == b"\x7fELF\x02"
    assert int.from_bytes(program[18:20], "little") == MACHINE_CODE[machine]
    assert len(program) < 4096
    assert os.access(DATA / f"init.{machine}", os.X_OK)
    offset = int.from_bytes(program[32:40], "little")
    count = int.from_bytes(program[56:58], "little")
    kinds = {int.from_bytes(program[offset + 56 * n : offset + 56 * n + 4], "little") for n in range(count)}
    assert not kinds & {2, 3}, "a loader or dynamic section"


@pytest.mark.parametrize("machine", MACHINE_CODE)
def test_rebuilding_gives_the_same_bytes(machine: str, tmp_path: Path) -> None:
    if shutil.which(compiler(machine)) is None:
        pytest.skip(f"no {compiler(machine)}")
    subprocess.run([ROOT / "tools" / "init" / "build", tmp_path, machine], check=True)
    built = (tmp_path / f"init.{machine}").read_bytes()
    assert len(built) < 4096
    if same_compiler(machine):
        assert built == (DATA / f"init.{machine}").read_bytes()


@own_machine
@pytest.mark.parametrize("argv0", ["/proc/self/fd/", "/proc/self/fd/6", "/proc/self/fd/99999", "/no/number"])
def test_the_first_stage_fails_with_its_own_status(argv0: str) -> None:
    program = DATA / f"init.{platform.machine()}"
    assert subprocess.run([argv0, "1"], executable=program).returncode == 111
    assert subprocess.run([argv0], executable=program).returncode == 111


@own_machine
def test_it_says_ready_with_a_neutral_face_and_ignores_signals() -> None:
    program = os.memfd_create("sleep", 0)
    os.write(program, (DATA / f"init.{platform.machine()}").read_bytes())
    ready, theirs = os.pipe()
    with subprocess.Popen(
        [f"/proc/self/fd/{program}", str(theirs)], pass_fds=(program, theirs), env={"SECRET": "s"}
    ) as process:
        os.close(theirs)
        try:
            assert os.read(ready, 100) == b"ready\n"
            assert os.read(ready, 100) == b"", "the ready descriptor is closed"
            folder = Path(f"/proc/{process.pid}")
            assert (folder / "cmdline").read_bytes() == b"sleep\0infinity\0"
            assert (folder / "comm").read_text() == "sleep\n"
            for number in (1, 2, 10, 12, 15, 17):
                os.kill(process.pid, number)
            assert process.poll() is None
        finally:
            process.kill()
        assert process.wait() == -9
    os.close(ready)
    os.close(program)
