"""The rows of the bench: number → what is tried. The numbers are stable names, gaps are free.

A row is proved by the one test `test_NNN_…` somewhere in this folder; `test_numbers.py` holds the two
together. A row in `OPEN` has no test yet, and says why.
"""

from __future__ import annotations

ROWS: dict[int, str] = {
    # identity, capabilities, kernel surface
    1: "a root session writes /proc/sys/kernel/core_pattern",
    2: "umount a mask or a bind, and read what is under it",
    3: "mount tmpfs, bind or move over /etc",
    4: "remount a read-only bind writable",
    6: "capabilities in every kind of session",
    7: "ptrace pid 1, the holder, another session's launcher",
    8: "setns to the namespaces of pid 1",
    9: "a new namespace of any kind",
    10: "open_by_handle_at, pivot_root, chroot and fchdir",
    11: "mknod a device and open it",
    14: "read the harness's session keyring",
    15: "io_uring, and a socket of AF_VSOCK",
    18: "kill -9 1 and kill -9 -1",
    19: "chown and setuid to any id of the image",
    20: "a set-uid program of the image",
    # file system and observability
    21: "what /proc/1 tells",
    22: "what /proc/N tells of a launcher while it joins",
    23: "environment and command line of other sessions",
    24: "mountinfo and statmount",
    27: "/tests and /logs/verifier in the agent phase",
    28: "a symbolic link at a folder of logs",
    29: "a path component swapped while the harness collects",
    31: "env, bash, setpriv, nsenter, ld.so.preload replaced",
    32: "pathname sockets of host daemons",
    34: "a result file that is a FIFO, a device, a terabyte, a million names",
    123: "modules, NSS libraries and codecs planted for the harness's interpreter",
    124: "pkill and kill -9 -1, as root and as the agent's user",
    # network, for the mode no-network
    35: "interfaces, routes and listeners",
    36: "a loopback service of the substrate",
    37: "the control channel, by every kind of socket",
    39: "UDP, ICMP, SCTP and raw IP to any address",
    45: "nft redirect, an address more, lo down",
    46: "AF_PACKET while the verifier runs",
    # host matching
    50: "a name that ends like an allowed one",
    51: "a name that begins like an allowed one",
    52: "a name below an allowed one",
    54: "capitals and a dot at the end",
    55: "empty labels, names that are too long",
    56: "a NUL in a host",
    58: "user information before a host",
    60: "a U-label, enclosed and fullwidth characters",
    63: "IPv6, mapped addresses, zone identifiers",
    64: "an address that is not listed, or with another port",
    65: "a wildcard that is no leading *.",
    67: "a port that its entry has not",
    68: "ports that are none",
    69: "an empty list, a misspelt mode",
    # framing and protocol
    70: "two lengths at once",
    72: "bare line feeds, folded lines, blanks before a colon, NUL",
    73: "HTTP/2, TLS, SOCKS and garbage at the proxy",
    74: "a Host header that is not the target",
    75: "a second request of the connection to a denied host",
    76: "seven pipelined requests",
    77: "targets of another form or scheme",
    78: "CONNECT of HTTP/1.0 without Host",
    80: "TLS that asks for another host, none, or encrypted; what is no TLS on 443",
    82: "either side of a tunnel ends first",
    83: "a body of 2 MB that waits for 100 Continue",
    84: "chunk extensions and trailers; chunks for an HTTP/1.0 client",
    86: "ranges and encodings",
    87: "upgrades to websocket and h2c",
    88: "headers of one hop, in both directions",
    91: "a stream of gigabytes down and up",
    93: "a hundred requests at once",
    # addresses
    94: "an allowed name that leads to the substrate or a private network",
    96: "an allowed name that leads to metadata services, multicast, hidden IPv4 addresses",
    97: "a name that leads elsewhere the second time",
    99: "a redirect to a denied host",
    # phases and grading
    100: "the agent uses the verifier's way out while it verifies",
    101: "each phase's own list, and the reverse",
    102: "rewards, conftest.py, sitecustomize, plugins and PATH shims planted",
    103: "a verifier that crashes, is late, misses a tool, is denied a host",
    104: "daemons, ports, shared memory, cron for the next rollout",
    105: "grade in the agent phase; grade twice",
    118: "/proc/N/{root,environ,fd,mem} of the verifier",
    119: "the same of its children that drop to the agent's user",
    120: "a core of the verifier",
    121: "the verifier killed, stopped, limited",
    122: "a program replaced that the tests use",
    # sessions
    107: "/dev/tty, tcgetpgrp, Ctrl-C, Ctrl-Z, a storm of resizes",
    108: "a server in the background, then the next command",
    109: "a noisy command that is stopped",
    110: "100 MB to a terminal with a slow reader",
    # control and failure
    112: "every method, by every principal, in every phase",
    114: "a connection from inside the sandbox with uid 0",
    116: "the holder or the serving process killed, the record's disk filled, while it gets out",
    117: "bubblewrap missing or old, no user namespaces, /proc masked",
}

OPEN: dict[int, str] = {
    17: "limits are not enforced yet",
    26: "waits for the comparison with a plain container",
}
