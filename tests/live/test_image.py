"""Images become files: built, found or refused with one clear line, exported once with everything kept."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cell.errors import HarnessError, TaskError
from cell.substrate.image import Image, export, resolve

pytestmark = [pytest.mark.live, pytest.mark.engine]
TAG = "hudtui-test-image:base"


@dataclass(frozen=True)
class Declared:
    docker_image: str | None = None
    dockerfile: Path | None = None


def docker(*arguments: str, data: bytes | None = None) -> str:
    done = subprocess.run(["docker", *arguments], input=data, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """An image of a few telling files, nothing of which can run."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, mode, owner, data in (
            ("bin", tarfile.DIRTYPE, 0o755, 0, b""),
            ("bin/tool", tarfile.REGTYPE, 0o4755, 0, b"tool"),
            ("bin/capable", tarfile.REGTYPE, 0o755, 0, b"capable"),
            ("srv", tarfile.DIRTYPE, 0o2770, 123456, b""),
            ("srv/data", tarfile.REGTYPE, 0o640, 123456, b"data"),
            ("empty", tarfile.DIRTYPE, 0o700, 1000, b""),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.uid, member.gid, member.size = (
                kind,
                mode,
                owner,
                owner,
                len(data),
            )
            if name == "bin/capable":  # cap_net_raw=ep
                capability = b"\x01\x00\x00\x02\x00\x20\x00\x00" + bytes(12)
                member.pax_headers["SCHILY.xattr.security.capability"] = capability.decode("latin-1")
            tar.addfile(member, io.BytesIO(data))
        again = tarfile.TarInfo("bin/twin")
        again.type, again.linkname, again.mode = tarfile.LNKTYPE, "bin/tool", 0o4755
        tar.addfile(again)
    change = ["--change", "ENV GREETING=hello=world", "--change", "USER 1000:50", "--change", "WORKDIR /srv"]
    docker("import", *change, "-", TAG, data=stream.getvalue())
    yield TAG
    subprocess.run(["docker", "rmi", "-f", TAG], capture_output=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "environment").mkdir()
    return tmp_path / "environment"


@pytest.fixture
def built() -> Iterator[list[Image]]:
    """What a test built, removed after it."""
    images: list[Image] = []
    yield images
    for image in images:
        subprocess.run(["docker", "rmi", "-f", image.id], capture_output=True)


def test_a_local_image_is_taken_with_what_it_declares(base: str) -> None:
    image = resolve(Declared(docker_image=base), build_timeout_sec=60)
    assert image.id.startswith("sha256:")
    assert ("GREETING", "hello=world") in image.env
    assert (image.user, image.workdir) == ("1000:50", "/srv")


def test_an_image_that_is_nowhere_is_one_clear_line() -> None:
    name = "localhost:1/no-such/image:here"
    with pytest.raises((HarnessError, TaskError), match="is not here and cannot be pulled") as caught:
        resolve(Declared(docker_image=name), build_timeout_sec=60)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises((HarnessError, TaskError)):
        resolve(Declared(docker_image="Not A Reference"), build_timeout_sec=60)


def test_a_dockerfile_is_built_and_its_lines_are_seen(base: str, folder: Path, built: list[Image]) -> None:
    (folder / "note").write_text("from the context")
    (folder / "Dockerfile").write_text(f"FROM {base}\nUSER root\nENV A=1\nCOPY note /note\nWORKDIR /work\n")
    lines: list[str] = []
    image = resolve(Declared(dockerfile=folder / "Dockerfile"), build_timeout_sec=60, on_line=lines.append)
    built.append(image)
    assert lines[0].startswith("Step 1/5 : FROM")
    assert not any("\n" in line or "\x1b" in line for line in lines)
    assert dict(image.env)["A"] == "1"
    assert (image.user, image.workdir) == ("root", "/work")
    files = export(image, folder.parent / "cache")
    assert (files / "note").read_text() == "from the context"
    assert (files / "work").is_dir()


@pytest.fixture(scope="module")
def debian() -> str:
    if subprocess.run(["docker", "image", "inspect", "debian:bookworm"], capture_output=True).returncode:
        pytest.skip("no debian:bookworm here")
    return "debian:bookworm"


def test_a_failing_step_names_the_file_the_step_and_its_last_line(debian: str, folder: Path) -> None:
    file = folder / "Dockerfile"
    file.write_text(f"FROM {debian}\nRUN echo early >&2; echo 'the rea\\033son' >&2; exit 3\n")
    with pytest.raises(TaskError) as caught:
        resolve(Declared(dockerfile=file), build_timeout_sec=60)
    assert caught.value.file == str(file)
    assert caught.value.key.startswith("Step 2/2 : RUN")
    assert "the rea" in caught.value.message
    assert "3" in caught.value.message
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "NOT A DOCKERFILE\n", "FROM scratch\nCOPY missing /\n"])
def test_a_broken_dockerfile_is_the_tasks_fault(text: str, folder: Path) -> None:
    (folder / "Dockerfile").write_text(text)
    with pytest.raises(TaskError) as caught:
        resolve(Declared(dockerfile=folder / "Dockerfile"), build_timeout_sec=60)
    assert str(folder / "Dockerfile") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_build_that_hangs_ends_at_its_deadline(debian: str, folder: Path) -> None:
    (folder / "Dockerfile").write_text(f"FROM {debian}\nRUN echo {time.time()}; sleep 300\n")
    started = time.monotonic()
    with pytest.raises(TaskError, match="not finished after 3 s"):
        resolve(Declared(dockerfile=folder / "Dockerfile"), build_timeout_sec=3)
    assert time.monotonic() - started < 30


def test_neither_image_nor_dockerfile_is_said() -> None:
    with pytest.raises(TaskError, match="neither"):
        resolve(Declared(), build_timeout_sec=60)


def test_no_engine_is_the_machines_fault_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(HarnessError, match="no Docker engine answers") as caught:
        resolve(Declared(docker_image="debian"), build_timeout_sec=60)
    assert "DOCKER_HOST" in caught.value.remedy
    with pytest.raises(HarnessError, match="no Docker engine answers"):
        export(Image("sha256:" + "0" * 64, (), "", "/"), tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["0" * 64 + ".lock"]


def test_an_export_keeps_owners_links_and_capabilities(base: str, tmp_path: Path) -> None:
    image = resolve(Declared(docker_image=base), build_timeout_sec=60)
    lines: list[str] = []
    files = export(image, tmp_path / "cache", on_line=lines.append)
    assert files == tmp_path / "cache" / image.id.removeprefix("sha256:")
    tool, data, empty = ((files / name).stat() for name in ("bin/tool", "srv/data", "empty"))
    assert (tool.st_mode & 0o7777, tool.st_nlink) == (0o4755, 2)
    assert tool.st_ino == (files / "bin/twin").stat().st_ino
    assert os.getxattr(files / "bin/capable", "security.capability")[:4] == b"\x01\x00\x00\x02"
    assert (data.st_mode & 0o7777, data.st_uid, data.st_gid) == (0o640, 123456, 123456)
    assert (files / "srv").stat().st_mode & 0o7777 == 0o2770
    assert (empty.st_mode & 0o7777, empty.st_uid) == (0o700, 1000)
    assert files.stat().st_mode & 0o7777 == 0o755
    assert not (files / ".dockerenv").exists()
    assert list((files / "dev").iterdir()) == []
    assert (tmp_path / "cache").stat().st_mode & 0o7777 == 0o700
    assert len(lines) == 2
    assert export(image, tmp_path / "cache", on_line=lines.append) == files
    assert len(lines) == 2, "the second time it is there"
    assert docker("ps", "-aq", "--filter", f"ancestor={base}") == ""


def test_a_build_keeps_owners_and_setuid_programs(debian: str, folder: Path, built: list[Image]) -> None:
    (folder / "Dockerfile").write_text(f"FROM {debian}\nRUN printf x > /x\nCOPY --chown=77:88 c /c\n")
    (folder / "c").write_text("c")
    image = resolve(Declared(dockerfile=folder / "Dockerfile"), build_timeout_sec=100)
    built.append(image)
    files = export(image, folder.parent / "cache")
    there = (files / "c").stat()
    assert (there.st_uid, there.st_gid) == (77, 88)
    for name in ("hosts", "hostname", "resolv.conf"):
        assert (files / "etc" / name).read_text() == ""
    assert (files / "usr/bin/passwd").stat().st_mode & 0o4000


def test_two_runners_export_once(base: str, tmp_path: Path) -> None:
    image = resolve(Declared(docker_image=base), build_timeout_sec=60)
    lines: list[str] = []
    threads = [
        threading.Thread(target=export, args=(image, tmp_path / "cache"), kwargs={"on_line": lines.append})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines) == 2
    assert sorted(os.listdir(tmp_path / "cache")) == [
        image.id.removeprefix("sha256:"),
        image.id.removeprefix("sha256:") + ".lock",
    ]


def test_what_a_killed_export_left_is_removed(base: str, tmp_path: Path) -> None:
    image = resolve(Declared(docker_image=base), build_timeout_sec=60)
    name = image.id.removeprefix("sha256:")
    (tmp_path / "cache" / f".{name}.new" / "half").mkdir(parents=True)
    files = export(image, tmp_path / "cache")
    assert not (files / "half").exists()


def test_a_full_disk_is_said_and_leaves_nothing(debian: str, tmp_path: Path) -> None:
    image = resolve(Declared(docker_image=debian), build_timeout_sec=60)
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)], check=True)
    try:
        with pytest.raises(HarnessError, match="No space left"):
            export(image, small / "cache")
        assert [path.name[-5:] for path in (small / "cache").iterdir()] == [".lock"]
    finally:
        subprocess.run(["umount", str(small)], check=True)
