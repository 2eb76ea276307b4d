"""What rules look at: a run's stages, counters, sampled stacks, the user's code, and what the script is made of."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import spearmanr

from hotlap.core import stages
from hotlap.core.counts import ENV_STEPS, EPISODE_STEPS, EPISODES, FORWARDS, UPDATES
from hotlap.core.paths import ACT, STEP
from hotlap.core.sample import Sample
from hotlap.interventions.code import Code
from hotlap.probe.describe import SOURCES
from hotlap.probe.hooks.plain import STEP_METHODS
from hotlap.record.finding import Saved
from hotlap.record.run import STACKS, Run
from hotlap.record.summary import document

_STEPPING = (*STEP_METHODS, "reset", "step_wait", "_step", "_reset", "step_async", "step_and_maybe_reset")


_ON_POLICY = re.compile(r"advantage|\bgae\b|\bPPO\b|\bA2C\b|clip_ratio|old_log_?p", re.IGNORECASE)
_OFF_POLICY = re.compile(r"replay|epsilon|\bDQN\b|\bSAC\b|\bTD3\b|target_net|q_values", re.IGNORECASE)


class Frame(NamedTuple):
    name: str
    file: str
    line: int
    own: bool  # the user's own code


@dataclass(frozen=True)
class Look:
    """One stack that the sampler saw, outermost frame first, and for how long."""

    stage: str
    frames: tuple[Frame, ...]
    seconds: float
    native: float

    @property
    def users(self) -> Frame | None:
        """The innermost frame of the user's own code."""
        return next((frame for frame in reversed(self.frames) if frame.own), None)

    def below_step(self) -> tuple[Frame, ...]:
        """The frames of environments: from the first `step` or `reset` on."""
        for place, frame in enumerate(self.frames):
            if frame.name in _STEPPING:
                return self.frames[place:]
        return ()


Test = Callable[[Look], bool]


class Evidence:
    """A run, as rules ask about it. Shares are of the wall time of the steady windows."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.doc = document(run)
        self.counters: dict[str, Any] = self.doc["counters"]
        self.workers: dict[str, Any] | None = self.doc["workers"]
        self.facts: dict[str, Any] = run.header.get("facts") or {}
        self.torch: dict[str, Any] = self.facts.get("torch") or {}
        self.machine: dict[str, Any] = run.header["machine"]
        self.cores = float(self.machine.get("usable_cores") or 1)
        self.config: dict[str, Any] = run.header["config"]
        self.is_system = "script" not in self.config
        self.samples: list[Sample] = run.steady()[1]
        self.wall = sum(sample.wall for sample in self.samples) * 1e-9

    # -- stages and counters --

    def share(self, *paths: str) -> float:
        """The share of these stages, with what is inside them."""
        return float(sum(self.doc["stages"].get(path, {}).get("total_share", 0.0) for path in paths))

    def own_share(self, *paths: str) -> float:
        return float(sum(self.doc["stages"].get(path, {}).get("share", 0.0) for path in paths))

    def saved(self, share: float, low: float = 0.8, high: float = 1.0, value: float | None = None) -> Saved:
        """So much of a share: from `low` to `high` of it, and `value` (the middle, if not given)."""
        middle = (low + high) / 2 if value is None else value
        return Saved(share * middle, share * low, _and_the_rest(share * high))

    def count(self, what: str) -> float:
        """The sum of a counter over the steady windows."""
        return float(sum(sample.counts.get(what, 0.0) for sample in self.samples))

    @property
    def env_steps(self) -> float:
        return self.count(ENV_STEPS)

    @property
    def updates(self) -> float:
        return self.count(UPDATES)

    @property
    def act_calls(self) -> float:
        if self.is_system:
            return float(sum(sample.calls.get(ACT, 0) for sample in self.samples))
        return self.count(f"{FORWARDS}@{ACT}")

    @property
    def minibatch(self) -> float:
        """Rows of an update. On-policy, each step is used at least once: where the first axis is time, it is not the batch."""
        if self.is_system:
            return float(self.config.get("minibatch") or self.config.get("batch_size") or 0)
        rows = float(self.counters.get("minibatch") or 0)
        return max(rows, self.env_steps / self.updates) if self.is_on_policy and self.updates and rows else rows

    @property
    def update_share(self) -> float:
        return self.share(stages.UPDATE, stages.SAMPLE)

    @property
    def is_on_policy(self) -> bool:
        """Whether it learns from fresh experience: by the words of its code, or because advantages are computed."""
        if self.is_system:
            return "horizon" in self.config
        text = "\n".join(code.text for code in self.codes.values())
        on, off = bool(_ON_POLICY.search(text)), bool(_OFF_POLICY.search(text))
        return on if on != off else self.own_share(stages.ADVANTAGE) > 0

    @cached_property
    def num_envs(self) -> int:
        """Environments that step side by side."""
        if self.is_system:
            return int(self.config.get("num_envs", 1))
        total = 0
        for env in self.facts.get("environments", []):
            numbers = [int(name.rpartition(" x")[2]) for name in env["chain"] if " x" in name]
            total += (max(numbers) if numbers else 1) * env["count"]
        calls = self.doc["stages"].get(STEP, {}).get("calls", 0)
        return max(total, 1) if total else max(1, round(self.env_steps / calls)) if calls else 1

    @property
    def envs_per_call(self) -> float:
        """Environment steps that one call of the network chooses."""
        return self.env_steps / self.act_calls if self.act_calls else 0.0

    @property
    def parameters(self) -> int:
        """Of the largest network."""
        return max((net["parameters"] for net in self.facts.get("nets", [])), default=0)

    @property
    def device(self) -> str:
        return "cuda" if any(net["device"] == "cuda" for net in self.facts.get("nets", [])) else "cpu"

    def compute_share(self) -> float | None:
        """The part of an update's time that its arithmetic needs at this machine's rate of matrix products."""
        rate, nets = self.facts.get("gemm_rate"), self.facts.get("nets", [])
        if not rate or not nets or not self.updates or not self.minibatch:
            return None
        if any(layer.startswith(("Conv", "LSTM", "GRU")) for net in nets for layer in net["layers"]):
            return None
        learned = [n for n in nets if n["parameters"] == self.parameters]
        needed = 6 * learned[0]["parameters"] * self.minibatch / rate
        taken = self.share(stages.UPDATE) * self.wall / self.updates
        return float(min(1.0, needed / taken)) if taken else None

    # -- growth --

    def pace(self, paths: Sequence[str], per: str = ENV_STEPS) -> np.ndarray:
        """The cost of some stages per unit of work, window by window since learning began, relative to that of the others.

        What slows everything down is the machine; it cancels out.
        """
        lines = [line.sample for line in self.run.lines if line.phase in ("warmup", "measured", "train")]
        found = []
        for sample in lines:
            mine = sum(sample.own.get(path, 0) for path in paths)
            rest = sum(sample.own.values()) - mine
            if sample.counts.get(per) and sample.counts.get(UPDATES) and mine and rest:
                found.append(mine / rest)
        return np.array(found)

    def growth(self, paths: Sequence[str], per: str = ENV_STEPS) -> float:
        """By which factor stages' pace grew from the first fifth of the run to the last; 1 if it did not, for sure."""
        pace = self.pace(paths, per)
        if len(pace) < 8 or np.ptp(pace) <= 1e-9 * pace.max() or spearmanr(np.arange(len(pace)), pace).statistic < 0.6:
            return 1.0
        fifth = max(2, len(pace) // 5)
        return max(1.0, float(np.median(pace[-fifth:]) / np.median(pace[:fifth])))

    def swing(self, paths: Sequence[str]) -> float:
        """By which factor stages' pace goes up and down over many windows, slowly enough to be no noise; 1 if it does not."""
        pace = self.pace(paths)
        if len(pace) < 8 or np.ptp(pace) <= 1e-9 * pace.max():
            return 1.0
        smooth = float(np.corrcoef(pace[:-1], pace[1:])[0, 1])
        low, high = np.percentile(pace, [10, 90])
        return float(high / low) if smooth > 0.3 and low > 0 else 1.0

    @cached_property
    def memory_growth(self) -> float:
        """Bytes per second by which memory grew after warm-up."""
        lines = [line for line in self.run.lines if line.phase in ("measured", "bare", "train")]
        if len(lines) < 4:
            return 0.0
        when = np.array([line.sample.start * 1e-9 for line in lines])
        return float(np.polyfit(when, [line.rss for line in lines], 1)[0]) if np.ptp(when) > 0 else 0.0

    def episode_lengths(self) -> tuple[float, float]:
        """Mean length of episodes in the first and the last third of the run; 0 where none ended."""
        samples = [line.sample for line in self.run.lines]
        third = max(1, len(samples) // 3)

        def mean(part: list[Sample]) -> float:
            ended = sum(s.counts.get(EPISODES, 0) for s in part)
            return float(sum(s.counts.get(EPISODE_STEPS, 0) for s in part) / ended) if ended else 0.0

        return mean(samples[:third]), mean(samples[-third:])

    # -- stacks --

    @cached_property
    def looks(self) -> list[Look]:
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads((self.run.path / STACKS).read_text())
            frames = [Frame(f["name"], f["file"], f["line"], f.get("own", False)) for f in found["frames"]]
            return [Look(s[0], tuple(frames[i] for i in s[1]), s[2], s[3] if len(s) > 3 else 0.0) for s in found["stacks"]]
        return []

    @cached_property
    def _weights(self) -> dict[str, float]:
        """What a second of looks in a stage stands for, as a share of the wall time."""
        seconds: defaultdict[str, float] = defaultdict(float)
        for look in self.looks:
            seconds[look.stage] += look.seconds
        return {stage: self.own_share(stage or stages.UNATTRIBUTED) / time for stage, time in seconds.items() if time > 0}

    def weight(self, look: Look) -> float:
        return look.seconds * self._weights.get(look.stage, 0.0)

    def time_in(self, test: Test) -> float:
        """The share of the time in which a stack like this was seen."""
        return sum(self.weight(look) for look in self.looks if test(look))

    def seen(self, share: float, low: float = 1.0, high: float = 1.0, value: float | None = None) -> Saved:
        """So much of a share that the sampler saw, with the sampler's own uncertainty."""
        period = float(self.run.header.get("sampler_period") or 0.025)
        number = max(sum(look.seconds for look in self.looks) / period, 10.0)
        error = 2 * math.sqrt(max(share * (1 - share), 0.01) / number)
        middle = (low + high) / 2 if value is None else value
        return Saved(share * middle, max(0.0, share - error) * low, _and_the_rest(min(1.0, share + error) * high))

    def where(self, test: Test, frame: Callable[[Look], Frame | None] = lambda look: look.users) -> str | None:
        """The line of the user's code that most of that time was spent in."""
        times: defaultdict[str, float] = defaultdict(float)
        for look in self.looks:
            if test(look) and (found := frame(look)) is not None:
                times[f"{found.file}:{found.line}"] += self.weight(look)
        return max(times, key=lambda place: times[place]) if times else None

    @cached_property
    def learning_lines(self) -> set[tuple[str, int]]:
        """Lines of the user's code that learning passes through."""
        looks = [look for look in self.looks if look.stage.startswith((stages.UPDATE, stages.SAMPLE))]
        return {(frame.file, frame.line) for look in looks for frame in look.frames if frame.own}

    # -- code --

    @cached_property
    def codes(self) -> dict[str, Code]:
        with suppress(OSError, ValueError, AttributeError):
            return {name: Code(text) for name, text in json.loads((self.run.path / SOURCES).read_text()).items()}
        return {}

    def code(self, frame: Frame | None) -> str:
        """The text of a frame's line."""
        return self.codes[frame.file].line(frame.line) if frame and frame.file in self.codes else ""

    @cached_property
    def _looping(self) -> dict[Frame, list[Any]]:
        return {}

    def loops(self, frame: Frame) -> list[Any]:
        """The loops of the user's code that repeat this frame's line."""
        if frame not in self._looping:
            code = self.codes.get(frame.file)
            self._looping[frame] = code.loops(frame.line) if code else []
        return self._looping[frame]


def _and_the_rest(share: float, part: float = 0.3) -> float:
    """The most that can go away with a share: what is left may run faster too, once nothing sweeps the caches between."""
    return share + part * (1 - share)
