"""Real clients through the proxy: what they send is not what a specification would have them send."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import http.server
import shutil
import ssl
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from proxying import POLICY, World, certificate, run, world

BIG = bytes(range(256)) * 8192  # 2 MiB


class Site(http.server.BaseHTTPRequestHandler):
    """An origin that does what origins do."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1234")
        self.end_headers()

    def do_GET(self) -> None:
        body, status, headers = b"hello", 200, {}
        if self.path == "/range":
            status, body, headers = 206, BIG[10:20], {"Content-Range": f"bytes 10-19/{len(BIG)}"}
            assert self.headers["Range"] == "bytes=10-19"
        elif self.path == "/gzip":
            body, headers = gzip.compress(b"hello" * 100), {"Content-Encoding": "gzip"}
        elif self.path == "/redirect":
            status, body, headers = 302, b"", {"Location": "http://no.example/"}
        elif self.path == "/empty":
            self.send_response(204)
            self.end_headers()
            return
        elif self.path == "/chunked":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in (b"hel", b"lo"):
                self.wfile.write(b"%x;name=value\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\nX-Trailer: 1\r\n\r\n")
            return
        elif self.path == "/big":
            body = BIG
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = hashlib.sha256(body).hexdigest().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_PUT


@asynccontextmanager
async def site(tls: tuple[Path, Path] | None = None) -> AsyncIterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads = True
    if tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        await asyncio.to_thread(server.shutdown)
        await asyncio.to_thread(thread.join)
        server.server_close()


def needs(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs {program}")
    return found


async def curl(w: World, *argv: str) -> tuple[int, bytes]:
    return await run(needs("curl"), "-sS", "--max-time", "20", "-x", w.url, *argv)


async def test_curl_gets_what_the_origin_has() -> None:
    async with world() as w, site() as port:
        base = f"http://ok.example:{port}"
        assert await curl(w, f"{base}/") == (0, b"hello")
        assert await curl(w, f"http://OK.example.:{port}/") == (0, b"hello")  # 54
        assert await curl(w, f"{base}/chunked") == (0, b"hello")  # 84
        assert await curl(w, "-0", f"{base}/chunked") == (0, b"hello")
        assert await curl(w, "-r", "10-19", f"{base}/range") == (0, BIG[10:20])  # 86
        assert await curl(w, "--compressed", f"{base}/gzip") == (0, b"hello" * 100)
        assert await curl(w, f"{base}/?q=ü") == (0, b"hello")
        assert await curl(w, f"{base}/empty") == (0, b"")
        status, head = await curl(w, "-I", f"{base}/")
        assert status == 0
        assert b"Content-Length: 1234\r\n" in head
        assert await curl(w, f"{base}/big") == (0, BIG)
        # Two requests over one connection
        assert await curl(w, f"{base}/", f"{base}/empty", f"{base}/chunked") == (0, b"hellohello")
        assert {hit.host for hit in w.cell.hits} == {"ok.example"}
        assert all(end.status in (200, 204, 206) and not end.error for end in w.cell.ends)


async def test_curl_puts_two_megabytes_with_an_expectation(tmp_path: Path) -> None:  # 83
    file = tmp_path / "big"
    file.write_bytes(BIG)
    expected = hashlib.sha256(BIG).hexdigest().encode()
    async with world() as w, site() as port:
        url = f"http://ok.example:{port}/"
        status, out = await curl(w, "-v", "-T", str(file), url)
        assert status == 0
        assert out.endswith(expected)
        assert b"> Expect: 100-continue" in out
        assert b"< HTTP/1.1 100 Continue" in out
        assert await curl(w, "-T", "-", "-H", "Transfer-Encoding: chunked", url) == (
            0,
            hashlib.sha256(b"").hexdigest().encode(),
        )
        assert await curl(w, "-d", f"@{file}", url) != (0, b"")
        assert await curl(w, "--data-binary", f"@{file}", url) == (0, expected)
        assert w.cell.ends[0].sent > len(BIG)


async def test_a_denied_upload_is_told_why(tmp_path: Path) -> None:
    file = tmp_path / "big"
    file.write_bytes(BIG)
    async with world() as w:
        for extra in ([], ["-H", "Expect:"]):
            status, out = await curl(w, *extra, "-T", str(file), "http://no.example/")
            assert b"denied: no.example is not in allowed_hosts of [agent]" in out
            assert status in (0, 55, 56)


async def test_a_redirect_to_a_denied_host_is_denied() -> None:  # 99
    async with world() as w, site() as port:
        status, out = await curl(w, "-L", "-w", "%{http_code}", f"http://ok.example:{port}/redirect")
        assert status == 0
        assert out.endswith(b"403")
        assert [hit.allowed for hit in w.cell.hits] == [True, False]


async def test_https_goes_through_a_tunnel_unopened(tmp_path: Path) -> None:
    crt, key = certificate(tmp_path, "ok.example")
    async with world() as w, site((crt, key)) as port:
        url = f"https://ok.example:{port}/"
        assert await curl(w, "--cacert", str(crt), url) == (0, b"hello")
        assert await curl(w, "--cacert", str(crt), "-T", "-", url) == (
            0,
            hashlib.sha256(b"").hexdigest().encode(),
        )
        status, out = await curl(w, "--cacert", str(crt), "https://no.example/")
        assert status == 56
        assert b"403" in out
        # 80: the name in the TLS hello is another one
        status, out = await curl(
            w, "-k", "--connect-to", f"no.example:443:ok.example:{port}", "https://no.example/"
        )
        assert status != 0
        assert w.cell.ends[-1].error == "TLS asks for no.example, the connection is to ok.example"
        assert [(hit.method, hit.host, hit.path) for hit in w.cell.hits[:1]] == [
            ("CONNECT", "ok.example", "")
        ]
        assert w.cell.ends[0].sni == "ok.example"


async def test_wget_and_urllib(tmp_path: Path) -> None:
    crt, key = certificate(tmp_path, "ok.example")
    async with world(POLICY) as w, site() as port, site((crt, key)) as tls:
        env = {"http_proxy": w.url, "https_proxy": w.url, "SSL_CERT_FILE": str(crt)}
        plain, secret = f"http://ok.example:{port}/chunked", f"https://ok.example:{tls}/"
        script = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=20).read())"
        for url in (plain, secret):
            assert await run(sys.executable, "-c", script, url, env=env) == (0, b"b'hello'\n")
        assert (await run(sys.executable, "-c", script, "http://no.example/", env=env))[0] == 1
        wget = needs("wget")
        for url in (plain, secret):
            argv = [wget, "-q", "-O", "-", "--tries=1", f"--ca-certificate={crt}", url]
            assert await run(*argv, env=env) == (0, b"hello")
        assert (await run(wget, "-q", "-O", "-", "--tries=1", "http://no.example/", env=env))[0] == 8
        assert all(not end.error for end in w.cell.ends)
