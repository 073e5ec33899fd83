"""View 5: what a cell is made of, also of hostile and torn records."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cell import records
from cell.records import CellInfo, Ends, Identity, Limit, Namespace
from hudtui.lines.capabilities import CAPABILITIES, capabilities
from hudtui.lines.identity import _ways_out, ruler
from screenshots.invented import Cast, this_process, trial

from .conftest import EVIL, SIZES, Open


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_picture(size: tuple[int, int], jobs: Path, cockpit: Open, picture) -> None:
    async with cockpit(jobs, size=size) as hud:
        await hud.press("j", "j", "j", "enter", "5")
        picture(hud.app, f"identity_{size[0]}x{size[1]}")


def test_capabilities_have_names() -> None:
    assert capabilities("0000000000000000") == []
    assert capabilities("00000000a80425fb") == [
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "SETGID",
        "SETUID",
        "SETPCAP",
        "NET_BIND_SERVICE",
        "NET_RAW",
        "SYS_CHROOT",
        "MKNOD",
        "AUDIT_WRITE",
        "SETFCAP",
    ]
    assert len(capabilities("000001ffffffffff") or ()) == len(CAPABILITIES) == 41
    assert capabilities("8000000000000000") == ["#63"]
    assert capabilities("junk") is None
    assert capabilities("-1") is None
    assert capabilities("f" * 40) is None


def test_both_rulers_are_of_one_length() -> None:
    for ranges in ([(0, 0, 4294967295)], [(0, 1000, 1)], [(0, 100000, 1000), (1000, 1000, 1), (1001, 1, 9)]):
        inside, outside = ruler("uid", ranges)
        assert inside.text.rstrip() != ""
        assert len(inside.text) == len(
            outside.text.rstrip().removesuffix("every id, the same outside").rstrip() + "  "
        )
    assert "not recorded" in ruler("uid", [])[0].text
    assert "and 3 more" in ruler("uid", [(n * 10, n * 10 + 5, 2) for n in range(8)])[1].text


def cell(tmp_path: Path) -> Path:
    return trial(
        tmp_path / "jobs/job",
        "task",
        "aaaaaaa",
        serve=this_process(),
        phase="agent",
        sessions=(Cast("work", [(0.5, "x")]),),
    )


def ways(ends: Ends) -> str:
    return "\n".join(each.text for each in _ways_out(ends))


def test_what_of_ours_stands_in_a_worlds_network_is_said() -> None:
    assert "nothing of ours listens" in ways(Ends())
    here = Ends(listeners=("127.0.0.1:3128",), transparent=True, ipv6=True, resolver="nameserver 127.0.0.1")
    for words in ("127.0.0.1:3128", "transparent   on", "IPv4 and IPv6", "nameserver 127.0.0.1"):
        assert words in ways(here)
    assert "transparent   off" in ways(Ends(listeners=("127.0.0.1:3128",)))
    assert "only while it runs" in ways(Ends(visiting=True))
    refused = ways(Ends(peers=("db:5432 at 127.0.0.2",), refused=(EVIL,)))
    assert "db:5432 at 127.0.0.2" in refused
    assert "owned" in refused
    assert "\x1b" not in refused


async def test_a_leak_is_said_in_red_and_evil_names_are_harmless(tmp_path: Path, cockpit: Open) -> None:
    path = cell(tmp_path)
    known = Identity(
        namespaces=(
            Namespace(kind="net", inode=1, shared=True),
            Namespace(kind=EVIL, inode=2, shared=False),
            Namespace(kind="time", inode=3, shared=True),
        ),
        hostname=EVIL,
        root=EVIL,
        seccomp=EVIL,
        full_id_map=False,
        limits=(Limit(name="memory", value="1 GiB", enforced=False, why=EVIL),),
        notes=(EVIL,),
    )
    file = path / "cell/cell.json"
    info = msgspec.json.decode(file.read_bytes(), type=CellInfo)
    file.write_bytes(records.encode(msgspec.structs.replace(info, identity=known)))
    async with cockpit(tmp_path / "jobs", size=(200, 60)) as hud:
        await hud.press("5")
        assert "shares net" in hud.screen
        await hud.press("1", "enter", "5")
        assert "1 shared with the machine: a leak" in hud.screen
        assert "shared, as in a container" in hud.screen
        assert "not enforced" in hud.screen
        assert "only the own id is mapped" in hud.screen
        assert "\x1b" not in hud.screen
        assert "\u202e" not in hud.screen
        file.write_text("{")
        await hud.look()
        assert "a leak" in hud.screen, "torn at the moment: what was known is still true"
        file.unlink()
        await hud.look()
