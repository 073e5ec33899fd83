"""A person's own settings: `hudtui/config.toml` in the user's configuration folder.

    prefix = "ctrl+b"          # the key that leads out of an attached terminal
    theme = "nord"

    [keys]                     # an action's name (as `?` lists them), and its keys instead of ours
    pause = "P"
    down = ["j", "down", "ctrl+n"]

It is checked before anything is drawn; a mistake is told in one line that names file and key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hudtui import actions
from hudtui.actions import EVERYWHERE

_KNOWN = ("prefix", "theme", "keys")
_SPELLED = {name: key for key, name in actions.SHOWN.items()} | {
    " ": "space",
    "[": "left_square_bracket",
    "]": "right_square_bracket",
    "esc": "escape",
    ".": "full_stop",
    ",": "comma",
    "+": "plus",
    "*": "asterisk",
    "#": "number_sign",
    "=": "equals_sign",
    ";": "semicolon",
    "'": "apostrophe",
    "<": "less_than_sign",
    ">": "greater_than_sign",
    "\\": "backslash",
    "^": "circumflex_accent",
    "_": "underscore",
}
_OURS = {"ctrl+p": "opens the palette", "ctrl+c": "says how to leave"}
"""Keys that Textual has before any action has them."""


class ConfigError(Exception):
    """The file cannot be used; the text is one line that names file and key."""


class Config(msgspec.Struct, frozen=True):
    """What a person set. `keys` maps an action's name to its keys."""

    prefix: str = "ctrl+right_square_bracket"
    theme: str = ""
    keys: Mapping[str, tuple[str, ...]] = {}


def place() -> Path:
    """Return where the file is looked for."""
    import platformdirs

    return Path(platformdirs.user_config_dir("hudtui")) / "config.toml"


def load(path: Path | None = None) -> Config:
    """Read and check the file; none is fine. Raises ConfigError."""
    path = path or place()
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from None
    for name in found:
        if name not in _KNOWN:
            raise ConfigError(f"{path}: {name}: is no setting (there are {', '.join(_KNOWN)})")
    config = Config(
        prefix=_prefix(found, path),
        theme=_theme(found, path),
        keys=_keys(found.get("keys", {}), path),
    )
    _unambiguous(config, path)
    return config


def apply(keys: Mapping[str, tuple[str, ...]]) -> None:
    """Give actions other keys, for this process."""
    if keys:
        actions.ACTIONS = _mapped(keys)


def _mapped(keys: Mapping[str, tuple[str, ...]]) -> tuple[actions.Action, ...]:
    return tuple(
        action._replace(keys=keys[action.name]) if action.name in keys else action
        for action in actions.ACTIONS
    )


def _text(found: Mapping[str, Any], name: str, path: Path) -> str:
    value = found.get(name, "")
    if not isinstance(value, str):
        raise ConfigError(f"{path}: {name}: is a text, not {value!r}")
    return value


def _theme(found: Mapping[str, Any], path: Path) -> str:
    from textual.theme import BUILTIN_THEMES

    from hudtui.look import DARK, LIGHT

    name = _text(found, "theme", path)
    if name and name not in (DARK.name, LIGHT.name, *BUILTIN_THEMES):
        raise ConfigError(f"{path}: theme: there is no {name!r}; ctrl+p in the cockpit lists them")
    return name


def _prefix(found: Mapping[str, Any], path: Path) -> str:
    value = _text(found, "prefix", path)
    if not value:
        return Config().prefix
    key = _key(value)
    if not key or _unsent(key) or not ("ctrl+" in key or "alt+" in key or key[1:].isdigit()) or key == "f12":
        raise ConfigError(
            f"{path}: prefix: {value!r} would be missed in the terminal; say ctrl+KEY, alt+KEY or F1…F11"
        )
    return key


def _unsent(key: str) -> str:
    """Say why no terminal tells us of such a key; empty if one does."""
    from textual.keys import Keys

    held, _, base = key.rpartition("+")
    known = base in _SPELLED.values() or base in {each.value for each in Keys}
    if not (known or (len(base) == 1 and base.isprintable())):
        return "is no key"
    if (other := _read_as(key)) != key:
        return f"is {actions.shown(other)} to a terminal"
    letter = base.isascii() and base.isalpha()
    return "is sent by no terminal" if "ctrl" in held and len(base) == 1 and not letter else ""


def _read_as(key: str) -> str:
    """Return the key that the bytes of this one are read as: a terminal cannot tell some of them apart."""
    from textual._ansi_sequences import ANSI_SEQUENCES_KEYS

    held, _, base = key.rpartition("+")
    char = next((char for char, name in _SPELLED.items() if name == base and len(char) == 1), base)
    if held == "ctrl" and len(char) == 1 and "A" <= char.upper() <= "_":
        data = chr(ord(char.upper()) & 31)
    elif held == "alt" and len(char) == 1:
        data = f"\x1b{char}"
    else:
        return key
    found = ANSI_SEQUENCES_KEYS.get(data, key)
    return found[0].value if isinstance(found, tuple) else str(found)


def _keys(found: object, path: Path) -> dict[str, tuple[str, ...]]:
    if not isinstance(found, dict):
        raise ConfigError(f'{path}: keys: is a table, as [keys] and below it pause = "P"')
    mapped = {}
    for said, value in found.items():
        name = _action(said, path)
        given = [value] if isinstance(value, str) else value
        if (
            not isinstance(given, list)
            or not given
            or not all(isinstance(one, str) and _key(one) for one in given)
        ):
            raise ConfigError(f'{path}: keys.{name}: is a key or a list of keys, as "P" or ["j", "down"]')
        for one in given:
            if wrong := _unsent(_key(one)) or _OURS.get(_key(one), ""):
                raise ConfigError(f"{path}: keys.{name}: {one!r} {wrong}")
        mapped[name] = tuple(_key(one) for one in given)
    return mapped


def _action(said: str, path: Path) -> str:
    """Return the name of an action that is called by it, or as `?` shows it."""
    names = dict.fromkeys(action.name for action in actions.ACTIONS if said in (action.name, action.label))
    if said in names:
        return said
    if len(names) > 1:
        raise ConfigError(f"{path}: keys.{said}: could be {' or '.join(names)}; say which")
    if not names:
        raise ConfigError(f"{path}: keys.{said}: is no action; ? in the cockpit lists them")
    return next(iter(names))


def _key(text: str) -> str:
    """Return Textual's name for a key as a person writes it; empty if there is no such key."""
    *held, base = text.strip().split("+") if len(text) > 1 else [text]
    if any(each not in ("ctrl", "alt", "shift", "super") for each in held) or not base:
        return ""
    if len(base) > 1 and not base.replace("_", "").isalnum():
        return _SPELLED.get(text, "")
    if held == ["ctrl"] and base == "@":
        return "ctrl+space"
    return "+".join([*held, _SPELLED.get(base, base.lower() if len(base) > 1 else base)])


def _unambiguous(config: Config, path: Path) -> None:
    for view in (*EVERYWHERE, "attached"):
        seen: dict[str, str] = {}
        for action in _mapped(config.keys):
            if view not in action.views:
                continue
            for key in action.keys:
                if key in seen:
                    blamed = action.name if action.name in config.keys else seen[key]
                    other = seen[key] if blamed == action.name else action.name
                    raise ConfigError(
                        f"{path}: keys.{blamed}: {actions.shown(key)} is {other} already ({view})"
                    )
                seen[key] = action.name
