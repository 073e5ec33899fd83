"""A trial's verdict as lines: pure but for reading the files that it quotes."""

from __future__ import annotations

import re
from pathlib import Path

from cell import events, records
from cell.plain import plain
from cell.trials import Trial
from cell.trials.events import EventLog, describe, phase_word
from cell.trials.files import entries, inside, is_folder, load_object, read_regular
from cell.trials.harbor import PhaseSpan, phases_of
from hudtui.lines.fleet import clock, duration, score_runs, state_runs
from hudtui.look import Run
from hudtui.panes.doc import Line, line

_COLOUR = re.compile(rb"\x1b\[[0-9;:]*m")
_QUOTED = 64 << 10
_FILE = 4 << 20
_TAIL_LINES = 200
_STATE_WORDS = {
    "running": "running",
    "paused": "paused",
    "kept": "kept",
    "passed": "passed",
    "failed": "failed",
    "ungraded": "ungraded",
    "stale": "stale",
    "queued": "queued",
}
CAUSE_ROLES = {"agent": "bold", "operator": "accent bold", "unknown": "bold"}


def verdict_lines(trial: Trial, now: float, *, brief: bool = False) -> list[Line]:
    """Return the whole verdict; `brief` leaves out what the Fleet's side pane has no room for."""
    found = [*_head(trial, now), line(), *_causes(trial)]
    if not brief and trial.verdict is not None and len(trial.verdict.rewards) > 1:
        found += _rewards(trial.verdict)
    found += _beside(trial)
    found += _tests(trial, limit=8 if brief else 2000)
    if not brief:
        found += _operator(trial)
        found += timeline(trial, now)
        found += _output(Path(trial.path))
        found += _files(Path(trial.path))
    while found and not found[-1].text.strip():
        found.pop()
    return found


def _head(trial: Trial, now: float) -> list[Line]:
    runs: list[Run] = [(text, f"{role} bold") for text, role in state_runs(trial)[:1]]
    if trial.score is None:
        runs += [(" " + _STATE_WORDS[trial.state], f"{state_runs(trial)[0][1]} bold")]
    else:
        runs += [(" ", ""), *((text, f"{role} bold") for text, role in score_runs(trial))]
    if trial.suspect:
        runs += [("  ▲ suspect", "warn bold")]
    if trial.touched:
        runs += [("  ▲ touched by an operator", "warn bold")]
    facts = [trial.task, trial.agent, *([trial.model] if trial.model else []), duration(trial.age(now))]
    if trial.state in ("running", "paused") and trial.phase:
        facts.append(phase_word(trial.phase))
    runs.append(("   " + " · ".join(fact for fact in facts if fact), "muted"))
    found = [Line(tuple(runs), hang=2)]
    if trial.orphaned:
        found.append(
            line(("nobody owns it", "warn bold"), ": its runner has died; x stops it, or it ends by itself")
        )
    if (label := trial.label) is not None:
        by = f"   {label.who} {clock(label.t)}".rstrip()
        found.append(
            line(("labelled ", "muted"), (label.word, "accent bold"), f" {label.note}", (by, "muted"), hang=9)
        )
    return found


def _causes(trial: Trial) -> list[Line]:
    found: list[Line] = []
    verdict = trial.verdict
    if verdict is None:
        if trial.summary:
            found += [line((trial.summary, "warn" if trial.state == "stale" else "")), line()]
        for event in trial.recent:
            found.append(line((f"  {clock(event.t)}  ", "muted"), event.text, hang=12))
        return [*found, line()] if trial.recent else found
    if verdict.verdict == "ungraded" and verdict.fault:
        found += [line(("ungraded", "warn bold"), "  ", plain(verdict.fault, limit=500), hang=10), line()]
    for cause in verdict.causes:
        role = CAUSE_ROLES.get(cause.cause, "warn bold")
        found.append(
            line(
                (f"{cause.cause:<9}", role),
                (f" {cause.certainty:<8} ", "muted"),
                plain(cause.summary, limit=500),
                hang=19,
            )
        )
        for evidence in cause.evidence:
            where = (
                evidence.ref if evidence.kind == "file" else f"event {evidence.ref}" if evidence.ref else ""
            )
            ref = "" if evidence.kind == "fact" or not evidence.ref else f"{evidence.kind}:{evidence.ref}"
            runs: list[Run] = [("  ", ""), (plain(evidence.text, limit=500), "")]
            if where:
                runs.append((f"  {plain(where, limit=120)}", "muted"))
            found.append(Line(tuple(runs), ref=ref, hang=4))
        found.append(line())
    for note in verdict.notes:
        found.append(line(("note ", "muted"), plain(note, limit=500), hang=5))
    for warning in trial.warnings:
        found.append(line(("warning ", "warn"), warning, hang=8))
    return [*found, line()] if verdict.notes or trial.warnings else found


def _rewards(verdict: records.Verdict) -> list[Line]:
    found = [line(("Rewards", "head"))]
    for name, value in verdict.rewards.items():
        role = "ok" if value >= 1.0 else "bad" if value <= 0.0 else "warn"
        found.append(line(f"  {plain(name, limit=40):<24} ", (f"{value:g}", role)))
    return [*found, line()]


def _beside(trial: Trial) -> list[Line]:
    """Return the gradings with one thing changed: no score is theirs."""
    if not trial.regrades:
        return []
    found = [line(("Graded beside the score, which stays", "head"))]
    for one in trial.regrades[-20:]:
        reward = one.verdict.reward
        role = "warn" if reward is None else "ok" if reward >= 1.0 else "bad"
        said = "ungraded" if reward is None else f"{reward:.2f}"
        why = one.verdict.causes[0].summary if one.verdict.causes else one.verdict.fault
        found.append(
            line(
                (f"  {clock(one.t)}  ", "muted"),
                f"with {plain(one.change, limit=40):<15} ",
                (f"{said:<8}", role),
                (f"  {plain(why, limit=200)}" if why else "", "muted"),
                ref=f"file:cell/regrades/{one.attempt}/verifier/test-stdout.txt",
                hang=12,
            )
        )
    return [*found, line()]


def _tests(trial: Trial, *, limit: int) -> list[Line]:
    verdict = trial.verdict
    if verdict is None or not verdict.tests:
        return []
    found = [line((f"Tests {trial.tests_passed}/{trial.tests_total}", "head"))]
    every = sorted(verdict.tests, key=lambda test: test.status == "passed")
    size = min(34, max(len(test.name) for test in every))
    for test in every[:limit]:
        glyph: Run = ("✓", "ok") if test.status == "passed" else ("×", "bad")
        if test.status in ("skipped", "pending"):
            glyph = ("○", "muted")
        name = plain(test.name, limit=200)
        took = "" if test.ms is None else f"{test.ms / 1000:.2f} s"
        message = plain(test.message, limit=1000) if test.message else ""
        found.append(
            line(
                glyph,
                f" {name:<{size}} ",
                (f"{took:>8}", "muted"),
                f"  {message}" if message else "",
                hang=size + 13,
            )
        )
    rest = every[limit:]
    if rest:
        passed = sum(test.status == "passed" for test in rest)
        words = (
            f"{passed} more passed" if passed == len(rest) else f"{len(rest)} more, {passed} of them passed"
        )
        found.append(line((f"  … {words}", "muted")))
    return [*found, line()]


def _operator(trial: Trial) -> list[Line]:
    log = EventLog(Path(trial.path) / "cell/events.jsonl")
    log.refresh()
    did = [one for one in log.lines if isinstance(one.event, (events.Intervention, events.Fault))]
    if not did:
        return []
    found = [line(("Touched and troubled", "head"))]
    for one in did[:200]:
        said = describe(one.event)
        role = "accent" if isinstance(one.event, events.Intervention) else "warn"
        found.append(
            line(
                (f"  {clock(one.t)}  ", "muted"),
                (said[1] if said else "", role),
                ref=f"event:{one.seq}",
                hang=12,
            )
        )
    return [*found, line()]


def timeline(trial: Trial, now: float) -> list[Line]:
    """Return the phases as bars on one common scale."""
    spans = spans_of(trial)
    if not spans:
        return []
    start = min(span.started for span in spans)
    open_end = now if trial.state in ("running", "paused") else (trial.finished or trial.last_activity or now)
    end = max([span.finished if span.finished is not None else open_end for span in spans])
    scale = max(end - start, 1e-9)
    width = 32
    size = max(len(span.name) for span in spans)
    found = [line(("Phases", "head"))]
    for span in spans:
        until = span.finished if span.finished is not None else open_end
        left = min(width - 1, int((span.started - start) / scale * width))
        long = max(1, min(width - left, round((until - span.started) / scale * width)))
        bar = " " * left + "━" * long + " " * (width - left - long)
        role = "accent" if "verifier" in span.name else "primary"
        found.append(
            line(
                f"  {span.name:<{size}}  ",
                (bar, role),
                (f"  {clock(span.started)}  {_took(until - span.started)}", "muted"),
                "" if span.finished is not None else ("  …", "muted"),
            )
        )
    return [*found, line()]


def spans_of(trial: Trial) -> list[PhaseSpan]:
    """Return the phases of a trial, from our events or else from Harbor's result.json."""
    path = Path(trial.path)
    log = EventLog(path / "cell/events.jsonl")
    log.refresh()
    changes = [(one.t, one.event.phase) for one in log.lines if isinstance(one.event, events.PhaseChanged)]
    if not changes:
        return list(phases_of(load_object(path / "result.json")))
    begin = log.lines[0].t
    if changes[0][1] != "starting":
        changes.insert(0, (begin, "starting"))
    found = []
    for (t, phase), after in zip(changes, [*changes[1:], None], strict=True):
        if phase not in ("finished", "closed"):
            found.append(PhaseSpan(name=phase_word(phase), started=t, finished=after[0] if after else None))
    return found


def _output(path: Path) -> list[Line]:
    found: list[Line] = []
    files = [("verifier", "verifier/test-stdout.txt")]
    files += [
        (f"verifier {plain(e.name, limit=30)}", f"steps/{e.name}/verifier/test-stdout.txt")
        for e in entries(path / "steps")
        if is_folder(e)
    ]
    for title, name in files:
        data = read_regular(path / name, limit=_QUOTED, offset=-_QUOTED)
        if not data:
            continue
        lines = data.rstrip(b"\n").split(b"\n")
        cut = max(0, len(lines) - _TAIL_LINES)
        found.append(
            line(
                (f"Output of the {title}", "head"),
                (f"  {plain(name, limit=80)}", "muted"),
                ref=f"file:{name}",
            )
        )
        if cut:
            found.append(line((f"  … {cut} lines before", "muted"), ref=f"file:{name}"))
        found += [line("  ", text(one), hang=2) for one in lines[cut:]]
        found.append(line())
    return found


_LISTED = ("exception.txt", "trial.log", "result.json", "config.json", "lock.json")


def _files(path: Path) -> list[Line]:
    names = [name for name in _LISTED if (path / name).is_file()]
    for folder in ("agent", "verifier", "artifacts", "cell"):
        names += [
            f"{folder}/{entry.name}"
            for entry in entries(path / folder)
            if entry.is_file(follow_symlinks=False)
        ]
    if not names:
        return []
    found = [line(("Files", "head"))]
    found += [line(f"  {plain(name, limit=200)}", ref=f"file:{name}") for name in names[:200]]
    return found


def file_lines(trial: Path, ref: str) -> tuple[str, list[Line], int]:
    """Open what a line's `ref` names: (title, lines, the line to go to). Never leaves the trial folder."""
    kind, _, rest = ref.partition(":")
    if kind == "event":
        return _event(trial, rest)
    name, _, number = rest.rpartition(":")
    if not (name and number.isdigit()):
        name, number = rest, "1"
    target = inside(trial, name)
    title = plain(name, limit=200)
    if target is None:
        return title, [line(("this name leads out of the trial folder; it is not opened", "warn"))], 0
    data = read_regular(target, limit=_FILE + 1)
    if data is None:
        return title, [line(("there is no such file (any more)", "warn"))], 0
    lines = [line(text(one)) for one in data[:_FILE].rstrip(b"\n").split(b"\n")]
    if len(data) > _FILE:
        lines.append(line((f"… only the first {_FILE >> 20} MiB are shown", "muted")))
    return title, lines, min(len(lines), max(1, int(number[:9]))) - 1


def _event(trial: Path, seq: str) -> tuple[str, list[Line], int]:
    data = read_regular(trial / "cell/events.jsonl", limit=_FILE)
    lines = [line(text(one)) for one in (data or b"").rstrip(b"\n").split(b"\n")]
    at = next((i for i, one in enumerate(lines) if f'"seq":{seq},' in one.text.replace(" ", "")), 0)
    return "cell/events.jsonl", lines, at


def text(raw: bytes) -> str:
    """Return a file's line as it may be shown: tabs as spaces, colours gone, the rest neutralised."""
    return plain(_COLOUR.sub(b"", raw.rstrip(b"\r")).replace(b"\t", b"    "), limit=4000)


def _took(seconds: float) -> str:
    return (
        f"{seconds * 1000:.0f} ms"
        if seconds < 1
        else f"{seconds:.1f} s"
        if seconds < 60
        else duration(seconds)
    )
