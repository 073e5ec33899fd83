"""A forward proxy's side of one client connection, without sockets: bytes and answers in, commands out.

    head ──Dial──▶ dial ──reached──▶ reply ──▶ head …        (one exchange after the other)
      │              │                 └─101──▶ tunnel
      ├─Record, 403  ├─failed, 4xx/5xx
      └─400          └─CONNECT, 200 ──▶ tunnel               (from here on bytes are bytes)

The caller carries out the commands in order. It calls `from_client` and `from_origin` with what it reads
(`b""` at the end), `reached` or `failed` after a `Dial`, and `client_lost` when the client is gone. Every
request is decided anew, and no byte of it goes on before its `Dial` or `Record` says allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from cell.policy import Decision
from cell.policy.hosts import Host
from cell.wire import bodies, heads, orders
from cell.wire.heads import Bad, Request, Response
from cell.wire.orders import Attempt, Command

# Bytes of a client kept while they cannot be passed on; beyond it is read no further.
KEPT = 64 * 1024
# Smaller writes become one.
_SMALL = 16 * 1024
# Requests and pieces of bodies in one turn.
_TURNS = 32
State = Literal["head", "dial", "reply", "tunnel", "closed"]


class Conversation:
    """One client connection. `decide` is asked once for each request, with its canonical host and port."""

    def __init__(self, decide: Callable[[Host, int], Decision]) -> None:
        self.state: State = "head"
        # Whether requests are here that were not looked at, so that others get a turn.
        self.more = False
        self._decide = decide
        self._commands: list[Command] = []
        # What came and is not used yet, and how far it was searched for the end of a head.
        self._ahead, self._scanned = bytearray(), 0
        self._answer, self._answer_scanned = bytearray(), 0
        self._client_ended = False
        # The connection to an origin that is open.
        self._origin: tuple[Host, int] | None = None
        self._kept = False
        # This exchange.
        self._request: Request | None = None
        self._attempt: Attempt | None = None
        self._upload: bodies.Body | None = None
        self._response: Response | None = None
        self._download: bodies.Body | None = None
        self._sent = self._received = 0

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way: no part of a request is here, and no answer is owed."""
        return self.state == "head" and not self._ahead

    @property
    def full(self) -> bool:
        """Whether the client should not be read for now."""
        return len(self._ahead) > KEPT

    def from_client(self, data: bytes) -> list[Command]:
        """Take bytes of the client; none is its end, after which it may still read."""
        if not data:
            self._client_ended = True
        elif self.state == "reply" and self._upload is not None and not self._ahead:
            self._guarded(lambda: self._uploaded(data))
        elif self.state != "closed":
            self._ahead += data
        self._guarded(self._advance)
        return self._flush()

    def client_lost(self, why: str = "") -> list[Command]:
        """Take note that the client is gone, in both directions; `why`, if it did not go by itself."""
        if self.state in {"dial", "reply"}:
            self._over(why or "the client went away")
        self._close_origin()
        self.state = "closed"
        return self._flush()

    def refuse(self, status: int, words: str) -> list[Command]:
        """Answer instead of reading on: what is here of a request took too long, or there is no room."""

        def step() -> None:
            raise Bad(status, words)

        if self.state == "head":
            self._guarded(step)
        return self._flush()

    def go_on(self) -> list[Command]:
        """Read on, where there is `more`: others have had their turn."""
        self.more = False
        self._guarded(self._advance)
        return self._flush()

    def reached(self) -> list[Command]:
        """Take note that the origin of the last `Dial` is connected."""
        request = self._request
        if self.state != "dial" or request is None:
            return []
        if request.method == "CONNECT":
            self._tunnel(200, b"HTTP/1.1 200 Connection established\r\n\r\n", request.host)
        else:
            self._origin, self._kept = (request.host, request.port), False
            self._forward(request)
            self._guarded(self._advance)
        return self._flush()

    def failed(self, status: int, words: str) -> list[Command]:
        """Take note that there is no way to the origin of the last `Dial`; the client is told so."""
        if self.state == "dial":
            self._refuse(status, words)
            self._guarded(self._advance)
        return self._flush()

    def origin_lost(self, error: str) -> list[Command]:
        """Take note that the connection to the origin broke: what came of a response is not all of it."""
        if self._origin is not None:
            if self.state == "reply" and self._response is not None:
                self._fail(f"the origin was lost: {error}")
            elif self.state == "reply":
                self._origin_end()
                self._guarded(self._advance)
            else:
                self._close_origin()
        return self._flush()

    def from_origin(self, data: bytes) -> list[Command]:
        """Take bytes of the origin; none is its end."""
        if self._origin is not None:
            if self.state == "reply":
                self._guarded((lambda: self._replied(data)) if data else self._origin_end)
                self._guarded(self._advance)
            else:  # Nobody asked.
                self._close_origin()
        return self._flush()

    # What the client says

    def _advance(self) -> None:
        for _ in range(_TURNS):
            if not self._ahead or self.state not in {"head", "reply"}:
                break
            if self.state == "head":
                head, self._scanned = heads.take(self._ahead, self._scanned, request=True)
                if head is None:
                    break
                self._ask(heads.read_request(head), len(head))
            elif self._upload is None:
                break
            else:
                data = bytes(self._ahead)
                self._ahead.clear()
                self._uploaded(data)
        else:
            self.more = True
        if self.more or not self._client_ended:
            return
        if self.state == "head":
            self._close_client()
        elif self.state == "reply" and self._upload is not None:
            # The rest of the body will not come: the origin must not take it for a whole one.
            self._over("the client ended before its body did")
            self._close_client()

    def _ask(self, request: Request, size: int) -> None:
        decision = self._decide(request.host, request.port)
        self._request, self._response = request, None
        self._sent, self._received = size, 0
        self._upload = bodies.of_request(request)
        self._attempt = orders.attempt(request, decision)
        if not decision.allowed:
            self._commands.append(orders.Record(self._attempt))
            self._refuse(403, decision.reason, denied=True)
            return
        if request.repeatable and self._origin == (request.host, request.port):
            self._kept = True
            self._commands.append(orders.Record(self._attempt))
            self._forward(request)
            return
        self._close_origin()
        self.state = "dial"
        self._commands.append(orders.Dial(self._attempt))

    def _forward(self, request: Request) -> None:
        self.state = "reply"
        self._commands.append(orders.ToOrigin(heads.write_request(request)))

    def _uploaded(self, data: bytes) -> None:
        assert self._upload is not None and self._request is not None
        piece = self._upload.feed(data)
        self._sent += len(data) - len(piece.rest)
        chunked = self._request.length is None
        if piece.data:
            self._commands.append(orders.ToOrigin(heads.chunk(piece.data) if chunked else piece.data))
        if piece.over:
            self._upload = None
            self._ahead[:0] = piece.rest
            if chunked:
                self._commands.append(orders.ToOrigin(heads.last_chunk(piece.trailers)))

    # What the origin says

    def _replied(self, data: bytes) -> None:
        if self._download is None:
            self._answer += data
            while self._download is None and self.state == "reply" and self._answer:
                head, self._answer_scanned = heads.take(self._answer, self._answer_scanned, request=False)
                if head is None:
                    return
                self._respond(head)
            data = bytes(self._answer)
            self._answer.clear()
            if not data or self._download is None:
                if data:  # More than was asked for.
                    self._close_origin()
                return
        piece = self._download.feed(data)
        assert self._response is not None and self._request is not None
        framed = self._response.length is None and self._request.modern
        if piece.data:
            self._say(heads.chunk(piece.data) if framed else piece.data)
        if piece.over:
            self._replied_whole(piece.trailers, clean=not piece.rest)

    def _respond(self, head: bytes) -> None:
        request = self._request
        assert request is not None
        response = heads.read_response(head, request.method, websocket=request.websocket)
        if response.status == 101:
            self._tunnel(101, heads.write_response(response, chunked=False, close=False, switch=True))
            return
        if response.status < 200:
            if request.modern:
                self._say(heads.write_response(response, chunked=False, close=False))
            return
        self._response = response
        framed = response.has_body and response.length is None and request.modern
        close = not request.keep or (request.expect and self._upload is not None)
        self._say(heads.write_response(response, chunked=framed, close=close))
        if response.has_body and response.length != 0:
            self._download = bodies.of_response(response)
        else:
            self._replied_whole((), clean=not self._answer)

    def _replied_whole(self, trailers: heads.Headers, *, clean: bool) -> None:
        request, response = self._request, self._response
        assert request is not None and response is not None
        if response.has_body and response.length is None and request.modern:
            self._say(heads.last_chunk(trailers))
        self._over()
        unread = self._upload is not None
        if not (response.keep and clean and response.framed) or unread:
            self._close_origin()
        if request.keep and not unread:
            self._begin()
        else:
            self._close_client()

    def _origin_end(self) -> None:
        if self._download is not None and self._download.ends():
            self._replied_whole((), clean=False)
        elif self._response is not None:
            self._fail("the origin ended before its response did")
        elif self._kept and not self._answer and self._attempt is not None:
            # It closed a connection that we kept, before it can have seen the request.
            self._close_origin()
            self.state = "dial"
            self._commands.append(orders.Dial(self._attempt, again=True))
        else:
            self._close_origin()
            self._refuse(502, "the origin closed the connection without an answer")

    # What we say

    def _guarded(self, step: Callable[[], None]) -> None:
        """Take a step; a message that is not passed on becomes an answer, or the end of one under way."""
        try:
            step()
        except Bad as bad:
            if self._response is not None:
                self._fail(bad.words)
            elif self.state == "reply":
                self._refuse(bad.status, bad.words, close=True)
            else:
                self._request, self._sent, self._received = None, len(self._ahead), 0
                self._commands.append(orders.Record(orders.malformed(bad.status, bad.words)))
                self._refuse(bad.status, bad.words, close=True)

    def _refuse(self, status: int, words: str, *, close: bool = False, denied: bool = False) -> None:
        """Answer instead of the origin; go on where nothing of the request is left to read."""
        request = self._request
        close = close or request is None or not request.spent
        self._say(heads.answer(status, words, close=close, body=request is None or request.method != "HEAD"))
        self._over("" if denied else words, status=status)
        self._close_client() if close else self._begin()

    def _fail(self, error: str) -> None:
        """End an answer that is under way, so that nobody takes it for whole."""
        self._over(error)
        self._close_client(cut=True)

    def _tunnel(self, status: int, head: bytes, hello: Host | None = None) -> None:
        self._say(head)
        self.state = "tunnel"
        early, rest = bytes(self._ahead), bytes(self._answer)
        self._ahead.clear()
        self._answer.clear()
        self._commands.append(orders.Tunnel(early, rest, status, self._sent, self._received, hello))

    def _say(self, data: bytes) -> None:
        self._received += len(data)
        before = self._commands[-1] if self._commands else None
        if isinstance(before, orders.ToClient) and len(before.data) + len(data) < _SMALL:
            self._commands[-1] = orders.ToClient(before.data + data)
        else:
            self._commands.append(orders.ToClient(data))

    def _begin(self) -> None:
        self.state, self._request, self._attempt = "head", None, None
        self._upload = self._download = self._response = None
        self._scanned = 0

    def _over(self, error: str = "", *, status: int = 0) -> None:
        status = status or (self._response.status if self._response is not None else 0)
        self._commands.append(orders.Over(status, self._sent, self._received, error))

    def _close_origin(self) -> None:
        if self._origin is not None:
            self._origin = None
            self._commands.append(orders.CloseOrigin())
        self._answer.clear()
        self._answer_scanned = 0

    def _close_client(self, *, cut: bool = False) -> None:
        self._close_origin()
        self._ahead.clear()
        self.state = "closed"
        self._commands.append(orders.CloseClient(cut))

    def _flush(self) -> list[Command]:
        commands, self._commands = self._commands, []
        return commands
