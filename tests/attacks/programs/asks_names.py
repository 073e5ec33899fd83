"""Ask name servers by hand: argv is one JSON document, [[KIND, SERVER, NAME], …]; told is the first address or an error."""

import json
import socket
import struct
import sys

from calls import name, tell


def ask(kind, server, wanted):
    labels = b"".join(bytes([len(label)]) + label for label in wanted.encode().split(b"."))
    query = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM) as link:
        link.settimeout(5)
        link.connect((server, 53))
        link.sendall(query if kind == "udp" else struct.pack("!H", len(query)) + query)
        answer = link.recv(1000)
        if kind == "tcp" and len(answer) == 2:
            answer += link.recv(1000)
        if not answer:
            return "nothing"
        answer = answer if kind == "udp" else answer[2:]
        code, count = answer[3] & 15, struct.unpack_from("!H", answer, 6)[0]
        return socket.inet_ntoa(answer[-4:]) if count else f"code {code}"


told = []
for kind, server, wanted in json.loads(sys.argv[1]):
    try:
        told.append([kind, server, wanted, ask(kind, server, wanted)])
    except TimeoutError:
        told.append([kind, server, wanted, "hung"])
    except OSError as error:
        told.append([kind, server, wanted, name(error.errno or 0)])
tell(told)
