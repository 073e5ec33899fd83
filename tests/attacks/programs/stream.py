"""Move much through the proxy: argv HOST PORT BYTES. Each of four ways is told with how many bytes arrived:
a response, a request's body, and both directions of a tunnel."""

import socket
import sys

from calls import tell

host, port, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
PIECE = memoryview(bytes(1 << 20))


def begin(head):
    link = socket.create_connection(("127.0.0.1", 3128), 10)
    link.settimeout(60)
    link.sendall(head.encode())
    return link


def received(link):
    count, room = 0, bytearray(1 << 20)
    while got := link.recv_into(room):
        count += got
    return count


def sent(link):
    left = size
    while left:
        link.sendall(PIECE[:left])
        left -= min(left, len(PIECE))
    answer = link.recv(1000)
    while more := link.recv(1000):
        answer += more
    return int(answer.rsplit(b" ", 1)[1])


def head_over(link):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += link.recv(1)
    return link


close = f"Host: {host}:{port}\r\nConnection: close\r\n"
tunnel = f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"
put = f"Content-Length: {size}\r\n\r\n"
told = {}
with head_over(begin(f"GET http://{host}:{port}/{size} HTTP/1.1\r\n{close}\r\n")) as link:
    told["response"] = received(link)
with begin(f"PUT http://{host}:{port}/ HTTP/1.1\r\n{close}{put}") as link:
    told["request"] = sent(link)
with head_over(begin(tunnel)) as link:
    link.sendall(f"GET /{size} HTTP/1.1\r\n{close}\r\n".encode())
    told["down"] = received(head_over(link))
with head_over(begin(tunnel)) as link:
    link.sendall(f"PUT / HTTP/1.1\r\n{close}{put}".encode())
    told["up"] = sent(link)
tell(told)
