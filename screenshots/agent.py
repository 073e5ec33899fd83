"""The agent of the recorded run: it types a solution into a terminal, and stays if it is watched.

Started by `cell run -a "exec:python3 agent.py TASKS STAGE"`. The first attempt at each task of STAYS goes on
with something worth seeing until the file STAGE/curtain is there.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from pathlib import Path

SIZE = (30, 100)
MORE = {
    "installs-allowed": (
        "PYTHONPATH=/root/lib python3 -c 'import greet; print(greet.greet(\"world\"))'",
        "curl -sS -o /dev/null -w '%{http_code}\\n' http://packages.example/simple/greet/",
        "ls -l --color=always /root/lib",
    ),
    "sum-fails": (
        "printf '1\\n2\\n39\\n' | /root/sum.sh",
        "cat > /root/check.py <<'END'",
        "import subprocess, unittest",
        "def total(text): return subprocess.check_output('/root/sum.sh', input=text, text=True)",
        "class Sum(unittest.TestCase):",
        "    def test_one(self): self.assertEqual(total('7\\n'), '7\\n')",
        "    def test_three(self): self.assertEqual(total('1\\n2\\n39\\n'), '42\\n')",
        "    def test_below_zero(self): self.assertEqual(total('-4\\n1\\n'), '-3\\n')",
        "END",
        "python3 -m unittest -v /root/check.py",
    ),
    "multi-user": ("cat ~/report.txt",),
}
STAYS = {
    "installs-allowed": "while sleep 8; do curl -so /dev/null -w '%{http_code} %{url_effective}\\n' "
    "http://mirror.example:8737/simple/greet/; done",
    "serves-http": "clear; top -d 2",
    "sum-fails": "clear; while python3 -m unittest -v /root/check.py; do sleep 4; done",
    "multi-user": "python3 -q",
}


def watch(master: int, quiet: float) -> None:
    """Read until nothing more comes for `quiet` seconds."""
    while select.select([master], [], [], quiet)[0]:
        try:
            if not os.read(master, 1 << 16):
                return
        except OSError:
            return


def typed(master: int, line: str) -> None:
    """Type as somebody does who types fast."""
    for char in line:
        os.write(master, char.encode())
        watch(master, 0.01)
    os.write(master, b"\r")
    watch(master, 0.5)


def stay(master: int, task: str, stage: Path) -> None:
    """Go on until the curtain falls, if nobody else does so for this task."""
    try:
        (stage / task).touch(exist_ok=False)
    except FileExistsError:
        return
    typed(master, STAYS[task])
    if task == "multi-user":
        for line in ("from pathlib import Path", "print(Path.home().joinpath('report.txt').read_text())"):
            typed(master, line)
    (stage / f"{task}.plays").touch()
    while not (stage / "curtain").exists():
        watch(master, 0.2)
        time.sleep(0.2)
    os.write(master, b"q" if task == "serves-http" else b"\x04" if task == "multi-user" else b"\x03")
    watch(master, 1)


def main(tasks: Path, stage: Path) -> int:
    """Type the solution of this task."""
    asked = Path(os.environ["CELL_INSTRUCTION"]).read_text()
    task = next(one.parent for one in tasks.glob("*/instruction.md") if one.read_text() == asked)
    text = re.sub(r"\A(#.*\n|set -e\n)+", "", (task / "solution/solve.sh").read_text())
    if task.name == "answers-elsewhere":
        text = text.replace("; then exit 1; fi", "; then echo leaked; fi")
    pid, master = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(  # noqa: S606
            "ssh", ["ssh", "-tt", "-F", os.environ["CELL_SSH_CONFIG"], "agent", "bash --norc --noprofile -i"]
        )
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    watch(master, 1.5)
    typed(
        master, r"PS1='\[\e[32m\]agent\[\e[0m\]:\[\e[34m\]\w\[\e[0m\]\$ '; PS2='\[\e[90m\]>\[\e[0m\] '; clear"
    )
    typed(master, "id; pwd")
    for line in text.splitlines():
        if line.strip():
            typed(master, line)
    for line in MORE.get(task.name, ()):
        typed(master, line)
    if task.name in STAYS:
        stay(master, task.name, stage)
    typed(master, "exit 0")
    watch(master, 5)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
