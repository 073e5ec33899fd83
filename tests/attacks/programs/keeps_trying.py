"""Ask for a URL at one proxy port again and again: argv PORT URL FILE. What is answered goes to FILE, a line each;
FILE.5 appears when there were five answers. A refused connection is no answer."""

import socket
import sys
import time

port, url, file = int(sys.argv[1]), sys.argv[2], sys.argv[3]
count = 0
while True:
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as link:
            link.settimeout(5)
            link.sendall(f"GET {url} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
            said = b""
            while more := link.recv(65536):
                said += more
    except OSError:
        time.sleep(0.02)
        continue
    with open(file, "a") as log:
        log.write(" ".join(said.decode("latin-1").split()) + "\n")
    count += 1
    if count == 5:
        open(f"{file}.5", "w").close()
    time.sleep(0.02)
