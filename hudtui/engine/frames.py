"""A terminal's state as bytes, and back: what makes any moment of a recording near (keyframes)."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from typing import Any

from pyghostty._ffi import check, ffi, lib


class Frames(ABC):
    """The half of an engine that is saved and restored."""

    cols: int
    rows: int
    _terminal: Any
    _handle: Any
    _all: bool

    def forget(self) -> None:
        """See `TerminalEngine`."""
        for option in ("LINES", "BYTES"):
            number = getattr(lib, f"GHOSTTY_TERMINAL_OPT_SCROLLBACK_MAX_{option}")
            check(lib.ghostty_terminal_set(self._handle, number, ffi.new("size_t*", 0)), "no history")

    def snapshot(self) -> bytes | None:
        """See `TerminalEngine`."""
        data, size = ffi.new("uint8_t**"), ffi.new("size_t*")
        if lib.ghostty_snapshot_encode_alloc(self._handle, ffi.NULL, data, size):
            return None
        try:
            return bytes(ffi.buffer(data[0], size[0]))
        finally:
            lib.ghostty_free(ffi.NULL, data[0], size[0])

    def restore(self, snapshot: bytes) -> None:
        """See `TerminalEngine`."""
        decoder, made = ffi.new("GhosttySnapshotDecoder*"), ffi.new("GhosttyTerminal*")
        buffer = ffi.from_buffer(snapshot)
        check(lib.ghostty_snapshot_decoder_new_buf(ffi.NULL, decoder, buffer, len(snapshot)), "decoder")
        try:
            check(lib.ghostty_snapshot_decoder_decode(decoder[0], made), "snapshot")
        finally:
            lib.ghostty_snapshot_decoder_free(decoder[0])
        self._release()
        terminal = self._terminal
        terminal._free()
        terminal._t = made
        terminal._free = weakref.finalize(terminal, lib.ghostty_terminal_free, made[0])
        self._handle = made[0]
        self.cols = int(terminal.get("cols", "uint16_t"))
        self.rows = int(terminal.get("rows", "uint16_t"))
        self._all = True
        # What may not be drawn, and how wide an emoji is, are settings of a terminal, not its state.
        self._configure()
        self.forget()
        self._prepare()

    @abstractmethod
    def _configure(self) -> None:
        """Set what is no state of a terminal."""

    @abstractmethod
    def _prepare(self) -> None:
        """Make what goes with a terminal."""

    @abstractmethod
    def _release(self) -> None:
        """Free what went with the one before."""
