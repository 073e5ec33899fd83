"""The ways out of one workspace: what stands in its network, and what is done with whoever comes.

    agent's processes ──┬─ proxy 127.0.0.1:3128 ─────┐
                        ├─ any TCP (transparent) ────┼─ `border`: who, which policy ─ record ─ dial
    verifier's ─────────┼─ proxy 127.0.0.1:3129 ─────┤
                        ├─ any TCP, while it runs ───┘   where the agent has no network at all
    both ───────────────┴─ peers: their own address ─── record ─ the substrate's service

All of it is sockets made inside and accepted here: if this process dies, nothing listens any more, and the
workspace is closed (promise N11).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from . import argv
from .border import Border, Role
from .child import Child
from .egress.context import Limits, room
from .egress.dial import Dialer, Found
from .egress.names import NameServer
from .egress.owner import Owners
from .egress.peers import PeerWay
from .egress.pool import Pool
from .egress.proxy import Proxy
from .egress.transparent import Transparent
from .errors import HarnessError
from .launcher import ends as inside
from .ownway import OwnWay
from .policy import Policy, nothing_opens
from .policy.hosts import Host
from .policy.peers import Peer
from .records import Ends, PhaseName
from .sandbox import Sandbox


class Pinned(Dialer):
    """A dialer to which the operator gave addresses for some names; those are dialled as given.

    A pin is a name, with or without a port, and an address.
    """

    def __init__(self, pins: Mapping[str, str]) -> None:
        super().__init__()
        self._pins = {name: ipaddress.ip_address(address) for name, address in pins.items()}

    async def find(self, host: Host, port: int = 0) -> Found:
        """Return the pinned address, else what may be dialled. Raises NoWay."""
        pinned = self._pins.get(host.at(port)) or self._pins.get(host.text)
        return await super().find(host, port) if pinned is None else Found(host, (pinned,), "pinned")


class Ways:
    """The ways out of a sandbox: `make` before anything runs in it, `serve`, `close`.

    `lost` is what the last verification went without, because the agent has it.
    """

    def __init__(
        self,
        ends: Ends,
        sockets: dict[str, socket.socket],
        peers: tuple[tuple[Peer, str], ...],
        dialer: Dialer,
        limits: Limits,
        *,
        sandbox: Sandbox,
    ) -> None:
        self.ends = ends
        self.peers = peers
        self._sockets, self._dialer, self._limits = sockets, dialer, limits
        self._roles = {"agent"} if "way" in sockets else set()
        self._roles |= {"verifier"} if "verifier" in sockets else set()
        self.lost: tuple[str, ...] = ()
        self._sandbox = sandbox
        self._border: Border | None = None
        self._agent: Proxy | None = None
        self._visit: OwnWay | None = None
        self._caught: Transparent | None = None
        self._names: NameServer | None = None
        self._answering: asyncio.Task[None] | None = None
        self._owners: Owners | None = None
        self._to_peers: list[PeerWay] = []

    @classmethod
    async def make(
        cls,
        sandbox: Sandbox,
        policies: Mapping[Role, Policy],
        peers: tuple[Peer, ...] = (),
        *,
        proxy_only: bool = False,
        tls_only: bool = False,
        pins: Mapping[str, str] | None = None,
    ) -> Ways:
        """Make the ends inside. `pins` are addresses for names, as the operator gave them; `tls_only`
        admits nothing but TLS on port 443.

        Errors: OSError, HarnessError.
        """
        anywhere: dict[Role, bool] = {role: policy.mode != "no-network" for role, policy in policies.items()}
        facts, descriptors = await sandbox.network(
            "prepare",
            proxy=any(anywhere.values()),
            transparent=anywhere["agent"] and not proxy_only,
            visiting=anywhere["verifier"] and not (anywhere["agent"] or proxy_only),
            peers=[[peer.name, peer.port] for peer in peers],
        )
        sockets = {
            label: socket.socket(fileno=fd) for label, fd in zip(facts["sockets"], descriptors, strict=True)
        }
        # where only one of the phases has a way, the other's end is not there either
        if not anywhere["agent"] and "way" in sockets:
            sockets.pop("way").close()
        if not anywhere["verifier"] and "verifier" in sockets:
            sockets.pop("verifier").close()
        listeners = [f"127.0.0.1:{inside.WAY_PORT}"] if "way" in sockets else []
        listeners += [f"127.0.0.1:{inside.NAMES_PORT}"] if "names-tcp" in sockets else []
        placed = tuple((peer, address) for peer, (_, address, _) in zip(peers, facts["peers"], strict=True))
        ends = Ends(
            listeners=(*listeners, *(f"{address}:{peer.port}" for peer, address in placed)),
            peers=tuple(f"{peer.name}:{peer.port} at {address}" for peer, address in placed),
            transparent=facts["transparent"],
            visiting=facts["visiting"],
            ipv6=facts["ipv6"],
            resolver="nameserver 127.0.0.1" if facts["transparent"] else "",
            refused=tuple(facts["refused"]),
        )
        # each role has the proxy and the transparent way
        limits = Limits(connections=room(4 + len(peers)), plain_on_443=not tls_only)
        return cls(ends, sockets, placed, Pinned(pins or {}), limits, sandbox=sandbox)

    def environment(self, role: Role) -> dict[str, str]:
        """Return the proxy variables of a role's processes; none where it has no way out."""
        port = inside.WAY_PORT if role == "agent" else inside.VERIFIER_PORT
        if role not in self._roles:
            return {}
        direct = [part for peer, address in self.peers for part in (peer.name, address)]
        return argv.proxy_environment(port, dict.fromkeys(part for part in direct if part != "127.0.0.1"))

    def __contains__(self, role: Role) -> bool:
        """Say whether that role has a way out."""
        return role in self._roles

    def hosts(self) -> list[tuple[str, str]]:
        """Return the lines that /etc/hosts has for peers."""
        return [(peer.name, address) for peer, address in self.peers]

    def owners(self, sandbox: Sandbox, members: Callable[[], list[int] | None]) -> Owners:
        """Return who can say whose connection it is; `members` as `Owners` has it."""
        diag = self._sockets["diag"]
        self._owners = Owners(diag, sandbox.pid_namespace, sandbox.mount_namespace, members)
        return self._owners

    # ── life ──────────────────────────────────────────────────────────────────────────────────

    async def serve(self, border: Border) -> None:
        """Accept from now on, all but on the verifier's way (promise N7)."""
        self._border, self._agent = border, Proxy(border, self._dialer, self._limits)
        border.full = self._full
        names = Pool()
        if self.ends.transparent:
            self._caught = Transparent(border, self._dialer, names, self._agent.client, self._limits)
            for label in ("way", "way6"):
                if label in self._sockets:
                    await self._caught.serve(self._sockets.pop(label))
            asked, may_name = partial(border.asked, "127.0.0.1"), partial(border.may_name, "127.0.0.1")
            self._names = NameServer(names, asked, may_name=may_name, ipv6=self.ends.ipv6)
            sockets = self._sockets["names"], self._sockets["names-tcp"]
            self._answering = asyncio.create_task(self._names.serve(*sockets))
        elif "way" in self._sockets:
            await self._agent.serve(self._sockets.pop("way"))
        for number, (peer, _) in enumerate(self.peers):
            way = PeerWay(border, peer.name, peer.port, (peer.host, peer.target), self._limits)
            await way.serve(self._sockets.pop(f"peer:{number}"))
            self._to_peers.append(way)

    def seal(self) -> None:
        """Close the agent's way, and cut what it has open: its phase is over."""
        if self._border is not None:
            self._border.seal()
        for way in (self._agent, self._caught):
            if way is not None:
                way.cut("the agent phase is over", "starting", "agent")
        if self._names is not None:
            self._names.begin_anew()

    @asynccontextmanager
    async def for_verifier(self) -> AsyncIterator[None]:
        """Have the verifier's way listen while this lasts; then cut what is open on it, and on all ways.

        The port stays bound: nobody else can have it, before, between or after verifications.
        """
        if self._border is None:
            raise HarnessError("the ways out are not served")
        if self._names is not None:
            self._names.begin_anew()
        try:
            if "verifier" in self._sockets:
                self._visit = OwnWay(self._border, self._dialer, self._limits)
                listeners = [
                    self._sockets[label] for label in ("verifier", "verifier6") if label in self._sockets
                ]
                await self._visit.serve(listeners)
                if self.ends.visiting:
                    await self._visit.reach(self._sandbox, ipv6=self.ends.ipv6)
            yield
        finally:
            self._border.verifier_is(None)
            visit, self._visit = self._visit, None
            if visit is not None:
                self.lost = visit.lost
                await visit.close()
            for other in (self._agent, self._caught):
                if other is not None:
                    other.cut("the verifier has ended", "verifier")

    @property
    def over(self) -> tuple[tuple[str, bytes], ...]:
        """Files that have another content in the verifier's view, while its way is open."""
        return self._visit.over if self._visit is not None else ()

    def verifier_is(self, child: Child) -> None:
        """Say which process the verifier is, before it can have connected anywhere."""
        if self._border is not None:
            self._border.verifier_is(child)

    def allow(self, role: Role, text: str, by: str, *, once: bool) -> None:
        """Let one entry more pass for a role. Raises ValueError for what is no entry."""
        if self._border is None or role not in self._roles:
            raise ValueError(
                f"there is no way out for the {role} in this world, and none is made while it stands: "
                "declare allowed_hosts in its task.toml, or run it with --network public"
            )
        if nothing_opens(text):
            raise ValueError("such an address is opened by nothing")
        self._border.rules[role].allow(text, by, once=once)

    async def close(self) -> None:
        """Cut and record all, and close the ends."""
        if self._answering is not None:
            self._answering.cancel()
        for way in (self._agent, self._caught, *self._to_peers):
            if way is not None:
                await way.close()
        if self._owners is not None:
            self._owners.close()
        if self._border is not None:
            self._border.close()
        for one in self._sockets.values():
            one.close()

    def _full(self, role: Role) -> None:
        """Cut all that a role has open, once the attempt that is being recorded has been dealt with."""
        phases: tuple[PhaseName, ...] = ("starting", "agent", "sealed", "finished")
        phases = ("verifier",) if role == "verifier" else phases
        visits = self._visit.ways if self._visit is not None else ()
        for way in (self._agent, self._caught, *visits, *self._to_peers):
            if way is not None:
                asyncio.get_running_loop().call_soon(way.cut, "the record is full", *phases)
