"""Overlays over everything that a script could write to, in this process's own mount namespace.

Each top-level folder, and each file system mounted below, is covered by an overlay of itself: reading sees the original,
writing goes to a folder of ours. /proc, /sys, /dev and /run stay as they are; /dev/shm becomes empty. What cannot be covered (a
read-only file system, a single file that a container mounted) is passed through, read-only. Folders in `through` are the
real ones: that is where hotlap's own record lies.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hotlap.launch import linux, namespaces, scratch

_UNTOUCHED = ("/proc", "/sys", "/dev", "/run", "/boot", "/lost+found")
_PSEUDO = {"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "securityfs", "debugfs", "tracefs", "pstore"}
_PSEUDO |= {"bpf", "configfs", "fusectl", "hugetlbfs", "autofs", "binfmt_misc", "efivarfs", "rpc_pipefs", "nsfs", "ramfs"}
_KEPT_FLAGS = {"nosuid": linux.MS_NOSUID, "nodev": linux.MS_NODEV, "noexec": linux.MS_NOEXEC, "ro": linux.MS_RDONLY}


@dataclass(frozen=True)
class Place:
    """A folder (or file) that is covered or passed through, held open: its path will soon lead elsewhere."""

    path: str
    descriptor: int
    flags: int
    is_covered: bool
    is_mount: bool
    is_writable: bool


@dataclass(frozen=True)
class Home:
    """A folder that keeps what is written, held open."""

    path: str
    descriptor: int


def _held(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def mount_all(folder: Path, through: Sequence[str], with_user_namespace: bool) -> list[str]:
    """Cover everything; file systems that could not be covered, and are read-only now.

    `folder` and its siblings keep what is written. They belong to the supervisor, who removes them.
    """
    places = _places(with_user_namespace)
    homes = [Home(str(path.resolve()), _open(str(path))) for path in (folder, *scratch.siblings(folder)) if path.is_dir()]
    real = [(path, _open(path)) for path in through]
    failed: list[str] = []
    for number, place in enumerate(places):
        if place.is_covered:
            try:
                _cover(place, str(number), homes, with_user_namespace)
                continue
            except OSError:
                if not place.is_mount:
                    raise
                failed.append(place.path)
        _pass_through(place)
    for path, descriptor in real:
        linux.mount(_held(descriptor), path, None, linux.MS_BIND)
    for descriptor in (*(d for _, d in real), *(home.descriptor for home in homes), *(place.descriptor for place in places)):
        os.close(descriptor)
    namespaces.mount_shared_memory()
    return failed


def _places(with_user_namespace: bool) -> list[Place]:
    """Top-level folders and mount points, outer ones first.

    In a user namespace the kernel covers no folder that has mounts below it. There the folders beside those mounts are covered
    one by one, and what holds them is read-only. Nor can it copy folders of other users, so the user's own have overlays of
    their own.
    """
    mounts = {path: mount for path, mount in _mounts().items() if not _is_untouched(path)}
    root = mounts.pop("/", ("", 0))
    paths = dict.fromkeys(_folders("/"), root)
    paths.update(mounts)
    split: set[str] = set()
    if with_user_namespace:
        split = {str(above) for path in mounts for above in Path(path).parents} - {"/"}
        for path in sorted(split, key=lambda path: path.count("/")):
            for below in _folders(path):
                paths.setdefault(below, paths.get(path, root))
        for path in _own_roots():
            above = max((other for other in paths if path.startswith(f"{other}/")), key=len, default="/")
            paths.setdefault(path, paths.get(above, root))
    places = []
    for path, (kind, flags) in sorted(paths.items(), key=lambda item: (item[0].count("/"), item[0])):
        with suppress(OSError):  # one that this user may not enter
            is_writable = kind not in _PSEUDO and not flags & linux.MS_RDONLY
            is_covered = is_writable and path not in split and Path(path).is_dir()
            places.append(Place(path, _open(path), flags, is_covered, path in mounts, is_writable))
    return places


def _own_roots() -> list[str]:
    """The outermost folders above the working folder and the home folder that belong to the user."""
    roots = []
    for folder in (Path.cwd(), Path(os.environ.get("HOME", "/")).resolve()):
        outer_first = [*reversed(folder.parents), folder]
        roots += [str(path) for path in outer_first if path.is_dir() and path.stat().st_uid == os.getuid()][:1]
    return [path for path in dict.fromkeys(roots) if path.count("/") > 1 and not _is_untouched(path)]


def _folders(path: str) -> list[str]:
    try:
        return [e.path for e in os.scandir(path) if e.is_dir(follow_symlinks=False) and not _is_untouched(e.path)]
    except OSError:
        return []


def _is_untouched(path: str) -> bool:
    return any(path == kept or path.startswith(f"{kept}/") for kept in _UNTOUCHED)


def _open(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _mounts() -> dict[str, tuple[str, int]]:
    """Mount point -> kind of file system and flags; of several on one point, the uppermost."""
    mounts: dict[str, tuple[str, int]] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, *rest) = left.split(" "), right.split(" ")
        options = {*fields[5].split(","), *(rest[-1].split(",") if rest else [])}
        flags = sum(number for name, number in _KEPT_FLAGS.items() if name in options)
        mounts[re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), fields[4])] = (kind, flags)
    return mounts


def _cover(place: Place, name: str, homes: Sequence[Home], with_user_namespace: bool) -> None:
    """An overlay of a folder over itself. Its changes are kept on disk, or in memory where no disk will do."""
    outside = [home for home in homes if not f"{home.path}/".startswith(f"{place.path}/")]
    failure: OSError | None = None
    for home in outside:
        try:
            _mount_overlay(place, f"{_held(home.descriptor)}/{name}", with_user_namespace)
            return
        except OSError as error:
            failure = error
    memory = f"{_held(homes[0].descriptor)}/memory-{name}"
    try:
        Path(memory).mkdir()
        linux.mount("tmpfs", memory, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=0700")
        _mount_overlay(place, f"{memory}/{name}", with_user_namespace)
    except OSError as error:
        raise failure or error from None


def _mount_overlay(place: Place, base: str, with_user_namespace: bool) -> None:
    upper, work = Path(base, "upper"), Path(base, "work")
    for path in (upper, work):
        path.mkdir(parents=True, exist_ok=True)
    status = Path(_held(place.descriptor)).stat()  # the overlay's folder has the rights and the owner of the upper one
    with suppress(OSError):
        os.chown(upper, status.st_uid, status.st_gid)
    upper.chmod(status.st_mode & 0o7777)
    data = f"lowerdir={_held(place.descriptor)},upperdir={upper},workdir={work}"
    data += ",userxattr" if with_user_namespace else ""
    linux.mount("overlay", place.path, "overlay", place.flags, data)


def _pass_through(place: Place) -> None:
    """The original, read-only: a write fails rather than getting out."""
    try:
        linux.mount(_held(place.descriptor), place.path, None, linux.MS_BIND | linux.MS_REC)
        linux.mount(None, place.path, None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | place.flags)
    except OSError:
        if place.is_writable:
            raise
