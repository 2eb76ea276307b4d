"""What rules ask about a run: its stages, counters, stack samples, the user's code, and what the script is made of."""

import ast
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np

from hotlap.causes.cause import Saved
from hotlap.causes.curves import Curves, Factor, Part
from hotlap.causes.loops import Loops, WorkLoop
from hotlap.causes.stacks import StackSample, read_codes, read_stack_samples
from hotlap.core import stages, stats
from hotlap.core.counts import CHOICES, ENV_STEPS, EPISODE_STEPS, EPISODES, FORWARDS, PARALLEL, UPDATES
from hotlap.core.paths import ACT, STEP
from hotlap.core.sample import Sample
from hotlap.interventions.code import Code
from hotlap.record import lines
from hotlap.record.observed import Description, Net
from hotlap.record.run import Run
from hotlap.record.stacks import Frame
from hotlap.record.summary import profile_of

_ON_POLICY = re.compile(r"advantage|\bgae\b|\bPPO\b|\bA2C\b|clip_ratio|old_log_?p", re.IGNORECASE)
_OFF_POLICY = re.compile(
    r"replay|epsilon|\b(double|dueling|d)?_?DQN\b|dueling|q_?net|\bSAC\b|\bTD3\b|target_net|q_values", re.IGNORECASE
)
# What goes away with a share of the time, as parts of what is left: expected, and at most. On scripts with a planted cause,
# fixes gained 1.3 times what the share alone says, in the median.
REST, MOST_REST = 0.15, 0.26
SURE = 0.75  # of a share that a fix saves at least: then planted gains say how far a projection may be off
SAMPLER_PERIOD = 0.025  # seconds, where the record does not say

_ACTOR_CRITIC = re.compile(r"\b(SAC|TD3|DDPG|REDQ|TQC)\b|log_alpha|target_entropy|policy_delay", re.IGNORECASE)

Test = Callable[[StackSample], bool]


def _uses_parameters_often(layer: str) -> bool:
    """Whether a layer uses each of its parameters, or those around it, several times for one row."""
    return layer.startswith(("Conv", "LSTM", "GRU")) or "Attention" in layer


class Evidence:
    """A run, as rules ask about it. Shares are of the wall time of the steady windows."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.profile = profile_of(run)
        self.counters = self.profile.counters
        self.workers = self.profile.workers
        self.description = run.header.observed.description or Description()
        self.torch = self.description.torch
        self.curves = Curves(run.header.observed.what_if)
        self.machine = run.header.machine
        self.cores = float(self.machine.usable_cores or 1)
        self.config = run.header.config
        self.is_system = not run.header.is_script
        self.samples: list[Sample] = run.steady()[1]
        found = self.profile.learners
        learners = len(found.each) / found.world_size if found else 1.0  # that update on their own, at the same time
        self.wall = sum(sample.wall for sample in self.samples) * 1e-9 * learners  # seconds of all of them

    # -- stages and counters --

    def inclusive_share(self, *paths: str) -> float:
        """The share of these stages, with what is inside them."""
        return float(sum(self.profile.stages[path].total_share for path in paths if path in self.profile.stages))

    def exclusive_share(self, *paths: str) -> float:
        """The share of these stages, without what is inside them."""
        return float(sum(self.profile.stages[path].share for path in paths if path in self.profile.stages))

    def calls(self, path: str) -> int:
        """How often a stage was entered."""
        return self.profile.stages[path].calls if path in self.profile.stages else 0

    def saved(self, share: float, low: float = 0.8, high: float = 1.0, value: float | None = None) -> Saved:
        """So much of a share: from `low` to `high` of it, and `value` (the middle, if not given)."""
        middle = (low + high) / 2 if value is None else value
        return _calibrated(
            Saved(_with_the_rest(share * middle, REST / 2), share * low, _with_the_rest(share * high, MOST_REST)), low
        )

    def changed(self, factor: Factor, *paths: str) -> list[Part]:
        """These stages, without what is inside them, if their time changed by a factor."""
        return [Part.of(self.profile.stages[path], factor) for path in paths if path in self.profile.stages]

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
    def choices(self) -> float:
        """Choices of actions, random ones too. Where an adapter counts steps: calls of the network or of `step`."""
        return self.count(CHOICES) or max(self.act_calls, 0.0 if self.is_system else self.calls(STEP))

    @property
    def minibatch(self) -> float:
        """Rows of an update. On-policy, each step is used at least once: where the first axis is time, it is not the batch."""
        if self.is_system:
            return self._setting("minibatch") or self._setting("batch_size")
        rows = float(self.counters.minibatch or 0)
        return max(rows, self.env_steps / self.updates) if self.is_on_policy and self.updates and rows else rows

    def _setting(self, name: str) -> float:
        """A number of a system's config; 0 if there is none."""
        value = self.config.get(name)
        return float(value) if isinstance(value, int | float) else 0.0

    @property
    def update_share(self) -> float:
        return self.inclusive_share(stages.UPDATE, stages.SAMPLE)

    @property
    def network_share(self) -> float:
        """Learning and acting."""
        return self.inclusive_share(stages.UPDATE) + self.exclusive_share(ACT)

    @cached_property
    def is_on_policy(self) -> bool:
        """Whether it learns from fresh experience: by the words of its code, or because advantages are computed."""
        if self.is_system:
            return "horizon" in self.config
        text = "\n".join(code.text for code in self.codes.values())
        on, off = bool(_ON_POLICY.search(text)), bool(_OFF_POLICY.search(text))
        return on if on != off else self.exclusive_share(stages.ADVANTAGE) > 0

    @cached_property
    def is_off_policy_actor_critic(self) -> bool:
        return any(_ACTOR_CRITIC.search(code.text) for code in self.codes.values())

    @cached_property
    def num_envs(self) -> int:
        """Environments that step in parallel."""
        if self.is_system:
            return int(self._setting("num_envs")) or 1
        total = sum(chain.environments for chain in self.description.environments)
        calls = self.calls(STEP)
        together = round(self.env_steps / calls) if calls else 1  # of one vector
        taking_turns = max((sample.counts.get(PARALLEL, 0.0) for sample in self.samples), default=0.0)
        return total or max(1, together, round(taking_turns))

    @property
    def envs_per_call(self) -> float:
        """Environments that one call of the network serves: two networks may choose together, and some choices are random."""
        by_pass = self.env_steps / self.act_calls if self.act_calls else 0.0
        choices = self.count(CHOICES)
        return max(self.env_steps / choices, min(by_pass, float(self.num_envs))) if choices else by_pass

    # -- networks --

    @property
    def nets(self) -> tuple[Net, ...]:
        return self.description.nets

    @property
    def parameters(self) -> int:
        """Of the largest network."""
        return max((net.parameters for net in self.nets), default=0)

    @property
    def on_gpu(self) -> bool:
        return any(net.device == "cuda" for net in self.nets)

    @property
    def gpu_busy(self) -> float | None:
        """The share of the time in which the GPU runs a kernel; None without networks on a GPU."""
        return self.profile.gpu_busy if self.on_gpu else None

    def compute_share(self) -> float | None:
        """The part of an update's time that its arithmetic needs at this machine's rate of matrix products."""
        rate = self.description.gemm_rate
        if not rate or not self.nets or not self.updates or not self.minibatch:
            return None
        if any(_uses_parameters_often(layer) for net in self.nets for layer in net.layers):
            return None
        needed = 6 * self.parameters * self.minibatch / rate
        taken = self.inclusive_share(stages.UPDATE) * self.wall / self.updates
        return float(min(1.0, needed / taken)) if taken else None

    # -- growth --

    def pace(self, paths: Sequence[str], per: str = ENV_STEPS) -> np.ndarray:
        """The cost of some stages per unit of work, window by window since learning began, relative to that of the others.

        What slows everything down is the machine; it cancels out.
        """
        ratios = []
        for sample in self.run.phase(lines.WARMUP, lines.MEASURED, lines.TRAIN):
            inside = sum(sample.exclusive.get(path, 0) for path in paths)
            rest = sum(sample.exclusive.values()) - inside
            if sample.counts.get(per) and sample.counts.get(UPDATES) and inside and rest:
                ratios.append(inside / rest)
        return np.array(ratios)

    def growth(self, paths: Sequence[str], per: str = ENV_STEPS) -> float:
        """By which factor stages' pace grew from the first fifth of the run to the last; 1 if it did not, for sure.

        The first window has what happens once, when learning begins.
        """
        pace = self.pace(paths, per)[1:]
        if len(pace) < 8 or np.ptp(pace) <= 1e-9 * pace.max() or stats.spearman(np.arange(len(pace)), pace) < 0.6:
            return 1.0
        fifth = max(3, len(pace) // 5)
        return max(1.0, float(np.median(pace[-fifth:]) / np.median(pace[:fifth])))

    def swing(self, paths: Sequence[str]) -> float:
        """By which factor stages' pace goes up and down over many windows, slowly enough to be no noise; 1 if it does not."""
        pace = self.pace(paths)
        if len(pace) < 8 or np.ptp(pace) <= 1e-9 * pace.max():
            return 1.0
        with np.errstate(invalid="ignore", divide="ignore"):
            smooth = float(np.corrcoef(pace[:-1], pace[1:])[0, 1])
        low, high = np.percentile(pace, [10, 90])
        return float(high / low) if smooth > 0.3 and low > 0 else 1.0

    @cached_property
    def memory_growth(self) -> float:
        """Bytes per second by which memory grew after warm-up."""
        after = [line for line in self.run.lines if line.phase in (lines.MEASURED, lines.BARE, lines.TRAIN)]
        if len(after) < 4:
            return 0.0
        when = np.array([line.sample.start * 1e-9 for line in after])
        return float(np.polyfit(when, [line.rss for line in after], 1)[0]) if np.ptp(when) > 0 else 0.0

    def episode_lengths(self) -> tuple[float, float]:
        """Mean length of episodes in the first and the last third of the run; 0 where none ended."""
        samples = [line.sample for line in self.run.lines]
        third = max(1, len(samples) // 3)

        def mean(part: list[Sample]) -> float:
            ended = sum(s.counts.get(EPISODES, 0) for s in part)
            return float(sum(s.counts.get(EPISODE_STEPS, 0) for s in part) / ended) if ended else 0.0

        return mean(samples[:third]), mean(samples[-third:])

    # -- stack samples --

    @cached_property
    def stack_samples(self) -> tuple[StackSample, ...]:
        return read_stack_samples(self.run)

    @cached_property
    def _weights(self) -> dict[str, float]:
        """What a second of stack samples in a stage stands for, as a share of the wall time."""
        seconds: defaultdict[str, float] = defaultdict(float)
        for stack in self.stack_samples:
            seconds[stack.stage] += stack.seconds
        return {stage: self.exclusive_share(stage or stages.UNATTRIBUTED) / time for stage, time in seconds.items() if time > 0}

    def weight(self, stack: StackSample) -> float:
        return stack.seconds * self._weights.get(stack.stage, 0.0)

    def time_in(self, test: Test) -> float:
        """The share of the time in which a stack like this was seen."""
        return sum(self.weight(stack) for stack in self.stack_samples if test(stack))

    def seen(self, share: float, low: float = 1.0, high: float = 1.0, value: float | None = None) -> Saved:
        """The fraction of a sampled share that a fix saves, with the sampler's uncertainty."""
        period = self.run.header.observed.sampler_period or SAMPLER_PERIOD
        number = max(sum(stack.seconds for stack in self.stack_samples) / period, 10.0)
        error = 2 * math.sqrt(max(share * (1 - share), 0.01) / number)
        middle = (low + high) / 2 if value is None else value
        least, most = max(0.0, share - error) * low, min(1.0, share + error) * high
        return _calibrated(Saved(_with_the_rest(share * middle, REST), least, _with_the_rest(most, MOST_REST)), low)

    def where(self, test: Test, frame_of: Callable[[StackSample], Frame | None] = lambda stack: stack.user_frame) -> str | None:
        """The line of user code that most of that time was spent in."""
        times: defaultdict[str, float] = defaultdict(float)
        for stack in self.stack_samples:
            if test(stack) and (frame := frame_of(stack)) is not None:
                times[f"{frame.file}:{frame.line}"] += self.weight(stack)
        return max(times, key=lambda place: times[place]) if times else None

    def stage_of(self, test: Test) -> str:
        """The stage in which most of that time was spent."""
        times: defaultdict[str, float] = defaultdict(float)
        for stack in self.stack_samples:
            if test(stack):
                times[stack.stage or stages.UNATTRIBUTED] += self.weight(stack)
        return max(times, key=lambda stage: times[stage], default=stages.UNATTRIBUTED)

    @cached_property
    def learning_lines(self) -> set[tuple[str, int]]:
        """Lines of user code that learning passes through."""
        learning = [stack for stack in self.stack_samples if stack.stage.startswith((stages.UPDATE, stages.SAMPLE))]
        return {(frame.file, frame.line) for stack in learning for frame in stack.frames if frame.user}

    # -- user code --

    @cached_property
    def codes(self) -> dict[str, Code]:
        return read_codes(self.run)

    def code(self, frame: Frame | None) -> str:
        """The text of a frame's line."""
        return self.codes[frame.file].line(frame.line) if frame and frame.file in self.codes else ""

    @cached_property
    def _loops(self) -> Loops:
        return Loops(self.stack_samples, self.codes)

    def loops(self, frame: Frame) -> list[ast.stmt | ast.expr]:
        """The loops of user code that repeat this frame's line."""
        return self._loops.around(frame)

    def work_loops(self, stack: StackSample) -> Iterator[WorkLoop]:
        """Those that repeat lines of a stack and do not drive training, the outermost first."""
        return self._loops.work(stack)

    def drives(self, frame: Frame) -> bool:
        """Whether a frame's line is part of the training loop, rather than work that it calls."""
        return self._loops.is_driver(frame)

    def runs_training(self, frame: Frame) -> bool:
        """Whether a line itself steps or learns, or calls what does: `model.learn(...)`."""
        return self._loops.runs_training(frame)


def _calibrated(saved: Saved, low: float) -> Saved:
    """With an interval as planted gains ask for, if the fix is known to save most of the share: `low` of it at least."""
    return saved.narrowed() if low >= SURE else saved


def _with_the_rest(share: float, part: float) -> float:
    """What goes away with a share: a part of what is left, too. It runs faster once nothing sweeps the caches between.

    All of that part goes with half of the time or more; little of it with little.
    """
    return share + part * min(1.0, 2 * share) * (1 - share)
