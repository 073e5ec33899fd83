"""Roots of cells: overlays that work and say nothing of the machine outside (promises H2, S5)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.live

SETUP = """
import json, os, subprocess, sys
from pathlib import Path
from cell import kernel
from cell.errors import HarnessError
from cell.substrate.root import prepare_image_root, prepare_system_root, release
kernel.private_mounts()
state = Path(sys.argv[1])
def inside(script):
    argv = ["bwrap", "--unshare-pid", "--bind", str(root.path), "/", "--proc", "/proc", "--dev", "/dev"]
    argv += ["--chdir", "/"]
    done = subprocess.run([*argv, "sh", "-c", script], capture_output=True, text=True,
                          env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})
    return done.stdout + done.stderr
"""


def run(state: Path, script: str, *arguments: str) -> Any:
    """What the script prints as JSON; it runs in a process with mounts of its own."""
    source = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", SETUP + script, str(state), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    files = tmp_path / "image-files"
    (files / "bin").mkdir(parents=True)
    (files / "kept").write_text("of the image\n")
    (files / "gone").write_text("x")
    os.chown(files / "kept", 1234, 1234)
    files.chmod(0o711)
    os.chown(files, 7, 8)
    return files


def test_an_image_root_is_written_above_and_never_below(tmp_path: Path, image: Path) -> None:
    script = """
root = prepare_image_root(state, Path(sys.argv[2]))
(root.path / "new").write_text("n")
(root.path / "kept").write_text("changed")
(root.path / "gone").unlink()
seen = root.path.stat()
line = [l for l in open("/proc/self/mountinfo") if str(state) in l][0]
print(json.dumps([seen.st_mode & 0o7777, seen.st_uid, seen.st_gid, line,
                  list(root.mounts), str(root.diffs[0][1]), os.getcwd()]))
"""
    state = tmp_path / "cell"
    mode, uid, gid, line, mounts, diff, cwd = run(state, script, str(image))
    assert (mode, uid, gid) == (0o711, 7, 8)
    assert mounts == ["/"]
    source, _, options = line.partition(" - overlay ")[2].partition(" ")
    assert source == "overlay"
    assert options.startswith("rw,lowerdir=lower,upperdir=upper,workdir=work")
    assert "/" not in options
    assert cwd == os.getcwd()
    assert sorted(os.listdir(diff)) == ["gone", "kept", "new"]
    assert (Path(diff) / "kept").stat().st_uid == 1234
    assert (image / "kept").read_text() == "of the image\n"
    assert (image / "gone").exists()
    assert str(state) not in Path("/proc/self/mountinfo").read_text(), "the mounts ended with the process"


def test_release_leaves_the_diff_and_nothing_else(tmp_path: Path, image: Path) -> None:
    script = """
root = prepare_image_root(state, Path(sys.argv[2]))
(root.path / "new").write_text("n")
release(root); release(root)
print(json.dumps(sorted(os.listdir(state))))
"""
    assert run(tmp_path / "cell", script, str(image)) == ["upper"]
    assert os.listdir(tmp_path / "cell" / "upper") == ["new"]
    assert (image / "kept").exists()


def test_a_folder_that_cannot_hold_an_overlay_is_said(tmp_path: Path, image: Path) -> None:
    script = """
import errno
outer = prepare_image_root(state, Path(sys.argv[2]))
try:
    prepare_image_root(outer.path / "nested", Path(sys.argv[2]))
    print(json.dumps(""))
except HarnessError as error:
    print(json.dumps(str(error)))
"""
    said = run(tmp_path / "cell", script, str(image))
    assert "file system" in said


def test_cells_share_what_lies_under_a_system_root(tmp_path: Path) -> None:
    script = """
cache = Path(sys.argv[2])
roots = [prepare_system_root(state / name, cache) for name in "ab"]
(roots[0].path / "etc/passwd").write_text("mine")
other = (roots[1].path / "etc/passwd").read_text()
under = os.readlink(state / "a/lower")
release(roots[0])
root = roots[1]
print(json.dumps([other.splitlines()[0], under, sorted(os.listdir(cache)), inside("id agent")]))
"""
    other, under, cached, seen = run(tmp_path / "cells", script, str(tmp_path / "cache"))
    assert other == "root:x:0:0::/root:/bin/bash"
    assert cached == [Path(under).name, Path(under).name + ".mask", "system.lock"]
    assert "uid=1000(agent)" in seen
    assert (tmp_path / "cache" / cached[0] / "etc/passwd").read_text().startswith("root:")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Everything the tests below look at, from one system root."""
    state = tmp_path_factory.mktemp("system") / "cell"
    script = """
root = prepare_system_root(state)
look = {
    "python": inside("python3 -c 'import ssl, json, sqlite3; print(2 + 2)'"),
    "mounts": inside("cat /proc/self/mountinfo"),
    "top": inside("ls /").split(),
    "ids": inside("id agent; id; getent passwd nobody; getent group staff"),
    "homes": inside("stat -c '%a %u %n' /root /home/agent /tmp /var/tmp /home; ls /home /root"),
    "local": inside("find /usr/local -type f; ls /usr/local; ls -A /opt /run /srv /mnt /media /var/log"),
    "etc": inside("ls -A /etc").split(),
    "secrets": inside("cat /etc/shadow; ls /etc/ssh /etc/cron.d /etc/sudoers /etc/ssl/private 2>&1"),
    "empty": inside("cat /etc/hosts /etc/hostname /etc/resolv.conf /etc/machine-id"),
    "as agent": inside('''setpriv --reuid 1000 --regid 1000 --clear-groups \\
                          sh -c "touch /home/agent/mine /tmp/mine; touch /usr/no"'''),
    "writes": inside("echo tool > /usr/local/bin/tool; rm /usr/bin/cmp; echo x > /usr/bin/cat.new; "
                     "echo y >> /etc/passwd; mkdir /data; ls /usr/local/bin"),
    "dangling": inside("ldd /bin/sh | grep 'not found'; sh -c 'true' && echo runs"),
}
look["roots"] = list(root.mounts)
look["diffs"] = {name: [str(path.relative_to(folder)) for path in folder.rglob("*")]
                 for name, folder in root.diffs}
print(json.dumps(look))
"""
    look = run(state, script)
    look["state"] = str(state)
    return dict(look)


def test_programs_of_this_machine_work(system: dict[str, Any]) -> None:
    assert system["python"] == "4\n"
    assert system["dangling"] == "runs\n"


def test_no_path_of_the_machine_is_seen_inside(system: dict[str, Any]) -> None:
    assert system["state"] not in system["mounts"]
    for line in system["mounts"].splitlines():
        if " - overlay " in line:
            assert "/" not in line.partition(" - overlay ")[2]
    assert system["roots"][0] == "/"
    assert "/usr" in system["roots"]


def test_the_top_folders_are_a_plain_system(system: dict[str, Any]) -> None:
    wanted = "bin boot dev etc home lib media mnt opt proc root run sbin srv sys tmp usr var"
    assert set(wanted.split()) <= set(system["top"])
    assert set(system["top"]) - set(wanted.split()) <= {"lib32", "lib64", "libx32"}


def test_nothing_of_the_operator_is_inside(system: dict[str, Any]) -> None:
    found = "bin etc games include lib man sbin share src /media: /mnt: /opt: /run: lock /srv: /var/log:"
    assert system["local"].split() == found.split()
    theirs = {"ssh", "sudoers", "crontab", "cron.d", "docker", "systemd", "gitconfig", "pip.conf"}
    assert not theirs & set(system["etc"])
    hashes = [line.split(":")[1] for line in system["secrets"].splitlines() if line.count(":") == 8]
    assert hashes
    assert set(hashes) == {"*"}
    assert system["secrets"].count("No such file") == 4
    assert system["empty"] == ""


def test_accounts_and_folders(system: dict[str, Any]) -> None:
    assert "uid=1000(agent) gid=1000(agent)" in system["ids"]
    assert "uid=0(root)" in system["ids"]
    assert "nobody:x:65534:" in system["ids"]
    assert "staff:x:50:" in system["ids"]
    modes = "700 0 /root\n755 1000 /home/agent\n1777 0 /tmp\n1777 0 /var/tmp\n755 0 /home\n"
    assert system["homes"].startswith(modes)
    assert system["homes"].split()[-3:] == ["/home:", "agent", "/root:"]


def test_what_is_changed_inside_lands_in_the_diff_alone(system: dict[str, Any]) -> None:
    assert system["writes"] == "tool\n"
    assert {"data", "etc/passwd", "home/agent/mine", "tmp/mine"} <= set(system["diffs"]["/"])
    assert {"bin/cmp", "bin/cat.new", "local/bin/tool"} <= set(system["diffs"]["/usr"])
    assert "Permission denied" in system["as agent"]
    assert Path("/usr/bin/cmp").exists()
    assert not Path("/usr/bin/cat.new").exists()
    assert not Path("/usr/local/bin/tool").exists()
