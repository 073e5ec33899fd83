"""The menu that asks by which column a list is to be sorted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from textual.app import App

from hudtui.frame.screens import MenuScreen
from hudtui.panes.table import Column


def ask_sort(
    app: App[Any],
    columns: Sequence[Column],
    sort: tuple[str, bool],
    unsorted: str,
    then: Callable[[str], None],
) -> None:
    """Ask, and give `then` the column's key; "" is the order that `unsorted` names."""
    by, down = sort
    sign = " ▼" if down else " ▲"
    options = [("", unsorted)] + [(c.key, c.title.capitalize() + sign * (c.key == by)) for c in columns]

    def chosen(name: str | None) -> None:
        if name is not None:
            then(name)

    app.push_screen(MenuScreen("Sort", options, at=by), chosen)
