"""A process that is measured in turns with others: `python -m hotlap.launch.blocks SPEC [the script's arguments]`.

It warms up by itself, says that it is ready, and then works a block at a time, when it is told to. What a block took goes to
`compare.py` as one JSON line over a pipe; when that pipe closes, enough was measured. Nothing is written to disk.
"""

import json
import os
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotlap.core import machine, stages
from hotlap.core.counts import ENV_STEPS, EPISODES, ITERATIONS, UPDATES, WINDOWS
from hotlap.core.sample import Sample
from hotlap.probe import delays
from hotlap.probe.events import EVENTS, WINDOW
from hotlap.probe.hooks.output import watched_output
from hotlap.probe.recorder import Enough, see_workers


@dataclass
class Block:
    """What one process did in one turn. Times are seconds; `bare` of them were spent with hooks at rest."""

    wall: float = 0.0
    bare: float = 0.0
    counts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    stages: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # exclusive, of the part that is not bare
    rss: int = 0  # at the end, of the process and all that it started

    def add(self, sample: Sample, kind: str) -> None:
        self.wall += sample.wall * 1e-9
        self.counts[kind] += 1
        for what in (ENV_STEPS, UPDATES, EPISODES):
            self.counts[what] += sample.counts.get(what, 0)
        for path, own in sample.own.items():
            self.stages[path] += own * 1e-9
        attributed = sum(total for path, total in sample.total.items() if stages.parent(path) is None)
        self.stages[stages.UNATTRIBUTED] += (sample.wall - attributed) * 1e-9

    def rest(self, sample: Sample) -> None:
        self.wall += sample.wall * 1e-9
        self.bare += sample.wall * 1e-9
        for what in (ENV_STEPS, UPDATES, EPISODES):
            self.counts[what] += sample.counts.get(what, 0)


PATIENCE = 30.0  # seconds that a script with torch is given to begin to learn; then it is measured as it is


class Turns:
    """Waits for its turn, and says what it did with it."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._go = os.fdopen(spec["go"], "rb", 0)
        self._tell = os.fdopen(spec["tell"], "w", 1)
        os.register_at_fork(after_in_child=self._forked)
        self.seconds: float = spec["block"]
        self.block = Block()

    def _forked(self) -> None:
        """A process that this one starts has no say, and must not keep the pipes open when this one dies."""
        for pipe in (self._go, self._tell):
            os.close(pipe.fileno())

    def ready(self) -> None:
        """Warm-up is over; wait for the first turn."""
        delays.injected = 0
        self._say({"ready": True})

    def over(self) -> None:
        """If the turn has lasted long enough, hand it over and wait for the next."""
        if self.block.wall < self.seconds:
            return
        self.block.rss = machine.rss_of_all()
        self.block.counts["delays"], delays.injected = delays.injected, 0
        done, self.block = self.block, Block()
        self._say(vars(done))

    def failed(self, error: str) -> None:
        self._say({"error": error}, wait=False)

    def _say(self, message: dict[str, Any], wait: bool = True) -> None:
        try:
            self._tell.write(json.dumps(message) + "\n")
            self._tell.flush()
            if wait and not self._go.read(1):
                raise Enough
        except BrokenPipeError:
            raise Enough from None


class ScriptTurns:
    """The windows of a script, in turns: warm-up until learning has begun, if it can learn, and some windows more."""

    def __init__(self, turns: Turns, warmup: int) -> None:
        self.turns = turns
        self._left = warmup
        self._patience = PATIENCE
        self._learning = self._ready = False

    def begin(self) -> None:
        EVENTS.start(self.window, window=min(WINDOW, self.turns.seconds / 2))

    def window(self, sample: Sample) -> None:
        if not EVENTS.active:
            return
        if not self._ready:
            self._patience -= sample.wall * 1e-9
            self._learning = self._learning or bool(sample.counts.get(UPDATES)) or "torch" not in sys.modules
            if self._learning or self._patience < 0:
                self._left -= 1
            if self._left < 0:
                self._ready = True
                self.turns.ready()
            return
        self.turns.block.add(sample, WINDOWS)
        if delays.is_on() or EVENTS.restless or not sample.counts.get(ENV_STEPS) or not sample.counts.get(UPDATES):
            self.turns.over()
        else:
            EVENTS.rest(sample.wall * 1e-9, self.rested)

    def rested(self, sample: Sample) -> None:
        self.turns.block.rest(sample)
        self.turns.over()


def _run_script(spec: dict[str, Any], turns: Turns) -> tuple[int, str | None]:
    from hotlap.interventions import intervened
    from hotlap.launch import child
    from hotlap.probe import recorder

    recorder.install()
    if delays.is_on() or "HOTLAP_INTERVENE" in os.environ:  # of both sides, if of one
        see_workers()
    sys.argv = [spec["script"], *sys.argv[2:]]
    ScriptTurns(turns, spec["warmup"]).begin()
    with intervened(), watched_output(EVENTS):
        code, error = child.execute(spec)
    EVENTS.active, EVENTS.inside = False, True
    if error or code:
        return 1, error or f"the script ended with exit code {code}"
    return 0, None


def _run_system(spec: dict[str, Any], turns: Turns) -> tuple[int, str | None]:
    """Iterations of a system, in turns."""
    from contextlib import closing

    from hotlap import systems
    from hotlap.core.clock import StageClock
    from hotlap.launch.system import work_of
    from hotlap.target.flags import checked, config_from

    system = systems.load(spec["system"], spec["algorithm"])
    config = checked(config_from(system, spec["config"]))
    clock = StageClock.for_device(config.device)
    left = spec["warmup"]
    with closing(system.make_env(config)) as env:
        work = work_of(system, config, env, clock, spec["env_only"])
        while left >= 0:
            left -= work.ready()
            work.iterate()
        try:
            turns.ready()
            while True:
                with clock.iteration():
                    work.iterate()
                for sample in clock.take(wait=True):
                    turns.block.add(sample, ITERATIONS)
                turns.over()
        except Enough:
            return 0, None


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    _die_with(spec["parent"])
    turns, process = Turns(spec), os.getpid()
    try:
        code, error = (_run_system if spec["system"] else _run_script)(spec, turns)
    except Exception as problem:
        code, error = 1, f"{type(problem).__name__}: {problem}"
    if error and os.getpid() == process:
        turns.failed(error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code) if spec["system"] else sys.exit(code)


def _die_with(parent: int) -> None:
    """On Linux, a process that waits for its turn dies with the one that would give it."""
    import ctypes

    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
        if os.getppid() != parent:
            os._exit(1)


if __name__ == "__main__":
    main()
