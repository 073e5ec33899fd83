"""A person at a cell: the stock ssh client on a pty, or on pipes, and what it shows."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable

from .conftest import LiveCell


class Seat:
    """An ssh client of this machine, on a terminal of its own. `wait_for` reads until something is shown."""

    def __init__(
        self, cell: LiveCell, principal: str, command: str | None, *, cols: int = 80, rows: int = 24
    ) -> None:
        self.master, slave = os.openpty()
        self.resize(cols, rows)
        self.seen = b""
        words = [command] if command is not None else []
        self.ssh = subprocess.Popen(
            ["ssh", "-F", cell.config, "-tt", "-e", "none", principal, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)

    def resize(self, cols: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        if hasattr(self, "ssh"):
            self.ssh.send_signal(signal.SIGWINCH)

    def type(self, data: bytes) -> Seat:
        os.write(self.master, data)
        return self

    def read(self, seconds: float = 0.02) -> bool:
        """Take in what is there; False at the end."""
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:
            return False
        self.seen += data
        return bool(data)

    def wait_for(self, what: bytes | Callable[[bytes], object], seconds: float = 15.0) -> bytes:
        met = what if callable(what) else lambda seen: what in seen
        end = time.monotonic() + seconds
        while not met(self.seen):
            assert time.monotonic() < end, (what, self.seen[-2000:])
            assert self.read() or met(self.seen), (what, self.seen[-2000:])
        return self.seen

    def ended(self, seconds: float = 15.0) -> int:
        """The exit status, when it has ended by itself."""
        end = time.monotonic() + seconds
        while self.ssh.poll() is None:
            assert time.monotonic() < end, self.seen[-2000:]
            self.read()
        while self.read(0):
            if not select.select([self.master], [], [], 0)[0]:
                break
        return self.ssh.returncode

    def close(self) -> None:
        if self.ssh.poll() is None:
            self.ssh.kill()
        self.ssh.wait(10)
        if self.master >= 0:
            os.close(self.master)
            self.master = -1
