"""What a script prints when asked for help, run like everything else: in a scratch, and contained."""

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from hotlap.core.errors import TargetFailed
from hotlap.launch.launcher import Child, Start
from hotlap.launch.scratch import ScratchKind
from hotlap.launch.spec import HelpSettings
from hotlap.target.target import Script, Variant

PATIENCE = 60.0  # seconds that `--help` may take: it imports what the script imports
MOST_BYTES = 1 << 20
_POLL = 0.1


def help_of(script: Script, scratch: ScratchKind | str = ScratchKind.AUTO) -> str:
    """Its text; nothing if the script fails, takes too long or prints without end."""
    with tempfile.TemporaryDirectory() as name:
        folder, log = Path(name), Path(name) / "help.log"
        variant = Variant(script.name, replace(script, arguments=("--help",)))
        try:
            with Child(Start(variant, HelpSettings(), folder, ScratchKind(scratch), log=log, rerun=False)) as child:
                deadline, code = time.monotonic() + PATIENCE, None
                while code is None and time.monotonic() < deadline and log.stat().st_size <= MOST_BYTES:
                    code = child.wait(_POLL)
                if code is None:
                    child.kill()
                return log.read_text(errors="replace") if code == 0 else ""
        except TargetFailed:
            return ""
