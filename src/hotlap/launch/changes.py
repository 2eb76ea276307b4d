"""Which of the user's files a run in place overwrote: sizes and times of files, before and after."""

import os
from collections.abc import Sequence
from pathlib import Path

from hotlap.launch.copying import is_left_out

MOST_FILES = 20_000

Snapshot = dict[str, tuple[int, int]]  # path -> size and time of the last change in nanoseconds


def snapshot(folders: Sequence[str], left_out: Path) -> Snapshot:
    """Files below these folders, but for those of the record; of very many, the first ones."""
    files: Snapshot = {}
    for folder in folders:
        for place, folders_inside, names in os.walk(folder):
            kept = [name for name in folders_inside if not is_left_out(Path(place, name)) and Path(place, name) != left_out]
            folders_inside[:] = sorted(kept)
            for name in sorted(names):
                if len(files) >= MOST_FILES:
                    return files
                path = os.path.join(place, name)  # noqa: PTH118 - 20,000 times
                try:
                    status = os.lstat(path)
                except OSError:
                    continue
                files[path] = (status.st_size, status.st_mtime_ns)
    return files


def files_changed(before: Snapshot, folders: Sequence[str]) -> tuple[str, ...]:
    """Files that were there before and are no longer the same, relative to the folder that they are in."""
    changed = []
    for path, (size, time) in before.items():
        try:
            status = os.lstat(path)
            if (status.st_size, status.st_mtime_ns) == (size, time):
                continue
        except FileNotFoundError:  # removed
            pass
        except OSError:
            continue
        folder = next(folder for folder in folders if path.startswith(f"{folder.rstrip('/')}/"))
        changed.append(os.path.relpath(path, folder))
    return tuple(sorted(changed))
