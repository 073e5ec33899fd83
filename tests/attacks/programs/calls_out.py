"""Ask over HTTP without a name: argv is one JSON document, [[KIND, ADDRESS, PORT], …]; told is [[ADDRESS, ANSWER], …]."""

import json
import socket
import sys

from calls import name, tell

told = []
for _, host, port in json.loads(sys.argv[1]):
    try:
        with socket.create_connection((host, port), 4) as link:
            link.settimeout(4)
            link.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            answer = b""
            while more := link.recv(1000):
                answer += more
            told.append([host, answer.rsplit(b"\r\n", 1)[1].split(b" ")[0].decode()])
    except OSError as error:
        told.append([host, name(error.errno or 0)])
tell(told)
