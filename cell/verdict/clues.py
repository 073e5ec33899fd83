"""Clues in what a verifier or an agent printed: commands and names that were not there. Pure.

The text comes from inside and may say anything, so a clue is a reason to doubt a world, never alone
a reason to accuse somebody.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from cell.plain import plain

# What test scripts run *by*; any other missing command may be what the agent was asked to provide.
TOOLS: Final = frozenset(
    {
        *(
            "apk",
            "apt",
            "apt-get",
            "bash",
            "bun",
            "cargo",
            "cmake",
            "conda",
            "curl",
            "diff",
            "dnf",
            "gcc",
            "git",
        ),
        *(
            "go",
            "jq",
            "make",
            "node",
            "npm",
            "npx",
            "patch",
            "pip",
            "pip3",
            "pipx",
            "pnpm",
            "poetry",
            "pytest",
        ),
        *("python", "python3", "sudo", "tar", "unzip", "uv", "uvx", "wget", "yarn", "yum"),
    }
)
_MISSING: Final = re.compile(
    r": line \d+: (?P<path>/[\w.+/-]+): (?:No such file or directory|cannot execute: .*)\s*$|"
    r"error while loading shared libraries: (?P<library>[\w.+-]+): cannot open|"
    r"(?:^|[:\s])(?P<bash>[\w.+/-]+): (?:command )?not found\s*$|"
    r"env: ['‘]?(?P<env>[\w.+-]+)['’]?: No such file or directory"
)
_UNRESOLVED: Final = re.compile(
    r"could not resolve|couldn't resolve|temporary failure (?:in name resolution|resolving)|"
    r"name or service not known|no address associated with hostname|network is unreachable|"
    r"getaddrinfo (?:EAI_AGAIN|ENOTFOUND|failed)|dns error|failed to lookup address|"
    r"name resolution (?:failed|error)|unable to resolve",
    re.IGNORECASE,
)


class Missing(msgspec.Struct, frozen=True):
    """A command the output says is not there, and the line (from 1) that says it."""

    command: str
    line: int
    text: str


def missing_commands(output: str, first_line: int = 1) -> tuple[Missing, ...]:
    """Find `x: command not found`, as bash, dash, busybox and env say it, and libraries, each once."""
    found: dict[str, Missing] = {}
    for number, text in enumerate(output.splitlines(), first_line):
        if len(text) < 1000 and (match := _MISSING.search(text)):
            command = (match["bash"] or match["env"] or match["library"] or match["path"]).rpartition("/")[2]
            if command:
                found.setdefault(command, Missing(command, number, plain(text, limit=200)))
    return tuple(found.values())


def unresolved(output: str, first_line: int = 1, *, most: int = 3) -> tuple[tuple[int, str], ...]:
    """Find lines (number and text) that say a name was not resolved or the network not reached.

    A refused connection is none: that is how a service of the agent that does not run looks too.
    """
    found: list[tuple[int, str]] = []
    for number, text in enumerate(output.splitlines(), first_line):
        if len(found) < most and _UNRESOLVED.search(text[:4000]):
            found.append((number, plain(text, limit=200)))
    return tuple(found)
