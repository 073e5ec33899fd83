"""The kernel's capabilities, by name."""

from __future__ import annotations

CAPABILITIES: tuple[str, ...] = (
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
)
"""The kernel's capabilities in the order of their bits, without `CAP_`."""


def capabilities(mask: str) -> list[str] | None:
    """Return the names of a mask in hex; an unknown bit is its number. None for what is no mask."""
    try:
        bits = int(mask, 16)
    except ValueError:
        return None
    if bits < 0 or bits >> 64:
        return None
    return [
        CAPABILITIES[bit] if bit < len(CAPABILITIES) else f"#{bit}" for bit in range(64) if bits >> bit & 1
    ]
