"""The filter as a truth table, run by a small interpreter of classic BPF."""

from __future__ import annotations

import json
import struct
from functools import cache
from pathlib import Path

import pytest

from cell import seccomp
from cell.seccomp import docker_filter, machines

DATA = json.loads((Path(seccomp.__file__).parent / "data" / "seccomp.json").read_text())
ALLOW, EPERM, ENOSYS, KILL = "allow", "EPERM", "ENOSYS", "kill"
RESULTS = {0x7FFF0000: ALLOW, 0x00050001: EPERM, 0x00050026: ENOSYS, 0x80000000: KILL}
NEWUSER, NEWNS, NEWNET, NEWTIME, THREAD = 0x10000000, 0x20000, 0x40000000, 0x80, 0x3D0F00
ABIS = [
    (machine, int(audit, 16), abi)
    for machine, groups in DATA["machines"].items()
    for audit, abis in groups.items()
    for abi in abis
]


@cache
def instructions(machine: str, allow_userns: bool) -> list[tuple[int, int, int, int]]:
    return list(struct.iter_unpack("=HBBI", docker_filter(machine, allow_userns=allow_userns)))


def run(machine: str, audit: int, number: int, *arguments: int, allow_userns: bool = False) -> str:
    padded = (*arguments, *[0] * (6 - len(arguments)))
    seen = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, audit, 0, *padded)
    code, at, accumulator, steps = instructions(machine, allow_userns), 0, 0, 0
    while True:
        operation, jump_true, jump_false, k = code[at]
        at, steps = at + 1, steps + 1
        assert steps < 64, "not a balanced search"
        if operation == 0x20:
            assert k % 4 == 0
            accumulator = struct.unpack_from("<I", seen, k)[0]
        elif operation == 0x05:
            at += k
        elif operation == 0x06:
            return RESULTS[k]
        else:
            holds = {0x15: accumulator == k, 0x35: accumulator >= k, 0x45: bool(accumulator & k)}[operation]
            at += jump_true if holds else jump_false


def call(machine: str, audit: int, abi: str, name: str, *arguments: int, allow_userns: bool = False) -> str:
    lists = DATA["abis"][abi]
    numbers = {**lists["allow"], **lists["conditional"], "unshare": lists["unshare"]}
    return run(machine, audit, numbers[name], *arguments, allow_userns=allow_userns)


def test_both_machines_have_one_that_the_kernel_takes() -> None:
    assert machines() == ("x86_64", "aarch64")
    for machine in machines():
        program = docker_filter(machine)
        assert len(program) % 8 == 0
        assert len(program) // 8 <= 4096
    with pytest.raises(KeyError):
        docker_filter("riscv64")


@pytest.mark.parametrize("machine", machines())
def test_every_jump_lands_inside_and_every_path_returns(machine: str) -> None:
    code = instructions(machine, False)
    reached = {0}
    for at, (operation, jump_true, jump_false, k) in enumerate(code):
        assert at in reached, "dead code"
        if operation in {0x15, 0x35, 0x45}:
            reached |= {at + 1 + jump_true, at + 1 + jump_false}
        elif operation == 0x05:
            reached.add(at + 1 + k)
        elif operation != 0x06:
            reached.add(at + 1)
    assert max(reached) < len(code)


@pytest.mark.parametrize(("machine", "audit", "abi"), ABIS)
def test_every_number_does_what_the_list_says(machine: str, audit: int, abi: str) -> None:
    lists = DATA["abis"][abi]
    allowed, special = set(lists["allow"].values()), set(lists["conditional"].values())
    assert not allowed & special
    first = 0x40000000 if abi == "x32" else 0
    for number in range(first, first + 1200):
        if number in special:
            continue
        expected = ALLOW if number in allowed else EPERM if number < lists["newest"] else ENOSYS
        assert run(machine, audit, number) == expected, number
    assert run(machine, audit, 0xFFFFFFFF) == ENOSYS


def test_unknown_architectures_are_killed() -> None:
    assert run("x86_64", 0xC00000B7, 0) == KILL
    assert run("aarch64", 0xC000003E, 0) == KILL


@pytest.mark.parametrize(("machine", "audit", "abi"), ABIS)
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        # plain processes and threads, no namespace
        ("clone", (17,), ALLOW),
        ("clone", (THREAD,), ALLOW),
        ("clone", (17 | NEWUSER,), EPERM),
        ("clone", (17 | NEWNS,), EPERM),
        ("clone", (17 | NEWNET | NEWUSER,), EPERM),
        ("clone3", (), ENOSYS),
        ("unshare", (NEWUSER,), EPERM),
        ("unshare", (0,), EPERM),
        # families: unix, inet, netlink, packet are Docker's; ALG and VSOCK are not
        ("socket", (1,), ALLOW),
        ("socket", (2,), ALLOW),
        ("socket", (16,), ALLOW),
        ("socket", (17,), ALLOW),
        ("socket", (38,), EPERM),
        ("socket", (40,), EPERM),
        ("socket", (39,), ALLOW),
        ("socket", (44,), ALLOW),
        # personality
        ("personality", (0,), ALLOW),
        ("personality", (8,), ALLOW),
        ("personality", (0x20000,), ALLOW),
        ("personality", (0x20008,), ALLOW),
        ("personality", (0xFFFFFFFF,), ALLOW),
        ("personality", (0x40000,), EPERM),  # ADDR_NO_RANDOMIZE
        ("personality", (1,), EPERM),
        # what the default capabilities add
        ("chroot", (), ALLOW),
        ("ptrace", (), ALLOW),
    ],
)
def test_arguments(
    machine: str, audit: int, abi: str, name: str, arguments: tuple[int, ...], expected: str
) -> None:
    assert call(machine, audit, abi, name, *arguments) == expected


@pytest.mark.parametrize(("machine", "audit", "abi"), [each for each in ABIS if each[2] in DATA["machines"]])
def test_the_upper_half_of_an_argument_hides_nothing(machine: str, audit: int, abi: str) -> None:
    for family in (1, 38, 40):
        assert call(machine, audit, abi, "socket", family | 1 << 32) == EPERM
    assert call(machine, audit, abi, "clone", 17 | 1 << 32) == ALLOW
    assert call(machine, audit, abi, "clone", 17 | 1 << 32 | NEWUSER) == EPERM


def test_32_bit_x86_makes_no_socket_behind_a_pointer() -> None:
    assert call("x86_64", 0x40000003, "i386", "socketcall", 1, 0x1000) == EPERM
    assert call("x86_64", 0x40000003, "i386", "socketcall", 3, 0x1000) == ALLOW


@pytest.mark.parametrize("machine", machines())
@pytest.mark.parametrize(
    "name",
    ["io_uring_setup", "keyctl", "add_key", "request_key", "mount", "umount2", "bpf", "setns", "pivot_root",
     "open_by_handle_at", "userfaultfd", "kexec_load", "init_module", "perf_event_open", "fsopen",
     "move_mount", "swapon", "reboot", "syslog", "acct", "settimeofday", "sethostname", "pidfd_getfd",
     "process_madvise"],
)  # fmt: skip
def test_privileged_calls_are_in_no_list(machine: str, name: str) -> None:
    for abis in DATA["machines"][machine].values():
        for abi in abis:
            assert name not in DATA["abis"][abi]["allow"]
            assert name not in DATA["abis"][abi]["conditional"]


def test_known_numbers() -> None:
    x86, arm = 0xC000003E, 0xC00000B7
    for number in (425, 426, 427, 248, 249, 250, 165, 321, 308):  # io_uring_*, *_key, mount, bpf, setns
        assert run("x86_64", x86, number) == EPERM
    for number in (425, 426, 427, 217, 218, 219, 40, 280, 268):
        assert run("aarch64", arm, number) == EPERM
    for number in (0, 1, 59, 257, 322, 334, 439, 161):
        assert run("x86_64", x86, number) == ALLOW
    for number in (63, 64, 221, 56, 281, 293, 439, 51):
        assert run("aarch64", arm, number) == ALLOW


@pytest.mark.parametrize(("machine", "audit", "abi"), ABIS)
def test_user_namespaces_may_be_allowed_and_nothing_else(machine: str, audit: int, abi: str) -> None:
    table = [("clone", 17 | NEWUSER, ALLOW), ("clone", 17 | NEWUSER | NEWNET, EPERM), ("clone", 17, ALLOW)]
    table += [("unshare", NEWUSER, ALLOW), ("unshare", NEWNS, EPERM), ("unshare", NEWUSER | NEWTIME, EPERM)]
    table += [("clone3", 0, ENOSYS), ("socket", 40, EPERM)]
    for name, argument, expected in table:
        assert call(machine, audit, abi, name, argument, allow_userns=True) == expected
