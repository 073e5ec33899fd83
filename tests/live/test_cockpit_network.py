"""What an operator does in the cockpit about a cell's ways out and its world, on a real cell: `A`, `i` and `t`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from .conftest import LiveCell
from .desk import Desk
from .test_ways import Origin, hits, phase

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


@pytest.fixture
def origin() -> Iterator[Origin]:
    one = Origin("127.0.0.9")
    yield one
    one.server.close()


@pytest.fixture
def walled(make_cell: Callable[..., LiveCell]) -> LiveCell:
    """A cell whose agent may reach pkg.example alone; other.example is where the origin is, too."""
    names = ("pkg.example", "other.example")
    return make_cell(
        agent_phase=phase("allowlist", "pkg.example"), pins=tuple((name, "127.0.0.9") for name in names)
    )


@pytest.fixture
def desk(walled: LiveCell) -> Iterator[Desk]:
    made = Desk(walled.trial)
    yield made
    made.close()


def test_a_denied_host_is_allowed_from_the_cockpit(walled: LiveCell, origin: Origin, desk: Desk) -> None:
    ask = f"curl -s http://other.example:{origin.port}/ || true"
    assert "hello" not in walled.inside(ask), "the control: it is denied"
    assert origin.came == 0
    desk.sees(walled.id)
    desk.type("4").sees("other.example")
    desk.type("A").sees("for the rest of the agent phase")
    desk.type("j\r").sees("may be reached")
    assert walled.inside(ask).strip() == "hello"
    assert [hit["allowed"] for hit in hits(walled, host="other.example")] == [False, True]


def test_fidelity_is_looked_at_from_the_cockpit(walled: LiveCell, desk: Desk) -> None:
    desk.sees(walled.id)
    desk.type("\r5").sees("Namespaces")
    desk.type("i").sees("are as they should be", seconds=60)
    desk.sees("user namespace")


def test_the_terminal_at_the_moment_of_a_hit(walled: LiveCell, origin: Origin, desk: Desk) -> None:
    walled.inside(f"curl -s http://pkg.example:{origin.port}/")
    desk.sees(walled.id)
    desk.type("4").sees("pkg.example")
    desk.type("t").sees("7 Replay")
    desk.type("G").sees("hello")
