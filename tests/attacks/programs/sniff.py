"""Keep every packet of every interface in /tmp/packets until /tmp/enough is there."""

import os
import socket

with (
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as tap,
    open("/tmp/packets", "wb", 0) as file,
):
    tap.settimeout(0.05)
    file.write(b"listening\n")
    while not os.path.exists("/tmp/enough"):
        try:
            file.write(tap.recv(65536))
        except TimeoutError:
            continue
