"""`cell completion SHELL`: a script that completes commands, their options, and the names of cells."""

from __future__ import annotations

import argparse
import shlex

from cell import arguments

from .saying import say

# What a shell asks for the names of cells: those of this machine, and of the jobs folder here.
_AGENTS = ("oracle", "nop", "human", "exec:")
_COCKPIT = (
    *("--read-only", "--attach", "--watch", "--take", "--who", "--filter", "--light", "--help", "--version"),
)
_CELLS = "cell ls 2>/dev/null | cut -d ' ' -f 1"


def completion(args: argparse.Namespace) -> int:
    """Print the script for a shell."""
    say({"bash": bash, "zsh": zsh, "fish": fish}[args.shell]().rstrip())
    return 0


def grammar() -> dict[str, tuple[str, dict[str, tuple[str, ...]], bool]]:
    """Return, for each command, what it is for, its options with their choices, and if it takes a CELL."""
    found = {}
    for name, sub in arguments.commands().items():
        options: dict[str, tuple[str, ...]] = {}
        for action in sub._actions:
            choices = tuple(str(choice) for choice in action.choices or ())
            if action.metavar == "AGENT":
                choices = _AGENTS
            options.update(dict.fromkeys(action.option_strings, choices))
        takes = any(action.dest == "cell" for action in sub._actions)
        found[name] = (sub.description or "", options, takes)
    return found


def bash() -> str:
    """Return the script for bash."""
    cases = []
    for name, (_, options, takes) in grammar().items():
        lines = [f"    {name})"]
        chosen = {option: " ".join(choices) for option, choices in options.items() if choices}
        if chosen:
            lines.append('        case "$prev" in')
            for option, words in chosen.items():
                lines.append(f'        {option}) COMPREPLY=($(compgen -W "{words}" -- "$cur")); return;;')
            lines.append("        esac")
        cells = f" $([[ $cur == -* ]] || {_CELLS})" if takes else ""
        lines.append(f'        COMPREPLY=($(compgen -W "{" ".join(options)}{cells}" -- "$cur"));;')
        cases.append("\n".join(lines))
    names = " ".join(grammar())
    body = "\n".join(cases)
    return f"""\
_cell() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}"
    COMPREPLY=()
    if [[ $COMP_CWORD -eq 1 ]]; then
        COMPREPLY=($(compgen -W {shlex.quote(names)} -- "$cur"))
        return
    fi
    case "${{COMP_WORDS[1]}}" in
{body}
    esac
}}
complete -o default -F _cell cell
complete -o default -W {shlex.quote(" ".join(_COCKPIT))} hudtui
"""


def zsh() -> str:
    """Return the script for zsh, which understands bash's."""
    return "autoload -U +X bashcompinit && bashcompinit\n" + bash()


def fish() -> str:
    """Return the script for fish."""
    lines = ["complete -c cell -e"]
    for name, (about, options, takes) in grammar().items():
        lines.append(f"complete -c cell -n __fish_use_subcommand -f -a {name} -d {shlex.quote(about)}")
        here = f"-n '__fish_seen_subcommand_from {name}'"
        if takes:
            lines.append(f"complete -c cell {here} -f -a {shlex.quote(f'({_CELLS})')}")
        for option, choices in options.items():
            word = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            values = f" -x -a {shlex.quote(' '.join(choices))}" if choices else ""
            lines.append(f"complete -c cell {here} {word}{values}")
    lines += [f"complete -c hudtui -l {option[2:]}" for option in _COCKPIT]
    return "\n".join(lines) + "\n"
