"""What goes into a terminal, in the modes its program asked for: keys, pastes, the pointer, answers.

libghostty has the encoders; here are only the names, Textual's on one side and its own on the other.
"""

from __future__ import annotations

import string
import unicodedata
from typing import Any

from pyghostty._ffi import check, ffi, lib
from pyghostty.core import init_sized
from textual.keys import REPLACED_KEYS, key_to_character

from hudtui.engine import Mouse
from hudtui.keys.keystrokes import Stroke

_SHIFT, _CTRL, _ALT, _SUPER = 1, 2, 4, 8
_MODS = {"shift": _SHIFT, "ctrl": _CTRL, "alt": _ALT, "meta": _ALT, "super": _SUPER, "hyper": 0}

_NAMED = {
    "enter": "ENTER",
    "return": "ENTER",
    "tab": "TAB",
    "escape": "ESCAPE",
    "backspace": "BACKSPACE",
    "delete": "DELETE",
    "insert": "INSERT",
    "home": "HOME",
    "end": "END",
    "pageup": "PAGE_UP",
    "pagedown": "PAGE_DOWN",
    "up": "ARROW_UP",
    "down": "ARROW_DOWN",
    "left": "ARROW_LEFT",
    "right": "ARROW_RIGHT",
    "space": "SPACE",
    **{f"f{n}": f"F{n}" for n in range(1, 25)},
}
_PUNCTUATION = {
    "`": "BACKQUOTE",
    "\\": "BACKSLASH",
    "[": "BRACKET_LEFT",
    "]": "BRACKET_RIGHT",
    ",": "COMMA",
    "=": "EQUAL",
    "-": "MINUS",
    ".": "PERIOD",
    "'": "QUOTE",
    ";": "SEMICOLON",
    "/": "SLASH",
    " ": "SPACE",
}
_CLEAN = {code: 0x20 for code in range(0x20) if code not in (0x09, 0x0A, 0x0D)} | {0x7F: 0x20}
_BUTTONS = {1: "LEFT", 2: "MIDDLE", 3: "RIGHT", 4: "FOUR", 5: "FIVE", 6: "SIX", 7: "SEVEN"}
_CURSOR = (b"A", b"B", b"C", b"D", b"F", b"H")
_LONGEST_REPLY = 1 << 16


class Hands:
    """The half of an engine that turns what a person does into bytes."""

    cols: int
    rows: int
    _terminal: Any

    def _prepare(self) -> None:
        """Make the encoders; called once when the terminal is there."""
        handle = self._terminal._t[0]
        self._keys = ffi.new("GhosttyKeyEncoder*")
        check(lib.ghostty_key_encoder_new(ffi.NULL, self._keys), "key encoder")
        self._key_event = ffi.new("GhosttyKeyEvent*")
        check(lib.ghostty_key_event_new(ffi.NULL, self._key_event), "key event")
        self._pointer = ffi.new("GhosttyMouseEncoder*")
        check(lib.ghostty_mouse_encoder_new(ffi.NULL, self._pointer), "mouse encoder")
        self._mouse_event = ffi.new("GhosttyMouseEvent*")
        check(lib.ghostty_mouse_event_new(ffi.NULL, self._mouse_event), "mouse event")
        self._search = ffi.new("GhosttySearch*")
        check(lib.ghostty_search_new(ffi.NULL, self._search, handle), "search")
        self._sought = ""
        self._pressed: set[int] = set()
        self._replies = bytearray()
        self._terminal.on_reply(self._reply)

    def _release(self) -> None:
        lib.ghostty_search_free(self._search[0])
        lib.ghostty_mouse_event_free(self._mouse_event[0])
        lib.ghostty_mouse_encoder_free(self._pointer[0])
        lib.ghostty_key_event_free(self._key_event[0])
        lib.ghostty_key_encoder_free(self._keys[0])

    def _reply(self, data: bytes) -> None:
        if len(self._replies) < _LONGEST_REPLY:
            self._replies += data

    def replies(self) -> bytes:
        """See `TerminalEngine`."""
        found = bytes(self._replies)
        self._replies.clear()
        return found

    def key(self, name: str, character: str | None) -> bytes:
        """See `TerminalEngine`."""
        *held, base = name.split("+") if name != "+" else [name]
        mods = 0
        for each in held:
            mods |= _MODS.get(each, 0)
        if base == "at" and mods & _CTRL:  # what ctrl+space is called
            return b"\x00"
        number = _NAMED.get(base)
        if number is not None and base != "space":
            return self._encode(number, mods) or self._encode(number, mods & ~_SHIFT)
        char = " " if base == "space" else character if character and not mods else _character(base)
        if char is None or unicodedata.category(char[0]) in ("Cc", "Cs"):
            return (character or "").encode("utf-8", "replace")
        if not mods & (_CTRL | _ALT):
            return self._encode(_key_of(char), mods, char) or char.encode()
        return self._encode(_key_of(char), mods, char) or _legacy(char, mods)

    def _encode(self, key: str, mods: int, text: str = "") -> bytes:
        event, encoder = self._key_event[0], self._keys[0]
        shifted = text.isupper() and len(text) == 1
        raw = ffi.new("char[]", text.encode())
        lib.ghostty_key_encoder_setopt_from_terminal(encoder, self._terminal._t[0])
        lib.ghostty_key_event_set_action(event, lib.GHOSTTY_KEY_ACTION_PRESS)
        lib.ghostty_key_event_set_key(event, getattr(lib, f"GHOSTTY_KEY_{key}"))
        lib.ghostty_key_event_set_mods(event, mods | (_SHIFT if shifted else 0))
        lib.ghostty_key_event_set_consumed_mods(event, _SHIFT if shifted else 0)
        lib.ghostty_key_event_set_utf8(event, raw, len(text.encode()))
        lib.ghostty_key_event_set_unshifted_codepoint(event, ord(text.lower()[0]) if text else 0)
        out, size = ffi.new("char[128]"), ffi.new("size_t*")
        if lib.ghostty_key_encoder_encode(encoder, event, out, 128, size):
            return b""
        return bytes(ffi.buffer(out, size[0])[:])

    @property
    def key_flags(self) -> int:
        """See `TerminalEngine`."""
        return int(self._terminal.get("kitty_keyboard_flags", "uint8_t"))

    def stroke(self, stroke: Stroke, name: str, character: str | None) -> bytes:
        """See `TerminalEngine`. Only cursor keys have two forms, and keys where the newer protocol is on."""
        data = stroke.data
        if name and self.key_flags and not stroke.newer and not stroke.under_alt:
            return self.key(name, character)
        if len(data) == 3 and data[2:] in _CURSOR and data[:2] in (b"\x1b[", b"\x1bO"):
            return (b"\x1bO" if self._terminal.mode(1) else b"\x1b[") + data[2:]
        return data

    def paste(self, text: str) -> bytes:
        """See `TerminalEngine`. Control characters become spaces: a paste must not leave its brackets."""
        clean = text.translate(_CLEAN).encode("utf-8", "surrogateescape")
        bracketed = self._terminal.mode(2004)
        data = ffi.new("char[]", clean)  # it is changed in place
        room = len(clean) + 64
        out, size = ffi.new("char[]", room), ffi.new("size_t*")
        check(lib.ghostty_paste_encode(data, len(clean), bracketed, out, room, size), "paste")
        return bytes(ffi.buffer(out, size[0])[:])

    @property
    def tracks_mouse(self) -> bool:
        """See `TerminalEngine`."""
        return bool(self._terminal.get("mouse_tracking", "bool"))

    def mouse(self, mouse: Mouse) -> bytes:
        """See `TerminalEngine`."""
        if not self.tracks_mouse or not (0 <= mouse.x < self.cols and 0 <= mouse.y < self.rows):
            return b""
        event, encoder = self._mouse_event[0], self._pointer[0]
        if mouse.action == "press" and mouse.button < 4:
            self._pressed.add(mouse.button)
        size = init_sized("GhosttyMouseEncoderSize")
        size.screen_width, size.screen_height = self.cols * 8, self.rows * 16
        size.cell_width, size.cell_height = 8, 16
        lib.ghostty_mouse_encoder_setopt_from_terminal(encoder, self._terminal._t[0])
        for option, value in (("SIZE", size), ("ANY_BUTTON_PRESSED", ffi.new("bool*", bool(self._pressed)))):
            number = getattr(lib, f"GHOSTTY_MOUSE_ENCODER_OPT_{option}")
            lib.ghostty_mouse_encoder_setopt(encoder, number, value)
        lib.ghostty_mouse_event_set_action(
            event, getattr(lib, f"GHOSTTY_MOUSE_ACTION_{mouse.action.upper()}")
        )
        if name := _BUTTONS.get(mouse.button):
            lib.ghostty_mouse_event_set_button(event, getattr(lib, f"GHOSTTY_MOUSE_BUTTON_{name}"))
        else:
            lib.ghostty_mouse_event_clear_button(event)
        mods = _SHIFT * mouse.shift | _CTRL * mouse.ctrl | _ALT * mouse.alt
        lib.ghostty_mouse_event_set_mods(event, mods)
        where = ffi.new("GhosttyMousePosition*", {"x": mouse.x * 8 + 4, "y": mouse.y * 16 + 8})
        lib.ghostty_mouse_event_set_position(event, where[0])
        out, size_ = ffi.new("char[64]"), ffi.new("size_t*")
        failed = lib.ghostty_mouse_encoder_encode(encoder, event, out, 64, size_)
        if mouse.action == "release":
            self._pressed.discard(mouse.button)
        return b"" if failed else bytes(ffi.buffer(out, size_[0])[:])

    def find(self, text: str, step: int) -> bool:
        """See `TerminalEngine`. A new text is looked for from the end; the search goes round."""
        search = self._search[0]
        if text != self._sought:
            self._sought = text
            raw = ffi.new("uint8_t[]", text.encode())
            needle = ffi.new("GhosttyString*", {"ptr": raw, "len": len(text.encode())})
            check(lib.ghostty_search_set(search, lib.GHOSTTY_SEARCH_OPT_NEEDLE, needle), "search for")
        if not text:
            return False
        check(lib.ghostty_search_run(search), "search run")
        total = ffi.new("size_t*")
        check(lib.ghostty_search_get(search, lib.GHOSTTY_SEARCH_DATA_TOTAL_MATCHES, total), "matches")
        if not total[0]:
            return False
        # Its next is the next older one: it searches from the end.
        option = lib.GHOSTTY_SEARCH_OPT_SELECT_PREV if step > 0 else lib.GHOSTTY_SEARCH_OPT_SELECT_NEXT
        check(lib.ghostty_search_set(search, option, ffi.NULL), "select")
        return True


def _character(base: str) -> str | None:
    return key_to_character(REPLACED_KEYS.get(base, base))


def _key_of(char: str) -> str:
    if char.isascii() and char.upper() in string.ascii_uppercase:
        return char.upper()
    if char.isascii() and char.isdigit():
        return f"DIGIT_{char}"
    return _PUNCTUATION.get(char, "UNIDENTIFIED")


def _legacy(char: str, mods: int) -> bytes:
    """What terminals have always sent for ctrl and alt with a character, where nothing newer is asked."""
    raw = char.encode()
    if mods & _CTRL and len(raw) == 1:
        code = raw[0]
        raw = b"\x7f" if char == "?" else bytes([code & 0x1F]) if 0x40 <= code <= 0x7E else raw
    return (b"\x1b" if mods & _ALT else b"") + raw
