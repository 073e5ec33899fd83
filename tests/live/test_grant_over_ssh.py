"""What `cell grant` prints, pasted as it is into a colleague's shell that reaches this machine by ssh alone (G3)."""

from __future__ import annotations

import os
import pwd
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from world import SOURCE

from .conftest import LiveCell, until
from .test_grants import cell_command, ended, running

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]
HOME = pwd.getpwuid(0).pw_dir
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


class Server:
    """An OpenSSH server of this machine, on a port of its loopback; `said` is its log."""

    def __init__(self, folder: Path) -> None:
        assert SSHD
        for name in ("host", "colleague"):
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
            subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
        # `cell` is on the PATH of a command that ssh runs here
        program = folder / "bin/cell"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\ncd "{SOURCE}" && exec "{sys.executable}" -m cell "$@"\n')
        program.chmod(0o755)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.host_key = (folder / "host.pub").read_text()
        config = folder / "sshd_config"
        config.write_text(
            f"ListenAddress 127.0.0.1:{self.port}\nHostKey {folder}/host\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {folder}/colleague.pub\nStrictModes no\nPermitRootLogin prohibit-password\n"
            f"PasswordAuthentication no\nSetEnv PATH={program.parent}:/usr/bin:/bin\nLogLevel VERBOSE\n"
        )
        # where it locks itself up until somebody has proved who they are; a service's script makes it
        self._made = not Path("/run/sshd").exists()
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.log = folder / "sshd.log"
        with self.log.open("wb") as log:
            argv = [SSHD, "-D", "-e", "-f", str(config)]
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=log)
        assert until(lambda: "Server listening" in self.said), self.said

    @property
    def said(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)
        if self._made:
            with suppress(OSError):
                Path("/run/sshd").rmdir()


class Shell:
    """A colleague at an interactive shell: their home, their ssh, and nothing of ours."""

    def __init__(self, server: Server, folder: Path) -> None:
        home = folder / "home"
        (home / ".ssh").mkdir(parents=True, mode=0o700)
        shutil.copy(folder / "colleague", home / ".ssh/id")
        (home / ".ssh/known_hosts").write_text(f"[127.0.0.1]:{server.port} {server.host_key}")
        (home / ".ssh/config").write_text(
            f"Host here\n  HostName 127.0.0.1\n  Port {server.port}\n  User root\n  IdentityFile ~/.ssh/id\n"
            "  IdentitiesOnly yes\n  StrictHostKeyChecking yes\n  BatchMode yes\n"
        )
        self.home = home
        self.seen = b""
        self.master, slave = os.openpty()
        # ssh looks for its configuration where /etc/passwd says that home is, so that is theirs in here
        theirs = ["bwrap", "--dev-bind", "/", "/", "--bind", str(home), HOME, "--chdir", HOME]
        self.process = subprocess.Popen(
            [*theirs, "--die-with-parent", "setsid", "-c", "bash", "--norc", "--noprofile", "-i"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={"HOME": HOME, "PATH": "/usr/bin:/bin", "TERM": "xterm", "PS1": "colleague> "},
        )
        os.close(slave)

    def sees(self, what: bytes, seconds: float = 30) -> bytes:
        """Wait until it is shown, and return all that was shown since the last wait."""
        end = time.monotonic() + seconds
        while what not in self.seen:
            assert time.monotonic() < end, (what, self.seen[-3000:])
            if select.select([self.master], [], [], 0.1)[0]:
                with suppress(OSError):
                    self.seen += os.read(self.master, 65536)
        before, _, self.seen = self.seen.partition(what)
        return before

    def paste(self, text: str) -> Shell:
        data = text.encode()
        while data:
            _, free, _ = select.select([], [self.master], [], 1)
            if free:
                data = data[os.write(self.master, data[:512]) :]
            if select.select([self.master], [], [], 0)[0]:
                self.seen += os.read(self.master, 65536)
        return self

    def close(self) -> None:
        self.process.kill()
        self.process.wait(10)
        os.close(self.master)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    if SSHD is None:
        missing = "needs an OpenSSH server's program (openssh-server); it need not run"
        if os.environ.get("CELL_MUST_WORK") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    made = Server(tmp_path)
    yield made
    made.close()


@pytest.fixture
def colleague(server: Server, tmp_path: Path) -> Iterator[Shell]:
    made = Shell(server, tmp_path)
    made.sees(b"colleague> ")
    yield made
    made.close()


def granted(cell: LiveCell, *words: str) -> str:
    printed = cell_command("grant", cell.trial, "--for", "1h", "--host", "here", *words)
    assert printed.returncode == 0, printed
    return printed.stdout


def told(colleague: Shell, text: str) -> str:
    """Paste the text, and return the command that it tells the colleague."""
    colleague.paste(text)
    # its last line is an echo: what is shown after it is the command, on a line of its own
    colleague.sees(b'echo "ssh ')
    colleague.sees(b"\r\n")
    found = re.search(rb"(?:^|\n|\r)(ssh -[^\r\n]+)\r\n", colleague.sees(b"colleague> "))
    assert found, "the last line says what to do"
    return found[1].decode()


def test_g3_a_viewers_text_pasted_as_it_is_leads_to_the_terminal_over_ssh(
    cell: LiveCell, server: Server, colleague: Shell
) -> None:
    sessions = running(cell)
    try:
        command = told(colleague, granted(cell, "--as", "viewer", "--sessions", "2", "--who", "ann"))
        assert command.endswith("'watch 2' | cat -v")
        (key,) = colleague.home.glob(".config/cell/*/key")
        assert key.stat().st_mode & 0o777 == 0o600
        colleague.paste(f"{command}\n").sees(b"this is 2")
        assert "Accepted publickey for root" in server.said
        calls = [(e["holder"], e["method"], e["allowed"]) for e in cell.events("gate") if e["holder"]]
        assert calls == [("ann", "watch", True)]
        assert cell_command("grant", cell.trial, "--revoke", "ann").returncode == 0
        colleague.sees(b"colleague> ")
        colleague.paste(f"{command}\n").sees(b"Permission denied")
        colleague.sees(b"colleague> ")
    finally:
        ended(sessions)


def test_g3_an_operators_text_pasted_as_it_is_leads_to_the_keyboard_over_ssh(
    cell: LiveCell, server: Server, colleague: Shell
) -> None:
    sessions = running(cell, 1)
    try:
        command = told(colleague, granted(cell, "--as", "operator", "--who", "bob"))
        assert command.startswith("ssh -t ") and command.endswith("'attach 1'")
        colleague.paste(f"{command}\n")
        assert until(lambda: [e["holder"] for e in cell.events("lease")] == ["bob"])
        colleague.paste("typed-by-bob\n").sees(b"typed-by-bob\r\ntyped-by-bob")
        # and the way out of ssh leads back to the colleague's own shell, and the keyboard to the agent
        colleague.paste("\n~.").sees(b"colleague> ")
        assert until(lambda: [e["holder"] for e in cell.events("lease")] == ["bob", ""])
    finally:
        ended(sessions)


def test_g3_a_colleague_whose_ssh_is_not_let_in_is_told_by_ssh(
    cell: LiveCell, server: Server, colleague: Shell
) -> None:
    """The control: without ssh to this machine the text alone opens nothing."""
    command = told(colleague, granted(cell, "--as", "viewer"))
    colleague.paste("rm ~/.ssh/id\n").sees(b"colleague> ")
    colleague.paste(f"{command}\n").sees(b"Permission denied")
    assert not [e for e in cell.events("gate") if e["holder"]]
