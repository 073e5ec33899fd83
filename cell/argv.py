"""What a process inside is given, decided in pure code: environment, user, hosts file, id map."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cell.errors import TaskError
from cell.plain import plain

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MAX_ID = (1 << 31) - 1  # Docker's own bound

IdMap = tuple[tuple[int, int, int], ...]  # first id inside, first id outside, count
_Variables = Mapping[str, str] | Iterable[tuple[str, str]]


@dataclass(frozen=True)
class User:
    """Who a process runs as. `groups` are all supplementary groups, the primary `gid` first."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str


def hosts_file(hostname: str, peers: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return `/etc/hosts` of a world that has only its loopback: localhost, its own name, its peers.

    The name is on 127.0.0.1, so that a service bound to it is found at localhost as well. `peers` are
    pairs of name and address. Raises ValueError for what is not a host name.
    """
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,62}[A-Za-z0-9])?", hostname):
        raise ValueError(f"not a host name: {plain(hostname, limit=80)}")
    return (
        "127.0.0.1\tlocalhost\n"
        "::1\tlocalhost ip6-localhost ip6-loopback\n"
        "fe00::0\tip6-localnet\n"
        "ff00::0\tip6-mcastprefix\n"
        "ff02::1\tip6-allnodes\n"
        "ff02::2\tip6-allrouters\n"
        + (f"127.0.0.1\t{hostname}\n" if hostname != "localhost" else "")
        + "".join(f"{address}\t{name}\n" for name, address in dict.fromkeys(peers))
    ).encode()


def proxy_environment(port: int, direct: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables that lead programs to a proxy on the loopback (promises N2, N9).

    Both spellings: curl reads only the small `http_proxy`, some read only the large ones. `direct` are
    peers; each stands by itself in `no_proxy`, which is a literal list to most clients (FACTS).
    """
    way, around = f"http://127.0.0.1:{port}", ",".join(("localhost", "127.0.0.1", "::1", *direct))
    small = {"http_proxy": way, "https_proxy": way, "no_proxy": around}
    return small | {name.upper(): value for name, value in small.items()}


def phase_environment(
    image_env: _Variables,
    task_env: _Variables,
    phase_env: _Variables,
    *,
    home: str,
    user: str,
    term: str | None = None,
    extra: _Variables = (),
) -> dict[str, str]:
    """Return the exact environment of a process: a later source overrides an earlier one.

    PATH (Docker's default), the image's, `[environment].env`, the phase's `env`; HOME and, with a
    terminal, TERM where none of those declares them; then what the caller passes. Nothing else.

    Raises TaskError for a name that is empty or holds `=` or NUL, and for a value with NUL; `user`
    only says whose environment it is.
    """
    found = {"PATH": DEFAULT_PATH}
    for source in (image_env, task_env, phase_env):
        found.update(_checked(source, user))
    found.setdefault("HOME", home)
    if term is not None:
        found.setdefault("TERM", term)
    found.update(_checked(extra, user))
    return found


def parse_id_map(text: str) -> IdMap:
    """Parse `/proc/PID/uid_map`: (first id inside, first id outside, count) for each line.

    Raises ValueError for anything else.
    """
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) != 3 or not all(field.isascii() and field.isdigit() for field in fields):
            raise ValueError(f"not a line of an id map: {plain(line, limit=80)}")
        inside, outside, count = map(int, fields)
        found.append((inside, outside, count))
    return tuple(found)


def resolve_user(spec: str, passwd: bytes, group: bytes) -> User:
    """Resolve `user[:group]`, names or numbers, from the world's own files, as Docker does.

    - A number is always an id, also where a user has it as name; one that passwd does not know has
      group 0, home `/` and no supplementary groups. An empty user is id 0.
    - Without an explicit group: the group of passwd, and every group that lists the user's name.
      With one: that group alone.
    - The first fitting line counts; malformed lines are skipped.

    Raises LookupError, with a message, for a name that is not there or an id above 2147483647.
    """
    user_text, _, rest = spec.partition(":")
    group_text = rest.partition(":")[0]
    wanted = _number(user_text) if user_text else 0
    account = next(
        (line for line in _accounts(passwd) if _fits(line.name, line.uid, user_text, wanted)), None
    )
    if account is None and wanted is None:
        raise LookupError(f'no user "{plain(user_text, limit=80)}" in /etc/passwd')
    if account is None:
        account = User(user_text or "root", _bounded("user", wanted or 0), 0, (), "/", "/bin/sh")
        listed = ""
    else:
        listed = account.name
    gid, more = account.gid, tuple[int, ...]()
    if group_text:
        gid = _resolve_group(group_text, group)
    elif listed:
        more = tuple(line.gid for line in _groups(group) if listed in line.members)
    groups = tuple(dict.fromkeys((gid, *more)))
    return User(account.name, account.uid, gid, groups, account.home, account.shell)


@dataclass(frozen=True)
class _Group:
    name: str
    gid: int
    members: tuple[str, ...]


def _checked(source: _Variables, user: str) -> Iterator[tuple[str, str]]:
    for name, value in source.items() if isinstance(source, Mapping) else source:
        whose = f"in the environment of {plain(user, limit=60)}"
        shown = f"env.{plain(name, limit=80)}"
        if not name or "=" in name or "\0" in name:
            raise TaskError("task.toml", shown, f"a name must not be empty nor hold = or NUL ({whose})")
        if "\0" in value:
            raise TaskError("task.toml", shown, f"a value must not hold NUL ({whose})")
        yield name, value


def _number(text: str) -> int | None:
    """Return the number `text` spells as Go's Atoi reads it, None for a name."""
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        return None
    return int(text) if len(text) <= 20 else MAX_ID + 1


def _bounded(what: str, number: int) -> int:
    if not 0 <= number <= MAX_ID:
        raise LookupError(f"the {what} id must be from 0 to {MAX_ID}")
    return number


def _fits(name: str, number: int, text: str, wanted: int | None) -> bool:
    return name == text if wanted is None else number == wanted


def _resolve_group(text: str, group: bytes) -> int:
    wanted = _number(text)
    for line in _groups(group):
        if _fits(line.name, line.gid, text, wanted):
            return line.gid
    if wanted is None:
        raise LookupError(f'no group "{plain(text, limit=80)}" in /etc/group')
    return _bounded("group", wanted)


def _accounts(passwd: bytes) -> Iterator[User]:
    for fields in _lines(passwd, least=4):
        uid, gid = _file_id(fields[2]), _file_id(fields[3])
        if uid is not None and gid is not None:
            home, shell = (fields + [""] * 3)[5:7]
            yield User(fields[0], uid, gid, (), home or "/", shell or "/bin/sh")


def _groups(group: bytes) -> Iterator[_Group]:
    for fields in _lines(group, least=3):
        gid = _file_id(fields[2])
        if gid is not None:
            members = fields[3].split(",") if len(fields) > 3 else []
            yield _Group(fields[0], gid, tuple(member.strip() for member in members))


def _lines(data: bytes, *, least: int) -> Iterator[list[str]]:
    for line in data.split(b"\n"):
        fields = line.decode("utf-8", "surrogateescape").strip().split(":")
        if len(fields) >= least and fields[0] and not fields[0].startswith("#"):
            yield fields


def _file_id(text: str) -> int | None:
    number = _number(text)
    return number if number is not None and 0 <= number <= MAX_ID else None
