"""View 4: what a person learns of the ways out, also of many, hostile or missing ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from cell import records
from cell.events import Egress, EgressEnd, Line
from cell.trials.egress import Hit
from hudtui.lines.egress import amount, cells, columns, process_name, rule_words
from hudtui.lines.hit import hit_lines, moment
from screenshots.invented import NOW, this_process, trial

from .conftest import EVIL, SIZES, Open
from .egress_keys import egress, hosts

HARBOR = Path(__file__).parents[1] / "fixtures/harbor-0.25.0/jobs"


def told(path: Path, *happened: tuple[float, object]) -> None:
    with (path / "cell/events.jsonl").open("ab") as out:
        for t, event in happened:
            out.write(records.encode(Line(seq=0, t=t, event=event)) + b"\n")  # type: ignore[arg-type]


def attempt(hit: int, host: str = "a.example", **more: object) -> Egress:
    given = {"phase": "agent", "way": "proxy", "method": "CONNECT", "port": 443, "allowed": False} | more
    return Egress(hit=hit, host=host, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize(("name", "keys"), [("egress", "4!kk!"), ("egress-hosts", "4o")], ids=lambda v: v)
async def test_picture(
    name: str, keys: str, size: tuple[int, int], jobs: Path, cockpit: Open, picture
) -> None:
    async with cockpit(jobs, size=size) as hud:
        await hud.press(*("exclamation_mark" if key == "!" else key for key in keys))
        picture(hud.app, f"{name}_{size[0]}x{size[1]}")


async def test_the_header_counts_the_denials_of_the_last_minute(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        assert "deny 4/min" in hud.screen.splitlines()[0]
    async with cockpit(HARBOR / "demo-oracle") as hud:
        assert "/min" not in hud.screen.splitlines()[0], "where nothing is recorded nothing is counted"


async def test_one_cell_in_scope_shows_its_own(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        await hud.press("enter", "4")
        assert "Egress 9" in hud.screen
        assert "CELL" not in hud.screen
        await hud.press("0")
        assert "Egress 17" in hud.screen
        assert "CELL" in hud.screen


async def test_harbors_jobs_say_which_record_is_missing(cockpit: Open) -> None:
    async with cockpit(HARBOR / "demo-oracle") as hud:
        await hud.press("4")
        assert "cell/events.jsonl" in hud.screen
        assert "cell run" in hud.screen
        for key in ("enter", "d", "n", "y", "c", "o", "F", "t", "A", "e", "escape", "exclamation_mark"):
            await hud.press(key)


async def test_a_quiet_cell_says_so(tmp_path: Path, cockpit: Open) -> None:
    trial(tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="agent")
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("4")
        assert "nothing tried to leave" in hud.screen
        await hud.press("1", "enter", "4")
        assert "nothing has tried to leave yet" in hud.screen


async def test_hits_come_while_one_looks_and_the_last_is_followed(tmp_path: Path, cockpit: Open) -> None:
    path = trial(tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="agent")
    told(path, (NOW - 9, attempt(1, "one.example")))
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("4")
        told(path, (NOW - 5, attempt(2, "two.example")))
        await hud.look()
        assert hosts(hud) == ["one.example", "two.example"]
        assert egress(hud).table.current_key.endswith("#2")
        await hud.press("k")
        told(path, (NOW - 1, attempt(3, "three.example")), (NOW, EgressEnd(hit=1, status=403, ms=7.0)))
        await hud.look()
        assert egress(hud).table.current_key.endswith("#1"), "who looks at a hit keeps it"
        assert "Egress 3" in hud.screen
        assert "403" in hud.screen


async def test_what_was_sent_from_inside_is_never_obeyed(tmp_path: Path, cockpit: Open) -> None:
    path = trial(tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="agent")
    evil = attempt(1, EVIL, method=EVIL, path=EVIL, sni=EVIL, command=EVIL, reason=EVIL, rule=EVIL)
    told(path, (NOW - 9, evil), (NOW - 8, EgressEnd(hit=1, error=EVIL, sni=EVIL)))
    async with cockpit(tmp_path / "jobs", size=(200, 60)) as hud:
        for keys in (("4",), ("d",), ("y",), ("escape", "o"), ("enter",), ("c",)):
            await hud.press(*keys)
            seen = hud.screen
            assert "\x1b" not in seen
            assert "\u202e" not in seen
            assert "[red]" in seen or "hits" in seen


async def test_o4_ten_thousand_hits_are_there_and_filtered(tmp_path: Path, cockpit: Open) -> None:
    for n in range(5):
        path = trial(tmp_path / "jobs/job", f"task-{n}", f"{n:07}", serve=this_process(), phase="agent")
        told(
            path,
            *((NOW - 9000 + i, attempt(i, f"h{i % 50}.example", allowed=i % 3 > 0)) for i in range(2000)),
        )
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("4")
        assert "Egress 10,000" in hud.screen
        await hud.press("slash")
        await hud.type("host:h7.example decision:deny")
        await hud.press("enter")
        wanted = 5 * sum(i % 50 == 7 and i % 3 == 0 for i in range(2000))
        assert len(hosts(hud)) == wanted
        await hud.press("g", "G", "o", "enter")
        assert set(hosts(hud)) == {"h7.example"}


# ── words ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("", ""),
        ("/usr/bin/curl -s x", "curl"),
        ("/usr/bin/python3 /usr/local/bin/pip install x", "pip"),
        ("python3.11 -m pip install x", "pip"),
        ("python3 -c pass", "python3"),
        ("bash", "bash"),
        ("node /app/node_modules/.bin/next build", "next"),
    ],
)
def test_a_process_is_named_by_what_it_runs(command: str, name: str) -> None:
    assert process_name(command) == name


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0k"),
        (88_200, "88k"),
        (999_499, "999k"),
        (4_130_000, "4.1M"),
        (10**16, "lots"),
    ],
)
def test_bytes_fit_their_column(count: int, text: str) -> None:
    assert amount(count) == text


def hit(**more: object) -> Hit:
    given = {
        "trial": "t",
        "cell": "c",
        "task": "t",
        "hit": 1,
        "t": NOW,
        "phase": "agent",
        "way": "proxy",
        "method": "CONNECT",
        "host": "a.example",
        "port": 443,
        "allowed": False,
    }
    return Hit(**(given | more))  # type: ignore[arg-type]


def test_an_attempt_that_was_cut_does_not_look_like_one_that_went_well() -> None:
    (status,) = [one for one in columns(200, one_cell=False) if one.key == "status"]

    def shown(**more: object) -> str:
        return "".join(text for text, _ in cells(hit(allowed=True, open=False, **more), [status], NOW)[0])

    assert shown(status=200) == "200"
    assert shown(status=200, error="TLS asks for b.example, the connection is to a.example") == "error"
    assert (shown(status=502, error="nobody answers"), shown(error="reset")) == ("502", "error")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (
            "denied: a.example is not in allowed_hosts of [agent] (b.example); nearest b.example",
            "not in allowed_hosts",
        ),
        ("denied: a.example is a link-local address, which no entry opens", "a link-local address"),
        ('denied: [agent] has network_mode = "no-network"', '[agent] has network_mode = "no-network"'),
        ("", "allowlist"),
    ],
)
def test_a_denial_is_said_in_a_few_words(reason: str, words: str) -> None:
    assert rule_words(hit(reason=reason, rule="allowlist")) == words


def test_the_document_tells_the_operator_what_the_client_never_learns() -> None:
    text = "\n".join(
        one.text for one in hit_lines(hit(address="203.0.113.9", address_class="global", status=403))
    )
    assert "operator only: 203.0.113.9 · class global" in text
    assert "403 with this reason" in text
    assert "A allow" in text
    good = "\n".join(one.text for one in hit_lines(hit(allowed=True, sni="other.example")))
    assert "is not the host that was asked for" in good
    assert "still open" in good and "encrypted" not in good
    assert "A allow" not in good
    assert "is not the host" not in "\n".join(
        one.text for one in hit_lines(hit(allowed=True, sni="A.example."))
    )
    for address in ("203.0.113.9", "2001:db8::9"):
        told = "\n".join(
            one.text for one in hit_lines(hit(host=address, allowed=True, sni="b.example", ech=True))
        )
        assert "an address was asked for" in told and "is not the host" not in told
        assert "another name may be encrypted" in told


def test_an_entry_more_is_not_promised_to_change_what_no_list_decided() -> None:
    rules = ("owner", "limit", "record limit", "TLS", "malformed", "address: private")
    for rule in rules:
        text = "\n".join(one.text for one in hit_lines(hit(rule=rule), [hit(rule=rule)]))
        assert "would let" not in text
        assert ("A allow" in text) == (rule in ("malformed", "address: private"))
    mine = hit(rule="allowlist")
    text = "\n".join(one.text for one in hit_lines(mine, [mine, *(hit(rule=rule) for rule in rules)]))
    assert "would let 1 of 7 recorded denials through" in text and "A allow" in text


async def test_allow_is_not_asked_for_where_it_would_not_help(tmp_path: Path, cockpit: Open) -> None:
    path = trial(tmp_path / "jobs/job", "task", "aaaaaaa", serve=this_process(), phase="agent")
    cut = EgressEnd(hit=1, status=200, denied=True, error="TLS asks for b.example, it is to a.example")
    told(path, (NOW - 9, attempt(1, allowed=True, rule="a.example")), (NOW - 8, cut))
    async with cockpit(tmp_path / "jobs") as hud:
        await hud.press("4", "A")
        assert "A would not help: TLS asks for b.example" in hud.footer
        assert "deny" in hud.screen


def test_a_time_that_is_none_is_no_crash() -> None:
    assert moment(float("inf")) == "at no known time"


@pytest.mark.parametrize("width", [40, 76, 116, 196])
@pytest.mark.parametrize("one_cell", [True, False])
def test_the_columns_fit(width: int, one_cell: bool) -> None:
    for grouped in (True, False):
        shown = columns(width, grouped=grouped, one_cell=one_cell)
        gap = 2 if width >= 90 else 1
        assert sum(c.width for c in shown) + gap * (len(shown) - 1) <= max(width, 76)


async def test_fleet_says_who_tried_and_was_denied(jobs: Path, cockpit: Open) -> None:
    async with cockpit(jobs) as hud:
        assert "EGRESS" in hud.screen
        hud.app.fleet.sort_by("deny")
        hud.app.fleet.sort_by("deny")
        assert hud.listed[:3] in (["k3f9a1c", "e02b77a", "b71e0d4"], ["e02b77a", "k3f9a1c", "b71e0d4"])
    async with cockpit(jobs, size=(80, 24)) as hud:
        assert "DENY" not in hud.screen
