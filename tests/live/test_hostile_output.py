"""O3: whatever is printed, named or written inside, the cockpit writes to its terminal only what is its own.

Every byte that it writes to a real terminal is parsed here. What kinds of sequences there may be is not
listed: it is what the same cockpit writes, by the same keys, about a world whose text is harmless.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from world import SOURCE

from cell import trials

from .conftest import until
from .desk import Desk

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

ESC = b"\x1b"
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\u2028\u2029\ufeff".encode()
STRINGS = b"".join(
    start + body + end
    for start, body in (
        *(
            (b"\x1b]", b"%d;OWNED" % n)
            for n in (*range(20), 22, 50, 52, 104, 110, 112, 133, 633, 777, 1337, 9001)
        ),
        (b"\x1b]", b"52;c;T1dORUQ="),
        (b"\x1b]", b"8;;http://evil.example"),
        (b"\x1bP", b"+q544eOWNED"),
        (b"\x1bP", b"$qmOWNED"),
        (b"\x1bP", b"q#0;2;0;0;0OWNED"),
        (b"\x1bPtmux;", b"\x1b\x1b]0;OWNED"),
        (b"\x1bX", b"OWNED"),
        (b"\x1b^", b"OWNED"),
        (b"\x1b_", b"Gf=32;OWNED"),
        (b"\x1bk", b"OWNED"),
        ("\x9d".encode(), b"0;OWNED"),
        ("\x90".encode(), b"OWNED"),
        (b"\x9d", b"0;OWNED"),
    )
    for end in (b"\x07", b"\x1b\\", b"\x9c", b"")
)
FLAT = (
    bytes(range(1, 32))
    + b"\x7f"
    + bytes(range(0x80, 0xA0))
    + b"".join(chr(code).encode() for code in range(0x80, 0xA0))
    + BIDI
    + b"\xff\xfe\xc3(\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf[red]markup[/red][@click=app.quit]x[/]"
)
SEQUENCES = (
    b"".join(ESC + bytes([final]) for final in range(0x20, 0x7F) if final not in b"]P^_X\\")
    + b"".join(
        ESC + b"[" + prefix + b"2;1" + middle + bytes([final])
        for prefix in (b"", b"?", b">", b"<", b"=")
        for middle in (b"", b" ", b"$", b"!", b'"', b"'", b"*")
        for final in range(0x40, 0x7F)
    )
    + b"\x1b[?1049l\x1b[?25h\x1bc"
)
ALL = b"\x1b]0;OWNED\x07" + FLAT + SEQUENCES + STRINGS
# Keys that go through everything that is shown of a finished trial, and a word that tells that it is there.
WALK = (
    ("\r", "Tests 1/2"),
    ("G", "Files"),
    ("2", "⏎ watch"),
    ("g", "scrolled back"),
    ("G", "end-2"),
    ("d", "esc close"),
    ("\x1b", "⏎ watch"),
    ("3", "⏎ detail"),
    ("g\r", "esc close"),
    ("\x1b", "⏎ detail"),
    ("4", "o by host"),
    ("5", "i fidelity"),
    ("6", "⏎ open"),
    ("y", "esc close"),
    ("G", "esc close"),
    ("\x1b", "⏎ open"),
    ("7", "⏎ session"),
    ("G", "end-2"),
    ("1", "o group"),
)


def task(folder: Path, evil: bytes) -> Path:
    """A task whose verifier prints, names and says that."""
    shutil.copytree(SOURCE / "examples/tasks/hello-pass", folder)
    (folder / "tests/evil").write_bytes(evil)
    name = evil.decode("utf-8", "replace")
    tests = [
        {"name": f"{name}-{status}", "status": status, "duration": 5, "message": name}
        for status in ("passed", "failed")
    ]
    (folder / "tests/ctrf.json").write_text(json.dumps({"results": {"tests": tests}}))
    (folder / "tests/reward.json").write_text(json.dumps({"reward": 0, name[:200] + "x": 0.5}))
    (folder / "tests/test.sh").write_text(
        "#!/bin/sh\ncat /tests/evil\necho\ncp /tests/ctrf.json /tests/reward.json /logs/verifier/\nexit 0\n"
    )
    return folder


AGENT = """
cd "$1"
ssh -F "$CELL_SSH_CONFIG" agent 'cat > /tmp/evil' < evil
ssh -tt -F "$CELL_SSH_CONFIG" agent 'cat /tmp/evil; printf "\\033[!p\\033c\\033[?1049l"
    head -c 10000000 /dev/zero | tr "\\\\0" x; echo; echo "end-$((1+1))"' < /dev/null
ssh -F "$CELL_SSH_CONFIG" agent "echo $(cat words)" < /dev/null
ssh -F "$CELL_SSH_CONFIG" agent "cat /tmp/evil; exit 3" < /dev/null
"""


def rolled_out(folder: Path, evil: bytes) -> Path:
    """Run a task whose agent and verifier do all that; return the jobs folder."""
    folder.mkdir()
    (folder / "evil").write_bytes(evil)
    (folder / "words").write_bytes(b"'" + evil.replace(b"'", b"").replace(b"\n", b"") + b"'")
    (folder / "agent.sh").write_text(AGENT)
    argv = ["run", task(folder / "t", evil), "-a", f"exec:bash {folder}/agent.sh {folder}"]
    done = subprocess.run(
        [sys.executable, "-m", "cell", *map(str, argv), "--jobs-dir", str(folder / "jobs")],
        cwd=SOURCE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done
    return folder / "jobs"


def walked(jobs: Path) -> bytes:
    """Return every byte that a cockpit writes while a person looks at everything."""
    (path,) = jobs.glob("*/*__*")
    desk = Desk(jobs)
    try:
        desk.sees(trials.read_trial(path).id)
        for keys, shown in WALK:
            desk.type(keys).sees(shown)
            desk.rests()
        desk.type("q")
        # what it writes at its end is read, too: a terminal that is full would hold it
        assert until(lambda: desk.watch() or desk.process.poll() is not None)
        desk.watch()
        return desk.written
    finally:
        desk.close()


TOKEN = re.compile(
    rb"\x1b\[(?P<csi>[<=>?]?)[0-9;:]*(?P<final>[ -/]*[@-~])"
    rb"|\x1b(?P<string>[\]PX^_])(?P<body>[^\x07\x1b]*)(?:\x07|\x1b\\)"
    rb"|\x1b(?P<esc>[ -/]*[0-~])"
    rb"|(?P<control>[\x00-\x1f\x7f])"
    rb"|(?P<text>[^\x00-\x1f\x7f]+)",
    re.S,
)


def kinds(written: bytes) -> set[str]:
    """Return what kinds of sequences were written; text must be text."""
    found, at = set(), 0
    while at < len(written):
        token = TOKEN.match(written, at)
        assert token is not None, written[at : at + 40]
        at = token.end()
        if token["text"] is not None:
            text = token["text"].decode()  # broken UTF-8 would be an error
            odd = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - {"\u200d"}
            assert not odd, (odd, text[:200])
        elif token["string"] is not None:
            found.add(f"string {token['string'].decode()} {token['body'].decode().partition(';')[0]}")
        elif token["control"] is not None:
            found.add(f"control {token['control'].hex()}")
        elif token["esc"] is not None:
            found.add(f"escape {token['esc'].decode()}")
        else:
            found.add(f"csi {token['csi'].decode()} {token['final'].decode()}")
    return found


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[str]]:
    """What the cockpit writes of its own, about a world whose text is harmless."""
    yield kinds(walked(rolled_out(tmp_path_factory.mktemp("own") / "w", b"a harmless text\r\nin two lines")))


def test_the_parser_would_notice() -> None:
    """The positive control: each of these is something that the cockpit never writes."""
    for evil in (b"\x1b]0;x\x07", b"\x1bc", b"\x1b[21t", b"\x1b_x\x1b\\", b"\x07", b"\x1bP+q\x1b\\"):
        assert kinds(b"text" + evil)
    for evil in ("\x9b2J".encode(), "a\u202eb".encode(), b"\xff", b"\x9b2J"):
        with pytest.raises((AssertionError, UnicodeDecodeError)):
            kinds(evil)


def test_o3_everything_hostile_that_a_world_shows_is_parsed_by_nobody_outside(
    own: set[str], tmp_path: Path
) -> None:
    jobs = rolled_out(tmp_path / "evil", ALL)
    written = walked(jobs)
    assert kinds(written) <= own
    assert b"[red]markup" in written, "the control: the text itself is shown"
    (cast,) = (path for path in jobs.glob("*/*/cell/sessions/*.cast") if path.stat().st_size > 9_000_000)
    assert b"OWNED" in cast.read_bytes(), "and it was there to be shown"
    said = " ".join(str(trial.verdict) for trial in trials.read_job(next(jobs.iterdir())).trials)
    assert "OWNED" in said
