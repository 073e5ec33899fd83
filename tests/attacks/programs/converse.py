"""Hold conversations over TCP, one after the other. argv: one JSON document, a list of [HOST, PORT, STEP…].

A step is text to send (a byte for each character), {"until": TEXT} to wait for, {"blob": N} bytes to send
that `blob` makes, {"end": true} to say no more, {"reset": true} to go at once, or {"count": true} to tell what follows by its
length and hash. After the last step is read until the end.
Each is told as {"got": TEXT, "how": "eof", "reset", "hung" or the error that came first}."""

import hashlib
import json
import socket
import struct
import sys

from calls import name, tell


def blob(size):
    return (hashlib.sha256(b"blob").digest() * (size // 32 + 1))[:size]


def converse(host, port, *steps):
    got = b""
    link = socket.create_connection((host, port), 10)
    with link:
        link.settimeout(12)
        for step in steps:
            try:
                if isinstance(step, str):
                    link.sendall(step.encode("latin-1"))
                elif "blob" in step:
                    link.sendall(blob(step["blob"]))
                elif "end" in step:
                    link.shutdown(socket.SHUT_WR)
                elif "reset" in step:
                    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return got, "gone"
                else:
                    while step["until"].encode("latin-1") not in got:
                        more = link.recv(65536)
                        if not more:
                            return got, "eof"
                        got += more
            except TimeoutError:
                return got, "hung"
            except (BrokenPipeError, ConnectionResetError):
                break  # what was said before is still there to read
        while True:
            try:
                more = link.recv(65536)
            except TimeoutError:
                return got, "hung"
            except ConnectionResetError:
                return got, "reset"
            if not more:
                return got, "eof"
            got += more


told = []
for talk in json.loads(sys.argv[1]):
    try:
        got, how = converse(*talk)
    except socket.gaierror:
        got, how = b"", "no such name"
    except OSError as error:
        # refused by a reset, which may come before `connect` returns
        got, how = b"", "reset" if isinstance(error, ConnectionResetError) else name(error.errno or 0)
    told.append({"got": got.decode("latin-1"), "how": how})
tell(told)
