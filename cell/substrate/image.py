"""An image of a container engine as files on this machine. Blocking: call it in a thread.

image = resolve(task.environment, build_timeout_sec=600, on_line=print)   # built, found or pulled
files = export(image, cache)                                              # once per image id
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import docker
import docker.constants
import docker.errors
import docker.utils
import requests
import urllib3.exceptions

from cell import trees
from cell.errors import HarnessError, TaskError
from cell.plain import plain

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_CHUNK = 1 << 20  # bytes
_NETWORK_SIGNS = ("dial tcp", "no such host", "i/o timeout", "TLS handshake", "connection refused", "x509:")
_FAILURES = (docker.errors.DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError)

_ENGINE_SAYS = (" --->", "Removing intermediate container", "Successfully built")

OnLine = Callable[[str], None]


class Environment(Protocol):
    """What is read of a task's `[environment]`: `docker_image` wins over `environment/Dockerfile`."""

    @property
    def docker_image(self) -> str | None:
        """A reference, as `debian:bookworm`."""

    @property
    def dockerfile(self) -> Path | None:
        """The file; its folder is the build context."""


@dataclass(frozen=True)
class Image:
    """An image that the engine has: `id` as `sha256:…`, and what it declares for its processes."""

    id: str
    env: tuple[tuple[str, str], ...]
    user: str
    workdir: str


def resolve(
    environment: Environment, *, build_timeout_sec: float, on_line: OnLine = lambda line: None
) -> Image:
    """Return the task's image: `docker_image` as the engine has it, else pulled; or the Dockerfile's, built.

    `on_line` gets each line of the build or pull, terminal-safe. Raises TaskError when the build fails or
    outlasts `build_timeout_sec`, or the image does not exist; HarnessError when no engine answers or a
    registry is unreachable.
    """
    with _engine() as engine:
        if environment.docker_image is not None:
            return _taken(engine, environment.docker_image, build_timeout_sec, on_line)
        if environment.dockerfile is None:
            raise TaskError("task.toml", "environment", "neither docker_image nor environment/Dockerfile")
        return _built(engine, environment.dockerfile, build_timeout_sec, on_line)


def export(image: Image, cache: Path, *, on_line: OnLine = lambda line: None) -> Path:
    """Return the folder with the image's files, made now if no runner made it before (about 1 s per 100 MB).

    Owners, modes, hard links and file capabilities are the image's; `/dev` is empty and `/.dockerenv` is not
    there. The cache is 0700: setuid programs of images lie in it. Two callers make one folder. Raises
    HarnessError.
    """
    name = image.id.removeprefix("sha256:")
    folder = cache / name
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        cache.chmod(0o700)
        with (cache / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                for left_over in cache.glob(f".{name}.*"):
                    trees.remove(left_over)
                _export(image, cache / f".{name}.new", on_line)
                (cache / f".{name}.new").rename(folder)
    except OSError as error:
        raise HarnessError(
            f"cannot export image {name[:12]} into {cache}: {error.strerror or error}"
        ) from error
    return folder


def present() -> frozenset[str]:
    """Return the ids of all images that the engine has; HarnessError when none answers."""
    with _engine() as engine:
        try:
            return frozenset(str(image["Id"]) for image in engine.images(all=True))
        except _FAILURES as error:
            raise HarnessError(f"the engine does not list its images: {_said(error)}") from error


def _export(image: Image, folder: Path, on_line: OnLine) -> None:
    on_line(f"exporting image {image.id.removeprefix('sha256:')[:12]}")
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    try:
        with _engine() as engine:
            container = engine.create_container(image.id, command=["/-"], network_disabled=True)["Id"]
            try:
                size = _untar(engine.export(container, chunk_size=_CHUNK), folder)
            finally:
                engine.remove_container(container, force=True, v=True)
        (folder / ".dockerenv").unlink(missing_ok=True)
        if (folder / "dev").is_dir() and not (folder / "dev").is_symlink():
            trees.remove(folder / "dev")
            (folder / "dev").mkdir()
            (folder / "dev").chmod(0o755)
    except _FAILURES as error:
        trees.remove(folder, ignore_errors=True)
        raise HarnessError(f"cannot export image {image.id}: {_said(error)}") from error
    except BaseException:
        trees.remove(folder, ignore_errors=True)
        raise
    on_line(f"exported {size / 1e6:.0f} MB")


def _untar(chunks: Iterable[bytes], folder: Path) -> int:
    """Unpack a tar stream with GNU tar, which keeps what Python's tarfile loses; return its size in bytes."""
    options = ["--xattrs", "--xattrs-include=*", "--numeric-owner", "--same-owner", "--warning=no-timestamp"]
    size = 0
    with subprocess.Popen(
        ["tar", "-x", "-p", *options, "-f", "-", "-C", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={"PATH": os.defpath, "LC_ALL": "C"},
    ) as tar:
        assert tar.stdin is not None and tar.stderr is not None
        complaints: list[bytes] = []
        reader = threading.Thread(target=lambda: complaints.extend(list(tar.stderr or ())[-50:]))
        reader.start()
        with contextlib.suppress(BrokenPipeError):
            for chunk in chunks:
                tar.stdin.write(chunk)
                size += len(chunk)
        with contextlib.suppress(BrokenPipeError):
            tar.stdin.close()
        reader.join()
    if tar.returncode:
        last = complaints[0].decode(errors="replace").strip() if complaints else f"status {tar.returncode}"
        raise HarnessError(f"cannot unpack the image: {plain(last, limit=300)}")
    return size


class _Engine(docker.APIClient):
    """The client, with a hold on its answers: a deadline can end a read that waits, and none is left open."""

    def __init__(self, **settings: Any) -> None:
        self._answers: list[requests.Response] = []
        super().__init__(**settings)

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        answer = super().send(request, **kwargs)
        self._answers.append(answer)
        return answer

    def hang_up(self) -> None:
        """End the answer that another thread is reading; the engine then cancels the work."""
        with contextlib.suppress(Exception):  # whatever state the connection is in
            self._answers[-1].raw.shutdown()

    def close(self) -> None:
        for answer in self._answers:
            answer.close()
        super().close()


@contextlib.contextmanager
def _engine() -> Iterator[_Engine]:
    remedy = "start Docker, or set DOCKER_HOST; a task without an image needs no engine"
    settings: dict[str, Any] = {**docker.utils.kwargs_from_env()}
    default = docker.constants.DEFAULT_UNIX_SOCKET.removeprefix("http+")
    host = str(settings.get("base_url") or default)
    try:
        if host.startswith("unix://"):  # the client leaks its socket when nobody listens
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(host.removeprefix("unix://"))
        engine = _Engine(**settings, version="auto", timeout=600)
    except _FAILURES as error:
        raise HarnessError(f"no Docker engine answers: {_said(error)}", remedy=remedy) from error
    try:
        yield engine
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise HarnessError(f"the Docker engine went away: {_said(error)}", remedy=remedy) from error
    finally:
        engine.close()


def _taken(engine: _Engine, name: str, timeout: float, on_line: OnLine) -> Image:
    with contextlib.suppress(docker.errors.ImageNotFound):
        return _inspected(engine, name)
    repository, tag = docker.utils.parse_repository_tag(name)
    on_line(f"pulling {plain(name, limit=200)}")
    try:
        lines = engine.pull(repository, tag=tag or "latest", stream=True, decode=True)
        *_, failure = _followed(engine, lines, timeout, on_line)
        if not failure:
            return _inspected(engine, name)
    except docker.errors.DockerException as error:
        failure = _said(error)
    except TimeoutError:
        failure = f"not finished after {timeout:g} s"
    message = f"{plain(name, limit=200)} is not here and cannot be pulled: {plain(failure, limit=400)}"
    if any(sign in failure for sign in _NETWORK_SIGNS):
        raise HarnessError(message, remedy="docker load or docker pull it first")
    raise TaskError("task.toml", "environment.docker_image", message)


def _built(engine: _Engine, dockerfile: Path, timeout: float, on_line: OnLine) -> Image:
    try:
        lines = engine.build(
            path=str(dockerfile.parent), dockerfile=dockerfile.name, rm=True, forcerm=True, decode=True
        )
        image, step, last, failure = _followed(engine, lines, timeout, on_line)
    except TimeoutError as error:
        raise TaskError(dockerfile, "", f"the build is not finished after {timeout:g} s") from error
    except (docker.errors.DockerException, TypeError) as error:
        raise TaskError(dockerfile, "", f"cannot build: {plain(_said(error), limit=400)}") from error
    if failure or not image:
        said = failure or "the engine named no image"
        if last and last not in (step, said):
            said = f"{last} ({said})"
        if any(sign in failure for sign in _NETWORK_SIGNS):
            raise HarnessError(
                f"{dockerfile}: {step}: {said}", remedy="the engine cannot reach what the build needs"
            )
        raise TaskError(dockerfile, step, plain(said, limit=400))
    return _inspected(engine, image)


def _followed(
    engine: _Engine, records: Iterable[dict[str, Any]], timeout: float, on_line: OnLine
) -> tuple[str, str, str, str]:
    """Read a build's or pull's records: (image id, last step, last line of output, error).

    Raises TimeoutError after `timeout` seconds, also while nothing comes.
    """
    image = step = last = failure = partial = ""
    late = threading.Event()

    def give_up() -> None:
        late.set()
        engine.hang_up()

    timer = threading.Timer(timeout, give_up)
    timer.daemon = True
    timer.start()
    try:
        for record in records:
            if late.is_set():
                break
            image = record.get("aux", {}).get("ID", image) or image
            failure = str(record.get("error", failure))
            text = str(record.get("stream") or "").replace("\x1b[91m", "").replace("\x1b[0m", "")
            if "status" in record and "progress" not in record:
                text = f"{record.get('id', '')} {record['status']}".strip() + "\n"
            *lines, partial = (partial + text).split("\n")
            for line in (plain(line.rstrip(), limit=2000) for line in lines if line.strip()):
                on_line(line)
                step = line if line.startswith("Step ") else step
                last = last if line.startswith(_ENGINE_SAYS) else line
    except (*_FAILURES, ValueError):
        if not late.is_set():
            raise
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError
    return image, step, last, failure


def _inspected(engine: _Engine, name: str) -> Image:
    found: dict[str, Any] = engine.inspect_image(name)  # type: ignore[no-untyped-call]
    config = found.get("Config") or {}
    machine = platform.machine()
    made_for = (found.get("Os", "linux"), found.get("Architecture", ""))
    if made_for != ("linux", _ARCHITECTURES.get(machine, machine)):
        raise HarnessError(
            f"image {plain(name, limit=200)} is for {'/'.join(made_for)}, this machine is {machine}"
        )
    pairs = (entry.partition("=") for entry in config.get("Env") or ())
    return Image(
        id=found["Id"],
        env=tuple((key, value) for key, _, value in pairs),
        user=config.get("User") or "",
        workdir=config.get("WorkingDir") or "/",
    )


def _said(error: BaseException) -> str:
    explanation = getattr(error, "explanation", None)
    text = str(explanation or error).strip().replace("\n", " ")
    if "ConnectionPool(" in text:  # a client's insides; what went wrong is at their end
        found = re.findall(r"\[Errno -?[0-9]+\] ([^'\")]+)|(timed out)|(certificate verify failed)", text)
        text = next(
            (word for words in found[::-1] for word in words if word), "the connection failed"
        ).lower()
    return plain(text, limit=400)
