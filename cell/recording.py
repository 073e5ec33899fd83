"""Every session as an asciicast (v2) that grows as it happens (promises R2, R3).

    {"version":2,"width":80,"height":24,"timestamp":…,"title":"bash","env":{"TERM":"xterm"},"cell":{"n":1,…}}
    [0.012,"o","text"]        what the session printed (of a command without terminal: both streams)
    [0.5,"i","ls\\r"]          what was typed, on a terminal
    [0.5,"m","typed by operator"]
    [1.2,"r","120x40"]        the terminal's new size
    [2.0,"m","truncated"]     more was printed than is kept; it is counted only
    [9.9,"m","end exit=0"]

Times are seconds since the start. Each call writes its line with one `write`, so a kill loses at most
that line. A recording never harms its session: after a disk error it stops and `fault` says why.
"""

from __future__ import annotations

import codecs
import os
import time
from pathlib import Path

import msgspec

from cell.records import PhaseName

_encode = msgspec.json.Encoder().encode


class Recording:
    """The recording of one session.

    `command` is None for a login shell. `limit` is how many bytes of output are kept (None: all).
    `fault` is empty while all is well, else the reason why nothing more is written; `bytes_out` and
    `bytes_in` count on in any case.
    """

    def __init__(
        self,
        path: Path,
        *,
        cols: int,
        rows: int,
        command: str | None,
        tty: bool,
        n: int,
        principal: str,
        phase: PhaseName,
        user: str,
        term: str = "",
        limit: int | None = None,
    ) -> None:
        self.path = path
        self.fault = ""
        self.truncated = False
        self.bytes_in = 0
        self.bytes_out = 0
        self._limit = limit
        self._tty = tty
        self._typist = principal
        self._owner = principal
        self._start = time.monotonic()
        self._size = 0
        # Output and input are two streams: a character split across two calls belongs to its own.
        self._printed = codecs.getincrementaldecoder("utf-8")("replace")
        self._keyed = codecs.getincrementaldecoder("utf-8")("replace")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._fd = os.open(path, flags, 0o644)
        except OSError as error:
            self._fd = -1
            self.fault = f"cannot open the recording {path}: {error.strerror}"
        about = {"n": n, "tty": tty, "principal": principal, "phase": phase, "user": user}
        header = {
            "version": 2,
            # Players refuse a screen of no size, which a command without a terminal has.
            "width": cols or 80,
            "height": rows or 24,
            "timestamp": int(time.time()),
            "title": command or "",
            "env": {"TERM": term} if term else {},
            "cell": about,
        }
        self._line(header)

    def output(self, data: bytes) -> None:
        """Record what the session printed, in the order it arrived."""
        self.bytes_out += len(data)
        if self._fd < 0 or self.truncated:
            return
        if self._limit is not None and self.bytes_out > self._limit:
            keep = len(data) - (self.bytes_out - self._limit)
            if text := self._printed.decode(data[:keep], final=True):
                self._event("o", text)
            self.truncated = True
            self._event("m", "truncated")
        elif text := self._printed.decode(data):
            self._event("o", text)

    def typed(self, data: bytes, by: str) -> None:
        """Record what `by` (a principal) sent to the session; a change of hands leaves a marker.

        What is fed to a command without terminal is counted, not recorded: it may be a file of any
        size, and asciicast has no place for it.
        """
        self.bytes_in += len(data)
        if self._fd < 0 or not self._tty:
            if by != self._typist:
                self._typist = by
                self._event("m", f"typed by {by}")
            return
        if by != self._typist:
            if rest := self._keyed.decode(b"", final=True):
                self._event("i", rest)
            self._typist = by
            self._event("m", f"typed by {by}")
        if text := self._keyed.decode(data):
            self._event("i", text)

    def resize(self, cols: int, rows: int) -> None:
        """Record the terminal's new size in characters."""
        self._event("r", f"{cols}x{rows}")

    def marker(self, label: str) -> None:
        """Record something that happened to the session, as `paused by operator`."""
        self._event("m", label)

    def close(self, *, exit: int | None = None, signal: str | None = None, reason: str = "") -> None:
        """End with a marker (`end exit=0`, `end signal=KILL deadline`). Closing twice is fine."""
        if self._fd < 0:
            return
        if rest := self._printed.decode(b"", final=True):
            self._event("o", rest)
        if rest := self._keyed.decode(b"", final=True):
            self._event("i", rest)
        how = f"signal={signal}" if signal else f"exit={'?' if exit is None else exit}"
        self._event("m", f"end {how} {reason}".rstrip())
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __repr__(self) -> str:
        state = self.fault or ("truncated" if self.truncated else "closed" if self._fd < 0 else "open")
        return f"<Recording {self.path.name} out={self.bytes_out} {state}>"

    def _event(self, code: str, text: str) -> None:
        self._line([round(time.monotonic() - self._start, 6), code, text])

    def _line(self, value: object) -> None:
        if self._fd < 0:
            return
        try:
            raw = _encode(value)
        except UnicodeEncodeError:  # a lone surrogate in a command or a label that is not UTF-8
            raw = _encode(_encodable(value))
        raw += b"\n"
        try:
            done = os.write(self._fd, raw)
            reason = "no space left" if done < len(raw) else ""
            if reason:
                os.ftruncate(self._fd, self._size)
        except OSError as error:
            reason = error.strerror or str(error)
        self._size += len(raw)
        if reason:
            self.fault = f"the recording {self.path} stopped: {reason}"
            os.close(self._fd)
            self._fd = -1


def _encodable(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {key: _encodable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return value
