"""Sitting in the agent's terminal: who gets a key, how one leads out, and what the screen says."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from cell import records
from cell.events import Lease, Line, Paused, SessionClosed
from hudtui import actions
from hudtui.engine import Cursor
from hudtui.lines.leases import leases
from screenshots.invented import NOW, Cast, this_process, trial

from .conftest import Cockpit, FakeChannel, Open

KEYS = (
    "a", "q", "ctrl+q", "ctrl+p", "ctrl+c", "tab", "shift+tab", "escape", "f1", "f10", "ctrl+backslash",
    "enter", "ctrl+z", "up", "pageup", "ctrl+s", "alt+x", "ctrl+left", "question_mark", "colon", "slash",
    "1", "0", "é", "space", "backspace", "delete", "ctrl+at", "ctrl+d", "ctrl+u", "x",
)  # fmt: skip


async def attached(hud: Cockpit) -> FakeChannel:
    await hud.press("a")
    assert hud.app.captured
    return hud.wire.channels[-1]


async def test_every_key_goes_into_the_cell(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        channel = await attached(hud)
        assert hud.wire.asked == [("k3f9a1c", "attach", {"session": 3, "take": False, "who": "ada@desk"})]
        await hud.press(*KEYS)
        assert channel.typed == "".join(f"<{key}>" for key in KEYS).encode()
        assert (hud.app.view, hud.app.captured) == ("sessions", True)


@pytest.mark.parametrize(
    "keys", [("f12",), ("ctrl+right_square_bracket", "d"), ("ctrl+right_square_bracket", "f12")]
)
async def test_the_ways_out(keys: tuple[str, ...], jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        channel = await attached(hud)
        assert "ATTACHED k3f9a1c as agent · session 3" in hud.screen
        assert "ctrl+] d detach · F12 · agent waits · 120×36" in hud.screen
        assert hud.footer.startswith(" ATTACHED  [detach]  F12 detach")
        await hud.press(*keys)
        assert channel.closed
        assert not channel.typed
        assert not hud.app.captured
        assert "the keyboard is the agent's again" in hud.footer
        await hud.press("1")
        assert hud.app.view == "fleet", "keys are the cockpit's again"


async def test_a_click_on_detach_leads_out(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        channel = await attached(hud)
        await hud.pilot.click("#footer", offset=(14, 0))
        assert channel.closed


async def test_another_click_leads_nowhere(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        channel = await attached(hud)
        await hud.pilot.click("#tabs", offset=(60, 0))
        await hud.press("y")
        assert (hud.app.view, channel.typed) == ("sessions", b"<y>")


async def test_the_prefix_can_be_another_one(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs, prefix="ctrl+b") as hud:
        channel = await attached(hud)
        await hud.press("ctrl+right_square_bracket", "ctrl+b", "ctrl+b")
        assert channel.typed == b"<ctrl+right_square_bracket><ctrl+b>"
        await hud.press("ctrl+b", "d")
        assert channel.closed


@pytest.mark.parametrize("key", ["ctrl+at", "ctrl+space"])
async def test_the_prefix_is_known_by_each_of_its_names(key: str, jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs, prefix="ctrl+space") as hud:
        channel = await attached(hud)
        await hud.press(key, key)
        assert (channel.typed, hud.app.captured) == (b"<ctrl+space>", True), "twice: itself"
        await hud.press(key, "d")
        assert (channel.typed, hud.app.captured) == (b"<ctrl+space>", False)


async def test_keys_after_the_prefix(jobs: Path, cockpit: Open) -> None:
    prefix = "ctrl+right_square_bracket"
    async with cockpit(jobs) as hud:
        channel = await attached(hud)
        await hud.press(prefix)
        assert "d detach · z list" in hud.screen
        await hud.press("y")
        assert channel.typed == b"", "what means nothing after the prefix goes nowhere"
        await hud.press(prefix, prefix)
        assert channel.typed == b"<ctrl+right_square_bracket>"
        table = hud.app.sessions.table
        assert not table.display or not table.size
        await hud.press(prefix, "z")
        assert table.size
        await hud.press(prefix, "question_mark")
        assert "Keys while attached" in hud.screen
        await hud.press("escape", "k")
        assert channel.typed.endswith(b"<k>")
        await hud.press(prefix, "r")
        assert hud.wire.asked[-1][1] == "resize"
        assert hud.wire.asked[-1][2]["session"] == 3
        await hud.press(prefix, "n")
        assert "no other session" in hud.footer
        hud.engines[-1].feed(b"\n" * 300)
        await hud.press(prefix, "left_square_bracket", "g")
        assert hud.app.sessions.term._top == 0
        assert "scrolling" in hud.screen
        await hud.press("k", "j", "pageup", "G", "escape", "i")
        assert channel.typed.endswith(b"<k><i>")


async def test_a_size_that_was_taken_is_given_back(jobs: Path, cockpit: Open) -> None:
    prefix = "ctrl+right_square_bracket"
    async with cockpit(jobs) as hud:
        await attached(hud)
        engine = hud.app.sessions.term.engine
        assert engine is not None
        theirs = engine.cols, engine.rows
        ours = hud.app.sessions.term.room
        await hud.press(prefix, "r", prefix, "r", "f12")
        sizes = [(what["cols"], what["rows"]) for _, method, what in hud.wire.asked if method == "resize"]
        assert ours != theirs
        assert sizes == [ours, ours, theirs]
        assert f"it is {theirs[0]}×{theirs[1]} again" in hud.footer
        hud.wire.asked.clear()
        await attached(hud)
        await hud.press("f12")
        assert not [one for one in hud.wire.asked if one[1] == "resize"], "the control: nothing was taken"


async def test_lines_are_copied_with_keys_alone(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        channel = await attached(hud)
        hud.engines[-1].feed(b"".join(b"row %d\n" % n for n in range(300)))
        await hud.press("ctrl+right_square_bracket", "left_square_bracket")
        assert "v marks · y copies" in hud.screen
        term = hud.app.sessions.term
        lines = term.history_lines(0, term.total - 1)
        at = lines.index("row 7")
        await hud.press("g", *("j" * at), "v", "pagedown", "pagedown", "pagedown", "y")
        assert hud.app.clipboard.splitlines() == [f"row {n}" for n in range(7, 80)]
        await hud.press("y")
        assert hud.app.clipboard == "row 79", "without a mark: this line"
        assert "copied 6 characters" in hud.footer
        await hud.press("escape", "i")
        assert channel.typed == b"<i>"


async def test_what_is_typed_right_behind_the_prefix_is_not_the_cells(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        channel = await attached(hud)
        await hud.at_once("a\x1d[gky")
        assert (channel.typed, hud.app.sessions.term.scrolling) == (b"<a>", True)
        await hud.press("escape")
        await hud.at_once("b\x1ddj0")
        assert (channel.typed, hud.app.captured) == (b"<a><b>", False)
        assert hud.app.scope is None, "the last one was the cockpit's"


async def test_a_text_is_found_while_scrolling(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        channel = await attached(hud)
        hud.engines[-1].feed(b"".join(b"row %d\n" % n for n in range(300)))
        await hud.press("ctrl+right_square_bracket", "left_square_bracket", "slash")
        await hud.press(*("space" if char == " " else char for char in "row 12x"))
        assert "/row 12x" in hud.screen
        await hud.press("backspace", "enter")
        term = hud.app.sessions.term
        lines = term.history_lines(0, term.total - 1)
        seen = []
        for key in (*"nnnnnnnnnn", "N"):
            seen.append(lines[term.line])
            await hud.press(key)
        assert seen == [*(f"row 12{n}" for n in range(9, -1, -1)), "row 12"]
        assert lines[term.line] == "row 120", "N goes back"
        await hud.press("slash", "z", "z", "enter")
        assert "zz: not in what this session printed" in hud.screen
        await hud.press("slash", "escape", "escape", "l")
        assert channel.typed == b"<l>", "nothing of it went into the cell"


async def test_next_session(tmp_path: Path, cockpit: Open) -> None:
    shells = [Cast(None, [(0.1, f"shell {n}\r\n")], exit=None) for n in (1, 2)]
    trial(tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="agent", sessions=shells)
    async with cockpit(tmp_path / "jobs") as hud:
        first = await attached(hud)
        for key, number in (("n", 1), ("p", 2)):
            await hud.press("ctrl+right_square_bracket", key)
            assert hud.wire.asked[-1][2]["session"] == number
            assert f"· session {number}" in hud.screen
        assert first.closed


async def test_paste_mouse_and_selection(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        channel = await attached(hud)
        await hud.send(events.Paste("x" * 1_000_000))
        assert len(channel.typed) == 1_000_000 + len("<paste >")
        channel.typed = b""
        await hud.pilot.click("#sessions-term", offset=(5, 4))
        assert channel.typed == b"", "the program does not listen to the pointer"
        await hud.pilot.mouse_down("#sessions-term", offset=(2, 3))
        await hud.pilot.hover("#sessions-term", offset=(9, 3))
        event = events.MouseMove(None, 11, 5, 0, 0, 1, False, False, False)
        await hud.send(event)
        await hud.pilot.mouse_up("#sessions-term", offset=(9, 3))
        assert hud.app.clipboard
        hud.engines[-1].tracks_mouse = True
        await hud.pilot.click("#sessions-term", offset=(5, 4))
        assert channel.typed == b"<press 1 3,3><release 1 3,3>"


async def test_questions_of_the_program_are_answered_only_while_we_drive(
    tmp_path: Path, cockpit: Open
) -> None:
    shell = Cast(None, [(0.1, "before")], exit=None)
    path = trial(
        tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="agent", sessions=[shell]
    )
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("w")
        hud.engines[-1].asked = b"<old answer>"
        channel = await attached(hud)
        assert channel.typed == b""
        with (path / "cell/sessions/1.cast").open("a") as file:
            file.write('[9, "o", "what are you?"]\n')
        hud.engines[-1].asked = b"<answer>"
        channel.print(b"more to read")
        await hud.press("a")
        assert channel.typed in (b"<answer><a>", b"<a><answer>")
        assert "what are you?" in hud.screen


@pytest.mark.parametrize(
    ("status", "words", "said"),
    [
        (None, "", "the connection to k3f9a1c was cut"),
        (0, "the session ended", "session 3 has ended"),
        (-1, "", "session 3 has ended (by a signal)"),
        (75, "bob@desk took the keyboard of session 3", "detached: bob@desk took the keyboard of session 3"),
        (126, "refused: the verifier is running", "(exit 126) · refused: the verifier is running"),
    ],
)
async def test_the_end_of_a_channel_is_said(
    status: int | None, words: str, said: str, jobs: Path, cockpit: Open
) -> None:
    async with cockpit(jobs) as hud:
        channel = await attached(hud)
        channel.end(status, words)
        await hud.pilot.pause()
        assert said in hud.footer
        assert not hud.app.captured
        await hud.press("0")
        assert said.partition("·")[0].strip() in hud.screen, "and it stays on the border"


async def test_how_a_session_ended_is_what_was_recorded(tmp_path: Path, cockpit: Open) -> None:
    shell = Cast(None, [(0.1, "$ ")], exit=None)
    path = trial(
        tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="agent", sessions=[shell]
    )
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("w")
        channel = await attached(hud)
        closed = SessionClosed(n=1, exit=None, signal="KILL", bytes_in=0, bytes_out=0, ms=5)
        with (path / "cell/events.jsonl").open("ab") as file:
            file.write(records.encode(Line(seq=99, t=NOW, event=closed)) + b"\n")
        channel.end(0, "the session ended")
        await hud.pilot.pause()
        assert "session 1 has ended (by KILL)" in hud.footer


async def test_to_leave_ones_own_shell_ends_it_and_is_said(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        await hud.press("s", "enter")
        assert "ctrl+] d ends it" in hud.screen
        assert "d detach ·" not in hud.screen
        await hud.press("f12")
        assert hud.wire.channels[-1].closed
        assert "your shell: it has ended, with what ran in it" in hud.footer


async def test_the_keyboard_of_somebody_else_is_asked_for(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        channel = await attached(hud)
        channel.end(76, "bob@desk has the keyboard of session 3 since 12:00; --take takes it")
        await hud.pilot.pause()
        assert "take it over: bob@desk has the keyboard" in hud.screen
        await hud.press("escape", "a")
        assert hud.wire.asked[-1][2]["take"] is False
        hud.wire.channels[-1].end(76, "bob@desk has the keyboard of session 3 since 12:00; --take takes it")
        await hud.pilot.pause()
        await hud.press("j", "enter")
        assert hud.wire.asked[-1][2]["take"] is True
        assert hud.app.captured


async def test_a_lease_is_shown_to_who_watches(tmp_path: Path, cockpit: Open) -> None:
    shell = Cast(None, [(0.1, "$ ")], exit=None)
    held = Lease(session=1, holder="bob@desk")
    trial(
        tmp_path / "jobs/job",
        "task",
        "aaaaaaa",
        serve=this_process(),
        phase="agent",
        sessions=[shell],
        happened=[held],
    )
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("w")
        assert "bob@desk has the keyboard · " in hud.screen
        await hud.press("a")
        assert not hud.wire.asked
        assert "take it over: bob@desk has the keyboard" in hud.screen


def test_leases_are_read_from_the_journal() -> None:
    assert leases([]) == {}


@pytest.mark.parametrize("who", ["agent", "verifier", "root"])
async def test_a_shell_of_our_own_says_who_we_are(who: str, jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        await hud.press("s", *("j" * ["agent", "verifier", "root"].index(who)), "enter")
        assert hud.wire.asked[-1][2]["who"] == who
        assert hud.wire.asked[-1][2]["size"] > (100, 20), "it begins with the size of the pane"
        assert f"YOUR SHELL in k3f9a1c as {who}" in hud.screen
        channel = hud.wire.channels[-1]
        assert channel.sizes[-1] == hud.app.sessions.term.room, "our own shell has our size"
        channel.print(b"root@cell# ")
        await hud.pilot.pause()
        assert "root@cell#" in hud.screen
        await hud.press("l", "s", "f12")
        assert (channel.typed, channel.closed) == (b"<l><s>", True)
        assert "root@cell#" not in hud.screen


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_picture(size: tuple[int, int], jobs: Path, cockpit: Open, picture) -> None:
    async with cockpit(jobs, size=size) as hud:
        await attached(hud)
        picture(hud.app, f"attached_{size[0]}x{size[1]}")


def test_the_keys_after_the_prefix_are_in_the_table() -> None:
    assert {key for action in actions.ACTIONS if "attached" in action.views for key in action.keys} == {
        "E",
        "d", "f12", "z", "left_square_bracket", "n", "p", "r", "ctrl+right_square_bracket", "question_mark",
    }  # fmt: skip


async def test_the_cursor_is_in_sight_while_one_types(tmp_path: Path, cockpit: Open) -> None:
    shell = Cast(None, [(0.1, "x" * 100)], exit=None, cols=120, rows=36)
    trial(tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="agent", sessions=[shell])
    async with cockpit(tmp_path / "jobs", size=(80, 24)) as hud:
        await hud.press("w")
        assert hud.app.sessions.term._left == 0
        await attached(hud)
        term = hud.app.sessions.term
        assert term._left <= 100 < term._left + term.content_size.width
        engine = hud.engines[-1]
        engine.feed(b"\n" * 35 + b"the last line")
        engine.cursor = lambda: Cursor(3, 2)  # type: ignore[method-assign]
        term._settle(changed=True)
        assert (term._left, term._top) == (0, 2)


async def test_a_person_who_is_the_agent_reads_the_task_and_finishes(tmp_path: Path, cockpit: Open) -> None:
    task = tmp_path / "task"
    task.mkdir()
    (task / "instruction.md").write_text("Write one line.\n\x1b[31mRed\n")
    path = trial(tmp_path / "jobs/job", "task", "aaaaaaa", agent="human", serve=this_process(), phase="agent")
    cell = path / "cell/cell.json"
    cell.write_text(cell.read_text().replace('"tasks/task"', f'"{task}"'))
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("w")
        assert "Write one line." in hud.screen
        assert "␛[31mRed" in hud.screen
        assert "you are the agent" in hud.screen
        await hud.press("s", "enter", "l", "s")
        assert "Write one line." in hud.screen, "it stays beside the terminal"
        assert "ctrl+] E finish" in hud.screen
        assert "ctrl+] E finishes and grades" in hud.screen, "E alone goes into the cell"
        await hud.press("ctrl+right_square_bracket", "E", "j", "enter")
        assert hud.wire.asked[-1] == ("aaaaaaa", "finish", {"who": "ada@desk"})


@pytest.mark.parametrize("status", [None, 75])
async def test_the_session_that_was_left_is_watched_on(
    status: int | None, tmp_path: Path, cockpit: Open
) -> None:
    shells = [Cast(None, [(0.1, f"shell {n} $ ")], exit=None) for n in range(3)]
    trial(tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="agent", sessions=shells)
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("w", "a")
        first = hud.app.sessions.attached
        assert first is not None
        await hud.press("ctrl+right_square_bracket", "n")
        second = hud.app.sessions.attached
        assert second is not None
        assert second.session.n != first.session.n
        if status is None:
            await hud.press("f12")
        else:
            hud.wire.channels[-1].end(status, "bob took the keyboard")
            await hud.pilot.pause()
        await hud.look()
        watched = hud.app.sessions.term.session
        assert watched is not None
        assert watched.n == second.session.n
        assert f"shell {second.session.n - 1} $" in hud.screen


async def test_a_pause_is_seen_by_who_is_attached(tmp_path: Path, cockpit: Open) -> None:
    shell = Cast(None, [(0.1, "$ ")], exit=None)
    for name, happened, said in (("a", [], ""), ("b", [Paused(paused=True, by="bob")], "PAUSED"),
                                 ("c", [Paused(paused=True, by="bob", frozen=True)], "FROZEN")):  # fmt: skip
        where = tmp_path / name / "jobs"
        trial(
            where / "job",
            "task",
            "aaaaaaa",
            serve=this_process(),
            phase="agent",
            sessions=[shell],
            happened=happened,
        )
        async with cockpit(where) as hud:
            await hud.press("w", "a")
            assert hud.app.captured
            border = next(one for one in hud.screen.splitlines() if "agent waits" in one)
            assert said in border
            assert ("PAUSED" in border or "FROZEN" in border) == bool(said)


async def test_keys_come_in_the_form_that_the_program_asked_for(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        flags: list[int] = []
        hud.app._driver.newer_keys = flags.append  # type: ignore[union-attr]
        await attached(hud)
        hud.engines[-1].key_flags = 3
        hud.app.sessions.term.turn()
        await hud.pilot.pause()
        await hud.press("f12")
        assert flags == [3, 0]
