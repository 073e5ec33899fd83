"""The append-only record of a cell: one event a line, numbered and hash-chained (promises G4, R2).

    {"seq":1,"t":…,"event":{"kind":"cell",…},"prev":"","hash":"5f…"}\n
    {"seq":2,"t":…,"event":{"kind":"phase",…},"prev":"5f…","hash":"09…"}\n

`hash` is the SHA-256 of the line's own bytes with the `hash` member cut out; it is taken over bytes,
not over a parsed value, so a line of a newer version with an unknown kind can still be verified.
A line is written by one `write`, so whoever is killed loses at most the line being written; readers
leave a torn tail alone, and the next writer cuts it off and says so in a `Fault` event.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from cell.errors import HarnessError
from cell.events import AnyEvent, Fault, Line
from cell.records import encode

_EMPTY_HASH = b',"hash":""}'
_HASH_LENGTH = len(_EMPTY_HASH) + 64  # of the member, in bytes
_POLL_BYTES = 4 << 20
_lines = msgspec.json.Decoder(Line)


class _Link(msgspec.Struct):
    """What the chain needs of a line, whatever its event."""

    seq: int
    prev: str
    hash: str


_links = msgspec.json.Decoder(_Link)


class Journal:
    """The one writer of an events file; a second one is refused while the first lives.

    Opening an existing file continues its chain. The file is created with its folder's default
    permissions; the descriptor is not inherited by programs that are executed.

    Raises:
        HarnessError: the file cannot be opened, or another process is writing it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seq, self.head, self._size = 0, "", 0
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._fd = os.open(path, flags, 0o644)
        except OSError as error:
            raise HarnessError(f"cannot open the journal {path}: {error.strerror}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            faults = self._resume()
            for message in faults:
                self.append(Fault(where="journal", message=message))
        except BlockingIOError as error:
            os.close(self._fd)
            raise HarnessError(f"the journal {path} is being written by another process") from error
        except BaseException:
            os.close(self._fd)
            raise

    def append(self, event: AnyEvent, *, t: float | None = None) -> Line:
        """Write `event` and return its line; `t` is seconds since the epoch, by default now.

        Raises:
            HarnessError: it could not be written (disk full, closed). The file is left whole and
                the chain where it was: a later append may succeed.
        """
        when = time.time() if t is None else t
        line = Line(seq=self.seq + 1, t=when, event=event, prev=self.head)
        try:
            open_line = encode(line)
        except UnicodeEncodeError:  # a lone surrogate, from a path or an argument that is not UTF-8
            line = msgspec.structs.replace(line, event=_encodable(event))
            open_line = encode(line)
        body = open_line.removesuffix(_EMPTY_HASH) + b"}"
        digest = hashlib.sha256(body).hexdigest()
        raw = body[:-1] + b',"hash":"' + digest.encode() + b'"}\n'
        self._write(raw)
        self.seq, self.head = line.seq, digest
        return msgspec.structs.replace(line, hash=digest)

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self._size

    @property
    def closed(self) -> bool:
        """Whether nothing is written any more."""
        return self._fd < 0

    def close(self) -> None:
        """Close the file and let another writer in. Closing twice is fine."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Journal {self.path} seq={self.seq}{'' if self._fd >= 0 else ' closed'}>"

    def _write(self, raw: bytes) -> None:
        try:
            done = os.write(self._fd, raw)
            reason = "no space left" if done < len(raw) else ""
        except OSError as error:
            done, reason = 0, error.strerror or str(error)
        if not reason:
            self._size += len(raw)
            return
        if done:
            os.ftruncate(self._fd, self._size)
        raise HarnessError(f"cannot write the journal {self.path}: {reason}")

    def _resume(self) -> list[str]:
        """Find the end of the chain, cut a torn line off, and return what was found wrong."""
        faults: list[str] = []
        size = os.fstat(self._fd).st_size
        whole, last = _last_line(self._fd, size)
        if whole < size:
            os.ftruncate(self._fd, whole)
            faults.append(f"a torn last line of {size - whole} bytes was cut off")
        self._size = whole
        if last:
            try:
                link = _links.decode(last)
                self.seq, self.head = link.seq, link.hash
            except msgspec.MsgspecError:
                # Kept as it is, for it is evidence: the chain goes on from its bytes, and `verify` names it.
                self.seq = sum(1 for _ in _raw_lines(self.path))
                self.head = hashlib.sha256(last).hexdigest()
                faults.append(f"line {self.seq} cannot be read")
        return faults


def read(path: Path) -> Iterator[Line]:
    """Yield the whole, readable lines of `path`; a torn tail and unknown kinds are passed over.

    Raises:
        OSError: the file cannot be opened.
    """
    for raw in _raw_lines(path):
        line = _parsed(raw)
        if line is not None:
            yield line


def verify(path: Path) -> str | None:
    """Return None when the chain is whole, else what is wrong, naming the `seq` where it breaks.

    A torn last line is wrong too: something was lost. Raises OSError when the file cannot be read.
    """
    head = ""
    for seq, raw in enumerate(_raw_lines(path, torn=True), 1):
        if not raw.endswith(b"\n"):
            return f"seq {seq}: the last line is torn ({len(raw)} bytes)"
        text = raw[:-1]
        try:
            link = _links.decode(text)
        except msgspec.MsgspecError as error:
            return f"seq {seq}: the line cannot be read: {error}"
        body, member = text[:-_HASH_LENGTH] + b"}", b',"hash":"%s"}' % link.hash.encode()
        if link.seq != seq:
            return f"seq {seq}: the line says it is {link.seq}; a line was taken away or put in"
        if link.prev != head:
            return f"seq {seq}: it does not follow the line before it"
        if not text.endswith(member) or hashlib.sha256(body).hexdigest() != link.hash:
            return f"seq {seq}: the line was changed"
        head = link.hash
    return None


class Tail:
    """Reads what is new in an events file that may not exist yet, grow, be cut or be replaced."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self._inode = 0
        self._seen = -1

    def poll(self) -> list[Line]:
        """Return the lines that became whole since the last call, about 4 MiB of them at most.

        Never raises for a file that is missing, vanishing or torn: it returns nothing then. A file
        that shrank below what was read, or was replaced, is read again from its start.
        """
        try:
            status = self.path.stat()
            if status.st_ino != self._inode:
                if self._inode:
                    self.offset = 0
                self._inode, self._seen = status.st_ino, -1
            if status.st_size < self.offset:
                self.offset = 0
            if status.st_size in (self._seen, self.offset):
                return []
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read(_POLL_BYTES)
                while b"\n" not in data and (more := file.read(_POLL_BYTES)):
                    data += more
        except OSError:
            return []
        whole = data.rfind(b"\n") + 1
        self.offset += whole
        # A torn tail is looked at again only when the file has changed its size.
        self._seen = status.st_size if self.offset + len(data) - whole >= status.st_size else -1
        parsed = (_parsed(raw) for raw in data[:whole].splitlines())
        return [line for line in parsed if line is not None]


def _parsed(raw: bytes) -> Line | None:
    try:
        return _lines.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _raw_lines(path: Path, *, torn: bool = False) -> Iterator[bytes]:
    with path.open("rb") as file:
        for raw in file:
            if torn or raw.endswith(b"\n"):
                yield raw


def _last_line(fd: int, size: int) -> tuple[int, bytes]:
    """Return where the last whole line ends, and that line without its newline."""
    tail, start = b"", size
    while start > 0:
        step = min(start, 64 << 10)
        start -= step
        tail = os.pread(fd, step, start) + tail
        end = tail.rfind(b"\n")
        begin = tail.rfind(b"\n", 0, end) if end > 0 else -1
        if begin >= 0 or (start == 0 and end >= 0):
            return start + end + 1, tail[begin + 1 : end]
    return 0, b""


def _encodable(event: AnyEvent) -> AnyEvent:
    fields = {
        name: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for name, value in msgspec.structs.asdict(event).items()
    }
    return msgspec.structs.replace(event, **fields)
