"""Change the network: lo up and down, an address more, a route, a device, an nft table; sysctls."""

import fcntl
import os
import socket
import struct

from calls import attempt, name, tell


def netlink(family, *messages):
    """Send (type, flags, body) messages; the error that the kernel answers the last of them with."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family) as link:
        link.settimeout(4)
        whole = b""
        for number, (kind, flags, body) in enumerate(messages, 1):
            padded = body + bytes(-len(body) % 4)
            whole += struct.pack("IHHII", 16 + len(padded), kind, flags, number, 0) + padded
        link.sendto(whole, (0, 0))
        try:
            answer = link.recv(65536)
        except TimeoutError:
            return "silent"
        _, kind, _, _, _ = struct.unpack_from("IHHII", answer)
        code = -struct.unpack_from("i", answer, 16)[0] if kind == 2 else 0
        return name(code) if code else "ok"


def attribute(kind, data):
    return struct.pack("HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def flags_of_lo(change):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(link, 0x8913, request))[1]
        fcntl.ioctl(link, 0x8914, struct.pack("16sH14x", b"lo", change(flags)))


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


ACK, CREATE = 0x5, 0x400 | 0x5
lo = socket.if_nametoindex("lo")
address = struct.pack("BBBBI", socket.AF_INET, 24, 0, 0, lo) + attribute(2, bytes([10, 9, 8, 7]))
route = struct.pack("BBBBBBBBI", 2, 0, 0, 0, 254, 4, 253, 1, 0) + attribute(4, struct.pack("I", lo))
dummy = (
    struct.pack("BxHiII", 0, 0, 0, 0, 0) + attribute(3, b"bench0\0") + attribute(18, attribute(1, b"dummy"))
)
table = struct.pack("!BBH", 2, 0, 0) + attribute(1, b"bench\0")
batch = struct.pack("!BBH", 0, 0, 10)
told = {
    "up": attempt(flags_of_lo, lambda flags: flags | 1),
    "address": netlink(0, (20, CREATE, address)),
    "route": netlink(0, (24, CREATE, route)),
    "device": netlink(0, (16, CREATE, dummy)),
    "nft": netlink(12, (16, 1, batch), (0xA00, CREATE, table), (17, 1, batch)),
    "tun": attempt(os.open, "/dev/net/tun", os.O_RDWR),
    "sysctl": attempt(write, "/proc/sys/net/ipv4/ip_forward", "1"),
    "down": attempt(flags_of_lo, lambda flags: flags & ~1),
}
tell(told)
