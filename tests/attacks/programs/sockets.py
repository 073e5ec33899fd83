"""Connect to unix sockets by path and by abstract name (with @): what answers, and what sockets there are.

With --answers the tree is not searched."""

import os
import socket
import stat
import sys

from calls import name, tell

told = {}
words = [word for word in sys.argv[1:] if word != "--answers"]
for word in words:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(5)
        try:
            link.connect("\0" + word[1:] if word.startswith("@") else word)
            told[word] = link.recv(100).decode()
        except OSError as error:
            told[word] = name(error.errno or 0)


def below(folder):
    """Sockets below a folder; the directory says the type, so that no file is touched."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.path not in ("/proc", "/sys"):
                yield from below(entry.path)
        elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
            continue
        elif stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
            yield entry.path


with open("/proc/net/unix") as file:
    listed = [line.split()[7] for line in file.read().splitlines()[1:] if len(line.split()) > 7]
tell({"answers": told, "found": [] if "--answers" in sys.argv else list(below("/")), "listed": listed})
