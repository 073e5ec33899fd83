"""`TerminalEngine` over libghostty-vt (pyghostty).

Importing pyghostty costs 0.3 s, so this module is imported when the first terminal is shown. Rows are
read from the render state as raw 64-bit cells, whose bit layout the library itself describes; asking
it cell by cell would be fifty times slower.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyghostty
from pyghostty._ffi import check, ffi, lib, union_fn
from pyghostty.core import init_sized
from rich.color import Color
from rich.style import Style

from hudtui.engine import Cursor, Row
from hudtui.ghostty_frames import Frames
from hudtui.ghostty_hands import Hands

SCROLLBACK_BYTES = 256 << 20
SCROLLBACK_LINES = 2_000_000

# cffi cannot pass a union by value; a struct of the same size and alignment has the same calling
# convention, so this twin stands in for GhosttyTerminalScrollViewport.
ffi.cdef(
    """typedef struct { GhosttyTerminalScrollViewportTag tag;
       struct { uint64_t row; uint64_t pad; } value; } HudScrollViewport;"""
)
_NO_STYLE = Style.null()


class _Bits:
    """Where the members of a raw cell are, as the library says."""

    def __init__(self) -> None:
        types = json.loads(ffi.string(lib.ghostty_type_json()))["types"]
        cell = types["GhosttyCell"]["bits"]
        arms = cell["content"]["arms"]
        base = cell["content"]["lsb"]

        def field(spec: dict[str, Any], offset: int = 0) -> tuple[int, int]:
            return spec["lsb"] + offset, (1 << spec["width"]) - 1

        self.tag = field(cell["content_tag"])
        self.codepoint = field(arms["CODEPOINT"]["bits"]["codepoint"], base)
        self.palette = field(arms["BG_COLOR_PALETTE"]["bits"]["index"], base)
        self.rgb = tuple(field(arms["BG_COLOR_RGB"]["bits"][name], base) for name in "rgb")
        self.style = field(cell["style_id"])
        self.wide = field(cell["wide"])


@lru_cache(maxsize=1)
def _bits() -> _Bits:
    return _Bits()


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
        self._cells = ffi.new("GhosttyRenderStateRowCells*")
        check(lib.ghostty_render_state_row_cells_new(ffi.NULL, self._cells), "row_cells_new")
        self._view = ffi.new("GhosttyCellsView*")
        self._style = init_sized("GhosttyStyle")
        self._styles: dict[bytes, Style] = {}
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
            found[place] = self._row()
        lib.ghostty_render_state_clean(self._state[0])
        return found

    def _get(self, key: int, out: Any) -> None:
        check(lib.ghostty_render_state_get(self._state[0], key, out), "render_state_get")

    def _row(self) -> Row:
        bits = _bits()
        row = self._rows[0]
        check(
            lib.ghostty_render_state_row_get(row, lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS_RAW, self._view),
            "cells",
        )
        if not self._view.len:
            return ()
        raw = ffi.unpack(self._view.ptr, self._view.len)
        tag_at, tag_mask = bits.tag
        code_at, code_mask = bits.codepoint
        style_at, style_mask = bits.style
        wide_at, wide_mask = bits.wide
        bound = False
        runs: list[tuple[str, Style]] = []
        text: list[str] = []
        current = _NO_STYLE
        known: dict[int, Style] = {0: _NO_STYLE}
        for x, cell in enumerate(raw):
            tag = (cell >> tag_at) & tag_mask
            wide = (cell >> wide_at) & wide_mask
            if wide == lib.GHOSTTY_CELL_WIDE_SPACER_TAIL:
                continue
            if tag > 1:
                style = self._background(cell, tag, bits)
                char = " "
            else:
                number = (cell >> style_at) & style_mask
                code = (cell >> code_at) & code_mask
                if (number and number not in known) or tag == 1:
                    if not bound:
                        lib.ghostty_render_state_row_get(
                            row, lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS, self._cells
                        )
                        bound = True
                    lib.ghostty_render_state_row_cells_select(self._cells[0], x)
                if number and number not in known:
                    known[number] = self._styled()
                style = known[number]
                char = self._cluster() if tag == 1 else _shown(code)
            if style is not current and style != current:
                if text:
                    runs.append(("".join(text), current))
                    text = []
                current = style
            text.append(char)
        if text:
            runs.append(("".join(text), current))
        return tuple(runs)

    def _background(self, cell: int, tag: int, bits: _Bits) -> Style:
        if tag == lib.GHOSTTY_CELL_CONTENT_BG_COLOR_PALETTE:
            at, mask = bits.palette
            return _ground((cell >> at) & mask)
        red, green, blue = ((cell >> at) & mask for at, mask in bits.rgb)
        return _ground((red, green, blue))

    def _styled(self) -> Style:
        """The style of the selected cell. Style ids are local to a page, so the bytes are the key."""
        key = lib.GHOSTTY_RENDER_STATE_ROW_CELLS_DATA_STYLE
        check(lib.ghostty_render_state_row_cells_get(self._cells[0], key, self._style), "cell style")
        raw = bytes(ffi.buffer(self._style))
        style = self._styles.get(raw)
        if style is None:
            if len(self._styles) > 4096:
                self._styles.clear()
            style = self._styles[raw] = _rich(self._style)
        return style

    def _cluster(self) -> str:
        """The selected cell's whole grapheme."""
        count = ffi.new("uint32_t*")
        key = lib.GHOSTTY_RENDER_STATE_ROW_CELLS_DATA_GRAPHEMES_LEN
        lib.ghostty_render_state_row_cells_get(self._cells[0], key, count)
        points = ffi.new("uint32_t[]", max(1, count[0]))
        key = lib.GHOSTTY_RENDER_STATE_ROW_CELLS_DATA_GRAPHEMES_BUF
        lib.ghostty_render_state_row_cells_get(self._cells[0], key, points)
        joined = [points[i] for i in range(count[0])]
        first = _shown(joined[0]) if joined else " "
        flag = joined[:1] == [0x1F3F4]  # regions' flags alone are written with tags; elsewhere tags hide text
        tail = (code for code in joined[1:16] if _joins(code) or (flag and 0xE0020 <= code <= 0xE007F))
        return first + "".join(map(chr, tail))

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
        lib.ghostty_render_state_row_cells_free(self._cells[0])
        lib.ghostty_render_state_row_iterator_free(self._rows[0])
        lib.ghostty_render_state_free(self._state[0])
        self._terminal.close()


@lru_cache(maxsize=8192)
def _shown(code: int) -> str:
    """A code point as it may be drawn: nothing that moves, hides or turns the text around."""
    if code == 0:
        return " "
    char = chr(code)
    return "�" if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") else char


@lru_cache(maxsize=1024)
def _joins(code: int) -> bool:
    """Whether a code point may follow another within one cell."""
    return code == 0x200D or unicodedata.category(chr(code)) not in (
        "Cc",
        "Cf",
        "Cs",
        "Zl",
        "Zp",
    )


@lru_cache(maxsize=512)
def _ground(colour: int | tuple[int, int, int]) -> Style:
    if isinstance(colour, int):
        return Style(bgcolor=Color.from_ansi(colour))
    return Style(bgcolor=Color.from_rgb(*colour))


def _colour(value: Any) -> Color | None:
    if value.tag == lib.GHOSTTY_STYLE_COLOR_PALETTE:
        return Color.from_ansi(value.value.palette)
    if value.tag == lib.GHOSTTY_STYLE_COLOR_RGB:
        rgb = value.value.rgb
        return Color.from_rgb(rgb.r, rgb.g, rgb.b)
    return None


def _rich(style: Any) -> Style:
    return Style(
        color=_colour(style.fg_color),
        bgcolor=_colour(style.bg_color),
        bold=style.bold or None,
        dim=style.faint or None,
        italic=style.italic or None,
        reverse=style.inverse or None,
        conceal=style.invisible or None,
        strike=style.strikethrough or None,
        underline=bool(style.underline) or None,
        overline=style.overline or None,
    )
