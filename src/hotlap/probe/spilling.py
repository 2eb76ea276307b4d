"""What Ray's object store writes to disk because it is full.

Ray says so only in the logs of its own processes. What can be seen from the script is the folder of the session, in which the
store keeps a file for what it spilled (`ray_spilled_objects_...`), until that is needed no more. Only the driver's machine is
seen, and only Ray's default place for these files.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDERS = "ray_spilled_objects*"


class Spilled:
    """All files that were seen so far, those that are gone again among them."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    def total(self) -> float:
        """Bytes written so far; 0 without Ray."""
        session = _session()
        if session is None:
            return 0.0
        with suppress(OSError):  # Ray takes files away meanwhile
            for folder in session.glob(FOLDERS):
                for file in os.scandir(folder):
                    with suppress(OSError):
                        self._sizes[file.path] = max(file.stat().st_size, self._sizes.get(file.path, 0))
        return float(sum(self._sizes.values()))


def _session() -> Path | None:
    """The folder of Ray's session, if this process has begun one or joined one."""
    node: Any = getattr(sys.modules.get("ray._private.worker"), "_global_node", None)
    with suppress(Exception):  # private to Ray: another version may have it otherwise
        return Path(node.get_session_dir_path()) if node is not None else None
    return None
