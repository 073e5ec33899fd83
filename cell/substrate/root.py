"""The root file system of a cell on this machine, as overlays in the caller's private mount namespace.

    state/                          the cell's own folder; nothing of its path is seen inside
      lower                         the image's files (a link), or the folder of a system root
      upper/                        what was changed inside: the diff
      work/                         the kernel's
      merged/                       the root
      usr/{mask,lower,upper,work}   the same for /usr of a system root (and /bin, /lib unless links)

The caller has unshared its mount namespace and made it private, so the mounts end with it, however it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cell import kernel, trees
from cell.errors import HarnessError
from cell.substrate import skeleton

_CLONE_FS = 0x200
_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Root:
    """A mounted root. It can be bound to `/` of a sandbox, recursively.

    `mounts` are the mount points in it as seen inside, outermost first (a bind makes each of them nosuid,
    which the sandbox undoes one by one); `diffs` pairs each with the folder of what was changed below it.
    """

    path: Path
    mounts: tuple[str, ...]
    diffs: tuple[tuple[str, Path], ...]
    state: Path


def prepare_image_root(state: Path, lower: Path) -> Root:
    """Mount an overlay over the files of an image (`lower`, from `image.export`) at `state/merged`.

    Takes about a millisecond. Raises HarnessError when the kernel or the file system of `state` refuses.
    """
    state = _folder(state)
    _link(state / "lower", lower.resolve(strict=True))
    return Root(_overlay(state, like=lower), ("/",), (("/", state / "upper"),), state)


def prepare_system_root(state: Path, cache: Path | None = None) -> Root:
    """Mount a root of this machine's programs at `state/merged`, with nothing of the operator's in it.

    `/usr` without `/usr/local` (and `/bin`, `/lib` and friends as they are here) below overlays, `/etc`
    written afresh, everything else empty. What lies under it is made once in `cache` (0.1 s; then some
    milliseconds), or in `state` without one. Raises HarnessError as `prepare_image_root` does.
    """
    state = _folder(state)
    lower = state / "lower"
    try:
        if cache is not None:
            _link(lower, skeleton.shared(cache).resolve())
        elif not lower.exists():
            skeleton.write(lower)
    except OSError as error:
        raise HarnessError(f"cannot write the system root: {error}") from error
    merged = _overlay(state, like=lower)
    mounts, diffs = ["/"], [("/", state / "upper")]
    for name in skeleton.program_folders():
        inner = _folder(state / name)
        _link(inner / "lower", Path("/", name))
        layers = "lower"
        if name == "usr":
            if cache is not None:
                _link(inner / "mask", skeleton.mask_of(lower.resolve()))
            else:
                skeleton.write_local(inner / "mask")
            layers = "mask:lower"
        _overlay(inner, like=Path("/", name), layers=layers, target=merged / name)
        mounts.append(f"/{name}")
        diffs.append((f"/{name}", inner / "upper"))
    return Root(merged, tuple(mounts), tuple(diffs), state)


def release(root: Root) -> None:
    """Take the mounts away and remove all but the diffs. Raises nothing: the namespace ends anyway."""
    for mount in reversed(root.mounts):
        _libc.umount2(os.fsencode(f"{root.path}{mount}"), _MNT_DETACH)
    for _, upper in root.diffs:
        trees.remove(upper.parent / "work", ignore_errors=True)
        for layer in ("mask", "lower"):
            if (upper.parent / layer).is_symlink():
                (upper.parent / layer).unlink()
        trees.remove(upper.parent / "mask", ignore_errors=True)
    trees.remove(root.state / "lower", ignore_errors=True)
    with contextlib.suppress(OSError):
        root.path.rmdir()


def _folder(path: Path) -> Path:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"cannot make the folder of a root: {error}") from error
    return path.resolve()


def _link(path: Path, target: Path) -> None:
    if path.is_symlink():
        path.unlink()
    path.symlink_to(target)


def _overlay(state: Path, *, like: Path, layers: str = "lower", target: Path | None = None) -> Path:
    """Mount `layers` below `state/upper` at the target (`state/merged`) and return it."""
    upper, merged = state / "upper", target or state / "merged"
    try:
        for folder in (upper, state / "work", merged):
            folder.mkdir(exist_ok=True)
        there = like.stat()
        os.chown(upper, there.st_uid, there.st_gid)  # the overlay's own root is the upper folder
        upper.chmod(there.st_mode & 0o7777)
        options = f"lowerdir={layers},upperdir=upper,workdir=work"
        try:
            # volatile (5.10): nothing is mounted here twice, and without it the end of a cell waits
            # until everything dirty on the disk below has been written (seconds, measured)
            _in(state, lambda: kernel.mount("overlay", str(merged), "overlay", 0, f"{options},volatile"))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            _in(state, lambda: kernel.mount("overlay", str(merged), "overlay", 0, options))
    except OSError as error:
        remedy = ""
        if error.errno == errno.EINVAL:
            remedy = (
                "the jobs folder must be on a file system that can hold an overlay, as ext4, xfs or tmpfs"
            )
        elif error.errno == errno.EPERM:
            remedy = "run as root"
        raise HarnessError(f"cannot mount the root of the cell: {error}", remedy=remedy) from error
    return merged


def _in(folder: Path, act: Callable[[], None]) -> None:
    """Run `act` with that working directory, which no other thread of this process sees.

    An overlay shows its option string inside, so the folders in it must be relative ones.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            if _libc.unshare(_CLONE_FS) != 0:
                raise OSError(ctypes.get_errno(), "unshare")
            os.chdir(folder)
            act()
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
