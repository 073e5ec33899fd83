"""Reach for what is outside. argv: one JSON document, [[KIND, HOST, PORT], …]. An attempt that hangs is told as `hung`."""

import json
import socket
import sys

from calls import name, tell

KINDS = {
    "tcp": (socket.SOCK_STREAM, 0),
    "udp": (socket.SOCK_DGRAM, 0),
    "icmp": (socket.SOCK_RAW, socket.IPPROTO_ICMP),
    "icmp6": (socket.SOCK_RAW, socket.IPPROTO_ICMPV6),
    "ping": (socket.SOCK_DGRAM, socket.IPPROTO_ICMP),
    "raw": (socket.SOCK_RAW, socket.IPPROTO_RAW),
    "gre": (socket.SOCK_RAW, 47),
    "sctp": (socket.SOCK_STREAM, 132),
    "sctp packets": (socket.SOCK_SEQPACKET, 132),
}
ECHO = bytes([8, 0, 0xF7, 0xFF, 0, 0, 0, 0])


def raw(host):
    """A whole IPv4 packet with a UDP datagram for port 9 of the host."""
    whole = bytes([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]) + bytes(4) + socket.inet_aton(host)
    return whole + bytes([0, 9, 0, 9, 0, 8, 0, 0])


def reach(kind, host, port):
    if kind == "name":
        return str(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0])
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, *KINDS[kind]) as link:
        link.settimeout(4)
        if kind in ("tcp", "sctp", "sctp packets"):
            link.connect((host, port))
            return link.recv(100).decode()
        if kind == "udp":
            link.connect((host, port))  # so that a refusal comes back to it
        data = raw(host) if kind == "raw" else ECHO if kind in ("icmp", "ping", "icmp6") else b"hello"
        link.send(data) if kind == "udp" else link.sendto(data, (host, port))
        return "sent" if kind in ("raw", "gre") else link.recv(2000)[-8:].decode("latin-1")


told = []
for kind, host, port in json.loads(sys.argv[1]):
    try:
        told.append([kind, host, reach(kind, host, port)])
    except socket.gaierror as error:
        told.append(
            [kind, host, {v: k for k, v in vars(socket).items() if k.startswith("EAI_")}[error.errno]]
        )
    except TimeoutError:
        told.append([kind, host, "hung"])
    except OSError as error:
        told.append([kind, host, name(error.errno or 0)])
tell(told)
