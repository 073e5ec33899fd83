"""Give a file to every id that matters, and become it. argv: the ids."""

import os
import sys

from calls import attempt, tell


def become(number: int, path: str) -> None:
    os.setgroups([number])
    os.setresgid(number, number, number)
    os.setresuid(number, number, number)
    with open(path, "a") as file:
        file.write("mine")


told = {}
for word in sys.argv[1:]:
    number = int(word)
    path = f"/opt/owned-{number}"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    given = attempt(os.chown, path, number, number)
    seen = os.stat(path).st_uid, os.stat(path).st_gid
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, attempt(become, number, path).encode())
        os._exit(0)
    os.wait()
    told[word] = [given, seen, os.read(reader, 100).decode()]
tell(told)
