"""A copy of the user's project to run in, for machines without overlays.

Version control, virtual environments, caches and hotlap's own records are left out. Large files are cloned where the file
system can (no bytes are copied). Where it cannot, large data sets are linked: `guard.py` refuses to write through a link.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hotlap.core.errors import UsageError

VARIABLE = "HOTLAP_SCRATCH"  # environment variable: where the copies are, and what else may be written to
LARGE = 16 << 20  # bytes
MOST_BYTES = 4 << 30
MOST_FILES = 100_000
LEFT_OUT = {".git", ".hg", ".svn", ".hotlap", "__pycache__", ".venv", "venv", ".tox", ".nox", "node_modules"}
LEFT_OUT |= {".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".ipynb_checkpoints"}
DATA = {".npz", ".npy", ".h5", ".hdf5", ".parquet", ".arrow", ".feather", ".zarr", ".zip", ".tar", ".gz", ".tgz", ".xz", ".zst"}
DATA |= {".mp4", ".mkv", ".avi", ".webm", ".lmdb", ".mdb", ".tfrecord", ".bag", ".usd", ".bin", ".dat", ".rom"}
_FICLONE = 0x40049409


@dataclass(frozen=True)
class Copies:
    """Folders and their copies."""

    folder: Path
    pairs: tuple[tuple[str, str], ...]
    linked: tuple[str, ...] = ()  # large data files that are links to the originals

    def moved(self, path: str) -> str:
        """Where a path of the user's is in the copy; the path itself if it is in none."""
        return moved(path, self.pairs)

    def environment(self, writable: Sequence[str]) -> dict[str, str]:
        """Variables of a child that runs here: where things are, and temporary files and caches inside of the scratch."""
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        caches = {
            name: str(temporary / name.lower())
            for name in ("MPLCONFIGDIR", "NUMBA_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "RAY_TMPDIR")
        }
        for path in caches.values():
            Path(path).mkdir(exist_ok=True)
        paths = os.environ.get("PYTHONPATH", "")
        return {
            VARIABLE: json.dumps({"pairs": self.pairs, "writable": [str(self.folder), *writable]}),
            "TMPDIR": str(temporary),
            "PYTHONDONTWRITEBYTECODE": "1",
            **({"PYTHONPATH": os.pathsep.join(map(self.moved, paths.split(os.pathsep)))} if paths else {}),
            **caches,
        }


@dataclass
class _Budget:
    bytes: int = 0
    files: int = 0
    linked: list[str] = field(default_factory=list)

    def take(self, project: Path, size: int) -> None:
        self.files += 1
        self.bytes += size
        if self.bytes > MOST_BYTES or self.files > MOST_FILES:
            raise UsageError(f"{project} is too large to copy for every run: choose --scratch overlay, or --in-place")


def moved(path: str, pairs: Sequence[Sequence[str]]) -> str:
    """Where a path is in the copies. One that is there already stays: the scratch may lie inside of the project."""
    absolute = os.path.abspath(path)  # noqa: PTH100 - links stay as the user named them
    if not any(_is_in(absolute, copy) for _, copy in pairs):
        for original, copy in pairs:
            if _is_in(absolute, original):
                return copy + absolute[len(original) :]
    return path


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def projects_of(script: Path | None, cwd: Path) -> tuple[str, ...]:
    """The folders that a script needs a copy of: its repository or its own folder, and the one that it runs in."""
    folders = [root_of(folder) for folder in ([script.resolve().parent] if script else []) + [cwd.resolve()]]
    outer = [f for f in folders if not any(f != other and other in f.parents for other in folders)]
    return tuple(dict.fromkeys(map(str, outer)))


def root_of(folder: Path) -> Path:
    """The repository that a folder is in, or the folder. A repository that is somebody's home folder is no project."""
    for path in (folder, *folder.parents):
        if (path / ".git").exists() and path not in (Path.home(), Path("/")):
            return path
    return folder


def copy_projects(folder: Path, projects: Sequence[str], left_out: Sequence[str]) -> Copies:
    """Copies of the projects in a scratch folder, without the folders that are left out: the record's."""
    budget, pairs = _Budget(), []
    for number, project in enumerate(projects):
        copy = folder / f"project-{number}" / Path(project).name
        copy.mkdir(parents=True)
        for source in _walk(Path(project), {folder, *map(Path, left_out)}):
            _copy(source, copy / source.relative_to(project), Path(project), budget)
        pairs.append((project, str(copy)))
    return Copies(folder, tuple(pairs), tuple(budget.linked))


def _walk(project: Path, left_out: Set[Path]) -> Iterator[Path]:
    """Folders before what is in them."""
    for place, folders, files in os.walk(project):
        here = Path(place)
        folders[:] = [name for name in folders if not is_left_out(here / name) and here / name not in left_out]
        yield from (here / name for name in (*folders, *files))


def is_left_out(path: Path) -> bool:
    return path.name in LEFT_OUT or path.name.startswith("hotlap-scratch-") or (path / "pyvenv.cfg").exists()


def _copy(source: Path, target: Path, project: Path, budget: _Budget) -> None:
    with suppress(FileNotFoundError):  # it was removed meanwhile
        if source.is_symlink():
            _copy_link(source, target, project)
        elif source.is_dir():
            target.mkdir(exist_ok=True)
            shutil.copymode(source, target)
        elif source.is_file():
            _copy_file(source, target, project, budget)


def _copy_link(source: Path, target: Path, project: Path) -> None:
    """A link into the project leads into the copy; one that leads out of it leads to the same place."""
    leads_to = source.resolve()
    inside = project.resolve() in leads_to.parents
    target.symlink_to(source.readlink() if inside and not source.readlink().is_absolute() else leads_to)


def _copy_file(source: Path, target: Path, project: Path, budget: _Budget) -> None:
    size = source.stat().st_size
    if size >= LARGE:
        if _clone(source, target):
            return
        if source.suffix.lower() in DATA:
            target.symlink_to(source)
            budget.linked.append(str(source.relative_to(project)))
            return
    budget.take(project, size)
    with suppress(PermissionError):  # a file that the user cannot read is none that the script can
        shutil.copy2(source, target)


def _clone(source: Path, target: Path) -> bool:
    """A copy that shares its bytes with the original until one of them is written to (btrfs, xfs)."""
    try:
        with source.open("rb") as original, target.open("wb") as copy:
            fcntl.ioctl(copy.fileno(), _FICLONE, original.fileno())
        shutil.copystat(source, target)
        return True
    except OSError:
        target.unlink(missing_ok=True)
        return False
