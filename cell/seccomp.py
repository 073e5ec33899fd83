"""Docker's default system-call filter as a classic BPF program. Pure: bytes out, nothing installed.

The filter of the capabilities that a plain `docker run` gives (mask 0xa80425fb): what the profile does not
list is EPERM, what is newer than everything it lists is ENOSYS (so that libraries fall back), `clone3` is
ENOSYS because its flags cannot be seen, `clone` may make no namespace. The lists with their numbers are
`data/seccomp.json`, written by `tools/seccomp/generate`. One difference from Docker: the 32-bit x86
`socketcall` may not make a socket, because its address family is behind a pointer, and AF_VSOCK reaches the
machine outside from any network namespace.

    program = docker_filter("x86_64")      # struct sock_filter[], for seccomp(SECCOMP_SET_MODE_FILTER)
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

EPERM, ENOSYS = 1, 38
CLONE_NEWUSER = 0x1000_0000
NAMESPACE_FLAGS = 0x7E02_0000
NEW_TIME_NAMESPACE = 0x80  # only unshare and clone3 read it: in clone it is part of the exit signal
X32_BIT = 0x4000_0000

_DATA = Path(__file__).parent / "data" / "seccomp.json"
_NR, _ARCH, _ARGS = 0, 4, 16  # offsets in struct seccomp_data; both machines are little-endian
_LD, _JA, _JEQ, _JGE, _JSET, _RET = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06
_KILL, _ERRNO, _ALLOW = 0x8000_0000, 0x0005_0000, 0x7FFF_0000

Instruction = tuple[int, int, int, int]
Code = list[Instruction]
Segments = list[tuple[int, Code]]


def machines() -> tuple[str, ...]:
    """The machines (`uname -m`) there is a filter for."""
    return tuple(_data()["machines"])


@cache
def docker_filter(machine: str, *, allow_userns: bool = False) -> bytes:
    """The program for a machine as `uname -m` names it, 8 bytes an instruction, ready for the kernel.

    It covers the 32-bit calls of the machine too (i386 and x32, or arm). `allow_userns` lets `clone` and
    `unshare` make user namespaces, and only those. Raises KeyError for a machine without a list.
    """
    data = _data()
    code: Code = [(_LD, 0, 0, _ARCH)]
    for audit, abis in data["machines"][machine].items():
        block: Code = [(_LD, 0, 0, _NR)]
        block += _tree(_joined(_segments(data["abis"][abi], data["rules"], allow_userns) for abi in abis))
        code += _unless((_JEQ, 0, 0, int(audit, 16)), block)
    code.append(_return(_KILL))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


@cache
def _data() -> dict[str, Any]:
    return dict(json.loads(_DATA.read_text()))


def _return(action: int) -> Instruction:
    return (_RET, 0, 0, action)


def _segments(abi: dict[str, Any], rules: dict[str, Any], allow_userns: bool) -> Segments:
    """(first number, what to do from there on), covering every number from 0 or the x32 bit."""
    does: dict[int, Code] = {number: [_return(_ALLOW)] for number in abi["allow"].values()}
    for name, number in abi["conditional"].items():
        does[number] = _rule(rules[name], allow_userns)
    if allow_userns:
        does[abi["unshare"]] = _no_flags((NAMESPACE_FLAGS | NEW_TIME_NAMESPACE) & ~CLONE_NEWUSER)
    refuse, unknown = [_return(_ERRNO | EPERM)], [_return(_ERRNO | ENOSYS)]
    segments: Segments = [(X32_BIT if abi["newest"] > X32_BIT else 0, refuse)]
    for number in sorted(does):
        segments += [(number, does[number]), (number + 1, refuse if number < abi["newest"] else unknown)]
    return segments


def _rule(rule: dict[str, Any], allow_userns: bool) -> Code:
    if "errno" in rule:
        return [_return(_ERRNO | rule["errno"])]
    if "none_of" in rule:
        return _no_flags(rule["none_of"] & ~CLONE_NEWUSER if allow_userns else rule["none_of"])
    segments: Segments = [(0, [_return(_ERRNO | EPERM)])]
    for low, high in rule["within"]:
        segments += [(low, [_return(_ALLOW)]), (high + 1, [_return(_ERRNO | EPERM)])]
    # The kernel reads an int, the filter sees 64 bits: a set upper half must not get past the comparison.
    upper: Code = [(_LD, 0, 0, _ARGS + 4), (_JEQ, 1, 0, 0), _return(_ERRNO | EPERM), (_LD, 0, 0, _ARGS)]
    return upper + _tree(_joined([segments]))


def _no_flags(mask: int) -> Code:
    return [(_LD, 0, 0, _ARGS), (_JSET, 0, 1, mask), _return(_ERRNO | EPERM), _return(_ALLOW)]


def _joined(parts: Iterable[Segments]) -> Segments:
    """One list, sorted, later parts above earlier ones, neighbours that do the same merged."""
    merged: Segments = []
    for start, code in (segment for part in parts for segment in part):
        if merged and merged[-1][0] == start:
            merged.pop()
        if start <= 0xFFFF_FFFF and (not merged or merged[-1][1] != code):
            merged.append((start, code))
    return merged


def _tree(segments: Segments) -> Code:
    """A balanced search for the segment the accumulator is in."""
    if len(segments) == 1:
        return segments[0][1]
    middle = len(segments) // 2
    below = _tree(segments[:middle])
    return _unless((_JGE, 0, 0, segments[middle][0]), below, when=False) + _tree(segments[middle:])


def _unless(test: Instruction, code: Code, *, when: bool = True) -> Code:
    """The code, jumped over unless the test comes out as `when`. A conditional jump reaches 255."""
    operation, _, _, value = test
    if len(code) < 256:
        over = len(code)
        return [(operation, 0, over, value) if when else (operation, over, 0, value), *code]
    return [(operation, 0, 1, value) if not when else (operation, 1, 0, value), (_JA, 0, 0, len(code)), *code]
