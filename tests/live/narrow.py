"""Run a command where only some ids are mapped and no device can be made: as in a container with remapped users.

Usage: narrow.py COUNT COMMAND…  Ids 0 to COUNT-1 are mapped; with 1, nobody can choose groups either. The devices
belong to somebody who is not mapped.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)

NEWNS, NEWUSER = 0x00020000, 0x10000000
DEVICES = """
mount --make-rprivate /
mount -t tmpfs none /mnt
for name in null zero full random urandom tty; do
    cp -a /dev/$name /mnt/$name
    chown 200000:200000 /mnt/$name
    mount --bind /mnt/$name /dev/$name
done
"""


def main(count: int, command: list[str]) -> None:
    assert libc.unshare(NEWNS) == 0
    subprocess.run(["sh", "-ec", DEVICES], check=True)
    told, tell = os.pipe()
    me, writer = os.getpid(), os.fork()
    if writer == 0:
        # only from outside can more than one's own id be mapped
        os.read(told, 1)
        for name, words in {
            **({"setgroups": "deny"} if count == 1 else {}),
            **dict.fromkeys(("uid_map", "gid_map"), f"0 0 {count}"),
        }.items():
            with open(f"/proc/{me}/{name}", "w") as file:
                file.write(words)
        os._exit(0)
    assert libc.unshare(NEWUSER | NEWNS) == 0
    os.write(tell, b"x")
    assert os.waitpid(writer, 0)[1] == 0
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
