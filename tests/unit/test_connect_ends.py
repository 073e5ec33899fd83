from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import cell.connect


def test_a_cell_that_hangs_up_ends_it_while_stdin_is_open(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        command = [sys.executable, "-I", "-S", str(Path(cell.connect.__file__)), path]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin and process.stdout
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"hello")
                assert process.stdout.read(5) == b"hello"  # at once, not at the end
                process.stdin.write(b"hi")
                process.stdin.flush()
                assert connection.recv(9) == b"hi"
            assert process.wait(10) == 0
