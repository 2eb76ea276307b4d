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
environment step and before any pass with gradients: the value of the last state (or of each since the last update), followed by
the computation of returns. Many more passes than that go through a minibatch row by row, which is the loss.
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
from hotlap.core.counts import CHOICES, ENV_STEPS, EPISODE_STEPS, EPISODES, SYNC_CALLS, UPDATES
from hotlap.core.paths import BACKWARD as GRADIENTS
from hotlap.core.paths import LOSS, RESET, STEP, STORE
from hotlap.core.paths import OPTIMIZER as OPTIMIZE
from hotlap.core.sample import Sample
from hotlap.probe.charges import Charges, Run
from hotlap.probe.kinds import (
    ENDED,
    ENV_PATHS,
    EVALUATING,
    GRADIENT_COMPILED,
    GRADIENT_FORWARD,
    PATHS,
    STEPPED,
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
    TARGETED,
    Moment,
    Pending,
)

FEW_PASSES = 4  # with two for each step, the most that ask for the values of states after a rollout


class Timeline(Charges):
    """Charges the time of windows to stages.

    Until an environment was seen, nobody knows whether the time between updates collects or samples: it stays unattributed. A
    process that the script started to learn in has no environment (`collects` is false), and samples.
    """

    def __init__(self, origin: int, collects: bool = True) -> None:
        self._rounds: defaultdict[int, int] = defaultdict(int)  # optimizer -> its steps since the environment's
        super().__init__(origin)
        self._is_unclear = collects
        self._act_rows = -1  # rows of the last forward pass that chose actions
        self._collected = 0  # calls of environments' steps since the last backward pass
        self._learned = False
        self._env = 0  # the environment that was touched last; events on it are a run
        self._known_envs: set[int] = set()
        self._env_steps: defaultdict[int, int] = defaultdict(int)  # environment -> calls of its step
        self._begun: dict[tuple[int, int], int] = {}  # an environment, and which one in it -> call at which its episode began
        self._evaluating = False  # the script said so, by the names of its functions

    def window(
        self, log: Iterable[Event], now: int | None, counts: dict[str, float], moments: list[Moment], traced: bool
    ) -> Sample | None:
        """The window that these events fill. It ends `now`, when an environment begins to step, or else with the last event."""
        self._fresh(moments, traced)
        self._rounds.clear()
        players = _PLAYERS
        for event in log:
            players[event[0]](self, event)
        if now is not None:
            self._until(now)
            self._settle_before_env()
        if self._run is not None:
            self._run = Run()  # only what a window still holds can be moved
        return self._sample(counts)

    def count_only(self, log: Iterable[Event], begin: int, end: int, counts: dict[str, float]) -> Sample:
        """A pause, in which steps and updates were only counted. After it, learning has just turned into acting."""
        self._fresh([], False)
        self._rounds.clear()
        self._end_run(False)
        for kind, _, _, first, second in log:
            if kind == STEPPED:
                self._env_steps[first] += 1
                self._counts[ENV_STEPS] += second
                self._counts[CHOICES] += second > 0 and self._turns.begins_round(first)
                self._rounds.clear()
            elif kind == ENDED:
                self._play_end((kind, 0, 0, first, second))
            else:
                self._count_update(first)
        for what, number in counts.items():
            self._counts[what] += number
        self._pending = [Pending(AFTER_UPDATE)]
        return Sample(begin - self._origin, end - begin, counts=dict(self._counts))

    # -- events, by their kinds --

    def _play_env(self, event: Event) -> None:
        kind, begin, end, env, steps = event
        self._until(begin)
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
            self._collected += 1
        self._pending = [Pending(AFTER_ENV)]

    def _play_end(self, event: Event) -> None:
        _, _, _, env, which = event
        steps = self._env_steps[env]
        self._count(EPISODES, 1)
        self._count(EPISODE_STEPS, steps - self._begun.get((env, which), 0))
        self._begun[env, which] = steps

    def _play_pass(self, event: Event) -> None:
        kind, begin, end, rows, _ = event
        self._until(begin)
        self._turns.end_round()
        pending = Pending(GRADIENT_PASS if kind in (GRADIENT_FORWARD, GRADIENT_COMPILED) else PASS, rows)
        self._pending.append(pending)
        if self._held:
            for held in self._take_held(end):
                self._until(held[1])
                self._copy_while_pending(pending, held)
        self._until(end)
        self._ended = ""

    def _play_backward(self, event: Event) -> None:
        self._until(event[1])
        self._settle_before_backward()
        self._collected = 0
        self._end_run(self._evaluating)  # what is learned from is no evaluation
        self._pass(GRADIENTS, event[2])
        self._pending = [Pending(AFTER_BACKWARD)]

    def _play_optimizer(self, event: Event) -> None:
        self._until(event[1])
        for pending in self._pending:  # clipping lies between the gradients and the step
            self._settle(pending, OPTIMIZE if pending.kind == AFTER_BACKWARD else LOSS)
        self._pass(OPTIMIZE, event[2])
        self._count_update(event[3])
        self._learned = True
        self._pending = [Pending(AFTER_UPDATE)]

    def _play_region(self, event: Event) -> None:
        """What is pending goes on after it."""
        path = PATHS[event[3]]
        self._until(event[1])
        self._pass(path, event[2])
        if path == STORE:
            self._new_line(None, stored=True)

    def _play_phase(self, event: Event) -> None:
        self._until(event[1])
        for pending in self._pending:
            if pending.kind == AFTER_UPDATE:  # the end of the learning phase
                pending.kind, pending.path, pending.is_known = IN_PHASE, stages.UPDATE, True
        self._pending.append(Pending(IN_PHASE, path=PATHS[event[3]]))

    def _play_targeting(self, event: Event) -> None:
        self._until(event[1])
        if self._pending and self._pending[-1].kind == AFTER_UPDATE and not self._pending[-1].is_known:
            self._pending.append(Pending(TARGETED))

    def _play_line(self, event: Event) -> None:
        _, begin, _, number, stored = event
        self._until(begin)
        self._new_line(PATHS[number] if number >= 0 else None, bool(stored))

    def _play_syncs(self, event: Event) -> None:
        _, begin, _, number, inside = event
        if inside and self._ended:
            self._counts[f"{SYNC_CALLS}@{self._ended}"] += number
            return
        self._until(begin)
        if self._pending:
            self._pending[-1].note(SYNC_CALLS, number)

    def _play_carved(self, event: Event) -> None:
        self._held.append(event)

    def _play_copy(self, event: Event) -> None:
        if event[4]:  # inside an event that is open
            self._held.append(event)
            return
        self._until(event[1])
        if self._pending:
            self._copy_while_pending(self._pending[-1], event)

    # -- what they mean --

    def _count_update(self, optimizer: int) -> None:
        """An update is one round of the algorithm: between environment steps, the optimizer that steps most often counts."""
        most = max(self._rounds.values(), default=0)
        self._rounds[optimizer] += 1
        self._counts[UPDATES] += self._rounds[optimizer] > most

    def _new_line(self, path: str | None, stored: bool) -> None:
        if not self._pending or self._pending[-1].kind not in BY_LINES:
            return
        for pending in reversed(self._pending if stored else []):
            if pending.kind != AFTER_ENV or pending.is_known:
                break
            pending.path, pending.is_known = STORE, True
        self._pending.append(Pending(self._pending[-1].kind, path=path))

    def _settle_before_env(self) -> None:
        for pending in self._pending:
            kind = pending.kind
            if kind in (PASS, GRADIENT_PASS):
                self._act_rows = pending.rows
            self._settle(pending, BEFORE_ENV[kind])
        self._pending = []

    def _settle_before_backward(self) -> None:
        forward = [pending for pending in self._pending if pending.kind in (PASS, GRADIENT_PASS)]
        before_loss = takewhile(lambda p: p.kind == PASS, forward)  # passes without gradients after one with them are targets
        bootstraps = [p for p in before_loss if p.rows == self._act_rows]
        if len(bootstraps) > FEW_PASSES + 2 * self._collected:
            bootstraps = []
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
            self._run = Run()
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


_PLAYERS = (
    Timeline._play_env,  # STEPPED, RESETTING, EVALUATING, WAITED
    Timeline._play_env,
    Timeline._play_env,
    Timeline._play_env,
    Timeline._play_end,
    Timeline._play_pass,  # FORWARD, GRADIENT_FORWARD, COMPILED, GRADIENT_COMPILED
    Timeline._play_pass,
    Timeline._play_pass,
    Timeline._play_pass,
    Timeline._play_backward,
    Timeline._play_optimizer,
    Timeline._play_region,
    Timeline._play_phase,
    Timeline._play_carved,
    Timeline._play_copy,  # TO_DEVICE, TO_HOST
    Timeline._play_copy,
    Timeline._play_syncs,
    Timeline._play_targeting,
    Timeline._play_line,
)
