from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import cell.connect

SCRIPT = str(Path(cell.connect.__file__))


def test_bytes_and_half_closes_pass_both_ways(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()

        def echo_after_the_end() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as file:
                data = file.read()  # to the client's half-close
                connection.sendall(data[::-1])

        thread = threading.Thread(target=echo_after_the_end)
        thread.start()
        data = bytes(range(256)) * 1000
        done = subprocess.run([sys.executable, "-I", "-S", SCRIPT, path], input=data, capture_output=True)
        thread.join()
    assert (done.returncode, done.stdout) == (0, data[::-1])


def test_a_cell_that_has_ended_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", SCRIPT, str(tmp_path / "no")], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "the cell has ended" in done.stderr
