"""Open each path for writing and write back what it holds."""

import os
import sys

from calls import attempt, tell


def write(path):
    descriptor = os.open(path, os.O_WRONLY)
    try:
        with open(path, "rb") as file:
            os.write(descriptor, file.read())
    finally:
        os.close(descriptor)


tell({path: attempt(lambda path=path: write(path)) for path in sys.argv[1:]})
