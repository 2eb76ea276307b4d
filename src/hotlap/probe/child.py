"""Runs a user's script under the probe: `python -m hotlap.probe.child SPEC [its arguments]`.

SPEC is a JSON file that `script.py` wrote. The script sees the `sys.argv`, `sys.path` and `__main__` that it would see without
us; its output, exit code and traceback are its own. When enough has been measured, it is stopped at an environment step by
an exception that runs its `finally` blocks.
"""

import json
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

from hotlap import machine
from hotlap.clock import UPDATES, Sample
from hotlap.probe import hooks
from hotlap.probe.sampler import Sampler
from hotlap.probe.timeline import Timeline
from hotlap.record import Recorded, Run


class Enough(BaseException):
    """Enough has been measured."""


class Recorder:
    """Writes windows to the record: warm-up until learning has begun and `warmup` windows more, then what is measured."""

    def __init__(self, run: Run, spec: dict[str, Any]) -> None:
        self.run, self.spec = run, spec
        self._left = spec["warmup"]
        self._learning = False
        self._measured_ns = 0
        self._measured = 0
        self.enough = False
        self.sampler: Sampler | None = None

    def write(self, sample: Sample) -> None:
        warm = self._learning and self._left == 0
        self.run.append(Recorded("measured" if warm else "warmup", sample, machine.rss(), machine.gpu_memory()))
        if warm:
            self._measured += 1
            self._measured_ns += sample.wall
            if self.sampler:
                self.sampler.resume()
        elif self._learning:
            self._left -= 1
        self._learning = self._learning or bool(sample.counts.get(UPDATES))
        seconds = self.spec["seconds"]
        self.enough = self._measured >= self.spec["iterations"] if seconds is None else self._measured_ns >= seconds * 1e9
        if self.enough:
            raise Enough


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    run = Run(Path(spec["run"]), json.loads((Path(spec["run"]) / "run.json").read_text()))
    recorder = Recorder(run, spec)
    timeline = Timeline(on_window=recorder.write)
    recorder.sampler = sampler = Sampler(timeline.stage)
    hooks.install(timeline)
    sys.argv = [spec["script"], *sys.argv[2:]]
    code, error = _execute(spec)
    sampler.close()
    if not recorder.enough:
        timeline.close()
    run.finish(
        "failed" if error else "interrupted" if code == 130 else "done",
        **({"error": error} if error else {}),
        exit_code=code,
        hot_lines=sampler.hottest(),
        sampler_seconds=sampler.seconds,
        usage={"peak_rss": machine.peak_rss(), "gpu_busy": None},
    )
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)


def _execute(spec: dict[str, Any]) -> tuple[int, str | None]:
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
