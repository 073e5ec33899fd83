"""Ask the name server for as many names as there are addresses, forever: argv is where to say how far it is."""

import itertools
import socket
import struct
import sys

link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.settimeout(0.2)
link.connect(("127.0.0.1", 53))
with open(sys.argv[1], "w") as said:
    for number in itertools.count():
        label = b"n%d" % number
        query = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + bytes([len(label)]) + label
        try:
            link.send(query + b"\7example\0" + struct.pack("!HH", 1, 1))
            answer = link.recv(500)
        except OSError:
            continue  # nobody is there at the moment
        if number % 500 == 0 or answer[3] & 15:
            said.write(f"{number} {answer[3] & 15}\n")
            said.flush()
