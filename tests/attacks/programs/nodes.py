"""Make device nodes and open them. argv: KIND:MAJOR:MINOR …, then paths of nodes that are there already."""

import os
import stat
import sys

from calls import attempt, tell

told = {}
for number, word in enumerate(sys.argv[1:]):
    path = word
    if word[:2] in ("b:", "c:"):
        kind, major, minor = word.split(":")
        path = f"/tmp/node{number}"
        mode = (stat.S_IFBLK if kind == "b" else stat.S_IFCHR) | 0o666
        told[f"mknod {word}"] = attempt(os.mknod, path, mode, os.makedev(int(major), int(minor)))
    told[f"open {word}"] = attempt(os.open, path, os.O_RDONLY)
    if path.startswith("/tmp/node") and os.path.exists(path):
        os.unlink(path)
told["fifo"] = attempt(os.mkfifo, "/tmp/fifo")
os.unlink("/tmp/fifo")
tell(told)
