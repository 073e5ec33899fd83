"""A person's own keys and prefix: what they change, and how a mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudtui import actions, config
from hudtui.config import Config, ConfigError, load

from .conftest import Open


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


def test_no_file_is_fine(tmp_path: Path) -> None:
    assert load(tmp_path / "config.toml") == Config()
    assert config.place().name == "config.toml"


def test_what_can_be_set(tmp_path: Path) -> None:
    text = 'prefix = "ctrl+b"\ntheme = "nord"\n[keys]\npause = "P"\ndown = ["j", "ctrl+n"]\nhelp = "?"\n'
    assert load(written(tmp_path, text)) == Config(
        prefix="ctrl+b",
        theme="nord",
        keys={"pause": ("P",), "down": ("j", "ctrl+n"), "help": ("question_mark",)},
    )
    assert load(written(tmp_path, 'prefix = "ctrl+]"')).prefix == "ctrl+right_square_bracket"
    assert load(written(tmp_path, 'prefix = "F11"')).prefix == "f11"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prefix = 1.2.3", "line 1"),
        ('prefux = "ctrl+b"', "prefux: is no setting"),
        ('prefix = "b"', "prefix: 'b' would be missed"),
        ('prefix = "f12"', "prefix: 'f12' would be missed"),
        ("prefix = 1", "prefix: is a text"),
        ('theme = "pink"', "theme: there is no 'pink'"),
        ("keys = 1", "keys: is a table"),
        ('[keys]\nfly = "F"', "keys.fly: is no action"),
        ("[keys]\npause = 1", "keys.pause: is a key or a list"),
        ("[keys]\npause = []", "keys.pause: is a key or a list"),
        ('[keys]\npause = "hyper+q"', "keys.pause: is a key or a list"),
        ('[keys]\npause = "x"', "keys.pause: x is stop already (fleet)"),
        ('[keys]\nstop = "p"', "keys.stop: p is pause already (fleet)"),
        ('[keys]\nstop = "PP"', "keys.stop: 'PP' is no key"),
        ('[keys]\nstop = "\\u001b"', "keys.stop: '\\x1b' is no key"),
        ('[keys]\nstop = "ctrl+i"', "keys.stop: 'ctrl+i' is tab to a terminal"),
        ('[keys]\nstop = ["X", "ctrl+1"]', "keys.stop: 'ctrl+1' is sent by no terminal"),
        ('[keys]\nstop = "ctrl+p"', "keys.stop: 'ctrl+p' opens the palette"),
        ('[keys]\nstop = "alt+b"', "keys.stop: 'alt+b' is ctrl+left to a terminal"),
        ('prefix = "alt+f"', "prefix: 'alt+f' would be missed"),
        ('prefix = "ctrl+m"', "prefix: 'ctrl+m' would be missed"),
        ('prefix = "ctrl+["', "prefix: 'ctrl+[' would be missed"),
        ('[keys]\n"5 s" = "Q"', "keys.5 s: could be seek_back or seek_forward; say which"),
    ],
)
def test_a_mistake_is_one_line_with_file_and_key(text: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: ")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_an_action_can_be_named_as_the_help_shows_it(tmp_path: Path) -> None:
    found = load(written(tmp_path, '[keys]\n"raw JSON" = "R"\n"only marked" = "ctrl+_"\ndetail = "D"\n'))
    assert found.keys == {"raw": ("R",), "marked": ("ctrl+underscore",), "detail": ("D",)}


async def test_the_cockpit_knows_the_new_keys(
    jobs: Path, cockpit: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "ACTIONS", actions.ACTIONS)  # given back after the test
    config.apply({"faults": ("ctrl+f",)})
    async with cockpit(jobs) as hud:
        await hud.press("exclamation_mark")
        assert len(hud.listed) == 11
        await hud.press("ctrl+f")
        assert len(hud.listed) == 6
        assert "ctrl+f faults" in hud.footer


def test_a_mistake_ends_the_command_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from hudtui import cli

    path = written(tmp_path, 'prefix = "b"')
    monkeypatch.setattr(config, "place", lambda: path)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert cli.main([]) == 2
    assert capsys.readouterr().err == (
        f"hudtui: {path}: prefix: 'b' would be missed in the terminal; say ctrl+KEY, alt+KEY or F1…F11\n"
    )


@pytest.mark.parametrize("prefix", ["ctrl+hello", "alt+nothing", "ctrl+"])
def test_a_prefix_that_no_keyboard_has_is_refused(prefix: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="prefix"):
        load(written(tmp_path, f'prefix = "{prefix}"'))
    for there in ("ctrl+a", "alt+x", "F5", "ctrl+space", "ctrl+\\\\"):
        assert load(written(tmp_path, f'prefix = "{there}"')).prefix
