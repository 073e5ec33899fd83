"""Which session to watch, and what the border of its terminal says."""

from __future__ import annotations

from collections.abc import Sequence

from cell.trials.sessions import Session
from hudtui.panes.terminal import TerminalPane


def latest(sessions: Sequence[Session]) -> Session | None:
    """Return the session that a person wants to see: the last that runs, terminals first."""
    running = [session for session in sessions if session.running]
    pool = running or [s for s in sessions if s.kind == "cast"] or list(sessions)
    terminals = [session for session in pool if session.tty]
    return (terminals or pool)[-1] if pool else None


def session_name(session: Session) -> str:
    """Say which session in a title."""
    return f"session {session.n}" if session.n else session.name


def state_words(term: TerminalPane, session: Session | None) -> str:
    """Say what is seen: live or past, the size, and whether it follows the end."""
    if session is None or term.engine is None:
        return ""
    parts = (
        ["watching · ● live"] if session.running else ["recording" if session.kind == "cast" else "output"]
    )
    if session.tty:
        parts.append(f"{term.engine.cols}×{term.engine.rows}")
    if (hidden := term.hidden_columns) and session.tty:
        parts.append(hidden)
    if not term.following:
        parts.append("scrolled back · F follows")
    return " · ".join(parts)


def how_it_ended(session: Session) -> str:
    """Say how a session ended, as far as that is recorded."""
    if session.signal:
        return f" (by {session.signal})"
    return "" if session.exit is None else f" (exit {session.exit})"
