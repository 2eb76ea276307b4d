"""Profile a user's own script, unchanged, in a fresh Python process."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from hotlap.core import machine, stages
from hotlap.core.errors import UsageError
from hotlap.launch.system import Options
from hotlap.probe.events import Events
from hotlap.probe.hooks.patching import as_region
from hotlap.record.run import Run, load


def profile_script(
    script: str,
    arguments: list[str],
    options: Options,
    module: bool = False,
    out: Path | None = None,
    quiet: bool = False,
    environment: dict[str, str] | None = None,
    log: Path | None = None,
) -> tuple[Run, int]:
    """Run `python script arguments` under the probe; its record and its exit code.

    `quiet` sends its stdout to stderr; a `log` gets all that it says.
    """
    if not module and not Path(script).is_file():
        raise UsageError(f"no script {script!r}")
    name = Path(script).name
    run = create_run(name, {"script": name, "arguments": arguments}, out, options.targets)
    spec: dict[str, Any] = {
        "run": str(run.path.resolve()),
        "script": script,
        "module": module,
        **asdict(options),
    }
    path = run.path / "probe.json"
    path.write_text(json.dumps(spec))
    command = [sys.executable, "-m", "hotlap.launch.child", str(path), *arguments]
    variables = {**os.environ, **(environment or {})}
    with ExitStack() as stack:
        output: Any = stack.enter_context(log.open("wb")) if log else sys.stderr if quiet else None
        process = stack.enter_context(subprocess.Popen(command, stdout=output, stderr=output if log else None, env=variables))
        before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        code = _wait(process)
        signal.signal(signal.SIGTERM, before)
    path.unlink()  # it holds paths of this machine
    run = load(run.path)
    if run.header["status"] == "running":
        run.finish("interrupted" if code in (130, -2) else "failed", error=f"the script ended with exit code {code}")
    return run, max(code, 1) if code < 0 else code  # a signal's number is no exit code


def create_run(name: str, config: dict[str, Any], out: Path | None, targets: Sequence[str] = ()) -> Run:
    """The record of something that hotlap did not write."""
    return Run.create(
        "profile",
        name,
        config,
        machine.facts(),
        out,
        gpu_timing="kernels of one window, by torch's profiler",
        stage_cost=event_cost(),
        targets=list(targets),
    )


def _wait(process: "subprocess.Popen[bytes]") -> int:
    """The script's exit code. A Ctrl-C in a terminal reaches the script too; one that reached only us is passed on."""
    try:
        return process.wait()
    except KeyboardInterrupt:
        try:
            return process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            return process.wait()


def event_cost(rounds: int = 200) -> float:
    """Seconds that one event costs between work that sweeps the caches: to note it, and to settle it when its window ends."""
    events = Events()
    hooked = as_region(events, stages.LOG)(_nothing)
    events.start(lambda _: None)
    work = np.zeros(1 << 20)
    costs = []
    for _ in range(rounds):
        work += 1
        begin = time.perf_counter()
        hooked()
        costs.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    events.stop()
    return float(np.median(costs)) + (time.perf_counter() - begin) / rounds


def _nothing() -> None:
    pass
