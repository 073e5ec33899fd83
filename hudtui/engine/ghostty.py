"""`TerminalEngine` over libghostty-vt (pyghostty).

Importing pyghostty costs 0.3 s, so this module is imported when the first terminal is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyghostty
from pyghostty._ffi import check, ffi, lib, union_fn
from pyghostty.core import init_sized

from hudtui.engine import Cursor, Row
from hudtui.engine.frames import Frames
from hudtui.engine.hands import Hands
from hudtui.engine.rows import Rows

SCROLLBACK_BYTES = 256 << 20
SCROLLBACK_LINES = 2_000_000

# cffi cannot pass a union by value; a struct of the same size and alignment has the same calling
# convention, so this twin stands in for GhosttyTerminalScrollViewport.
ffi.cdef(
    """typedef struct { GhosttyTerminalScrollViewportTag tag;
       struct { uint64_t row; uint64_t pad; } value; } HudScrollViewport;"""
)


class GhosttyEngine(Hands, Frames):
    """One terminal. `scrollback` is the most lines kept above the screen."""

    def __init__(self, cols: int, rows: int, *, scrollback: int = SCROLLBACK_LINES) -> None:
        self.cols, self.rows = cols, rows
        self._terminal = pyghostty.Terminal(cols, rows, scrollback=scrollback)
        self._handle = self._terminal._t[0]
        self._configure()
        self._state = ffi.new("GhosttyRenderState*")
        check(lib.ghostty_render_state_new(ffi.NULL, self._state), "render_state_new")
        self._rows = ffi.new("GhosttyRenderStateRowIterator*")
        check(lib.ghostty_render_state_row_iterator_new(ffi.NULL, self._rows), "row_iterator_new")
        self._read = Rows()
        self._all = True
        self._prepare()

    def _configure(self) -> None:
        # Without a byte limit of its own, about 10 kB of history survive whatever the line limit says.
        self._set("SCROLLBACK_MAX_BYTES", "size_t*", SCROLLBACK_BYTES)
        # Grapheme clusters as one cell: without it half of all emoji are wider than Rich thinks.
        mode = ffi.new("GhosttyTerminalModeConfig*")
        mode.mode, mode.value = 2027, True
        for option in (lib.GHOSTTY_TERMINAL_OPT_MODE_DEFAULT, lib.GHOSTTY_TERMINAL_OPT_MODE):
            check(lib.ghostty_terminal_set(self._handle, option, mode), "set mode 2027")
        # A recording may name files of ours in an image sequence ("t=f"); we draw no images at all.
        self._set("KITTY_IMAGE_STORAGE_LIMIT", "uint64_t*", 0)
        for medium in ("FILE", "SHARED_MEM"):
            self._set(f"KITTY_IMAGE_MEDIUM_{medium}", "bool*", False)
        # This one takes the folder as a string, and NULL for never; a bool* here is read as a pointer.
        temporary = lib.GHOSTTY_TERMINAL_OPT_KITTY_IMAGE_MEDIUM_TEMP_FILE
        check(lib.ghostty_terminal_set(self._handle, temporary, ffi.NULL), "no image files")

    def _set(self, option: str, ctype: str, value: object) -> None:
        number = getattr(lib, f"GHOSTTY_TERMINAL_OPT_{option}")
        check(lib.ghostty_terminal_set(self._handle, number, ffi.new(ctype, value)), f"set {option}")

    def feed(self, data: bytes) -> None:
        """See `TerminalEngine`."""
        self._terminal.feed(data)

    def resize(self, cols: int, rows: int) -> None:
        """See `TerminalEngine`."""
        if (cols, rows) != (self.cols, self.rows):
            self._terminal.resize(cols, rows)
            self.cols, self.rows = cols, rows
            self._all = True

    @property
    def history(self) -> int:
        """See `TerminalEngine`."""
        return int(self._terminal.get("scrollback_rows", "size_t"))

    @property
    def offset(self) -> int:
        """See `TerminalEngine`."""
        bar = self._terminal.get("scrollbar", "GhosttyTerminalScrollbar")
        return int(bar.offset)

    def scroll_to(self, row: int | None) -> None:
        """See `TerminalEngine`."""
        move = union_fn("ghostty_terminal_scroll_viewport", "void(*)(GhosttyTerminal, HudScrollViewport)")
        where = ffi.new("HudScrollViewport*")
        if row is None:
            where.tag = lib.GHOSTTY_SCROLL_VIEWPORT_BOTTOM
        else:
            where.tag = lib.GHOSTTY_SCROLL_VIEWPORT_ROW
            where.value.row = max(0, row)
        move(self._handle, where[0])

    def dirty(self) -> Mapping[int, Row]:
        """See `TerminalEngine`."""
        check(lib.ghostty_render_state_update(self._state[0], self._handle), "render_state_update")
        flag = ffi.new("GhosttyRenderStateDirty*")
        self._get(lib.GHOSTTY_RENDER_STATE_DATA_DIRTY, flag)
        if flag[0] == lib.GHOSTTY_RENDER_STATE_DIRTY_FALSE and not self._all:
            return {}
        whole = self._all or flag[0] == lib.GHOSTTY_RENDER_STATE_DIRTY_FULL
        self._all = False
        self._get(lib.GHOSTTY_RENDER_STATE_DATA_ROW_ITERATOR, self._rows)
        found: dict[int, Row] = {}
        y = ffi.new("uint16_t*")
        place = -1
        while True:
            if whole:
                if not lib.ghostty_render_state_row_iterator_next(self._rows[0]):
                    break
                place += 1
            else:
                if not lib.ghostty_render_state_row_iterator_next_dirty(self._rows[0], y):
                    break
                place = y[0]
            found[place] = self._read.read(self._rows[0])
        lib.ghostty_render_state_clean(self._state[0])
        return found

    def _get(self, key: int, out: Any) -> None:
        check(lib.ghostty_render_state_get(self._state[0], key, out), "render_state_get")

    def cursor(self) -> Cursor | None:
        """See `TerminalEngine`."""
        found = init_sized("GhosttyRenderStateCursor")
        self._get(lib.GHOSTTY_RENDER_STATE_DATA_CURSOR, found)
        if not (found.visible and found.viewport_has_value):
            return None
        return Cursor(found.viewport_x, found.viewport_y)

    def close(self) -> None:
        """See `TerminalEngine`."""
        self._release()
        self._read.close()
        lib.ghostty_render_state_row_iterator_free(self._rows[0])
        lib.ghostty_render_state_free(self._state[0])
        self._terminal.close()
