"""What callers may ask of a cell, method by method; the gate has allowed it before (`control`)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec

from . import control, kernel, layout, visitor
from .describe import Spec
from .errors import Refused
from .events import VerdictGiven
from .records import CellInfo, Principal, Process
from .rewards import copy_tree
from .workspace import Workspace

_COPY_BYTES, _COPY_FILES = 1 << 30, 100_000


class Desk:
    """Where requests to one cell are answered, and where its identity record is kept up to date."""

    def __init__(self, spec: Spec, folder: Path, root_fd: int, workspace: Workspace) -> None:
        self.spec, self.folder, self.world = spec, folder, workspace
        self.info: CellInfo | None = None
        self._root_fd = root_fd

    def publish(self) -> None:
        """Write cell.json anew, whole or not at all."""
        if self.info is None:
            return
        self.info = msgspec.structs.replace(self.info, phase=self.world.phase, kept=self.world.kept)
        temporary = self.folder / ".cell.json.new"
        try:
            temporary.write_bytes(msgspec.json.format(msgspec.json.encode(self.info), indent=2) + b"\n")
            temporary.replace(self.folder / "cell.json")
        except OSError as error:
            self.world.close(f"cell.json cannot be written: {error}")

    def handlers(self) -> control.Handlers:
        """Return what the control channel can do; the gate has allowed it before."""
        return {
            "status": self._status,
            "begin": self._begin,
            "upload": self._upload,
            "seal": self._seal,
            "grade": self._grade,
            "conclude": self._conclude,
            "keep": self._keep,
            "release": self._release,
            "stop": self._stop,
            "adopt": self._adopt,
        }

    async def _status(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        return msgspec.to_builtins(self.info)

    async def _begin(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        self.world.enter("agent", by)

    async def _upload(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        """Lay out the oracle's solution at /solution, while nothing runs that could swap a folder."""
        if self.world.phase != "starting":
            raise Refused("the world is laid out before the agent phase begins")
        await asyncio.to_thread(layout.lay_out, self._root_fd, "solution", blob)

    async def _seal(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        reason = str(args.get("reason", ""))
        if by == "operator":
            self.world.intervened(by, "sealed the agent phase")
        await self.world.seal(by, reason)
        notes: list[str] = []
        trial = Path(self.spec.trial)
        for inside, outside in (
            ("/logs/agent", trial / "agent"),
            ("/logs/artifacts", trial / "artifacts/logs/artifacts"),
        ):
            try:
                source = kernel.open_beneath(self._root_fd, inside, os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                notes.append(f"{inside}: not collected: {error}")
                continue
            try:
                outside.mkdir(parents=True, exist_ok=True)
                notes += await asyncio.to_thread(
                    copy_tree, source, outside, max_bytes=_COPY_BYTES, max_files=_COPY_FILES
                )
            finally:
                os.close(source)
        return {"notes": notes}

    async def _grade(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        if by == "operator" and self.world.graded:
            self.world.intervened(by, "graded again")
        grading = await visitor.verify(
            self.world,
            blob,
            env={str(key): str(value) for key, value in args.get("env", {}).items()},
            timeout=float(args["timeout"]),
            trial=Path(self.spec.trial),
            by=by,
        )
        return msgspec.to_builtins(grading)

    async def _conclude(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        self.world.record(msgspec.convert(args["verdict"], VerdictGiven))

    async def _keep(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        self.world.kept = True
        self.publish()

    async def _release(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        self.world.kept = False
        self.publish()

    async def _stop(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        if by == "operator" and self.world.phase in ("agent", "verifier"):
            self.world.intervened(by, "stopped the cell")
        self.world.close(f"stopped by {by}" + (f": {args['why']}" if args.get("why") else ""))

    async def _adopt(self, by: Principal, args: dict[str, Any], blob: bytes) -> Any:
        if self.info is not None:
            self.info = msgspec.structs.replace(
                self.info, runner=msgspec.convert(args["runner"], Process | None)
            )
            self.publish()
