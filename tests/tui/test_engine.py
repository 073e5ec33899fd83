"""What any terminal engine must do, held against the real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from hudtui import engine
from hudtui.engine.ghostty import GhosttyEngine

COLS, ROWS = 20, 6


class Seen:
    """An engine and the rows it has told us of."""

    def __init__(self, cols: int = COLS, rows: int = ROWS) -> None:
        self.engine: engine.TerminalEngine = GhosttyEngine(cols, rows)
        self.rows: dict[int, engine.Row] = {}

    def feed(self, data: bytes | str) -> None:
        self.engine.feed(data.encode() if isinstance(data, str) else data)

    def text(self) -> list[str]:
        self.rows.update(self.engine.dirty())
        return ["".join(t for t, _ in self.rows[y]).rstrip() for y in range(self.engine.rows)]

    def style(self, y: int, x: int) -> Style:
        self.text()
        at = 0
        for text, style in self.rows[y]:
            at += cell_len(text)
            if x < at:
                return style
        raise AssertionError("no such cell")

    def cursor(self) -> tuple[int, int]:
        self.text()
        found = self.engine.cursor()
        assert found is not None
        return found


@pytest.fixture
def seen() -> Iterator[Seen]:
    made = Seen()
    yield made
    made.engine.close()


SCREENS: list[tuple[str, str, list[str]]] = [
    (
        "scrolling keeps what is outside the region",
        "L1\r\nL2\r\nL3\r\nL4\r\nL5\r\nL6\x1b[2;4r\x1b[4;1H\nX",
        ["L1", "L3", "L4", "X", "L5", "L6"],
    ),
    (
        "reverse index scrolls the region down",
        "L1\r\nL2\r\nL3\r\nL4\x1b[2;4r\x1b[2;1H\x1bMY",
        ["L1", "Y", "L2", "L3"],
    ),
    ("scroll up and down", "L1\r\nL2\r\nL3\x1b[1S\x1b[2T", ["", "", "L2", "L3"]),
    ("insert and delete lines", "L1\r\nL2\r\nL3\x1b[2;1H\x1b[1L\x1b[1;1H\x1b[1M", ["", "L2", "L3"]),
    (
        "insert, delete, erase characters",
        "abcdef\x1b[1;2H\x1b[2@\x1b[1;6H\x1b[1P\x1b[1;1H\x1b[1X",
        ["   bcef"],
    ),
    ("half of a wide character that is overwritten takes the other half along", "你好\x1b[1;2HZ", [" Z好"]),
    (
        "what nobody knows is survived",
        "\x1b[?9999h\x1b[1;2;3;4;5z\x1b[999999999999Cq\x1b[1;1Hok\x1b[K",
        ["ok"],
    ),
    ("a wide character that does not fit wraps", "x" * 19 + "你", ["x" * 19, "你"]),
    ("cursor saved and restored", "\x1b[2;3H\x1b7\x1b[5;5H\x1b8X", ["", "  X"]),
    ("cursor saved and restored, the other way", "\x1b[2;3H\x1b[s\x1b[5;5H\x1b[uX", ["", "  X"]),
    ("the last column waits with its wrap", "x" * 20 + "\x08Y", ["x" * 18 + "Yx"]),
    ("tab stops set and cleared", "\x1b[3g\x1b[1;5H\x1bH\x1b[1;1H\tT", ["    T"]),
    ("tab stops every eight", "\tT", ["        T"]),
    ("backward tab", "\t\t\x1b[ZT", ["        T"]),
    ("line drawing", "\x1b(0lqk\x1b(B|", ["┌─┐|"]),
    ("repeat", "ab\x1b[3bc", ["abbbbc"]),
    ("a hyperlink is its text", "\x1b]8;;http://x.y\x1b\\link\x1b]8;;\x07!", ["link!"]),
    ("strings are swallowed", "\x1b]52;c;aGk=\x07\x1bP+q544e\x1b\\\x1b_Gi=1;AAAA\x1b\\ok", ["ok"]),
    (
        "private sequences are no text",
        "\x1b[>4;2m\x1b[?4m\x1b[>c\x1b[=c\x1b[>q\x1b[?2026$p\x1b[?u\x1b[>1u\x1b[<ufine",
        ["fine"],
    ),
    ("origin mode", "\x1b[2;4r\x1b[?6h\x1b[1;1HX\x1b[?6l", ["", "X"]),
    ("insert mode", "abc\x1b[1;1H\x1b[4hZ\x1b[4l", ["Zabc"]),
    ("left and right margins", "\x1b[?69h\x1b[5;10s\x1b[1;5Habcdefgh", ["    abcdef", "    gh"]),
    ("full reset", "\x1b[31mabc\x1bcx", ["x", ""]),
    ("alignment pattern", "\x1b#8", ["E" * 20] * 6),
]


@pytest.mark.parametrize(("data", "lines"), [(d, ls) for _, d, ls in SCREENS], ids=[n for n, _, _ in SCREENS])
def test_screen(seen: Seen, data: str, lines: list[str]) -> None:
    seen.feed(data)
    assert seen.text()[: len(lines)] == lines


def test_the_alternate_screen_comes_and_goes(seen: Seen) -> None:
    seen.feed("main\x1b[?1049h\x1b[2J\x1b[Halt")
    assert seen.text()[0] == "alt"
    seen.feed("\x1b[?1049l")
    assert seen.text()[0] == "main"
    assert seen.cursor() == (4, 0)


def test_wide_and_joined_characters_are_as_wide_as_rich_thinks(seen: Seen) -> None:
    for text in ("你好|", "e\u0301x", "❤️A", "👨‍👩‍👧B", "🇫🇷Z", "👍🏽!"):
        seen.feed("\x1bc" + text)
        assert seen.text()[0] == text
        assert seen.cursor() == (cell_len(text), 0)
        assert sum(cell_len(t) for t, _ in seen.rows[0]) == COLS


def test_a_character_may_be_cut_anywhere(seen: Seen) -> None:
    for byte in "你👍!".encode():
        seen.feed(bytes([byte]))
    assert seen.text()[0] == "你👍!"


@pytest.mark.parametrize(
    ("sequence", "want"),
    [
        ("31", Style.parse("color(1)")),
        ("91", Style.parse("color(9)")),
        ("38;5;208", Style.parse("color(208)")),
        ("38;2;10;20;30", Style.parse("#0a141e")),
        ("38:2::10:20:30", Style.parse("#0a141e")),
        ("44", Style.parse("on color(4)")),
        ("1;2;3;9;7", Style.parse("bold dim italic strike reverse")),
        ("4:3", Style.parse("underline")),
        ("53", Style.parse("overline")),
        ("8", Style.parse("conceal")),
    ],
)
def test_styles(seen: Seen, sequence: str, want: Style) -> None:
    seen.feed(f"\x1b[{sequence}mO\x1b[0mP")
    assert seen.style(0, 0) == want
    assert seen.style(0, 1) == Style.null()


def test_a_saved_cursor_brings_its_style_and_an_underline_ends(seen: Seen) -> None:
    seen.feed("\x1b[31m\x1b[2;3H\x1b7\x1b[0m\x1b[5;5H\x1b8X\x1b[0m\x1b[1;1H\x1b[4:3mU\x1b[4:0mV")
    assert seen.text()[:2] == ["UV", "  X"]
    assert seen.style(1, 2) == Style.parse("color(1)")
    assert (seen.style(0, 0), seen.style(0, 1)) == (Style.parse("underline"), Style.null())
    seen.feed("a\x1b[38;2;229;229;229mb")
    assert seen.style(0, 2).color is None, "the default colour is none that could be named"


def test_clearing_the_screen_paints_it(seen: Seen) -> None:
    seen.feed("\x1b[44m\x1b[2J")
    assert seen.style(3, 10) == Style.parse("on color(4)")


def test_erasing_paints_the_background(seen: Seen) -> None:
    seen.feed("\x1b[44mhi\x1b[K\r\n\x1b[48;2;1;2;3m\x1b[K")
    assert seen.style(0, 10) == Style.parse("on color(4)")
    assert seen.style(1, 10) == Style.parse("on #010203")


def test_only_what_changed_is_told(seen: Seen) -> None:
    seen.feed("a\r\nb\r\nc")
    assert seen.text()[:3] == ["a", "b", "c"]
    assert seen.engine.dirty() == {}
    seen.feed("\x1b[2;1HX")
    assert 1 in (changed := seen.engine.dirty())
    assert len(changed) <= 2


def test_history_from_the_first_byte(seen: Seen) -> None:
    count = 20_000
    seen.feed("".join(f"line {n}\r\n" for n in range(count)))
    assert seen.engine.history == count + 1 - ROWS
    seen.engine.scroll_to(0)
    assert seen.text() == [f"line {n}" for n in range(ROWS)]
    assert seen.engine.cursor() is None
    seen.engine.scroll_to(1234)
    assert (seen.engine.offset, seen.text()[0]) == (1234, "line 1234")
    seen.feed("more\r\n")
    assert (seen.engine.offset, seen.text()[0]) == (1234, "line 1234"), "output does not move the view"
    seen.engine.scroll_to(10**9)
    seen.engine.scroll_to(None)
    assert seen.engine.offset == seen.engine.history
    assert seen.text()[-2:] == ["more", ""]


def test_a_resize_reflows_and_tells_every_row(seen: Seen) -> None:
    seen.feed("0123456789abcdefghij")
    seen.text()
    seen.engine.resize(10, 4)
    seen.rows.clear()
    assert seen.text()[:2] == ["0123456789", "abcdefghij"]
    assert (seen.engine.cols, seen.engine.rows) == (10, 4)


def test_a_hidden_cursor_is_none(seen: Seen) -> None:
    seen.feed("\x1b[?25l")
    seen.text()
    assert seen.engine.cursor() is None


HOSTILE = {
    "every byte": bytes(range(256)) * 20,
    "c1": bytes(range(0x80, 0xA0)) * 10,
    "numbers": b"\x1b[999999999999999999C\x1b[1;2;3;4;5z\x1b[-5A\x1b[99999999;99999999H\x1b[?99999999h",
    "endless": b"\x1b]0;" + b"A" * 300_000,
    "bidi and hidden": "a\u202eb\u2066c\u200bd\ufeffe\u2028f\U000e0001g".encode(),
    "queries": b"\x1b[6n\x1b[c\x1b[5n\x1b]10;?\x07\x1bP$qm\x1b\\\x1b[?2004$p\x05\x1b[>q\x1bZ",
    "files": b"\x1b_Gt=f,a=T,f=100;L2V0Yy9wYXNzd2Q=\x1b\\\x1b_Gt=t,a=T;L3RtcC94\x1b\\"
    b"\x1b]1337;File=x:AAAA\x07",
    "combining": ("e" + "\u0301" * 5000).encode(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_that_a_program_prints_gets_past_the_cells(seen: Seen, name: str) -> None:
    data = HOSTILE[name]
    for at in range(0, len(data), 1000):
        seen.feed(data[at : at + 1000])
    seen.feed("\x1b\\\x1bc ok")
    seen.feed(data)
    for _y, row in seen.engine.dirty().items():
        for text, _style in row:
            assert all(
                char.isprintable() or char == "\u200d" or "\ufe00" <= char <= "\ufe0f" for char in text
            )
            assert "\u202e" not in text
            assert len(text) < 2000


def test_tags_hide_no_text() -> None:
    engine = GhosttyEngine(40, 2)
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "ignore")
    engine.feed(f"a{hidden}b \U0001f3f4{hidden[:3]}\U000e007f".encode())
    text = "".join(run for run, _ in engine.dirty()[0])
    assert text.startswith("a") and not any(
        0xE0000 <= ord(char) <= 0xE007F for char in text.partition("\U0001f3f4")[0]
    )
    assert "\U000e007f" in text, "the control: a flag of a region"
    engine.close()


_PIECES = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.sampled_from(
        ["漢", "e\u0301", "👩‍💻", "🏴", "\r\n", "\x1b[2K", "\x1b[44m\x1b[K", "\x1b[0m", "\x1b[1;31m", "─"]
    ),
    st.builds("\x1b[{};{}m".format, st.integers(0, 9), st.integers(30, 47)),
    st.builds("\x1b[38;5;{}m".format, st.integers(0, 255)),
    st.builds("\x1b[{};{}H".format, st.integers(1, ROWS), st.integers(1, COLS)),
)


@given(st.lists(_PIECES, max_size=30))
def test_a_row_read_at_once_is_what_its_cells_are(pieces: list[str]) -> None:
    made, slow = GhosttyEngine(COLS, ROWS), GhosttyEngine(COLS, ROWS)
    slow._read.read = slow._read.by_cell  # type: ignore[method-assign]
    try:
        for each in (made, slow):
            each.feed("".join(pieces).encode("utf-8", "surrogatepass"))
        assert made.dirty() == slow.dirty()
    finally:
        made.close()
        slow.close()
