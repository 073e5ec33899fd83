"""Try to have a port that is another's: argv is one JSON document, [[KIND, ADDRESS, PORT], …]. Each is tried with and
without SO_REUSEADDR and SO_REUSEPORT, and told as the set of what came of it."""

import json
import socket
import sys

from calls import attempt, tell


def have(kind, address, port, options):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as one:
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        for option in options:
            one.setsockopt(socket.SOL_SOCKET, option, 1)
        one.bind((address, port))
        if kind == "tcp":
            one.listen()


EVERY = [(), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)]
tell(
    [
        [kind, address, port, sorted({attempt(have, kind, address, port, options) for options in EVERY})]
        for kind, address, port in json.loads(sys.argv[1])
    ]
)
