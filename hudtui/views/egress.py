"""View 4: every attempt to leave, of one cell or of the whole job, and what is known of the chosen one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult

from cell.filters import Values
from cell.plain import plain
from cell.trials import Trial
from cell.trials.egress import Hit, HostSum, by_host, values
from cell.trials.events import phase_word
from hudtui.frame.screens import DocScreen
from hudtui.frame.what_if import WhatIfScreen
from hudtui.lines.egress import cells, columns, may_help, order_hits, order_hosts
from hudtui.lines.hit import hit_lines, host_lines, missing
from hudtui.look import Run
from hudtui.panes.doc import Doc, Line, line
from hudtui.panes.drawing import Ground
from hudtui.panes.table import Column, Table
from hudtui.views import Pane, titled
from hudtui.views.beside import BesidePane
from hudtui.views.listing import ListView
from hudtui.views.replay import ReplayView

if TYPE_CHECKING:
    from hudtui.acting.operating import Operating

Row = Hit | HostSum


class EgressView(ListView):
    """The table of hits, filtered and sorted, or of hosts; the document follows its cursor."""

    name_ = "egress"

    def compose(self) -> ComposeResult:
        """Table over document."""
        with Ground(id="egress-body"):
            yield Table[Row](self._columns, self._cells, _key, id="egress-table")
            with Ground(id="egress-side", classes="box"):
                yield Doc(id="egress-doc")
                yield BesidePane(self.hud.engine, fps=self.hud.fps, id="egress-term")

    def on_mount(self) -> None:
        """Begin with every hit, at the last one."""
        self.table: Table[Row] = self.query_one("#egress-table", Table)
        self.doc = self.query_one("#egress-doc", Doc)
        self.term = self.query_one("#egress-term", BesidePane)
        self.grouped = False
        self.following = True
        self.hits: Sequence[Hit] = ()
        self._filled: tuple[object, ...] = ()
        self._seen: dict[int, tuple[Hit, Values]] = {}

    def panes(self) -> list[Pane]:
        """Table, document, terminal."""
        return [self.table, self.doc, self.term]

    def trial(self) -> Trial | None:
        """The cell in scope, else the one of the chosen hit."""
        return self.hud.scoped or self._of(self.table.current)

    def _columns(self, width: int) -> tuple[Column, ...]:
        return columns(width, grouped=self.grouped, one_cell=self.hud.scope is not None)

    def _cells(self, row: Row) -> list[list[Run]]:
        return cells(row, self.table.columns, self.hud.clock())

    # ── what is shown ─────────────────────────────────────────────────────────────────────────

    def update(self) -> None:
        """Fill the table again, if anything changed; the cursor stays on its hit, or follows the last."""
        every = self.hud.hits.hits
        asked = (
            every,
            self.hud.scope,
            self._matches,
            self.filter_on,
            self.only_faults,
            self.grouped,
            self.sort,
        )
        if len(self._filled) == len(asked) and all(a is b for a, b in zip(asked, self._filled, strict=True)):
            self._title()
            return
        self._filled = asked
        for hit in every:
            self._values(hit)  # so that the first filter is as quick as the next
        self.hits = [hit for hit in every if self._wanted(hit)]
        rows: Sequence[Row]
        if self.grouped:
            rows = order_hosts(by_host(self.hits), *self.sort)
        else:
            rows = order_hits(self.hits, *self.sort)
        self.table.sorted_by = self.sort
        self.table.empty = self._empty(len(every))
        self.table.show(rows, keep=_key(rows[-1]) if self._at_end and rows else None)
        self._title()
        self._beside()

    def _wanted(self, hit: Hit) -> bool:
        if self.hud.scope is not None and hit.trial != self.hud.scope:
            return False
        if self.only_faults and hit.allowed:
            return False
        return not (self.filter_text and self.filter_on) or self._matches(self._values(hit))

    def _values(self, hit: Hit) -> Values:
        known = self._seen.get(id(hit))
        if known is None:
            if len(self._seen) > 400_000:
                self._seen.clear()
            known = self._seen[id(hit)] = (hit, values(hit))
        return known[1]

    @property
    def _at_end(self) -> bool:
        return self.following and not self.grouped and not self.sort[0]

    def _title(self) -> None:
        total = sum(self.hud.scope in (None, hit.trial) for hit in self.hud.hits.hits)
        count = f"{total:,}" if len(self.hits) == total else f"{len(self.hits):,} of {total:,}"
        parts = [f"Egress {count}"]
        if self.grouped:
            parts.append(f"{len(self.table.entries):,} hosts")
        if self.filter_text:
            parts.append(f"/{self.filter_text}" + ("" if self.filter_on else " (off)"))
        parts += ["denied"] * self.only_faults
        below = "" if self.grouped or not self.hits else "following" if self._at_end else "F follows"
        titled(self.table, " · ".join(parts), below)

    def _empty(self, every: int) -> str:
        trial = self.hud.scoped
        recorded = any(hit.trial == trial.path for hit in self.hud.hits.hits) if trial else bool(every)
        if recorded:
            return "nothing matches · esc shows all again"
        return missing(trial, self.hud.snapshot.trials)

    def _beside(self) -> None:
        row = self.table.current
        if row is None:
            self.doc.show([])
            titled(self.doc, "")
        elif self.doc.display:
            self.doc.show(self._lines(row))
            titled(self.doc, _name(row))
        self.term.show_trial(self._of(row), str(row.session) if isinstance(row, Hit) else "")

    def leave(self) -> None:
        """Stop reading what nobody looks at."""
        self.term.show_trial(None)

    def _of(self, row: Row | None) -> Trial | None:
        path = row.trial if isinstance(row, Hit) else None
        return next((trial for trial in self.hud.snapshot.trials if trial.path == path), None)

    def _lines(self, row: Row) -> list[Line]:
        if isinstance(row, HostSum):
            return host_lines(row, [hit for hit in self.hits if hit.host == row.host])
        return hit_lines(row, [hit for hit in self.hud.hits.hits if not hit.allowed])

    def on_table_moved(self, event: Table.Moved) -> None:
        """The document follows; off the last hit the table follows no more."""
        event.stop()
        self.following = self.table.cursor >= len(self.table.entries) - 1
        self._title()
        self._beside()

    # ── actions ───────────────────────────────────────────────────────────────────────────────

    @property
    def unsorted(self) -> str:
        """In what order the list is when nobody chose one."""
        return "most denied first" if self.grouped else "as they came"

    def narrowing(self) -> list[tuple[bool, Callable[[], None]]]:
        """Return that of the hosts."""
        return [(self.grouped, self.act_group)]

    def act_open(self) -> None:
        """Show what is known of the hit; of a host: its hits."""
        row = self.table.current
        if isinstance(row, HostSum):
            self.grouped, self.sort = False, ("", False)
            self.set_filter(f'host:"{row.host}"')
        else:
            self.act_detail()

    def act_detail(self) -> None:
        """Go to the document, or put it over the screen where there is no room beside the table."""
        row = self.table.current
        if row is None:
            return
        if self.doc.display:
            self.doc.focus()
            return
        self.app.push_screen(DocScreen(_name(row), self._lines(row), wrapped=True))

    def act_match_next(self, step: int = 1) -> None:
        """Go to the next hit that the filter matches; without one, to the next denial."""
        self._next_match(
            step,
            lambda row: (
                isinstance(row, Hit)
                and (self._matches(self._values(row)) if self.filter_text else not row.allowed)
            ),
        )

    def act_match_previous(self) -> None:
        """Go to the match before."""
        self.act_match_next(-1)

    def act_group(self) -> None:
        """One row for each host, or for each hit."""
        self.grouped, self.sort = not self.grouped, ("", False)
        self.update()
        if self.grouped:
            self.table.move_to(0)

    def act_follow(self) -> None:
        """Go to the last hit and stay there, or stay here."""
        self.following = not self.following
        if self.following:
            self.sort = ("", False)
            self.update()
            self.table.move_to(-1)
        self._title()

    def act_raw(self) -> None:
        """Show the record as `cell egress --json` prints it."""
        row = self.table.current
        if isinstance(row, Hit):
            text = json.dumps(row.as_dict(), indent=2, ensure_ascii=False)
            shown = [line(plain(one, limit=8000)) for one in text.splitlines()]
            self.app.push_screen(DocScreen(f"{_name(row)} JSON", shown))

    def act_copy(self) -> None:
        """Copy the host."""
        if (row := self.table.current) is not None:
            self.app.copy_to_clipboard(row.host)
            self.hud.flash(f"copied {row.host}")

    def act_replay(self) -> None:
        """Show the terminal at the moment of the hit."""
        row, view = self.table.current, self.hud.views["replay"]
        if isinstance(row, Hit) and isinstance(view, ReplayView):
            view.show_moment(row.trial, row.session, row.t)

    def act_what_if(self) -> None:
        """Edit the allowlist, and see which recorded denials would pass."""
        row = self.table.current
        hits = [hit for hit in self.hud.hits.hits if self.hud.scope in (None, hit.trial)]
        if not hits:
            self.hud.flash("what if: nothing tried to leave, so there is nothing to decide again")
            return
        denied = row is not None and (row.denied if isinstance(row, HostSum) else not row.allowed)
        self.app.push_screen(WhatIfScreen(hits, f"{row.host} " if row is not None and denied else ""))

    def act_allow(self) -> None:
        """Let the denied host pass from now on; asked how far."""
        row, operating = self.table.current, cast("Operating", self.app)
        if not isinstance(row, Hit) or row.allowed:
            self.hud.flash("A allows a host that was denied: choose such a hit")
            return
        if not may_help(row):
            self.hud.flash(f"A would not help: {row.reason.removeprefix('denied: ')}")
            return
        trial = self.trial()
        if operating.refused(trial, "allow") or trial is None:
            return
        once = f"{row.place} once more, in the {phase_word(row.phase)} phase"
        options = (
            ("once", once),
            ("phase", f"{row.place} for the rest of the {phase_word(row.phase)} phase"),
        )
        said = f"{row.place} may be reached · the verdict will say so"

        def chosen(how: str) -> None:
            asked = {"host": row.place, "phase": row.phase, "once": how == "once", "who": operating.who}
            operating.ask_cell(trial, "allow", said, **asked)

        operating.choose(f"Allow in {trial.id}", options, chosen)


def _key(row: Row) -> str:
    return row.key if isinstance(row, Hit) else row.host


def _name(row: Row) -> str:
    return f"Hit {row.hit} · {row.cell} {row.task}" if isinstance(row, Hit) else f"Host {row.host}"
