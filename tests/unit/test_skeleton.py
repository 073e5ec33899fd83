"""The accounts and texts of a composed system root agree with each other."""

from __future__ import annotations

from pathlib import Path

from cell.substrate import skeleton


def lines(name: str) -> list[list[str]]:
    return [line.split(":") for line in skeleton._TEXTS[name].splitlines()]


def test_accounts_are_whole_and_unique() -> None:
    passwd = lines("passwd")
    assert {len(fields) for fields in passwd} == {7}
    assert len({fields[0] for fields in passwd}) == len({fields[2] for fields in passwd}) == len(passwd)
    assert all(fields[5].startswith("/") and fields[6].startswith("/") for fields in passwd)
    assert passwd[0] == ["root", "x", "0", "0", "", "/root", "/bin/bash"]
    assert ["agent", "x", "1000", "1000", "", "/home/agent", "/bin/bash"] in passwd
    assert ["nobody", "x", "65534", "65534", "", "/nonexistent", "/usr/sbin/nologin"] in passwd


def test_every_primary_group_exists_and_nobody_is_a_member_of_another() -> None:
    groups = lines("group")
    assert {len(fields) for fields in groups} == {4}
    numbers = {fields[2]: fields[0] for fields in groups}
    assert len(numbers) == len(groups)
    assert (numbers["0"], numbers["50"], numbers["1000"]) == ("root", "staff", "agent")
    assert {fields[3] for fields in lines("passwd")} <= set(numbers)
    assert {fields[3] for fields in groups} == {""}


def test_no_password_is_set() -> None:
    assert {fields[1] for fields in lines("shadow")} == {"*"}
    assert [fields[0] for fields in lines("shadow")] == [fields[0] for fields in lines("passwd")]
    assert [fields[0] for fields in lines("gshadow")] == [fields[0] for fields in lines("group")]


def test_names_are_looked_up_in_files_and_what_names_the_machine_is_empty() -> None:
    sources = dict(lines("nsswitch.conf"))
    assert sources.pop("hosts") == " files dns", "the world's own name server, where it has one"
    assert set(sources.values()) == {" files"}
    for name in ("hosts", "hostname", "resolv.conf", "machine-id", "fstab"):
        assert skeleton._TEXTS[name] == ""


def test_nothing_of_the_operator_is_on_the_list() -> None:
    theirs = {"passwd", "shadow", "group", "ssh", "sudoers", "sudoers.d", "cron.d", "crontab", "hosts"}
    theirs |= {"hostname", "resolv.conf", "machine-id", "ssl", "ssl/private", "docker", "apt", "pip.conf"}
    assert not theirs & set(skeleton._COPIED.split())


def test_program_folders_are_real_folders_here() -> None:
    found = skeleton.program_folders()
    assert "usr" in found
    assert not any(Path("/", name).is_symlink() for name in found)


def test_the_fingerprint_is_stable() -> None:
    assert skeleton._fingerprint() == skeleton._fingerprint()
