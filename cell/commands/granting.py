"""`cell grant`: access for a colleague, as a text that they paste."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import time
from typing import Any

from cell import cells
from cell.errors import UsageError
from cell.plain import plain

from .operating import on_cell
from .saying import say


def grant(args: argparse.Namespace) -> int:
    """Grant, list or revoke access to a cell."""
    if args.list or args.revoke:
        return _others(args)
    if args.for_sec is None:
        raise UsageError("say for how long: --for 2h")

    async def ask(link: Any, trial: Any) -> tuple[dict[str, Any], str, str]:
        known = (cells.runtime_of(trial) / "known_hosts").read_text("ascii")
        given = await link.call(
            "grant", principal=args.principal, for_sec=args.for_sec, sessions=args.sessions, who=args.who
        )
        return given, trial.id, known

    given, cell, known = on_cell(args, ask)
    via = f"ssh {shlex.quote(args.host or socket.getfqdn())}"
    sudo = "sudo -n " if os.environ.get("SUDO_USER") else ""
    proxy = f"{via} {sudo}cell connect {cell} {given['principal']}"
    if args.json:
        say(json.dumps({**given, "cell": cell, "known_hosts": known, "proxy_command": proxy}))
    else:
        say(snippet(given, cell, known, proxy))
    return 0


_WATCHES = """\
# What is inside writes what it likes: `cat -v` shows its control characters instead of obeying them. Without
# it they reach your terminal. Where `cell` is installed, `cell attach CELL --watch` draws it safely."""
_DRIVES = """\
# ssh alone hands what is inside to your terminal as it is, control characters and all: use one that you
# can close. Where `cell` is installed, `cell attach CELL` draws the screen safely."""


def snippet(given: dict[str, Any], cell: str, known: str, proxy: str) -> str:
    """Return the text a colleague pastes into a POSIX shell: a key, a configuration, what to do."""
    until = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(given["until"]))
    sessions = given["sessions"]
    about = f"{given['principal']} of cell {cell}, until {until}" + (
        f", sessions {', '.join(map(str, sessions))} only" if sessions is not None else ""
    )
    first = sessions[0] if sessions else 1
    drives = given["principal"] == "operator"
    act = f"ssh -t -F $d/ssh_config {cell} 'attach {first}'"
    if not drives:
        act = f"ssh -F $d/ssh_config {cell} 'watch {first}' | cat -v"
    unsafe = _DRIVES if drives else _WATCHES
    return f"""\
# For {plain(given["holder"])}: {about} ({given["id"]}).
# Paste all of it into a shell. It holds a private key: hand it on as you would a password.
# Your ssh must reach the machine of the ProxyCommand as somebody who may read the cell's socket there: root,
# or with `sudo -n`; and `cell` must be on the PATH of a command that ssh runs.
{unsafe}
d="$HOME/.config/cell/{cell}-{given["id"]}"
mkdir -p "$d" && chmod 700 "$d" && umask 077
cat > "$d/key" <<'END'
{given["key"].strip()}
END
cat > "$d/known_hosts" <<'END'
{known.strip()}
END
cat > "$d/ssh_config" <<END
Host {cell}
  HostName cell
  User {given["principal"]}
  IdentityFile "$d/key"
  IdentitiesOnly yes
  UserKnownHostsFile "$d/known_hosts"
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
  Ciphers aes128-gcm@openssh.com
  ForwardAgent no
  LogLevel ERROR
  ProxyCommand {proxy}
END
echo "{act}"
"""


def _others(args: argparse.Namespace) -> int:
    async def ask(link: Any, trial: Any) -> Any:
        if args.revoke:
            return await link.call("revoke", grant=args.revoke)
        return (await link.call("status"))["grants"]

    for one in on_cell(args, ask):
        if args.json:
            say(json.dumps(one))
            continue
        until = time.strftime("%H:%M:%S", time.localtime(one["until"]))
        which = "all" if one["sessions"] is None else ",".join(map(str, one["sessions"]))
        ended = "revoked " if args.revoke else ""
        say(
            f"{ended}{one['id']:<4} {one['principal']:<9} {plain(one['holder'], limit=40):<16} until {until}"
            f"  sessions {which}  {one['connections']} open"
        )
    return 0
