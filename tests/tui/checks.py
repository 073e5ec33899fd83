"""What an action does, kept under its name: `CHECKS, does = checks()`, and `@does("open", …)` over each check."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from .conftest import Cockpit

Check = Callable[[Cockpit], Awaitable[None]]


def checks() -> tuple[dict[str, Check], Callable[..., Callable[[Check], Check]]]:
    """Return an empty table, and the decorator that fills it."""
    table: dict[str, Check] = {}

    def does(*names: str) -> Callable[[Check], Check]:
        def keep(check: Check) -> Check:
            table.update(dict.fromkeys(names, check))
            return check

        return keep

    return table, does
