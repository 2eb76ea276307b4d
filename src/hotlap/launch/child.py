"""Runs a user's script under the probe: `python -m hotlap.launch.child SPEC [its arguments]`.

SPEC is a JSON file that `script.py` wrote. The script sees the `sys.argv`, `sys.path` and `__main__` that it would see without
us; its output, exit code and traceback are its own. When enough has been measured, it is stopped at an environment step by
an exception that runs its `finally` blocks.
"""

import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

from hotlap.interventions import intervened
from hotlap.probe.events import EVENTS
from hotlap.probe.hooks.output import watched_output
from hotlap.probe.recorder import Enough, Recorder, install
from hotlap.record.run import Run


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    run = Run(Path(spec["run"]), json.loads((Path(spec["run"]) / "run.json").read_text()))
    process = os.getpid()
    install()
    recorder = Recorder(run, spec)
    sys.argv = [spec["script"], *sys.argv[2:]]
    recorder.begin()
    with intervened(), watched_output(EVENTS):
        code, error = execute(spec)
        fields = recorder.end() if os.getpid() == process else {}
    if os.getpid() == process:  # a process that the script forked ends here too; the record is not its own
        status = "failed" if error else "interrupted" if code == 130 else "done"
        run.finish(status, **({"error": error} if error else {}), exit_code=code, **fields)
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)


def execute(spec: dict[str, Any]) -> tuple[int, str | None]:
    """Run the script as Python would; its exit code, and its error if it raised one."""
    try:
        if spec["module"]:
            sys.path[0] = str(Path.cwd())
            runpy.run_module(spec["script"], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(spec["script"]).resolve().parent)
            runpy.run_path(spec["script"], run_name="__main__")
    except Enough:
        return 0, None
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
        return (stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1), None
    except KeyboardInterrupt:
        return 130, None
    except BaseException as error:
        frames = error.__traceback__
        while frames and ("runpy" in (file := frames.tb_frame.f_code.co_filename) or file == __file__):
            frames = frames.tb_next
        traceback.print_exception(type(error), error, frames)
        return 1, f"{type(error).__name__}: {error}"
    return 0, None


if __name__ == "__main__":
    main()
