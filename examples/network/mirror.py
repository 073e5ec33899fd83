"""Two hosts in one small server, for the example tasks: a package mirror, and a host with the answers.

`python3 mirror.py [ADDRESS]` serves on port 8737 of 127.0.0.1, or of that address, until it is
interrupted. Which host was meant is in the request's Host header, as on any shared server.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import sys
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 8737
NAME = "greet-1.0-py3-none-any.whl"


def wheel() -> bytes:
    """Return a package with one module, the same bytes every time."""
    files = {
        "greet.py": 'def greet(name):\n    return f"Good day, {name}!"\n',
        "greet-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n",
        "greet-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "greet-1.0.dist-info/RECORD": "greet.py,,\n",
    }
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), text)
    return memory.getvalue()


WHEEL = wheel()
PAGES = {
    ("mirror.example", "/simple/greet/"): (
        "text/html",
        f'<a href="/files/{NAME}#sha256={hashlib.sha256(WHEEL).hexdigest()}">{NAME}</a>'.encode(),
    ),
    ("mirror.example", f"/files/{NAME}"): ("application/octet-stream", WHEEL),
    ("answers.example", "/greeting"): ("text/plain", b"Good day, world!\n"),
}


class Handler(BaseHTTPRequestHandler):
    """Answers what is in PAGES, by host and path."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer one request."""
        host = self.headers.get("Host", "").partition(":")[0]
        kind, page = PAGES.get((host, self.path), ("text/plain", b""))
        self.send_response(200 if page else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1"
    with ThreadingHTTPServer((address, PORT), Handler) as server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
