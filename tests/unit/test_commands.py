from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from cell import arguments, cli, handlers
from cell.commands import entering, granting, looking, operating, running, saying
from cell.errors import HarnessError
from cell.records import Cause, Verdict

MODULES = (entering, granting, looking, operating, running)


def subcommands() -> dict[str, argparse.ArgumentParser]:
    (action,) = [one for one in arguments.parser()._actions if isinstance(one, argparse._SubParsersAction)]
    return dict(action.choices)


def test_every_command_of_the_parser_is_done_and_no_other() -> None:
    assert set(subcommands()) == set(cli._COMMANDS)
    assert {act.__module__ for act in cli._COMMANDS.values()} == {module.__name__ for module in MODULES}


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


@pytest.mark.parametrize("command", sorted(subcommands()))
def test_every_command_says_what_it_is_for(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main([command, "--help"])
    assert len(capsys.readouterr().out.splitlines()) > 3
