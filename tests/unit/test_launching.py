from __future__ import annotations

import os
from pathlib import Path

from cell.launcher import start, syscalls, view
from cell.launching import Launcher


def test_a_launcher_ends_when_its_other_end_does() -> None:
    one = Launcher.start()
    assert one.process.poll() is None
    one.control.close()
    assert one.process.wait(20) == 0


def test_it_has_no_environment_and_only_its_own_socket() -> None:
    kept = os.open("/dev/zero", os.O_RDONLY)
    os.set_inheritable(kept, True)
    one = Launcher.start()
    try:
        folder = Path(f"/proc/{one.process.pid}")
        assert (folder / "environ").read_bytes() == b""
        held = [os.readlink(entry) for entry in (folder / "fd").iterdir()]
        assert "/dev/zero" not in held
        assert sum(name.startswith("socket:") for name in held) >= 1
    finally:
        os.close(kept)
        one.control.close()
        one.process.wait(20)


def test_the_masks_of_a_root_name_only_what_the_kernel_makes() -> None:
    for path in (*view.MASKED_DIRS, *view.MASKED_FILES, *view.READ_ONLY):
        assert path.startswith(b"/proc/"), path


def test_the_numbers_are_this_machines() -> None:
    assert syscalls.SYS_OPEN_TREE == 428
    assert callable(start.main)
