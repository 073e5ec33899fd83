"""Many requests at once: argv HOST PORT COUNT WAY (proxy or direct). Told are the first lines of the answers."""

import socket
import sys
import threading

from calls import tell

host, port, count, way = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
told, all_here = [], threading.Barrier(count)
to = ("127.0.0.1", 3128) if way == "proxy" else (host, port)
target = f"http://{host}:{port}/" if way == "proxy" else "/"


def ask():
    all_here.wait()
    try:
        with socket.create_connection(to, 30) as link:
            link.settimeout(30)
            link.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            told.append(link.recv(65536).split(b"\r\n")[0].decode())
    except OSError as error:
        told.append(type(error).__name__)


threads = [threading.Thread(target=ask) for _ in range(count)]
for one in threads:
    one.start()
for one in threads:
    one.join()
tell(told)
