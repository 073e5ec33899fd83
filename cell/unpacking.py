"""A task's folder, on its way as a tar, becomes files again; what leads out of its place is refused.

Python's own filter for this is not in 3.11.3 and before, which Debian 12 has. What it does is done here.
"""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path, PurePosixPath

# No set-id bits, nothing that others may write.
_MODE = 0o755
_STEPS = 4096  # a ring of links has no end


def unpack(archive: bytes, target: Path) -> None:
    """Unpack a tar below `target`, which is a folder: files, folders and links, all of the caller's.

    Errors: OSError; tarfile.TarError, also for a name or a link that leads out and for anything else
    than a file, a folder or a link.
    """
    # ours are checked; a later Python would else warn, and then refuse more
    trusted = {"filter": "fully_trusted"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            _check(member, target)
            member.uid, member.gid, member.uname, member.gname = os.geteuid(), os.getegid(), "", ""
            member.mode &= _MODE
            if not member.isfile():
                member.mode |= 0o700
            tar.extract(member, target, **trusted)  # type: ignore[arg-type]


def _check(member: tarfile.TarInfo, target: Path) -> None:
    name = PurePosixPath(member.name)
    if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        raise tarfile.TarError(f"{member.name!r} is neither a file nor a folder nor a link")
    # as it is on the disk by now: names alone say nothing once there are links
    if name.is_absolute() or ".." in name.parts or not inside(target, str(name.parent)):
        raise tarfile.TarError(f"{member.name!r} leads out")
    if member.issym() or member.islnk():
        # a hard link's target is counted from the top of the archive
        start = str(name.parent) if member.issym() else "."
        if member.linkname.startswith("/") or not inside(target, f"{start}/{member.linkname}"):
            raise tarfile.TarError(f"the link {member.name!r} leads out, to {member.linkname!r}")


def inside(folder: Path, name: str) -> bool:
    """Say whether a name below `folder` leads to something in it, all links followed.

    Step by step from `folder`: one that is mounted nowhere has no path of its own to compare with.
    """
    ahead, here = list(PurePosixPath(name).parts), list[str]()
    for _ in range(_STEPS):
        if not ahead:
            return True
        step = ahead.pop(0)
        if step.startswith("/") or (step == ".." and not here):
            return False
        if step == "..":
            here.pop()
            continue
        try:
            target = folder.joinpath(*here, step).readlink()
        except OSError:  # no link, or not there
            here.append(step)
        else:
            ahead = [*PurePosixPath(target).parts, *ahead]
    return False
