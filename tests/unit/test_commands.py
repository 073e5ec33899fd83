from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import pytest

from cell import arguments, cli, handlers
from cell.commands import completing, entering, granting, looking, operating, running, saying
from cell.errors import HarnessError, UsageError
from cell.records import Cause, Verdict
from cell.words import own_words
from cell.words import seconds as seconds_of


def test_every_command_of_the_parser_is_done_and_no_other() -> None:
    assert set(arguments.commands()) == set(cli._COMMANDS)
    assert {entering.ssh, looking.ls, operating.stop, running.run} <= set(cli._COMMANDS.values())
    assert all(act.__module__.startswith("cell.commands.") for act in cli._COMMANDS.values())


def test_a_verdict_is_one_plain_line() -> None:
    trial = Path("/jobs/j/task__abc1234")
    passed = Verdict(verdict="graded", rewards={"reward": 1.0})
    assert (
        saying.verdict_line(trial, "t\x1b[31m", passed, None) == "✓ abc1234  t␛[31m                    1.00"
    )
    cause = Cause(cause="agent", certainty="proved", summary="it wrote nothing")
    failed = Verdict(verdict="graded", rewards={"reward": 0.0}, causes=(cause,), touched=True)
    assert saying.verdict_line(trial, "t", failed, None).startswith("×▲ abc1234")
    assert saying.verdict_line(trial, "t", failed, None).endswith("0.00  agent proved: it wrote nothing")
    assert "no sandbox" in saying.verdict_line(trial, "t", None, HarnessError("no sandbox"))


def test_a_desk_answers_methods_that_the_gate_knows() -> None:
    from cell.gate import METHODS

    desk = handlers.Desk(None, Path(), -1, None)  # type: ignore[arg-type]
    assert set(desk.handlers()) <= set(METHODS)


@pytest.mark.parametrize("command", sorted(arguments.commands()))
def test_every_command_says_what_it_is_for(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main([command, "--help"])
    assert len(capsys.readouterr().out.splitlines()) > 3


@pytest.mark.parametrize(
    ("words", "role", "command"),
    [
        ([], "agent", []),
        (["id", "--as", "x"], "agent", ["id", "--as", "x"]),
        (["--as", "root"], "root", []),
        (["--as=root", "--", "--as", "x"], "root", ["--as", "x"]),
        (["--", "ls", "--", "-l"], "agent", ["ls", "--", "-l"]),
    ],
)
def test_what_follows_a_cell_is_ours_up_to_the_command(
    words: list[str], role: str, command: list[str]
) -> None:
    assert own_words(words, {"role": "agent"}) == ({"role": role}, command)


@pytest.mark.parametrize("words", [["--as"], ["--as", "king"], ["--as="], ["--bogus", "x"], ["--as", "--"]])
def test_what_is_not_ours_nor_a_command_is_a_usage_error(words: list[str]) -> None:
    with pytest.raises(UsageError):
        own_words(words, {"role": "agent"})


def test_a_grant_is_a_text_that_a_shell_takes(tmp_path: Path) -> None:
    given = {
        "id": "g1",
        "principal": "operator",
        "holder": "ann $(touch x) \x1b[0m",
        "until": 0.0,
        "sessions": [2, 3],
        "key": "-----BEGIN-----\n$HOME `id`\n-----END-----\n",
    }
    text = granting.snippet(given, "abc", "cell ssh-ed25519 AAAA\n", "ssh h cell connect abc operator")
    done = subprocess.run(
        ["sh", "-eu"],
        input=text,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    folder = tmp_path / ".config/cell/abc-g1"
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"ssh -t -F {folder}/ssh_config abc 'attach 2'\n"
    assert (folder / "key").read_text() == given["key"], "nothing in it was expanded"
    assert f'IdentityFile "{folder}/key"' in (folder / "ssh_config").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {".config"}
    assert "sessions 2, 3 only" in text


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("3d", 259200)])
def test_times_are_a_number_and_a_letter(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "0h", "-1h", "2 h", "2w", "1e3s", "99999999s"])
def test_other_times_are_a_usage_error(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        seconds_of(text)


def completed(*words: str) -> set[str]:
    """What bash offers for the last of these words."""
    line = (
        "COMP_WORDS=(cell " + " ".join(f"'{word}'" for word in words) + f"); COMP_CWORD={len(words)}; _cell"
    )
    script = f'cell() {{ echo "abc1234  running"; }}\n{completing.bash()}\n{line}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "--norc", "-u"], input=script, capture_output=True, text=True)
    assert done.stderr == "", done.stderr
    return set(done.stdout.split())


def test_a_shell_completes_commands_options_choices_and_cells() -> None:
    assert completed("") == set(arguments.commands())
    assert completed("pa") == {"pause"}
    assert completed("pause", "--fr") == {"--freeze"}
    assert completed("ssh", "--as", "") == {"agent", "verifier", "root"}
    assert completed("run", "-a", "h") == {"human"}
    assert completed("grant", "--as", "v") == {"viewer"}
    assert completed("attach", "a") == {"abc1234"}
    assert completed("attach", "--t") == {"--take"}
    assert "--freeze" not in completed("doctor", "--")


def test_every_shell_has_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    for shell, words in (("bash", "complete -o default"), ("zsh", "bashcompinit"), ("fish", "-l freeze")):
        assert cli.main(["completion", shell]) == 0
        assert words in capsys.readouterr().out
