"""Section D: which spelling of a host is which host (SPEC N3); allow = example.com, *.pkg.example, 203.0.113.7:8443."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from world import LiveCell

from cell import cli

from .bench import answered, asking, connecting, conversed, direct
from .internet import PUBLIC, Audit, Internet, spec

pytestmark = pytest.mark.live
LIST = ("example.com", "*.pkg.example", "203.0.113.7:8443")
Worlds = Callable[..., LiveCell]


def both(*authorities: str) -> list[list[Any]]:
    """A tunnel and a request to each."""
    return [talk for text in authorities for talk in (connecting(text), asking(text))]


def refused(worlds: Worlds, internet: Internet, *talks: list[Any], status: int = 403) -> list[dict[str, Any]]:
    """The records of talks that all are answered with this status, and reach nobody."""
    cell = worlds("allowlist", *LIST)
    audit, before = Audit(cell), internet.visits()
    told = conversed(cell, *talks)
    assert [answered(one) for one in told] == [status] * len(talks), told
    assert {one["how"] for one in told} == {"eof"}
    assert internet.visits() == before, "nobody was asked, and nobody was called"
    records = audit.all()
    assert len(records) == len(talks), records
    for one in records:
        assert (one["allowed"], one["phase"], one["way"], one["status"]) == (False, "agent", "proxy", status)
        assert "converse.py" in one["command"] and one["pid"] and one["session"], one
        assert one["rule"] and one["reason"], one
    assert [end["status"] for end in audit.ends(*records)] == [status] * len(talks)
    return records


def passed(cell: LiveCell, internet: Internet, *talks: list[Any]) -> list[dict[str, Any]]:
    """The control: records of talks that all are answered by somebody of the internet."""
    audit, before = Audit(cell), len(internet.far.came)
    told = conversed(cell, *talks)
    assert all("hello" in one["got"] for one in told), told
    assert len(internet.far.came) == before + len(talks)
    records = [one for one in audit.all() if one["way"] != "name"]
    assert all(one["allowed"] for one in records) and len(records) == len(talks), records
    return records


def denied_by_name(worlds: Worlds, internet: Internet, host: str) -> None:
    for one in refused(worlds, internet, *both(host, f"{host}:443", host.upper(), f"{host}.")):
        assert one["host"] == host.lower()
        assert one["rule"] == "allowlist"
        assert "is not in allowed_hosts of [agent]" in one["reason"]
    # and by no proxy
    cell = worlds("allowlist", *LIST)
    audit, before = Audit(cell), internet.visits()
    (told,) = conversed(cell, direct(host, 80))
    assert (told["got"], told["how"]) == ("", "reset")
    assert internet.visits() == before
    # a name has two addresses, and the second is tried when the first was reset at once
    records = audit.all(way="transparent")
    assert 1 <= len(records) <= 2
    for one in records:
        assert (one["host"], one["port"], one["allowed"], one["rule"]) == (host, 80, False, "allowlist")
        assert one["phase"] == "agent" and "converse.py" in one["command"]
    passed(worlds("public"), internet, *both(host), direct(host, 80))


def test_050_n3_a_name_that_ends_like_an_allowed_one(worlds: Worlds, internet: Internet) -> None:
    denied_by_name(worlds, internet, "evil-example.com")


def test_051_n3_a_name_that_begins_like_an_allowed_one(worlds: Worlds, internet: Internet) -> None:
    denied_by_name(worlds, internet, "example.com.evil.net")


def test_052_n3_an_entry_is_no_entry_for_what_is_below_it(worlds: Worlds, internet: Internet) -> None:
    denied_by_name(worlds, internet, "sub.example.com")
    denied_by_name(worlds, internet, "pkg.example")
    (one, other) = passed(worlds("allowlist", *LIST), internet, *both("a.b.pkg.example"))
    assert one["rule"] == other["rule"] == "*.pkg.example"


def test_054_n3_one_host_has_one_spelling_in_the_record(worlds: Worlds, internet: Internet) -> None:
    cell = worlds("allowlist", *LIST)
    talks = [
        *both("EXAMPLE.com", "example.com.", "Example.Com.:80"),
        direct("EXAMPLE.com", 80),
        direct("example.com.", 80),
    ]
    records = passed(cell, internet, *talks)
    assert {(one["host"], one["rule"]) for one in records} == {("example.com", "example.com")}
    assert internet.far.came[-1][0] == PUBLIC


def malformed(worlds: Worlds, internet: Internet, *authorities: str) -> None:
    for one in refused(worlds, internet, *both(*authorities), status=400):
        assert (one["rule"], one["host"]) == ("malformed", "")
    passed(worlds("allowlist", *LIST), internet, *both("example.com"))


LONG = ".".join(["a" * 49] * 5)  # and with .com it has 253 characters


def test_055_empty_labels_and_names_that_are_too_long(worlds: Worlds, internet: Internet) -> None:
    malformed(
        worlds, internet,
        "example.com..", ".example.com", "example..com", ".", "..", "example.com..:443", ":443", f"{LONG}.comx", f"{'a' * 64}.com",
    )  # fmt: skip
    assert len(f"{LONG}.com") == 253
    passed(worlds("public"), internet, *both(f"{LONG}.com"))


def test_056_a_nul_ends_no_name(worlds: Worlds, internet: Internet) -> None:
    malformed(
        worlds,
        internet,
        "1.2.3.4\0.example.com:443",
        "example.com\0:443",
        "\0example.com",
        "example.com:443\0",
        "127.0.0.1\0.example.com",
    )


def test_058_user_information_before_a_host(worlds: Worlds, internet: Internet) -> None:
    malformed(
        worlds, internet,
        "example.com@evil.net", "example.com:80@evil.net", "evil\\@example.com", "evil@example.com:443", "@example.com", "a:b@example.com:80",
    )  # fmt: skip


def test_060_only_a_labels_are_names(worlds: Worlds, internet: Internet) -> None:
    encoded = [
        text.encode().decode("latin-1")
        for text in (
            "bücher.example",
            "ⓔxample.com",
            "example\uff0ecom",
            "example\u3002com",
            "ｅxample.com",
            "ex\u00adample.com",
        )
    ]
    malformed(worlds, internet, *encoded, "example%2ecom", "%65xample.com")
    passed(worlds("allowlist", *LIST, "xn--bcher-kva.example"), internet, *both("xn--bcher-kva.example"))


def test_063_n4_addresses_in_other_clothes(worlds: Worlds, internet: Internet) -> None:
    records = refused(
        worlds, internet, *both("[::1]", "[::ffff:1.2.3.4]", "[::1]:443", "[::]", "[2606:4700::1]:443")
    )
    assert {one["host"] for one in records} == {"::1", "::ffff:102:304", "::", "2606:4700::1"}
    malformed(
        worlds,
        internet,
        "[::1%25x.example.com]",
        "[fe80::1%lo]",
        "[::1].example.com",
        "::1",
        "[example.com]",
        "[::1",
        "[203.0.113.7]:8443",
    )
    # what nobody may have, even where everybody is allowed
    cell, before = worlds("public"), internet.visits()
    audit = Audit(cell)
    told = conversed(
        cell, *both("[::1]", "[::ffff:93.184.216.34]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]")
    )
    assert {answered(one) for one in told} == {403}, told
    assert internet.visits() == before
    assert {one["rule"] for one in audit.all()} >= {"address: loopback"}
    passed(cell, internet, *both("[2606:4700::1]", "[2606:4700::1]:443"))


def test_064_an_address_is_its_own_entry(worlds: Worlds, internet: Internet) -> None:
    records = refused(
        worlds,
        internet,
        *both("203.0.113.7", "203.0.113.7:443", "203.0.113.8:8443", "1.1.1.1", "1.1.1.1:8443"),
    )
    assert {one["rule"] for one in records} == {"203.0.113.7:8443", "allowlist"}
    # no other spelling of an address is one
    malformed(
        worlds,
        internet,
        "3405803783:8443",
        "0xcb007107:8443",
        "203.0.28935:8443",
        "0313.0.0161.07:8443",
        "203.0.113.07:8443",
        "127.1",
        "0x7f.1",
    )
    cell = worlds("allowlist", *LIST)
    audit = Audit(cell)
    told = conversed(cell, direct("203.0.113.7", 443), direct("1.1.1.1", 80))
    assert [one["how"] for one in told] == ["reset", "reset"]
    assert {one["allowed"] for one in audit.all(way="transparent")} == {False}
    talks = [*both("203.0.113.7:8443"), direct("203.0.113.7", 8443)]
    assert {one["rule"] for one in passed(cell, internet, *talks)} == {"203.0.113.7:8443"}
    assert internet.far.came[-3:] == [("203.0.113.7", 8443)] * 3
    passed(worlds("public"), internet, *both("1.1.1.1"), direct("1.1.1.1", 80))


def test_067_n3_an_entry_has_every_port_or_its_own(worlds: Worlds, internet: Internet) -> None:
    passed(worlds("allowlist", *LIST), internet, *both("example.com:22"), direct("example.com", 22))
    cell, before = worlds("allowlist", "example.com:443"), internet.visits()
    audit = Audit(cell)
    told = conversed(cell, *both("example.com:22"), direct("example.com", 22))
    assert [answered(one) for one in told] == [403, 403, 0], told
    assert told[2]["how"] == "reset"
    records = [one for one in audit.all() if one["way"] != "name"]
    assert {(one["rule"], one["allowed"]) for one in records} == {("example.com:443", False)}
    assert len(records) >= 3
    assert "port 22 of example.com" in records[0]["reason"]
    assert internet.visits() == before
    passed(cell, internet, *both("example.com:443"), direct("example.com", 443))


def test_068_a_port_is_a_number_of_its_range(worlds: Worlds, internet: Internet) -> None:
    malformed(
        worlds,
        internet,
        *(
            f"example.com:{port}"
            for port in (
                "0",
                "99999",
                "65536",
                "+443",
                "443x",
                "-1",
                "0x50",
                "",
                "4 43",
                "٤".encode().decode("latin-1"),
            )
        ),
    )
    refused(worlds, internet, connecting("example.com", missing=True), status=400)


TASK = """version = "1.0"
[agent]
timeout_sec = 20
[verifier]
timeout_sec = 20
[environment]
{network}
"""


def planned(folder: Path, network: str) -> tuple[int, str]:
    """(exit status, what was said) of `cell plan` on a task with this network."""
    task = folder / "task"
    (task / "tests").mkdir(parents=True, exist_ok=True)
    (task / "task.toml").write_text(TASK.format(network=network))
    (task / "instruction.md").write_text("Do nothing.\n")
    (task / "tests/test.sh").write_text("#!/bin/sh\n")
    with redirect_stdout(io.StringIO()) as said, redirect_stderr(said):
        return cli.main(["plan", str(task)]), said.getvalue()


def allowing(*hosts: str) -> str:
    return f'network_mode = "allowlist"\nallowed_hosts = {list(hosts)}'.replace("'", '"')


def test_065_n3_a_wildcard_elsewhere_is_an_error_at_once(tmp_path: Path) -> None:
    for text in ("*example.com", "example.*", "ex*ample.com", "*.*.example.com", "*", "*."):
        status, said = planned(tmp_path, allowing("example.com", text))
        assert (status, "allowed_hosts" in said) == (2, True), (text, said)
    assert planned(tmp_path, allowing("example.com", "*.example.com"))[0] == 0, "control"


def test_069_what_is_not_understood_is_never_public(
    worlds: Worlds, internet: Internet, tmp_path: Path
) -> None:
    cell, before = worlds("allowlist"), internet.visits()
    audit = Audit(cell)
    told = conversed(cell, *both("example.com", "1.1.1.1"), direct("example.com", 80))
    assert [answered(one) for one in told] == [403, 403, 403, 403, 0], told
    records = [one for one in audit.all() if one["way"] != "name"]
    assert {(one["allowed"], one["rule"]) for one in records} == {(False, "allowlist")}
    assert "which is empty" in records[0]["reason"]
    assert internet.visits() == before
    for network in (
        'network_mode = "alowlist"',
        'network_mode = "Public"',
        'network_mode = ""',
        "network_mode = true",
        'network_mod = "public"\nnetwork_mode = "x"',
    ):
        status, said = planned(tmp_path, network)
        assert (status, "network_mod" in said) == (2, True), (network, said)
    for mode in ("alowlist", "", "PUBLIC"):
        with pytest.raises(AssertionError, match="network_mode must be one of"):
            internet.cell(tmp_path / f"trial-{mode}", agent_phase=spec(mode, "example.com"))
    with pytest.raises(AssertionError, match="wildcard"):
        internet.cell(tmp_path / "trial-entry", agent_phase=spec("allowlist", "*example.com"))
    assert planned(tmp_path, 'network_mode = "public"')[0] == 0, "control"
    passed(worlds("public"), internet, *both("example.com", "1.1.1.1"), direct("example.com", 80))
