"""Sitting in a session's terminal: its screen, and its keyboard for as long as it is lent (O1, O5)."""

from __future__ import annotations

import argparse
import asyncio
import shlex
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .errors import Refused
from .gate import Grant
from .lease import Driver
from .plain import plain
from .records import Principal
from .session import Client, Session, Watcher
from .workspace import Workspace

TAKEN_OVER = 75  # exit statuses of `attach`: another one has the keyboard now
OCCUPIED = 76  # another one has it, and it was not to be taken


@dataclass(frozen=True)
class Left:
    """How an attachment ended: an exit status, and why, for the one who was attached."""

    status: int
    words: str


async def attach(
    workspace: Workspace,
    principal: Principal,
    client: Client,
    number: int,
    *,
    who: str,
    over: bool,
    grant: Grant | None = None,
) -> Left:
    """Lend the keyboard of session `number` to `who` until they let go, lose it, or the session ends.

    Errors: Refused (the gate, or a session without a terminal), lease.Occupied.
    """
    workspace.ask(principal, "attach", f"{number} as {who}", session=number, grant=grant)
    session = find(workspace, number)
    if not session.tty:
        raise Refused(f"session {number} has no terminal; it can be watched")
    driver = workspace.turns.take(number, who, over=over)
    reason = "connection lost"
    try:
        workspace.hands_on(principal, f"took the keyboard of session {number} as {who}", number)
        left = await _sit(session, client, driver, f"{principal} {who}")
        reason = left.words
        return left
    finally:
        size, session.lent = session.lent, None
        if size is not None:
            session.resize(*size)  # whoever drove gave it another one: it is the agent's terminal again
        workspace.turns.give_back(driver, reason)


async def type_once(
    workspace: Workspace, principal: Principal, session: Session, data: bytes, *, who: str
) -> None:
    """Type `data` into a session whose keyboard nobody has; the agent waits meanwhile.

    Errors: Refused (a session without a terminal), lease.Occupied.
    """
    if not session.tty:
        raise Refused(f"session {session.n} has no terminal to type into")
    driver = workspace.turns.take(session.n, who, over=False)
    try:
        workspace.hands_on(principal, f"typed into session {session.n} as {who}", session.n)
        typing = asyncio.ensure_future(session.type(data, f"{principal} {who}"))
        ends: set[asyncio.Future[Any]] = {typing, driver.lost, session.child.ended}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not typing.done():
            typing.cancel()
            raise Refused(driver.lost.result() if driver.lost.done() else "the session ended")
        typing.result()
    finally:
        workspace.turns.give_back(driver, "typed")


def asked(command: str) -> tuple[int, bool, str]:
    """Return (session, whether to take it over, who) of `attach N [--take] [--who NAME]`."""
    try:
        options = _ATTACH.parse_args(shlex.split(command)[1:])
    except (argparse.ArgumentError, ValueError, SystemExit):
        raise Refused("say attach N [--take] [--who NAME]") from None
    return options.session, options.take, plain(options.who, limit=40) or "operator"


_ATTACH = argparse.ArgumentParser(prog="attach", add_help=False, exit_on_error=False, allow_abbrev=False)
_ATTACH.add_argument("session", type=int)
_ATTACH.add_argument("--take", action="store_true")
_ATTACH.add_argument("--who", default="operator")


def find(workspace: Workspace, number: int) -> Session:
    """Return a live session; Refused when there is none of this number."""
    session = workspace.sessions.get(number)
    if session is None:
        raise Refused(f"there is no live session {number}")
    return session


async def show(watcher: Watcher, client: Client) -> None:
    """Hand on what a watcher sees until the session ends."""
    while (got := await watcher.next()) is not None:
        data, lost = got
        if lost:
            await client.errors(f"\r\n[you lagged: {lost} bytes were left out]\r\n".encode())
        await client.output(data)


async def _sit(session: Session, client: Client, driver: Driver, by: str) -> Left:
    watcher = session.watch(typing=True)
    screen: asyncio.Future[Any] = asyncio.ensure_future(show(watcher, client))
    keys: asyncio.Future[Any] = asyncio.ensure_future(_keys(session, client, by))
    try:
        ends: set[asyncio.Future[Any]] = {screen, keys, driver.lost}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if driver.lost.done():
            return Left(TAKEN_OVER, driver.lost.result())
        if screen.done():
            screen.result()
            return Left(0, "the session ended")
        keys.result()
        return Left(0, "detached")
    finally:
        session.watchers.discard(watcher)
        for task in (screen, keys):
            task.cancel()
            with suppress(asyncio.CancelledError, ConnectionError, Exception):
                await task


async def _keys(session: Session, client: Client, by: str) -> None:
    """Type what the client types. Its window is its own affair: the agent's terminal keeps its size."""
    while True:
        got = await client.read()
        if got.data:
            await session.type(got.data, by)
        elif got.signal:
            session.child.signal(got.signal)
        elif got.data is not None:
            return
