"""The command line of `cell`, as a parser; what it means is in `cli`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from . import __version__
from .words import ROLES, numbers, positive, seconds


def parser() -> argparse.ArgumentParser:
    """Return the parser of `cell`; what it parses has the subcommand as `name`."""
    whole = argparse.ArgumentParser(
        prog="cell",
        description="Run AI agents in isolated worlds, and tell why each rollout ended as it did.",
        epilog="Try: sudo cell run examples/tasks -a oracle, then hudtui. "
        "Exit status: 0 all graded, 2 a task or usage error, 3 some ungraded, 130 interrupted.",
    )
    whole.add_argument("--version", action="version", version=f"cell {__version__}")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, said: str, *, cell: bool = False, examples: str = "") -> Any:
        sub = commands.add_parser(
            name,
            help=said,
            description=said,
            epilog=f"examples:\n{examples}" if examples else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(name=name)
        sub.add_argument("--jobs-dir", default="jobs", metavar="D", help="the jobs folder (default: jobs)")
        sub.add_argument("--json", action="store_true", help="one JSON object a line")
        if cell:
            sub.add_argument(
                "cell",
                metavar="CELL",
                help="a cell's id, a prefix of it, part of a task's name, or a trial folder",
            )
        return sub

    run = command("run", "Run an agent on tasks: a cell each, then a verdict each.")
    run.add_argument("tasks", nargs="+", metavar="TASKS", help="a task folder, or a folder of them")
    run.add_argument(
        "-a",
        "--agent",
        default="oracle",
        metavar="AGENT",
        help="nop, oracle, human (you: cell ssh, then cell finish), or exec:COMMAND, which gets "
        "CELL_SSH_CONFIG and CELL_INSTRUCTION",
    )
    run.add_argument(
        "--on",
        choices=["auto", "local"],
        default="auto",
        help="where cells live (this version: this machine)",
    )
    run.add_argument("-n", type=positive, default=4, metavar="N", help="rollouts at a time (default: 4)")
    run.add_argument("-k", type=positive, default=1, metavar="N", help="attempts at each task")
    run.add_argument(
        "-i", "--include", action="append", default=[], metavar="PATTERN", help="only tasks of this name"
    )
    run.add_argument(
        "-x", "--exclude", action="append", default=[], metavar="PATTERN", help="not tasks of this name"
    )
    run.add_argument("--job-name", metavar="NAME", help="the job's folder (default: the time)")
    run.add_argument(
        "--keep",
        choices=["never", "failed", "always"],
        default="never",
        help="leave cells as they were, to look at and grade again",
    )
    run.add_argument(
        "--network",
        choices=["no-network", "public"],
        help="give every phase this network, and say so in the verdict",
    )
    run.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME:PORT=HOST:PORT",
        help="hand a service of this machine to the world, by that name (also: cell.toml beside task.toml)",
    )
    run.add_argument(
        "--resolve",
        action="append",
        default=[],
        metavar="NAME[:PORT]=ADDRESS",
        help="where an allowed name is, instead of asking a resolver; also an address that is not public",
    )
    run.add_argument(
        "--learn",
        action="store_true",
        help="let everything public pass, and print the smallest list that each phase needed",
    )
    run.add_argument(
        "--write",
        action="store_true",
        help="with --learn: put what is missing into task.toml; its own entries stay",
    )
    run.add_argument(
        "--proxy-only",
        action="store_true",
        help="no transparent way: only programs that heed proxy variables get out",
    )
    run.add_argument(
        "--tls-only", action="store_true", help="cut what is not TLS on port 443, where no name would be seen"
    )
    run.add_argument(
        "--unsandboxed", action="store_true", help="DANGER: run on this machine itself, without a sandbox"
    )

    plan = command("plan", "Show what would be mounted, mapped and run; runs nothing.")
    plan.add_argument("task", metavar="TASK")
    plan.add_argument("--network", choices=["no-network", "public"])
    listing = command("ls", "List cells and trials with their state and verdict.")
    listing.add_argument(
        "paths", nargs="*", metavar="PATH", help="jobs folders, jobs or trials (default: the jobs folder)"
    )
    listing.add_argument("--means", action="store_true", help="a line for each job instead: its means")
    _said_of(command)
    command("stop", "End a living cell.", cell=True)
    keep = command("keep", "Keep a cell when its rollout ends.", cell=True)
    keep.add_argument("--release", action="store_true", help="keep it no longer")
    grade = command("grade", "Verify a kept or orphaned cell, and give its verdict anew.", cell=True)
    grade.add_argument(
        "--seal",
        action="store_true",
        help="end the agent's phase first; a runner that lives grades then, and its verdict is shown",
    )
    grade.add_argument(
        "--with",
        dest="change",
        metavar="CHANGE",
        help="beside the score, which stays, with one thing changed: timeout=x4, timeout=20m, agent=still "
        "(its processes stand still) or network=public (the verifier's)",
    )
    _who(grade)
    _beside_the_agent(command)
    _inside(command)
    _handing_on(command)
    commanded = command(
        "commands",
        "List what ran in a cell or trial: each command with its user, time and exit status.",
        cell=True,
        examples="  cell commands abc\n  cell commands abc --json | jq -r 'select(.exit != 0) | .command'",
    )
    commanded.add_argument("--output", action="store_true", help="with what each printed")
    _network(command)
    command("doctor", "Tell what this machine can do, each line with its remedy.")
    gc = command(
        "gc",
        "Remove the exports of images that are gone, and the roots of trials whose cell died.",
        examples="  cell gc\n  cell gc --finished --yes jobs/2026-01-01__12-00-00",
    )
    gc.add_argument(
        "paths", nargs="*", metavar="PATH", help="jobs folders, jobs or trials (default: the jobs folder)"
    )
    gc.add_argument(
        "--finished", action="store_true", help="also what the agents of finished trials changed (cell/root)"
    )
    gc.add_argument("--yes", action="store_true", help="do not ask")
    completion = command(
        "completion",
        "Print a script that completes commands, options and cells in your shell.",
        examples="  cell completion bash > ~/.local/share/bash-completion/completions/cell\n"
        "  cell completion fish > ~/.config/fish/completions/cell.fish\n"
        "  echo 'source <(cell completion zsh)' >> ~/.zshrc",
    )
    completion.add_argument("shell", choices=["bash", "zsh", "fish"])
    return whole


def commands() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each subcommand."""
    found = (action.choices for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(next(found))


def _network(command: Callable[..., Any]) -> None:
    """The ways out, and the look from inside."""
    egress = command(
        "egress",
        "List every attempt to leave of a cell or trial: who, where to, by which rule, and how it ended.",
        cell=True,
        examples="  cell egress abc -f\n"
        "  cell egress abc --filter 'decision:deny phase:verifier'\n"
        "  cell egress abc --json | jq -r 'select(.allowed | not) | .host' | sort | uniq -c",
    )
    egress.add_argument(
        "-f", "--follow", action="store_true", help="go on as they happen, until the cell ends"
    )
    egress.add_argument(
        "--filter",
        metavar="F",
        help="words, field~text, field:word, field>=number; space is and, | or, ! not "
        "(fields: host decision cell task phase status reason)",
    )
    allow = command(
        "allow",
        "Let one host more pass in a living cell; it is recorded, and the verdict says so.",
        cell=True,
        examples="  cell allow abc pkg.example --once\n  cell allow abc '*.mirror.example' --phase verifier",
    )
    allow.add_argument("host", metavar="HOST", help="a name, *.NAME, address or CIDR block; also with :PORT")
    allow.add_argument(
        "--phase", choices=["agent", "verifier"], help="whose way (default: the phase that is)"
    )
    allow.add_argument("--once", action="store_true", help="one connection, not all from now on")
    _who(allow)
    command(
        "fidelity",
        "Look at a living world from inside, as each phase's user: is it as declared, is the harness seen?",
        cell=True,
    )


def _said_of(command: Callable[..., Any]) -> None:
    """What a person says of a trial, and hands on of it."""
    label = command(
        "label",
        "Label a trial with a word and a note; it is kept beside the job. Without a WORD the label is shown.",
        cell=True,
        examples="  cell label abc fault the mirror was down   one of the means leaves out each fault\n"
        "  cell label abc look-again\n"
        "  cell label abc --remove",
    )
    label.add_argument("word", nargs="?", default="", metavar="WORD", help="letters, digits, - and _")
    label.add_argument("note", nargs="*", metavar="NOTE")
    label.add_argument("--remove", action="store_true", help="take the label away")
    _who(label)
    bundle = command(
        "bundle",
        "Write the records of a trial and a summary into one file to hand on: no keys, no known secrets.",
        cell=True,
        examples="  cell bundle abc\n"
        "  cell bundle abc --out incident.tar.gz --root\n"
        "Private keys, and values of variables named …KEY, …TOKEN, …SECRET or …PASSWORD, are taken out\n"
        "where they stand; what a session printed otherwise is there as it was.",
    )
    bundle.add_argument("--out", metavar="FILE", help="where to (default: TRIAL.bundle.tar.gz, here)")
    bundle.add_argument("--root", action="store_true", help="also the files that the agent changed")


def _beside_the_agent(command: Callable[..., Any]) -> None:
    """Have the agent wait, and go on; or be the agent."""
    pause = command(
        "pause",
        "Have the agent wait: what it types and asks for next waits, its deadline stops.",
        cell=True,
        examples="  cell pause abc            new requests wait, what runs goes on\n"
        "  cell pause abc --freeze   its processes stand still, too\n"
        "  cell continue abc         it goes on where it was",
    )
    pause.add_argument("--freeze", action="store_true", help="stop the agent's processes, too")
    pause.add_argument("--continue", dest="resume", action="store_true", help="let it go on")
    go_on = command("continue", "Let a paused agent go on.", cell=True)
    finish = command(
        "finish",
        "Say that you are done as the agent of a `human` cell: nothing runs on, and it is graded.",
        cell=True,
        examples="  sudo cell run examples/tasks -i hello-pass -a human\n"
        "  sudo cell ssh hello       (in another terminal: do the task)\n"
        "  sudo cell finish hello",
    )
    for sub in (pause, go_on, finish):
        _who(sub)


def _inside(command: Callable[..., Any]) -> None:
    """Ways into a living cell."""
    ssh = command(
        "ssh",
        "Open a shell of your own in a living cell (or run COMMAND); the record and the verdict say so.",
        cell=True,
        examples="  cell ssh abc                      as the agent's user\n"
        "  cell ssh abc --as root            as root of that world\n"
        "  cell ssh abc --as verifier -- id  one command, as the user who verifies",
    )
    ssh.add_argument("--as", dest="role", choices=ROLES, default="agent", help="who to be (default: agent)")
    ssh.add_argument("command", nargs=argparse.REMAINDER, metavar="[--] COMMAND")
    attach = command(
        "attach",
        "Sit in a terminal of a living cell: watch it, or take its keyboard while the agent waits.",
        cell=True,
        examples="  cell attach abc                   the latest terminal, in the cockpit\n"
        "  cell attach abc 3 --take          session 3, also from another driver\n"
        "  cell attach abc 3 --watch         only look; the agent never waits for you\n"
        "  cell attach abc 3 --raw           by ssh alone; what is inside reaches this terminal unparsed\n"
        "Exit status with --raw: 0 you left, or the session ended; 75 another one took the keyboard;\n"
        "76 another one has it (--take takes it).",
    )
    attach.add_argument(
        "session", nargs="?", type=positive, metavar="N", help="the session's number (default: the latest)"
    )
    attach.add_argument("--watch", action="store_true", help="read-only, the agent never waits for you")
    attach.add_argument("--take", action="store_true", help="take the keyboard from whoever has it")
    attach.add_argument("--raw", action="store_true", help="use ssh instead of the cockpit")
    _who(attach)


def _handing_on(command: Callable[..., Any]) -> None:
    """Access for others."""
    grant = command(
        "grant",
        "Hand a colleague access to a cell: prints what they paste into a shell.",
        cell=True,
        examples="  cell grant abc --as viewer --for 2h --who ann\n"
        "  cell grant abc --as operator --for 30m --sessions 1,2 --host eval7\n"
        "  cell grant abc --list\n"
        "  cell grant abc --revoke ann       (or the grant's id); what they have open is cut\n"
        "What is printed uses ssh alone: bytes from inside are not made safe for a terminal; it says how.\n"
        "Its ProxyCommand needs ssh to this machine as root (or `sudo -n`), and `cell` on the PATH there.",
    )
    grant.add_argument("--as", dest="principal", choices=["viewer", "operator"], default="viewer")
    grant.add_argument("--for", dest="for_sec", type=seconds, metavar="TIME", help="as 90s, 30m, 2h or 3d")
    grant.add_argument("--sessions", type=numbers, metavar="N,N", help="only these sessions, and no new ones")
    grant.add_argument("--who", default="", metavar="NAME", help="who gets it, for the record")
    grant.add_argument("--host", metavar="HOST", help="how ssh reaches this machine (default: its name)")
    grant.add_argument("--revoke", metavar="WHICH", help="end a grant, by its id or its holder")
    grant.add_argument("--list", action="store_true", help="the grants that last")
    connect = command(
        "connect", "Relay stdin and stdout to a cell's socket, for ssh's ProxyCommand.", cell=True
    )
    connect.add_argument("principal", choices=["agent", "viewer", "operator"])


def _who(sub: Any) -> None:
    sub.add_argument("--who", metavar="NAME", help="your name, for the record (default: your login)")
