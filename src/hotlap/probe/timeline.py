"""The stages of a script that knows nothing of stages, from what it does.

The time of an event (an environment steps, a module runs forward) has a stage. The time *between* events has one too, but
which one is often known only later: a forward pass followed by an environment step chose actions, the same pass followed by
`backward` computed a loss. So time since the last anchor (an environment step or a backward pass) is kept as pending
segments, and the next anchor says what they were:

| pending | before an environment step | before a backward pass |
|---|---|---|
| after an environment step | `collect/store` | `collect/store` if a bootstrap follows, `sample` if another pass does |
| a forward pass and what follows it | `collect/act` | `advantage` if it is a bootstrap, else `update/loss` |
| after an optimizer step | nothing: stays unattributed | `sample` |
| after that, from where a network's parameters were asked for | `update/target` | `sample` |
| in a phase that a framework's adapter announced | that phase itself | that phase itself |

Where no environment was seen to step, time after an optimizer step and passes without gradients before `backward` stay
unattributed: they may collect. A bootstrap is a forward pass without gradients on as many rows as acting has, after an
environment step and before any pass with gradients: the value of the last state, followed by the computation of returns.
Without any forward pass before `backward`, the graph of acting is learned from, and the time before it is `update/loss`. What
is counted (synchronising calls, copies) is pending with the time it happened in, and goes to the same stage.

After an environment step and after an optimizer step, the lines that run know more than the events around them (`lines.py`):
where these name a stage, time is charged to that. From Python 3.12 on a LINE event says when such a line begins. Before, the
time is divided among the stages that stack samples name (`shares.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import takewhile

from hotlap.core import stages
from hotlap.core.counts import (
    CHOICES,
    ENV_STEPS,
    EPISODE_STEPS,
    EPISODES,
    FORWARDS,
    GRADIENT_FORWARDS,
    PARALLEL,
    ROWS,
    STEP_MEDIAN,
    STEP_P99,
    SYNC_CALLS,
    UPDATES,
)
from hotlap.core.paths import BACKWARD as GRADIENTS
from hotlap.core.paths import LOSS, RESET, STEP, STORE
from hotlap.core.paths import OPTIMIZER as OPTIMIZE
from hotlap.core.sample import MAX_EVENTS, Sample
from hotlap.probe.kinds import (
    BACKWARD,
    BYTES,
    CARVED,
    COPIES,
    ENDED,
    ENV_PATHS,
    EVALUATING,
    FORWARD,
    GRADIENT_COMPILED,
    GRADIENT_FORWARD,
    LINE,
    OPTIMIZER,
    PATHS,
    PHASE,
    REGION,
    STEPPED,
    SYNCS,
    TARGETING,
    TO_DEVICE,
    TO_HOST,
    WAITED,
    Event,
)
from hotlap.probe.pending import (
    AFTER_BACKWARD,
    AFTER_ENV,
    AFTER_UPDATE,
    BEFORE_BACKWARD,
    BEFORE_ENV,
    BY_LINES,
    GRADIENT_PASS,
    IN_PHASE,
    PASS,
    START,
    TARGETED,
    Moment,
    Pending,
)
from hotlap.probe.shares import SampledShares

_Times = defaultdict[str, int]
_Counts = defaultdict[str, float]


class _Run:
    """What events on one environment charged and counted."""

    __slots__ = ("counts", "exclusive")

    def __init__(self) -> None:
        self.exclusive: _Times = defaultdict(int)
        self.counts: _Counts = defaultdict(float)


class _Turns:
    """Environments that step one after another, each an object of its own, as they do in `for env in envs`."""

    def __init__(self) -> None:
        self._round: set[int] = set()  # that have stepped since actions were chosen
        self._seen: set[int] = set()
        self._returned: set[int] = set()  # that stepped again after another one
        self._last = 0

    @property
    def parallel(self) -> int:
        return len(self._returned) if len(self._returned) > 1 else 0

    def begins_round(self, env: int) -> bool:
        """Whether actions were chosen anew for this step."""
        if env != self._last:
            if env in self._seen:
                self._returned.add(env)
            self._seen.add(env)
            self._last = env
        begins = not self._round or env in self._round
        if begins:
            self._round = {env}
        else:
            self._round.add(env)
        return begins

    def end_round(self) -> None:
        """A network ran: what steps now was chosen by it."""
        self._round = set()


class Timeline:
    """Charges the time of windows to stages. `origin` is when the run began, in the nanoseconds of the events.

    Until an environment was seen, nobody knows whether the time between updates collects or samples: it stays unattributed. A
    process that the script started to learn in has no environment (`collects` is false), and samples.
    """

    def __init__(self, origin: int, collects: bool = True) -> None:
        self._origin = origin
        self._is_unclear = collects
        self._last = self.opened = origin
        self._pending = [Pending(START)]
        self._act_rows = -1  # rows of the last forward pass that chose actions
        self._learned = False
        self._env = 0  # the environment that was touched last; events on it are a run
        self._known_envs: set[int] = set()
        self._env_steps: defaultdict[int, int] = defaultdict(int)  # environment -> calls of its step
        self._begun: dict[tuple[int, int], int] = {}  # an environment, and which one in it -> call at which its episode began
        self._evaluating = False  # the script said so, by the names of its functions
        self._run: _Run | None = None  # what was charged in this run, if it may turn out to be an evaluation
        self._held: list[Event] = []  # what happened inside an event whose end is still to come
        self._ended = ""  # the stage of the event before
        self._shares = SampledShares()
        self._rounds: defaultdict[int, int] = defaultdict(int)  # optimizer -> its steps since the environment's
        self._fresh([], False)

    def forget_samples(self) -> None:
        """What lines are known to do has changed: stack samples until now say nothing about windows to come."""
        self._shares = SampledShares()

    def open(self, now: int) -> None:
        """A window begins."""
        self.opened = self._last = now

    def window(
        self, log: Iterable[Event], now: int | None, counts: dict[str, float], moments: list[Moment], traced: bool
    ) -> Sample | None:
        """The window that these events fill. It ends `now`, when an environment begins to step, or else with the last event."""
        self._fresh(moments, traced)
        for event in log:
            self._play(event)
        if now is not None:
            self._until(now)
            self._settle_before_env()
        if self._run is not None:
            self._run = _Run()  # only what a window still holds can be moved
        return self._sample(counts)

    def count_only(self, log: Iterable[Event], begin: int, end: int, counts: dict[str, float]) -> Sample:
        """A pause, in which steps and updates were only counted. After it, learning has just turned into acting."""
        self._fresh([], False)
        self._end_run(False)
        for kind, _, _, first, second in log:
            if kind == STEPPED:
                self._env_steps[first] += 1
                self._counts[ENV_STEPS] += second
                self._counts[CHOICES] += second > 0 and self._turns.begins_round(first)
                self._rounds.clear()
            elif kind == ENDED:
                self._end_episode(first, second)
            else:
                self._count_update(first)
        for what, number in counts.items():
            self._counts[what] += number
        self._pending = [Pending(AFTER_UPDATE)]
        return Sample(begin - self._origin, end - begin, counts=dict(self._counts))

    # -- events --

    def _play(self, event: Event) -> None:
        kind, begin, end, first, second = event
        if kind == CARVED or (kind in (TO_DEVICE, TO_HOST) and second):
            self._held.append(event)
            return
        if kind == SYNCS and second and self._ended:
            self._counts[f"{SYNC_CALLS}@{self._ended}"] += first
            return
        if kind == ENDED:
            self._end_episode(first, second)
            return
        self._until(begin)
        if kind in ENV_PATHS:
            self._play_env(kind, end, first, second)
        elif FORWARD <= kind <= GRADIENT_COMPILED:
            self._turns.end_round()
            pending = Pending(GRADIENT_PASS if kind in (GRADIENT_FORWARD, GRADIENT_COMPILED) else PASS, first)
            self._pending.append(pending)
            for held in self._take_held(end):
                self._until(held[1])
                self._copy_while_pending(pending, held)
            self._until(end)
            self._ended = ""
        elif kind == BACKWARD:
            self._settle_before_backward()
            self._end_run(self._evaluating)  # what is learned from is no evaluation
            self._pass(GRADIENTS, end)
            self._pending = [Pending(AFTER_BACKWARD)]
        elif kind == OPTIMIZER:
            for pending in self._pending:  # clipping lies between the gradients and the step
                self._settle(pending, OPTIMIZE if pending.kind == AFTER_BACKWARD else LOSS)
            self._pass(OPTIMIZE, end)
            self._count_update(first)
            self._learned = True
            self._pending = [Pending(AFTER_UPDATE)]
        elif kind == REGION:  # what is pending goes on after it
            self._pass(PATHS[first], end)
            if PATHS[first] == STORE:
                self._play_line(None, stored=True)
        elif kind == PHASE:
            for pending in self._pending:
                if pending.kind == AFTER_UPDATE:  # the end of the learning phase
                    pending.kind, pending.path, pending.is_known = IN_PHASE, stages.UPDATE, True
            self._pending.append(Pending(IN_PHASE, path=PATHS[first]))
        elif kind == TARGETING:
            if self._pending and self._pending[-1].kind == AFTER_UPDATE and not self._pending[-1].is_known:
                self._pending.append(Pending(TARGETED))
        elif kind == LINE:
            self._play_line(PATHS[first] if first >= 0 else None, bool(second))
        elif self._pending and kind == SYNCS:
            self._pending[-1].note(SYNC_CALLS, first)
        elif self._pending:
            self._copy_while_pending(self._pending[-1], event)

    def _play_env(self, kind: int, end: int, env: int, steps: int) -> None:
        path = ENV_PATHS[kind]
        self._is_unclear = False
        self._rounds.clear()
        self._settle_before_env()
        if kind != WAITED and (env != self._env or path == RESET):
            self._new_run(path, env, kind == EVALUATING)
        taken = self._pass(path, end)
        if steps:
            self._count(ENV_STEPS, steps)
            self._count(CHOICES, self._turns.begins_round(env))
        if path == STEP:
            self._step_times.append(taken)
            self._env_steps[env] += 1
        self._pending = [Pending(AFTER_ENV)]

    def _count_update(self, optimizer: int) -> None:
        """An update is one round of the algorithm: between environment steps, the optimizer that steps most often counts."""
        most = max(self._rounds.values(), default=0)
        self._rounds[optimizer] += 1
        self._counts[UPDATES] += self._rounds[optimizer] > most

    def _play_line(self, path: str | None, stored: bool) -> None:
        if not self._pending or self._pending[-1].kind not in BY_LINES:
            return
        for pending in reversed(self._pending if stored else []):
            if pending.kind != AFTER_ENV or pending.is_known:
                break
            pending.path, pending.is_known = STORE, True
        self._pending.append(Pending(self._pending[-1].kind, path=path))

    def _end_episode(self, env: int, which: int) -> None:
        steps = self._env_steps[env]
        self._count(EPISODES, 1)
        self._count(EPISODE_STEPS, steps - self._begun.get((env, which), 0))
        self._begun[env, which] = steps

    # -- settling --

    def _settle(self, pending: Pending, path: str) -> None:
        if pending.kind in BY_LINES and not pending.is_known:
            self._shares.add(pending, path)
        path = pending.path = pending.path if pending.is_known else path
        if not path:
            return
        pending.settled = True
        self._exclusive[path] += pending.time
        self._calls[path] += 1
        if self._run is not None:
            self._run.exclusive[path] += pending.time
        if pending.kind == PASS or pending.kind == GRADIENT_PASS:
            self._counts[f"{FORWARDS}@{path}"] += 1
            self._counts[f"{ROWS}@{path}"] += pending.rows
            if pending.kind == GRADIENT_PASS:
                self._counts[f"{GRADIENT_FORWARDS}@{path}"] += 1
        if pending.copying:
            self._charge(f"{path}/{stages.TRANSFER}", pending.copying)
        if pending.counts:
            for what, number in pending.counts.items():
                self._counts[f"{what}@{path}"] += number

    def _settle_before_env(self) -> None:
        for pending in self._pending:
            if pending.kind == PASS or pending.kind == GRADIENT_PASS:
                self._act_rows = pending.rows
            self._settle(pending, BEFORE_ENV[pending.kind])
        self._pending = []

    def _settle_before_backward(self) -> None:
        forward = [pending for pending in self._pending if pending.kind in (PASS, GRADIENT_PASS)]
        before_loss = takewhile(lambda p: p.kind == PASS, forward)  # passes without gradients after one with them are targets
        bootstraps = [p for p in before_loss if p.rows == self._act_rows]
        after_env = bool(self._pending) and self._pending[0].kind == AFTER_ENV
        for pending in self._pending:
            path = BEFORE_BACKWARD[pending.kind] if forward else LOSS
            if self._is_unclear and pending.kind in (AFTER_UPDATE, PASS):
                path = ""
            if after_env and bootstraps:
                path = STORE if pending.kind == AFTER_ENV else stages.ADVANTAGE if pending in bootstraps else path
            self._settle(pending, path)
        self._pending = []

    def _new_run(self, path: str, env: int, evaluating: bool) -> None:
        """Events on another environment begin, or another episode. Was the run of events until now an evaluation?

        It was if its reset said so; or if it began with a reset once learning had begun, played an episode from which nothing
        was learned, and now another environment goes on in the middle of the episode in which it had been left.
        """
        if env == self._env and evaluating == self._evaluating:
            return
        played = self._run is not None and 0 < self._run.counts[EPISODES] < self._run.counts[ENV_STEPS]
        self._end_run(self._evaluating or (played and path == STEP and env in self._known_envs))
        if self._learned and path == RESET and (evaluating or (self._known_envs and env != self._env)):
            self._run = _Run()
        self._evaluating = evaluating
        self._known_envs.add(env)
        self._env = env

    def _end_run(self, evaluation: bool) -> None:
        if evaluation and self._run is not None:
            for path, amount in self._run.exclusive.items():
                self._exclusive[path] -= amount
                self._exclusive[stages.EVALUATE] += amount
            for what, number in self._run.counts.items():
                self._counts[what] -= number
            self._calls[stages.EVALUATE] += 1
        self._run, self._evaluating = None, False

    # -- bookkeeping --

    def _until(self, now: int) -> None:
        """Time passes in which nothing was open but what is pending."""
        now = max(now, self._last)
        pending = self._pending[-1] if self._pending else None
        if pending is not None:
            pending.time += now - self._last
            if self._spans is not None:
                self._keep_span(pending, self._last, now)
        if self._moments and self._moments[-1].time < now:
            self._name_moments(now, pending or "")
        self._last = now

    def _pass(self, path: str, end: int) -> int:
        """Time passes in something that is a stage as a whole, except for what was carved out of it."""
        end = max(end, self._last)
        amount = 0
        for kind, begin, to, number, _ in self._take_held(end):
            inner = PATHS[number] if kind == CARVED else f"{path}/{stages.TRANSFER}"
            if self._moments and self._moments[-1].time < to:
                self._name_moments(begin, path)
                self._name_moments(to, inner)
            amount += begin - self._last
            self._keep_span(path, self._last, begin)
            self._charge(inner, to - begin)
            self._keep_span(inner, begin, to)
            self._last = to
            if kind != CARVED:
                self._counts[f"{COPIES[kind]}@{path}"] += 1
                self._counts[f"{BYTES[kind]}@{path}"] += number
        amount += end - self._last
        self._charge(path, amount)
        if self._spans is not None:
            self._keep_span(path, self._last, end)
        if self._moments and self._moments[-1].time < end:
            self._name_moments(end, path)
        self._last = end
        self._ended = path
        return amount

    def _take_held(self, end: int) -> list[Event]:
        """What happened inside the event that ends here, in order.

        An event that never ended, because it raised an error, leaves its own behind: none reaches out of this one.
        """
        held, self._held = self._held, []
        reached, inside = self._last, []
        for kind, begin, to, first, second in held:
            begin = min(max(begin, reached), end)
            reached = min(max(to, begin), end)
            inside.append((kind, begin, reached, first, second))
        return inside

    def _copy_while_pending(self, pending: Pending, event: Event) -> None:
        kind, _, end, size, _ = event
        if kind in COPIES:
            end = max(end, self._last)
            pending.copying += end - self._last
            pending.note(COPIES[kind], 1)
            pending.note(BYTES[kind], size)
            self._keep_span(pending, self._last, end, copying=True)
            if self._moments and self._moments[-1].time < end:
                self._name_moments(end, pending)
            self._last = end

    def _keep_span(self, owner: Pending | str, begin: int, end: int, copying: bool = False) -> None:
        if self._spans is not None and end > begin:
            self._spans.append((owner, begin, end, copying))

    def _name_moments(self, now: int, what: Pending | str) -> None:
        while self._moments and self._moments[-1].time < now:
            moment = self._moments.pop()
            moment.what = what
            if isinstance(what, Pending):
                what.moments.append(moment)

    def _charge(self, path: str, amount: int) -> None:
        self._exclusive[path] += amount
        self._calls[path] += 1
        if self._run is not None:
            self._run.exclusive[path] += amount

    def _count(self, what: str, number: float) -> None:
        self._counts[what] += number
        if self._run is not None:
            self._run.counts[what] += number

    def _fresh(self, moments: list[Moment], traced: bool) -> None:
        self._exclusive: _Times = defaultdict(int)
        self._calls: _Times = defaultdict(int)
        self._counts: _Counts = defaultdict(float)
        self._step_times: list[int] = []
        self._rounds.clear()
        self._turns = _Turns()
        self._held = []
        self._ended = ""
        self._moments = moments[::-1]  # the next one last
        # Where each piece of time lay in a traced window: whose it is, begin, end, whether it is a copy.
        self._spans: list[tuple[Pending | str, int, int, bool]] | None = [] if traced else None

    def _sample(self, counts: dict[str, float]) -> Sample | None:
        wall = self._last - self.opened
        if wall <= 0:
            return None
        self._shares.divide(self._exclusive)
        total: dict[str, int] = {}
        for path, amount in self._exclusive.items():
            name: str | None = path
            while name:
                total[name] = total.get(name, 0) + amount
                name = stages.parent(name)
        exclusive = {path: self._exclusive.get(path, 0) for path in total}
        calls = {path: self._calls.get(path, 0) for path in total}
        for what, number in counts.items():
            self._counts[what] += number
        if self._turns.parallel:
            self._counts[PARALLEL] = self._turns.parallel
        if times := sorted(self._step_times):
            self._counts[STEP_MEDIAN] = times[len(times) // 2] * 1e-9
            self._counts[STEP_P99] = times[len(times) * 99 // 100] * 1e-9
        sample = Sample(self.opened - self._origin, wall, exclusive, total, calls, dict(self._counts))
        sample.events = self._traced_spans()[:MAX_EVENTS]
        return sample

    def _traced_spans(self) -> list[tuple[str, int, int]]:
        """(path, start, duration) of each span that a stage claims; none overlaps another, and all lie inside the window."""
        spans = []
        for owner, begin, end, copying in self._spans or ():
            path = owner if isinstance(owner, str) else owner.path if owner.settled else ""
            if path:
                spans.append((f"{path}/{stages.TRANSFER}" if copying else path, begin - self._origin, end - begin))
        return spans
