"""`hudtui.wire` over SSH on a cell's unix sockets.

`cell.control` holds what only Linux has, so it is imported when the first cell is spoken to.
"""

from __future__ import annotations

import asyncio
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cell.errors import CellError
from cell.plain import plain
from hudtui.wire import Ending, Who, WireError

if TYPE_CHECKING:
    import asyncssh

_SAID = 4000  # characters kept of what a channel says about itself


class SshChannel:
    """One SSH channel with a terminal behind it. `errors` are words about it, not output."""

    def __init__(
        self, connection: asyncssh.SSHClientConnection, process: asyncssh.SSHClientProcess[bytes]
    ) -> None:
        self._connection, self._process = connection, process
        self._said = ""
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        while data := await _some(self._process.stderr):
            self._said = (self._said + data.decode("utf-8", "replace"))[-_SAID:]

    async def read(self) -> bytes:
        """See `Channel`."""
        return await _some(self._process.stdout)

    def write(self, data: bytes) -> None:
        """See `Channel`."""
        with suppress(Exception):  # asyncssh raises several things once a channel has gone
            self._process.stdin.write(data)

    def resize(self, cols: int, rows: int) -> None:
        """See `Channel`."""
        with suppress(Exception):
            self._process.change_terminal_size(cols, rows)

    async def ended(self) -> Ending:
        """See `Channel`."""
        with suppress(Exception):
            await self._process.wait_closed()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._listening, 1)
        words = plain(self._said.strip().rpartition("\n")[2].removeprefix("cell: "), limit=200)
        return Ending(self._process.exit_status, words)

    def close(self) -> None:
        """See `Channel`."""
        self._process.close()
        self._connection.close()


async def _some(stream: asyncssh.SSHReader[bytes]) -> bytes:
    import asyncssh

    while True:
        try:
            return await stream.read(1 << 16)
        except asyncssh.DisconnectError:
            return b""
        except (asyncssh.BreakReceived, asyncssh.SignalReceived, asyncssh.TerminalSizeChanged):
            continue  # asyncssh raises what is not data
        except (OSError, EOFError, asyncssh.Error):
            return b""


class SshWire:
    """See `hudtui.wire.Wire`. A connection serves one request or one channel, and is closed after it."""

    async def call(self, runtime: Path, method: str, **args: Any) -> Any:
        """See `Wire`."""
        from cell.control import Link

        try:
            link = await Link.open(runtime, "operator")
            try:
                return await link.call(method, **args)
            finally:
                await link.close()
        except (CellError, OSError) as error:
            raise WireError(plain(str(error), limit=300)) from None

    async def attach(self, runtime: Path, session: int, *, take: bool, who: str) -> SshChannel:
        """See `Wire`."""
        words = ["attach", str(session), *(["--take"] if take else []), *(["--who", who] if who else [])]
        return await self._open(runtime, shlex.join(words))

    async def shell(self, runtime: Path, who: Who, cols: int, rows: int) -> SshChannel:
        """See `Wire`."""
        return await self._open(
            runtime, None, term_type="xterm-256color", term_size=(cols, rows), env={"CELL_AS": who}
        )

    async def _open(self, runtime: Path, command: str | None, **options: Any) -> SshChannel:
        import asyncssh

        from cell.control import connect

        try:
            connection = await connect(runtime, "operator")
            process: asyncssh.SSHClientProcess[bytes] = await connection.create_process(
                command, encoding=None, **options
            )
        except (CellError, OSError, asyncssh.Error) as error:
            raise WireError(plain(str(error), limit=300)) from None
        return SshChannel(connection, process)
