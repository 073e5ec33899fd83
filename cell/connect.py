"""Carry bytes between stdin/stdout and a cell's unix socket: ssh's ProxyCommand.

Run as `python -I -S connect.py SOCKET`, so that it starts in a few milliseconds; it uses nothing but
the standard library's built-in parts. Half-closes are passed on both ways.
"""

from __future__ import annotations

import os
import select
import socket
import sys


def main(path: str) -> int:
    """Relay until both directions have ended; 1 when the cell does not answer."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except OSError as error:
        os.write(2, f"cell: {path}: {error.strerror}; the cell has ended (see `cell ls`)\n".encode())
        return 1
    here = [0, connection.fileno()]
    while here:
        ready, _, _ = select.select(here, [], [])
        if 0 in ready:
            data = os.read(0, 1 << 18)
            if data:
                connection.sendall(data)
            else:
                connection.shutdown(socket.SHUT_WR)
                here.remove(0)
        if connection.fileno() in ready:
            data = connection.recv(1 << 18)
            if not data:
                return 0
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except (BrokenPipeError, ConnectionError):
        sys.exit(0)
