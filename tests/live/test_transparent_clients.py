"""Programs of every day that know of no proxy, on the transparent way (promise N6, attack 42)."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from .test_transparent_way import open_world

pytestmark = pytest.mark.live

SSL_REQUEST = bytes.fromhex("0000000804d2162f")  # PostgreSQL's first word
COMMIT = "7b6dd8ad3a1fc9a5e0b0b4a4c0ba1d4bd6ae9c5e"
JAVA = """
import java.io.*;
class T { public static void main(String[] a) throws Exception {
    try (var in = new java.net.URL(a[0]).openStream()) { System.out.print(new String(in.readAllBytes())); } } }
"""
FETCH = "fetch(process.argv[1]).then(r => r.text()).then(t => process.stdout.write(t)).catch(e => console.log('failed', e.cause?.code))"
CLIENTS = {
    "curl": "curl -sS --noproxy '*' TARGET",
    "curl -4": "curl -sS -4 TARGET",
    "wget": "wget -qO- -t1 --no-proxy TARGET",
    "python3": "python3 -c \"import urllib.request as u; print(u.urlopen('TARGET').read().decode(), end='')\"",
    "node": f'node -e "{FETCH}" TARGET',
    "git": "git ls-remote TARGETrepo.git | cut -f1",
    "java": "cat > /tmp/T.java <<'E'\n" + JAVA + "E\njava /tmp/T.java TARGET",
    "psql": "psql -h HOST -p PORT -U nobody -d none 2>&1 | grep -o 'FATAL: .*'",
    "ssh": "ssh -v -o ConnectTimeout=5 -p PORT -o StrictHostKeyChecking=no HOST 2>&1 | grep -o 'remote software version .*'",
}
EXPECTED = {"git": COMMIT, "psql": "FATAL:  greeting", "ssh": "remote software version greeting"}


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """HTTP, or a database's refusal, for who speaks first; an SSH server's greeting for who waits for one."""
    with suppress(OSError, asyncio.IncompleteReadError):
        try:
            async with asyncio.timeout(0.7):
                line = await reader.read(8)
        except TimeoutError:
            line = b""
        if line == SSL_REQUEST:
            writer.write(b"N")
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big") - 4)
            said = b"SFATAL\0C28000\0Mgreeting\0\0"
            writer.write(b"E" + (len(said) + 4).to_bytes(4, "big") + said)
        elif line.startswith(b"GET "):
            line += await reader.readuntil(b"\r\n\r\n")
            body = f"{COMMIT}\trefs/heads/main\n" if b"info/refs" in line else "whole\n"
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
            writer.write(body.encode())
        else:
            writer.write(b"SSH-2.0-greeting\r\n")
            await writer.drain()
            await reader.read(10)
        writer.close()


@pytest.mark.parametrize("program", CLIENTS)
async def test_n6_42_a_program_reaches_what_is_allowed_and_nothing_else(tmp_path: Path, program: str) -> None:
    if shutil.which(program.split(maxsplit=1)[0], path="/usr/bin:/bin") is None:
        pytest.skip(f"{program} is not installed here")
    async with open_world(tmp_path) as (here, border, outside, _, _):
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def run(host: str) -> str:
            script = CLIENTS[program].replace("TARGET", f"http://{host}:{port}/").replace("PORT", str(port))
            return (await here.shell("cd /tmp; export HOME=/tmp; " + script.replace("HOST", host))).strip()

        assert await run("pkg.example.org") == EXPECTED.get(program, "whole")
        assert EXPECTED.get(program, "whole") not in await run("evil.example.net")
        assert "evil.example.net" not in outside.asked
        decided = {record.host: record.allowed for record in border.records}
        assert decided == {"pkg.example.org": True, "evil.example.net": False}
        assert all(record.pid for record in border.records)
        server.close()
