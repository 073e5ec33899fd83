"""Rows of libghostty's render state as runs of styled text.

A row is read as raw 64-bit cells, whose bit layout the library itself describes; asking it cell by cell
would be fifty times slower. Where each cell of a row is one narrow printable character, as nearly always,
the row is taken apart as one large number, and no cell is looked at: that is ten times faster again.
"""

from __future__ import annotations

import json
import unicodedata
from functools import lru_cache
from itertools import groupby
from typing import Any

from pyghostty._ffi import check, ffi, lib
from pyghostty.core import init_sized
from rich.color import Color
from rich.style import Style

from hudtui.engine import Row

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
        (tag_at, tag), (wide_at, wide) = self.tag, self.wide
        self.odd = tag << tag_at | wide << wide_at
        """The bits of a cell that are not set in one narrow character of its own."""


@lru_cache(maxsize=1)
def _bits() -> _Bits:
    return _Bits()


@lru_cache(maxsize=64)
def _each(count: int, bits: int) -> int:
    """Return the number in which each of `count` cells has these bits."""
    return ((1 << 64 * count) - 1) // ((1 << 64) - 1) * bits


class Rows:
    """Reads the rows that a render state's iterator stands at."""

    def __init__(self) -> None:
        self._cells = ffi.new("GhosttyRenderStateRowCells*")
        check(lib.ghostty_render_state_row_cells_new(ffi.NULL, self._cells), "row_cells_new")
        self._view = ffi.new("GhosttyCellsView*")
        self._style = init_sized("GhosttyStyle")
        self._styles: dict[bytes, Style] = {}

    def close(self) -> None:
        """Free what the library holds."""
        lib.ghostty_render_state_row_cells_free(self._cells[0])

    def read(self, row: Any) -> Row:
        """Return the row as runs; what is drawn of it can move, hide or turn nothing."""
        count = self._raw(row)
        if not count:
            return ()
        bits = _bits()
        number = int.from_bytes(ffi.buffer(self._view.ptr, count * 8), "little")
        if not number & _each(count, bits.odd):
            (at, mask), size = bits.codepoint, count * 8
            codes = (number >> at & _each(count, mask)).to_bytes(size, "little")
            text = codes.decode("utf-32-le", "surrogatepass")[::2].replace("\0", " ")
            if text.isprintable():
                return self._runs(row, text, number)
        return self.by_cell(row)

    def _raw(self, row: Any) -> int:
        """Look at the cells of a row; return how many there are."""
        key = lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS_RAW
        check(lib.ghostty_render_state_row_get(row, key, self._view), "cells")
        return int(self._view.len)

    def _runs(self, row: Any, text: str, number: int) -> Row:
        """Cut a text of one character for each cell where the style changes."""
        at, mask = _bits().style
        styles = number >> at & _each(len(text), mask)
        if not styles:
            return ((text, _NO_STYLE),)
        each = memoryview(styles.to_bytes(len(text) * 8, "little")).cast("Q").tolist()
        known: dict[int, Style] = {0: _NO_STYLE}
        runs: list[tuple[str, Style]] = []
        x = 0
        for one, same in groupby(each):
            if one not in known:
                self._select(row, x, bound=len(known) > 1)
                known[one] = self._styled()
            end = x + len(list(same))
            if runs and runs[-1][1] == known[one]:
                runs[-1] = (runs[-1][0] + text[x:end], known[one])
            else:
                runs.append((text[x:end], known[one]))
            x = end
        return tuple(runs)

    def _select(self, row: Any, x: int, *, bound: bool) -> None:
        """Let the library look at a cell; `bound` says that it looks at this row already."""
        if not bound:
            lib.ghostty_render_state_row_get(row, lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS, self._cells)
        lib.ghostty_render_state_row_cells_select(self._cells[0], x)

    def by_cell(self, row: Any) -> Row:
        """As `read`, cell after cell."""
        count = self._raw(row)
        if not count:
            return ()
        bits = _bits()
        tag_at, tag_mask = bits.tag
        code_at, code_mask = bits.codepoint
        style_at, style_mask = bits.style
        wide_at, wide_mask = bits.wide
        bound = False
        runs: list[tuple[str, Style]] = []
        text: list[str] = []
        current = _NO_STYLE
        known: dict[int, Style] = {0: _NO_STYLE}
        for x, cell in enumerate(ffi.unpack(self._view.ptr, count)):
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
                    self._select(row, x, bound=bound)
                    bound = True
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
