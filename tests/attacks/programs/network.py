"""What there is of a network: interfaces, routes, addresses, sockets, and what the hosts file names."""

import os
import socket

from calls import read, tell


def lines(path, skip=1):
    data = read(path)
    return data.decode().splitlines()[skip:] if isinstance(data, bytes) else [data]


tell(
    {
        "interfaces": [name for _, name in socket.if_nameindex()],
        "sysfs": sorted(os.listdir("/sys/class/net")),
        "routes": lines("/proc/net/route"),
        "routes 6": [line.split()[-1] for line in lines("/proc/net/ipv6_route", 0)],
        "addresses 6": [line.split()[-1] for line in lines("/proc/net/if_inet6", 0)],
        "neighbours": lines("/proc/net/arp"),
        "sockets": {
            kind: [line.split()[1] for line in lines(f"/proc/net/{kind}")]
            for kind in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6")
        },
        "unix": [line.split()[7] for line in lines("/proc/net/unix") if len(line.split()) > 7],
        "hosts": lines("/etc/hosts", 0),
        "resolv": lines("/etc/resolv.conf", 0),
        "proxies": sorted(name for name in os.environ if "proxy" in name.lower()),
    }
)
