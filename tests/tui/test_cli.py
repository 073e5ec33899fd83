"""The command line."""

from __future__ import annotations

import pytest

from cell import __version__
from hudtui import cli


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == f"hudtui {__version__}"


def test_without_a_terminal_it_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--read-only", "somewhere"]) == 2
    assert "cell ls --json" in capsys.readouterr().err


def test_what_is_asked() -> None:
    asked = cli.parser().parse_args(["a", "b", "--filter", "score<1", "--light"])
    assert (asked.paths, asked.filter, asked.light) == (["a", "b"], "score<1", True)
    assert cli.parser().parse_args([]).paths == []
