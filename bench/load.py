"""The client of the egress rows, and their origin: the standard library alone, for it also runs inside a cell.

    python3 load.py origin                       prints its port; GET, and `b` for BULK bytes
    python3 load.py requests PROXY TARGET N S    requests a second over N connections for S seconds
    python3 load.py connect PROXY TARGET N       the median time until a CONNECT is answered, in ms
    python3 load.py tunnel PROXY TARGET          MB/s of one tunnel
    python3 load.py idle PROXY TARGET N          opens N tunnels, says so, and keeps them until its stdin ends

PROXY is a port of 127.0.0.1, 0 for none; TARGET is host:port. The bulk is sent from a file in memory and
dropped unread by the kernel, so that neither end of a tunnel is what is measured.
"""

from __future__ import annotations

import os
import resource
import select
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable

PIECE = 8_000_000
BULK = 125 * PIECE
BODY = b"x" * 100
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


def origin() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    listener.setblocking(False)
    print(listener.getsockname()[1], flush=True)
    poll, open_ones, heard = select.epoll(), dict[int, socket.socket](), dict[int, bytes]()
    poll.register(listener, select.EPOLLIN)
    while True:
        for number, _ in poll.poll():
            if number == listener.fileno():
                try:
                    one, _ = listener.accept()
                except BlockingIOError:
                    continue
                prompt(one)
                open_ones[one.fileno()], heard[one.fileno()] = one, b""
                poll.register(one, select.EPOLLIN)
                continue
            one = open_ones[number]
            try:
                said = one.recv(65536)
            except OSError:
                said = b""
            bulky = said.startswith(b"b")
            if said and not bulky:
                whole = heard[number] = heard[number] + said
                if not whole.endswith(b"\r\n\r\n"):
                    continue
                heard[number] = b""
                one.sendall(ANSWER)
                if b"connection: close" not in whole.lower():
                    continue
            poll.unregister(one)
            del open_ones[number]
            if bulky:
                threading.Thread(target=bulk, args=(one,), daemon=True).start()
            else:
                one.close()


def bulk(one: socket.socket) -> None:
    one.setblocking(True)
    memory = os.memfd_create("bulk")
    os.write(memory, bytes(PIECE))
    for _ in range(BULK // PIECE):
        sent = 0
        while sent < PIECE:
            sent += os.sendfile(one.fileno(), memory, sent, PIECE - sent)
    os.close(memory)
    one.close()


def prompt(one: socket.socket) -> None:
    """Acknowledge at once: tinyproxy writes its heads in pieces, and would wait 40 ms for each."""
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def proxied(proxy: int, target: str) -> tuple[str, int]:
    host, _, port = target.rpartition(":")
    return ("127.0.0.1", proxy) if proxy else (host, int(port))


def requests(proxy: int, target: str, count: int, seconds: float) -> None:
    """One request at a time on each connection. Who closes after an answer is connected to anew."""
    request = f"GET {f'http://{target}' if proxy else ''}/ HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()
    address = proxied(proxy, target)
    poll, open_ones, got = select.epoll(), dict[int, socket.socket](), dict[int, bytes]()

    def begin() -> None:
        one = socket.create_connection(address)
        prompt(one)
        open_ones[one.fileno()], got[one.fileno()] = one, b""
        poll.register(one, select.EPOLLIN)
        one.send(request)

    for _ in range(count):
        begin()
    answers, closed = 0, 0
    start = time.perf_counter()
    end = start + seconds
    while time.perf_counter() < end:
        for number, _ in poll.poll(1):
            one = open_ones[number]
            try:
                said = one.recv(65536)
            except ConnectionResetError:
                said = b""
            got[number] += said
            whole = got[number].endswith(BODY)
            close = not said or (whole and b"connection: close" in got[number].lower())
            if whole:
                assert b" 200 " in got[number][:20], got[number]
                answers += 1
                got[number] = b""
            if close:
                closed += 1
                poll.unregister(one)
                del open_ones[number], got[number]
                one.close()
                begin()
            elif whole:
                one.send(request)
    print(f"{answers / (time.perf_counter() - start):.0f} {closed}")


def tunnelled(proxy: int, target: str) -> socket.socket:
    one = socket.create_connection(proxied(proxy, target))
    prompt(one)
    if not proxy:
        return one
    one.send(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    said = b""
    while b"\r\n\r\n" not in said:
        more = one.recv(4096)
        assert more, said
        said += more
    assert b" 200 " in said[:20], said
    return one


def connect(proxy: int, target: str, count: int) -> None:
    times = []
    for _ in range(count):
        start = time.perf_counter()
        one = tunnelled(proxy, target)
        times.append(time.perf_counter() - start)
        one.close()
    print(f"{statistics.median(times) * 1000:.3f}")


def tunnel(proxy: int, target: str) -> None:
    with tunnelled(proxy, target) as one:
        one.send(b"b" * 16)
        start, size = time.perf_counter(), 0
        while done := len_dropped(one):
            size += done
        took = time.perf_counter() - start
    assert size == BULK, size
    print(f"{size / took / 1e6:.0f}")


_INTO = bytearray(1 << 20)


def len_dropped(one: socket.socket) -> int:
    """Take what is there without copying it: MSG_TRUNC, tcp(7)."""
    return one.recv_into(_INTO, len(_INTO), socket.MSG_TRUNC)


def idle(proxy: int, target: str, count: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held = [tunnelled(proxy, target) for _ in range(count)]
    print(len(held), flush=True)
    sys.stdin.read()


def main(what: str, *words: str) -> None:
    if what == "origin":
        origin()
        return
    proxy, target, *numbers = words
    calls: dict[str, Callable[..., None]] = {
        "requests": requests,
        "connect": connect,
        "tunnel": tunnel,
        "idle": idle,
    }
    calls[what](int(proxy), target, *map(int, numbers))


if __name__ == "__main__":
    main(*sys.argv[1:])
