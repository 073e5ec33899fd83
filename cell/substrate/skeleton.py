"""The folder under a composed system root: fresh `/etc`, `/home`, `/var`; nothing of the operator's.

Of the machine's `/etc` only what its programs in `/usr` need to run is copied, from a list. Accounts are
Debian's fixed ones plus `agent` (uid 1000).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
from pathlib import Path

_PROGRAMS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")

# folder → mode; everything is root's, but for the agent's home
_FOLDERS = {
    **dict.fromkeys(
        ("boot", "dev", "etc", "home", "media", "mnt", "opt", "proc", "run", "srv", "sys", "var"), 0o755
    ),
    "root": 0o700,
    "tmp": 0o1777,
    "run/lock": 0o1777,
    "home/agent": 0o755,
    **dict.fromkeys(("var/backups", "var/cache", "var/lib", "var/log", "var/opt", "var/spool"), 0o755),
    **dict.fromkeys(("var/lib/misc", "var/cache/apt", "var/lib/apt", "var/lib/dpkg", "etc/pam.d"), 0o755),
    "var/local": 0o2775,
    "var/mail": 0o2775,
    "var/tmp": 0o1777,
}
_LINKS = {
    "etc/mtab": "/proc/mounts",
    "etc/os-release": "../usr/lib/os-release",
    "var/run": "/run",
    "var/lock": "/run/lock",
}
_STAFF, _MAIL = 50, 8

# What programs of /usr look up in /etc. A name that is missing here is skipped.
_COPIED = """
    alternatives bash.bashrc debian_version ethertypes fonts gai.conf host.conf inputrc issue issue.net
    java-*-openjdk ld.so.cache ld.so.conf ld.so.conf.d locale.alias localtime login.defs lsb-release
    magic magic.mime mime.types networks perl profile protocols python3 python3.[0-9]* rpc services
    shells skel ssl/certs ssl/openssl.cnf terminfo timezone vim xattr.conf
"""

_ACCOUNTS = {  # name → uid, gid, home, shell
    "root": (0, 0, "/root", "/bin/bash"),
    "daemon": (1, 1, "/usr/sbin", ""),
    "bin": (2, 2, "/bin", ""),
    "sys": (3, 3, "/dev", ""),
    "sync": (4, 65534, "/bin", "/bin/sync"),
    "games": (5, 60, "/usr/games", ""),
    "man": (6, 12, "/var/cache/man", ""),
    "lp": (7, 7, "/var/spool/lpd", ""),
    "mail": (8, 8, "/var/mail", ""),
    "news": (9, 9, "/var/spool/news", ""),
    "uucp": (10, 10, "/var/spool/uucp", ""),
    "proxy": (13, 13, "/bin", ""),
    "www-data": (33, 33, "/var/www", ""),
    "backup": (34, 34, "/var/backups", ""),
    "list": (38, 38, "/var/list", ""),
    "irc": (39, 39, "/run/ircd", ""),
    "_apt": (42, 65534, "/nonexistent", ""),
    "nobody": (65534, 65534, "/nonexistent", ""),
    "agent": (1000, 1000, "/home/agent", "/bin/bash"),
}
_GROUPS = """
    root:0 daemon:1 bin:2 sys:3 adm:4 tty:5 disk:6 lp:7 mail:8 news:9 uucp:10 man:12 proxy:13 kmem:15
    dialout:20 fax:21 voice:22 cdrom:24 floppy:25 tape:26 sudo:27 audio:29 dip:30 www-data:33 backup:34
    operator:37 list:38 irc:39 src:40 shadow:42 utmp:43 video:44 sasl:45 plugdev:46 staff:50 games:60
    users:100 nogroup:65534 agent:1000
"""

_TEXTS = {
    "passwd": "".join(
        f"{name}:x:{uid}:{gid}::{home}:{shell or '/usr/sbin/nologin'}\n"
        for name, (uid, gid, home, shell) in _ACCOUNTS.items()
    ),
    "shadow": "".join(f"{name}:*:19000:0:99999:7:::\n" for name in _ACCOUNTS),
    "group": "".join(f"{group.replace(':', ':x:')}:\n" for group in _GROUPS.split()),
    "gshadow": "".join(f"{group.partition(':')[0]}:*::\n" for group in _GROUPS.split()),
    "nsswitch.conf": "".join(
        f"{name}: files\n" for name in ("passwd", "group", "shadow", "services", "protocols", "networks")
    )
    + "hosts: files dns\n",
    "shells": "/bin/sh\n/usr/bin/sh\n/bin/bash\n/usr/bin/bash\n",
    "profile": 'PS1="${PS1-\\$ }"\n[ -z "${BASH-}" ] || [ ! -r /etc/bash.bashrc ] || . /etc/bash.bashrc\n',
    "environment": "",
    "fstab": "",
    "hosts": "",
    "hostname": "",
    "resolv.conf": "",
    "machine-id": "",
    "pam.d/su": "auth sufficient pam_rootok.so\nauth required pam_unix.so\n",
    "pam.d/other": "auth required pam_unix.so\naccount required pam_unix.so\npassword required pam_unix.so\n"
    "session required pam_unix.so\n",
}
_HIDDEN = ("shadow", "gshadow")


def program_folders() -> tuple[str, ...]:
    """Top folders of this machine that hold programs and are no links: `("usr",)` where /usr is merged."""
    return tuple(name for name in _PROGRAMS if Path("/", name).is_dir() and not Path("/", name).is_symlink())


def write(folder: Path) -> None:
    """Make `folder` the lowest layer of a system root. Raises OSError."""
    unfinished = folder.with_name(folder.name + ".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(0o755)
    unfinished.chmod(0o755)
    for name in program_folders():
        _make(unfinished / name, 0o755)
    for name in _PROGRAMS:
        if Path("/", name).is_symlink():
            (unfinished / name).symlink_to(Path("/", name).readlink())
    for name, mode in _FOLDERS.items():
        _make(unfinished / name, mode)
    for name, target in _LINKS.items():
        (unfinished / name).symlink_to(target)
    os.chown(unfinished / "var/local", 0, _STAFF)
    os.chown(unfinished / "var/mail", 0, _MAIL)
    (unfinished / "var/local").chmod(0o2775)
    (unfinished / "var/mail").chmod(0o2775)
    _write_etc(unfinished / "etc")
    for name in (".bashrc", ".profile", ".bash_logout"):
        if Path("/etc/skel", name).is_file():
            shutil.copyfile(Path("/etc/skel", name), unfinished / "home/agent" / name)
    for path in (unfinished / "home/agent", *(unfinished / "home/agent").iterdir()):
        os.chown(path, 1000, 1000)
    unfinished.rename(folder)


def shared(cache: Path) -> Path:
    """Return such a folder in the cache, made once per state of this machine's `/etc`. Raises OSError."""
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = cache / f"system-{_fingerprint()}"
    with (cache / "system.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            write_local(mask_of(folder))
            write(folder)
    return folder


def mask_of(folder: Path) -> Path:
    """Return where the layer that hides /usr/local lies, for a folder that `shared` made."""
    return folder.with_name(folder.name + ".mask")


def _fingerprint() -> str:
    """What the folder depends on, in 16 hex digits: this file; names, times and sizes of what is copied."""
    state = hashlib.sha256(Path(__file__).read_bytes())
    # plain strings: as Path objects these thousand names took longer than the mounts
    for pattern in _COPIED.split():
        for source in sorted(map(str, Path("/etc").glob(pattern))):
            there = os.lstat(source)
            state.update(_told(source, there))
            folders = [source] if stat.S_ISDIR(there.st_mode) else []
            while folders:
                for entry in sorted(os.scandir(folders.pop()), key=lambda entry: entry.name):
                    state.update(_told(entry.path, entry.stat(follow_symlinks=False)))
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    state.update(repr((program_folders(), [os.path.realpath(f"/{name}") for name in _PROGRAMS])).encode())
    return state.hexdigest()[:16]


def _told(path: str, there: os.stat_result) -> bytes:
    return f"{path}\0{there.st_mode}\0{there.st_mtime_ns}\0{there.st_size}\n".encode()


def write_local(folder: Path) -> None:
    """Make `folder` a layer over /usr that replaces /usr/local, the operator's own, by empty folders."""
    _make(folder, 0o755)
    local = folder / "local"
    _make(local, 0o755)
    for name in ("bin", "etc", "games", "include", "lib", "sbin", "share", "share/man", "src"):
        _make(local / name, 0o755)
    if not (local / "man").is_symlink():
        (local / "man").symlink_to("share/man")
    os.setxattr(local, "trusted.overlay.opaque", b"y")


def _make(path: Path, mode: int) -> None:
    path.mkdir(exist_ok=True)
    path.chmod(mode)  # whatever the umask is


def _write_etc(etc: Path) -> None:
    for pattern in _COPIED.split():
        for source in Path("/etc").glob(pattern):
            target = etc / source.relative_to("/etc")
            if target.parent != etc:
                target.parent.mkdir(0o755, parents=True, exist_ok=True)
            if source.is_dir() and not source.is_symlink():
                shutil.copytree(source, target, symlinks=True, ignore=_not_for_all)
            elif source.is_symlink():
                target.symlink_to(source.readlink())
            elif source.is_file() and source.stat().st_mode & 0o004:
                shutil.copyfile(source, target)
                target.chmod(source.stat().st_mode & 0o755)
    for name, text in _TEXTS.items():
        (etc / name).unlink(missing_ok=True)
        (etc / name).write_text(text)
        (etc / name).chmod(0o640 if name in _HIDDEN else 0o644)
        if name in _HIDDEN:
            os.chown(etc / name, 0, 42)


def _not_for_all(folder: str, names: list[str]) -> list[str]:
    """Leave out what not everybody may read, and links into the operator's folders."""
    left = []
    for name in names:
        path = Path(folder, name)
        if path.is_symlink():
            target = str(path.readlink())
            system = target.startswith(("/usr/", "/etc/", "/bin/", "/lib", "/sbin/"))
            if target.startswith("/usr/local/") or (target.startswith("/") and not system):
                left.append(name)
        elif not path.lstat().st_mode & 0o004 or not (path.is_dir() or path.is_file()):
            left.append(name)
    return left
