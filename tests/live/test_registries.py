"""Package managers in a cell, on both ways out: against a local stand-in, and the registries this machine reaches.

No registry is named here: each client's own configuration says where it would go, on the machine that
runs the test. It is resolved there and pinned, as an operator does for a mirror, and what signs
for it is whatever this machine trusts.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tarfile
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pip
import pytest

from cell.substrate.image import export, resolve
from tests.live.test_ways import hits, phase
from tests.unit.proxying import certificate
from tests.world import LiveCell

pytestmark = pytest.mark.live
Maker = Callable[..., LiveCell]
ADDRESS, PORT = "127.0.0.9", "PORT"
WAYS = ("proxy", "transparent")
UNSET = "unset http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY"
# Every client's own word for whom it trusts; and no settings of the machine's.
TRUST = """export SSL_CERT_FILE=/tmp/ca.pem PIP_CERT=/tmp/ca.pem REQUESTS_CA_BUNDLE=/tmp/ca.pem
export NODE_EXTRA_CA_CERTS=/tmp/ca.pem npm_config_cafile=/tmp/ca.pem GIT_SSL_CAINFO=/tmp/ca.pem
export PIP_CONFIG_FILE=/dev/null PYTHONPATH=/tmp/pip HOME=/tmp/home PATH=/tmp/uv/bin:$PATH
mkdir -p /tmp/home; cd /tmp/home"""
SMALL = "hello ed bc dc tree less pv sl figlet time"
APT = "apt-get -q -o Acquire::Retries=0 update && DEBIAN_FRONTEND=noninteractive apt-get -q install -y"


def installed(program: str) -> None:
    if shutil.which(program, path="/usr/local/bin:/usr/bin:/bin") is None:
        pytest.skip(f"{program} is not installed here")


def equip(cell: LiveCell, authority: bytes) -> None:
    """Put the tests' own pip and the authorities into a cell."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(Path(pip.__file__).parent, "pip")
    assert cell.ssh_bytes("mkdir -p /tmp/pip && tar -x -C /tmp/pip", input=packed.getvalue()).returncode == 0
    assert cell.ssh_bytes("cat > /tmp/ca.pem", input=authority).returncode == 0


def by(cell: LiveCell, way: str, script: str) -> str:
    """What a script prints that has to go well, by one of the ways."""
    lines = [TRUST, UNSET if way == "transparent" else ":", "set -e", script]
    done = cell.ssh("\n".join(lines), timeout=240)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def went(cell: LiveCell, way: str, host: str) -> bool:
    """Whether a connection to that host was let through by that way, and nothing by the other one."""
    found = hits(cell, host=host, allowed=True)
    return {hit["way"] for hit in found if hit["way"] != "name"} == {way}


@pytest.fixture(scope="module")
def debian() -> Iterator[Path]:
    """The files of debian:bookworm."""
    cache = Path("/var/tmp") / f"registries-{os.getpid()}"
    environment = SimpleNamespace(docker_image="debian:bookworm", dockerfile=None)
    cache.mkdir(0o700)
    yield export(resolve(environment, build_timeout_sec=60), cache)  # type: ignore[arg-type]
    shutil.rmtree(cache)


# ── the stand-in ──────────────────────────────────────────────────────────────────────────────────


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes early is no error of a test."""


class StandIn:
    """All registries in one folder, by https and by http."""

    names = ("index.example", "npm.example", "git.example", "deb.example")

    def __init__(self, folder: Path) -> None:
        self.folder, self.site = folder, folder / "site"
        self.site.mkdir()
        self.certificate, key = certificate(folder, *self.names)
        handler = functools.partial(Quiet, directory=str(self.site))
        self.servers = [Server((ADDRESS, 0), handler) for _ in range(2)]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        tls = self.servers[0]
        tls.socket = context.wrap_socket(tls.socket, server_side=True, do_handshake_on_connect=False)
        self.secure, self.plain = (server.server_address[1] for server in self.servers)
        for server in self.servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()

    def close(self) -> None:
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def write(self, path: str, data: bytes | str) -> bytes:
        data = data.encode() if isinstance(data, str) else data
        (self.site / path).parent.mkdir(parents=True, exist_ok=True)
        (self.site / path).write_bytes(data)
        return data

    def python(self) -> None:
        wheel = io.BytesIO()
        with zipfile.ZipFile(wheel, "w") as archive:
            info = "tiny_thing-1.0.dist-info"
            archive.writestr("tiny_thing.py", "ANSWER = 42\n")
            archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n")
            archive.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr(f"{info}/RECORD", "")
        name = "tiny_thing-1.0-py3-none-any.whl"
        self.write(f"simple/tiny-thing/{name}", wheel.getvalue())
        self.write(
            "simple/tiny-thing/index.html",
            f'<!DOCTYPE html><html><body><a href="{name}">{name}</a></body></html>',
        )

    def node(self) -> None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for path, text in (
                ("package.json", '{"name": "tiny-thing", "version": "1.0.0"}'),
                ("index.js", "module.exports = 42"),
            ):
                member = tarfile.TarInfo(f"package/{path}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
        data = self.write("tiny-thing-1.0.0.tgz", packed.getvalue())
        dist = {
            "tarball": f"https://npm.example:{self.secure}/tiny-thing-1.0.0.tgz",
            "shasum": hashlib.sha1(data).hexdigest(),
        }
        version = {"name": "tiny-thing", "version": "1.0.0", "dist": dist}
        document = {"name": "tiny-thing", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        self.write("tiny-thing", json.dumps(document))

    def repository(self) -> None:
        work, bare = self.folder / "work", self.site / "thing.git"
        for line in (
            ["init", "-q", "-b", "main", work],
            [
                "-C",
                work,
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "one",
            ],
            ["clone", "-q", "--bare", work, bare],
            ["-C", bare, "update-server-info"],
        ):
            subprocess.run(["git", *line], check=True, capture_output=True)

    def debian(self) -> None:
        index = []
        for number in range(10):
            name, tree = f"tiny-{number}", self.folder / f"tiny-{number}"
            (tree / "DEBIAN").mkdir(parents=True)
            (tree / "usr/share").mkdir(parents=True)
            (tree / f"usr/share/{name}").write_text("42")
            control = (
                f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: small\n"
            )
            (tree / "DEBIAN/control").write_text(control)
            package = self.site / f"{name}.deb"
            command = ["dpkg-deb", "--root-owner-group", "-b", tree, package]
            subprocess.run(command, check=True, capture_output=True)
            data = package.read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            index.append(f"{control}Filename: ./{name}.deb\nSize: {len(data)}\nSHA256: {digest}\n")
        self.write("Packages.gz", gzip.compress("\n".join(index).encode()))


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandIn]:
    (tmp_path / "registry").mkdir()
    one = StandIn(tmp_path / "registry")
    yield one
    one.close()


def cell_of(make_cell: Maker, stand_in: StandIn, host: str, **more: object) -> LiveCell:
    cell = make_cell(
        agent_phase=phase("allowlist", host),
        pins=tuple((name, ADDRESS) for name in StandIn.names),
        **more,
    )
    equip(cell, stand_in.certificate.read_bytes())
    return cell


@pytest.mark.parametrize("way", WAYS)
def test_pip_and_uv_take_a_wheel_from_the_stand_in(make_cell: Maker, stand_in: StandIn, way: str) -> None:
    installed("python3")
    stand_in.python()
    cell = cell_of(make_cell, stand_in, "index.example")
    url = f"https://index.example:{stand_in.secure}/simple/"
    by(cell, way, f"python3 -m pip download -q --no-deps -d down --index-url {url} tiny-thing")
    by(cell, way, f"python3 -m pip install -q --no-deps --target lib --index-url {url} tiny-thing")
    assert by(
        cell, way, "ls down; cd lib; python3 -c 'import tiny_thing; print(tiny_thing.ANSWER)'"
    ).split() == [
        "tiny_thing-1.0-py3-none-any.whl",
        "42",
    ]
    if shutil.which("uv", path="/usr/local/bin:/usr/bin:/bin"):
        by(cell, way, f"uv pip install -q --python python3 --target more --index-url {url} tiny-thing")
        assert by(cell, way, "cat more/tiny_thing.py") == "ANSWER = 42\n"
    assert went(cell, way, "index.example")
    # nobody else's index, on neither way
    other = url.replace("index", "npm")
    refused = f"python3 -m pip download -q --retries 0 --no-deps -d no --index-url {other} tiny-thing"
    assert by(cell, way, f"! {refused} 2>/dev/null; ls no 2>/dev/null || true") == ""


@pytest.mark.parametrize("way", WAYS)
def test_npm_views_and_installs_from_the_stand_in(make_cell: Maker, stand_in: StandIn, way: str) -> None:
    installed("npm")
    stand_in.node()
    cell = cell_of(make_cell, stand_in, "npm.example")
    flags = f"--registry https://npm.example:{stand_in.secure}/ --no-audit --no-fund --no-update-notifier"
    assert by(cell, way, f"npm view tiny-thing version {flags}").strip() == "1.0.0"
    by(cell, way, f"npm install tiny-thing {flags}")
    assert by(cell, way, "node -p 'require(\"tiny-thing\")'").strip() == "42"
    assert went(cell, way, "npm.example")


@pytest.mark.parametrize("way", WAYS)
def test_git_clones_from_the_stand_in(make_cell: Maker, stand_in: StandIn, way: str) -> None:
    installed("git")
    stand_in.repository()
    cell = cell_of(make_cell, stand_in, "git.example")
    url = f"https://git.example:{stand_in.secure}/thing.git"
    assert by(cell, way, f"git clone -q {url} thing && git -C thing log --format=%s").strip() == "one"
    assert went(cell, way, "git.example")


@pytest.mark.engine
@pytest.mark.parametrize("way", WAYS)
def test_apt_installs_ten_packages_from_the_stand_in(
    make_cell: Maker, stand_in: StandIn, debian: Path, way: str
) -> None:
    stand_in.debian()
    cell = cell_of(make_cell, stand_in, "deb.example", image_root=str(debian))
    source = f"deb [trusted=yes] http://deb.example:{stand_in.plain}/ ./"
    names = " ".join(f"tiny-{number}" for number in range(10))
    by(cell, way, f"echo '{source}' > /etc/apt/sources.list; {APT} {names}")
    assert by(cell, way, "cat /usr/share/tiny-?") == "42" * 10
    assert went(cell, way, "deb.example")


# ── what this machine reaches ─────────────────────────────────────────────────────────────────────


def authorities() -> bytes:
    paths = ssl.get_default_verify_paths()
    for path in (os.environ.get("SSL_CERT_FILE"), paths.cafile, "/etc/ssl/certs/ca-certificates.crt"):
        if path and Path(path).is_file():
            return Path(path).read_bytes()
    pytest.skip("this machine has no file of authorities")


def pinned(*urls: str) -> tuple[tuple[str, str], ...]:
    """Names and addresses of registries that answer; the test is skipped if one does not."""
    found = {}
    for url in urls:
        name = urlsplit(url).hostname or ""
        try:
            with urllib.request.urlopen(url, timeout=10):
                pass
        except urllib.error.HTTPError:
            pass  # it answers
        except OSError as error:
            pytest.skip(f"no registry is reachable: {error}")
        found[name] = socket.getaddrinfo(name, 443, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
    return tuple((name, str(address)) for name, address in found.items())


def asked(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()


def real(make_cell: Maker, pins: tuple[tuple[str, str], ...], **more: object) -> LiveCell:
    cell = make_cell(agent_phase=phase("allowlist", *(name for name, _ in pins)), pins=pins, **more)
    equip(cell, authorities())
    return cell


@pytest.mark.parametrize("way", WAYS)
def test_pip_and_uv_against_the_index_of_this_machine(make_cell: Maker, way: str) -> None:
    installed("python3")
    index = asked(sys.executable, "-m", "pip", "config", "get", "global.index-url")
    told = "from pip._internal.models.index import PyPI as i; print(i.simple_url, i.file_storage_domain)"
    usual, files = asked(sys.executable, "-c", told).split()
    index = os.environ.get("PIP_INDEX_URL") or index or usual
    pins = pinned(f"{index.rstrip('/')}/pip/", *([f"https://{files}/"] if index == usual else []))
    cell = real(make_cell, pins)
    by(cell, way, f"python3 -m pip download -q --no-deps -d down --index-url {index} six idna")
    assert len(by(cell, way, "ls down").split()) == 2
    by(cell, way, f"python3 -m pip install -q --target /tmp/uv --index-url {index} uv")
    by(cell, way, f"uv pip install -q --python python3 --target more --index-url {index} six")
    assert by(cell, way, "cd more; python3 -c 'import six; print(six.__name__)'") == "six\n"
    assert all(went(cell, way, name) for name, _ in pins)


@pytest.mark.parametrize("way", WAYS)
def test_npm_against_the_registry_of_this_machine(make_cell: Maker, way: str) -> None:
    installed("npm")
    registry = asked("npm", "config", "get", "registry")
    pins = pinned(f"{registry.rstrip('/')}/ms")
    cell = real(make_cell, pins)
    flags = f"--registry {registry} --no-audit --no-fund --no-update-notifier"
    assert re.fullmatch(r"[0-9.]+", by(cell, way, f"npm view ms version {flags}").strip())
    by(cell, way, f"npm install ms {flags}")
    assert by(cell, way, 'node -p \'require("ms")("1s")\'').strip() == "1000"
    assert all(went(cell, way, name) for name, _ in pins)


@pytest.mark.parametrize("way", WAYS)
def test_git_against_a_repository_that_the_registry_names(make_cell: Maker, way: str) -> None:
    installed("git")
    installed("npm")
    url = asked("npm", "view", "ms", "repository.url").removeprefix("git+")
    if not url.startswith("https://"):
        pytest.skip("no registry says where a repository is")
    pins = pinned(url)
    if subprocess.run(["git", "ls-remote", url, "HEAD"], capture_output=True, timeout=60).returncode:
        pytest.skip("the repository is not reachable from here")
    cell = real(make_cell, pins)
    by(cell, way, f"git clone -q --depth 1 {url} thing && git -C thing log --format=%s")
    assert all(went(cell, way, name) for name, _ in pins)


@pytest.mark.engine
@pytest.mark.parametrize("way", WAYS)
def test_apt_against_the_sources_of_the_image(make_cell: Maker, debian: Path, way: str) -> None:
    folder = debian / "etc/apt"
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    text = "\n".join(file.read_text() for file in files if file.is_file())
    bases = sorted(set(re.findall(r"^(?:deb .*?|URIs: *)(https?://[^ \n]+)", text, re.MULTILINE)))
    pins = pinned(*(f"{base.rstrip('/')}/" for base in bases))
    if not pins:
        pytest.skip("the image has no sources")
    cell = real(make_cell, pins, image_root=str(debian))
    by(cell, way, f"{APT} --no-install-recommends {SMALL}")
    listed = by(cell, way, f"dpkg-query -W -f '${{Status}}\\n' {SMALL}").splitlines()
    assert listed == ["install ok installed"] * 10
    assert all(went(cell, way, name) for name, _ in pins)
