"""Is the world what was declared, and is the harness not to be seen in it?

The looking is `launcher.probe`'s, as each phase's user; here it is compared with the cell's identity
record, line by line, in pure code. A line that could not be looked at has failed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cell.plain import plain
from cell.records import Identity, PhaseIdentity, Record

_KINDS = ("user", "mnt", "pid", "net", "ipc", "uts")
_LISTEN = "0A"
# The size of the terminal that the look has, in characters: no usual one.
COLUMNS, ROWS = 91, 33
TERM = "xterm-256color"
# What every container's hosts file has.
_HOSTS = frozenset(
    f"ip6-{name}" for name in ("localhost", "loopback", "localnet", "mcastprefix", "allnodes", "allrouters")
)


class Check(Record, frozen=True, kw_only=True):
    """One line: what was looked at, whether it is right, what was found and what was to be found."""

    phase: str
    name: str
    ok: bool
    found: str
    wanted: str


def said(text: str) -> str:
    """Say in words what a look came to: `!13` is an error number, lists are lists of words."""
    if text.startswith("!") and text[1:].isdigit():
        return "not there" if text == "!2" else f"refused: {os.strerror(int(text[1:])).lower()}"
    for sign in "[]'":
        text = text.replace(sign, "")
    return plain(text, limit=300) or "none"


@dataclass(frozen=True)
class Expected:
    """What a phase's process is to see; `words` name the harness."""

    identity: Identity
    phase: PhaseIdentity
    words: tuple[str, ...]


def judge(saw: Mapping[str, bytes], expected: Expected) -> tuple[Check, ...]:
    """Return a line for each fact, in the order a person reads them."""
    return tuple(_Judge(saw, expected).all())


def failed(phase: str, why: str) -> Check:
    """Return the line of a look that did not come about."""
    return Check(phase=phase, name="look", ok=False, found=why, wanted="a process inside looks around")


class _Judge:
    def __init__(self, saw: Mapping[str, bytes], expected: Expected) -> None:
        self.saw, self.expected = saw, expected
        self.status = dict(
            line.partition(":")[::2] for line in self._text("/proc/self/status").splitlines() if ":" in line
        )

    def all(self) -> Iterable[Check]:
        yield from self._namespaces()
        yield from self._who()
        yield from self._network()
        yield from self._files()
        yield from self._owners()
        yield from self._terminal()
        yield from self._names()

    def _text(self, key: str) -> str:
        return self.saw.get(key, b"!").decode("utf-8", "replace")

    def _line(self, name: str, found: object, wanted: object, *, ok: bool | None = None) -> Check:
        shown = plain(str(found), limit=200)
        return Check(
            phase=self.expected.phase.phase,
            name=name,
            ok=found == wanted if ok is None else ok,
            found=shown or "nothing",
            wanted=str(wanted) or "nothing",
        )

    def _namespaces(self) -> Iterable[Check]:
        known = {space.kind: space for space in self.expected.identity.namespaces}
        for kind in _KINDS:
            space = known.get(kind)
            inode = self._text(f"ns {kind}")
            wanted = f"its own, {space.inode}" if space else "its own"
            own = space is not None and not space.shared and inode == str(space.inode)
            yield self._line(f"{kind} namespace", inode, wanted, ok=own)
        for kind in ("uid", "gid"):
            wanted_map = getattr(self.expected.identity, f"{kind}_map")
            found = [" ".join(line.split()) for line in self._text(f"/proc/self/{kind}_map").splitlines()]
            yield self._line(f"{kind} map", found, [" ".join(map(str, row)) for row in wanted_map])

    def _who(self) -> Iterable[Check]:
        phase = self.expected.phase
        yield self._line("user id", self.status.get("Uid", "").split(), [str(phase.uid)] * 4)
        yield self._line("group id", self.status.get("Gid", "").split(), [str(phase.gid)] * 4)
        groups = sorted(map(int, self.status.get("Groups", "").split()))
        yield self._line("groups", groups, sorted(phase.groups))
        # the wall's one capability more belongs to the verifier's own processes, not to its user
        bounding = int(phase.cap_bounding, 16) & ~(1 << 35)
        effective = bounding if phase.uid == 0 else 0
        yield self._line("bounding capabilities", self.status.get("CapBnd", "").strip(), f"{bounding:016x}")
        yield self._line("effective capabilities", self.status.get("CapEff", "").strip(), f"{effective:016x}")
        yield self._line("no_new_privs", self.status.get("NoNewPrivs", "").strip(), "0")
        yield self._line("system-call filter", self.status.get("Seccomp", "").strip(), "2")

    def _network(self) -> Iterable[Check]:
        rows = self._text("/proc/net/dev").splitlines()
        devices = [row.partition(":")[0].strip() for row in rows if ":" in row]
        yield self._line("network devices", devices, ["lo"])
        routes = self._text("/proc/net/route").splitlines()[1:]
        yield self._line("routes beyond lo", routes, [])
        table = self._text("/proc/net/ipv6_route")
        rows = [] if table == "!2" else table.splitlines()  # a kernel without IPv6 has none
        yield self._line("IPv6 routes beyond lo", sorted({row.split()[-1] for row in rows} - {"lo"}), [])
        listening = listeners(self._text("/proc/net/tcp"))
        missing = [one for one in self.expected.identity.ends.listeners if one not in listening]
        wanted = ", ".join(self.expected.identity.ends.listeners) or "none of ours"
        yield self._line("listeners", ", ".join(listening), wanted, ok=not missing)
        resolver = self._text("/etc/resolv.conf").strip()
        yield self._line("resolver", resolver, self.expected.identity.ends.resolver)
        yield self._line("hosts", *self._hosts())

    def _hosts(self) -> tuple[list[str], list[str]]:
        """Return the names that the hosts file has, and those that it is to have."""
        lines = (line.partition("#")[0].split() for line in self._text("/etc/hosts").splitlines())
        identity = self.expected.identity
        peers = (peer.partition(" at ")[0].rpartition(":")[0] for peer in identity.ends.peers)
        named = {name for line in lines for name in line[1:]} - _HOSTS
        return sorted(named), sorted({"localhost", identity.hostname, *peers} - {""})

    def _files(self) -> Iterable[Check]:
        yield self._line("/tests", self._text("tests"), "absent", ok=self._text("tests") == "!2")
        hidden = self._text("verifier logs")
        yield self._line("/logs/verifier", hidden, "absent", ok=hidden == "!2")
        logs = self._text("list /logs").split("\0")
        yield self._line("/logs", " ".join(logs), "agent artifacts", ok={"agent", "artifacts"} <= set(logs))
        for key in sorted(key for key in self.saw if key.startswith("write ")):
            said = self._text(key)
            yield self._line(f"writing {key[6:]}", said, "refused", ok=said.startswith("!"))
        yield self._line(
            "environment of pid 1",
            self._text("process 1 environ"),
            "empty or closed",
            ok=self._text("process 1 environ") in ("", "!13", "!1"),
        )

    def _terminal(self) -> Iterable[Check]:
        yield self._line("terminal", self._text("terminal"), f"{COLUMNS} {ROWS} foreground")
        yield self._line("TERM", self._text("env TERM"), TERM)

    def _owners(self) -> Iterable[Check]:
        """Whose files are whose: with a narrow id map they would be nobody's."""
        for key in sorted(key for key in self.saw if key.startswith("owner ")):
            said = self._text(key)
            yield self._line(f"owner of {key[6:]}", said, "root", ok=said.startswith("0 0 "))
        for path in ("/tmp", "/dev/shm"):  # noqa: S108 - of the world inside
            mode = self._text(f"owner {path}").rpartition(" ")[2]
            yield self._line(f"mode of {path}", mode, "1777")

    def _names(self) -> Iterable[Check]:
        """Look for words that name the harness in everything that was seen."""
        groups = {
            "mount table": ("/proc/self/mountinfo",),
            "control groups": ("/proc/self/cgroup",),
            "processes": tuple(key for key in self.saw if key.startswith("process ")),
            "folders": tuple(key for key in self.saw if key.startswith("list ")),
            "hosts and names": ("/etc/hosts", "/etc/hostname", "hostname", "/etc/resolv.conf"),
            "sockets": ("/proc/net/unix",),
            "environment": tuple(key for key in self.saw if key.startswith("env ")),
        }
        for name, keys in groups.items():
            seen = [f"{key}\n{self._text(key)}" for key in keys]
            found = sorted({word for text in seen for word in self.expected.words if word in text})
            unseen = [key for key in keys if key not in self.saw]
            shown = ", ".join(found) or ("not looked at: " + ", ".join(unseen) if unseen else "")
            yield self._line(f"harness named in {name}", shown, "", ok=not found and not unseen)


def listeners(table: str) -> list[str]:
    """Return the listening ends of a /proc/net/tcp, as `ADDRESS:PORT`, sorted."""
    found = set()
    for line in table.splitlines():
        match = re.match(rf"\s*\d+: ([0-9A-F]{{8}}):([0-9A-F]{{4}}) \S+ {_LISTEN} ", line)
        if match:
            # the address is a number of this machine's byte order: little-endian where we run
            parts = [int(match[1][at : at + 2], 16) for at in (6, 4, 2, 0)]
            found.add((".".join(map(str, parts)), int(match[2], 16)))
    return [f"{address}:{port}" for address, port in sorted(found)]
