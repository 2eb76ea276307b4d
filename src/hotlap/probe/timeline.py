"""The stages of a script that knows nothing of stages, from what it does.

Hooks report events: an environment steps, a module runs forward, gradients flow, an optimizer steps. The time *between* events
belongs to a stage too, but which one is often known only later: a forward pass followed by an environment step chose actions,
the same pass followed by `backward` computed a loss. So time since the last anchor (an environment step or a backward pass)
is kept as pending segments, and the next anchor says what they were:

| pending | before an environment step | before a backward pass |
|---|---|---|
| after an environment step | `collect/store` | `collect/store` if a bootstrap follows, `sample` if another pass does |
| a forward pass and what follows it | `collect/act` | `advantage` if it is a bootstrap, else `update/loss` |
| after an optimizer step | nothing: stays unattributed | `sample` |
| in a phase that a framework's adapter announced | that phase itself | that phase itself |

A bootstrap is a forward pass without gradients on as many rows as acting has, after an environment step: the value of the last
state, followed by the computation of returns. What is counted (synchronising calls, copies) is pending with the time it
happened in, and goes to the same stage.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable

from hotlap import stages
from hotlap.clock import ENV_STEPS, EPISODES, MAX_EVENTS, UPDATES, Sample

ACT = f"{stages.COLLECT}/{stages.ACT}"
STEP = f"{stages.COLLECT}/{stages.ENV_STEP}"
RESET = f"{stages.COLLECT}/{stages.ENV_RESET}"
STORE = f"{stages.COLLECT}/{stages.STORE}"
WAIT = f"{stages.COLLECT}/{stages.WAIT}"
LOSS = f"{stages.UPDATE}/{stages.LOSS}"
BACKWARD = f"{stages.UPDATE}/{stages.BACKWARD}"
OPTIMIZER = f"{stages.UPDATE}/{stages.OPTIMIZER}"

# What is counted, by the stage it happened in: "forwards@collect/act".
FORWARDS, ROWS, SYNCS = "forwards", "rows", "syncs"
EPISODE_STEPS = "episode_steps"  # steps of the episodes that ended
COPIES = ("copies_to_device", "copies_to_host")
BYTES = ("bytes_to_device", "bytes_to_host")

WINDOW = 0.25  # seconds: shorter iterations are joined to windows of at least this length
IDLE_WINDOW = 0.5  # seconds: the length of windows before anything has been learned, and of windows of workers
MOST_STEPS = 5_000  # steps whose time is kept per window
LONGEST = 30.0  # seconds: a window ends here whatever happens

_AFTER_ENV, _FORWARD, _GRAD_FORWARD, _AFTER_UPDATE, _AFTER_BACKWARD, _PHASE, _START = range(7)
_BEFORE_ENV = (STORE, ACT, ACT, "", OPTIMIZER, "", "")  # what pending time was, by its kind
_BEFORE_BACKWARD = (stages.SAMPLE, LOSS, LOSS, stages.SAMPLE, LOSS, "", "")
_GUESS = (STORE, ACT, LOSS, stages.SAMPLE, OPTIMIZER, "", "")


_Times = defaultdict[str, int]
_Counts = defaultdict[str, float]


class _Pending:
    __slots__ = ("counts", "kind", "path", "rows", "time", "transfer")

    def __init__(self, kind: int, rows: int = 0, path: str = "") -> None:
        self.kind = kind
        self.rows = rows  # of a forward pass
        self.path = path  # of a phase; of anything, once it is settled
        self.time = self.transfer = 0
        self.counts: dict[str, float] | None = None

    def __str__(self) -> str:
        """The stage it belongs to, as far as that is known."""
        return self.path or _GUESS[self.kind]


class _Run:
    """What events on one environment charged and counted."""

    __slots__ = ("counts", "own")

    def __init__(self) -> None:
        self.own: _Times = defaultdict(int)
        self.counts: _Counts = defaultdict(float)


class Timeline:
    """Charges the time of the thread that started it to stages, window by window.

    `inside` is above zero while something open claims all that happens (an environment's step, a forward pass), and while
    nothing is measured at all: hooks look at it first, and then do nothing.
    """

    _own: _Times  # of the open window
    _calls: _Times
    _counts: _Counts

    def __init__(self, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self.now = now
        self.inside = 1
        self.active = False
        self.counting = True  # whether environments' steps count; an adapter that knows better counts by itself
        self.env_steps = 0  # since the start
        self.syncs = 0  # synchronising calls since the last event; hooks add to it
        self.look = True  # whether hooks should note the types of the data they see, once per window
        self.types: dict[str, str] = {}
        self.worker = False

    def start(self, on_window: Callable[[Sample], None], origin: int | None = None, worker: bool = False) -> None:
        """Begin to measure the calling thread. `origin` is when the run began; a worker's windows end by time alone."""
        self._on_window = on_window
        self.thread = threading.get_ident()
        self._last = self._opened = self.now()
        self.origin = self._last if origin is None else origin
        self.worker = worker
        self._fresh()
        self._pending = [_Pending(_START)]
        self._region = ""
        self._carving = ""
        self._act_rows = -1  # rows of the last forward pass that chose actions
        self._learned = False
        self._env = 0  # the environment that was touched last; events on it are a run
        self._known_envs: set[int] = set()
        self._evaluating = False  # the script said so, by the names of its functions
        self._run: _Run | None = None  # what was charged in this run, if it may turn out to be an evaluation
        self._anchor: tuple[int, dict[str, int], dict[str, int], dict[str, float]] | None = (
            None  # before workers were waited for
        )
        self._pieces: list[tuple[_Pending, int, int]] | None = None  # where pending time lay, while tracing
        self.inside = 0
        self.active = True

    def stop(self) -> None:
        """End the last window at the last event: what comes after it, waiting for workers to end included, is no training."""
        was_active, self.inside, self.active = self.active, 1, False
        if was_active:
            if self._anchor:
                self._last, own, calls, counts = self._anchor
                self._own, self._calls, self._counts = (
                    defaultdict(int, own),
                    defaultdict(int, calls),
                    defaultdict(float, counts),
                )
            self._close_window()

    def __reduce__(self) -> tuple[Callable[[], "Timeline"], tuple[()]]:
        """A class that travels to a worker takes its hooks along; there they report to that process's timeline."""
        return _of_this_process, ()

    def trace(self) -> None:
        """Keep every span of the window that has just begun."""
        self._pieces = []

    # -- events: each `..._begins` returns False if it happens inside something else or on another thread; then it has no end --

    def region_begins(self, path: str) -> bool:
        """Something that is a stage as a whole: logging, evaluating, sampling. Pending time goes on after it."""
        if self.inside or threading.get_ident() != self.thread:
            return False
        self._to_pending()
        self._enter(path)
        return True

    def region_ends(self, path: str) -> None:
        self._leave(path)

    def environment_begins(self, path: str, env: int = 0, evaluating: bool = False) -> bool:
        """An environment steps or resets, the outermost one counts; or a worker that has environments is waited for.

        `evaluating`: a reset that a function makes whose name says that it evaluates.
        """
        if self.inside or threading.get_ident() != self.thread:
            return False
        self._to_pending()
        self._settle_before_env()
        if path == WAIT and not self.worker and self._anchor is None:
            self._anchor = self._last, self._own.copy(), self._calls.copy(), self._counts.copy()
        if env and (env != self._env or path == RESET):
            self._new_run(path, env, evaluating)
        self._enter(path)
        return True

    def environment_ends(self, path: str, steps: int = 0, episodes: int = 0, episode_steps: int = 0) -> None:
        amount = self._leave(path)
        if path != WAIT:
            self._anchor = None
        if steps:
            if self.counting:
                self.count_steps(steps)
            if len(self.step_times) < MOST_STEPS:
                self.step_times.append(amount)
        if episodes:
            self.count(EPISODES, episodes)
            self.count(EPISODE_STEPS, episode_steps)
        self._pending = [_Pending(_AFTER_ENV)]

    def forward_begins(self, rows: int, gradients: bool) -> bool:
        """An outermost forward pass begins."""
        if not self.forward_somewhere(rows, gradients):
            return False
        self.inside += 1
        return True

    def forward_ends(self) -> None:
        self._to_pending()
        self.inside -= 1

    def forward_somewhere(self, rows: int, gradients: bool) -> bool:
        """A function begins that holds a forward pass, and perhaps more: what happens inside it counts as itself."""
        if self.inside or threading.get_ident() != self.thread:
            return False
        self._to_pending()
        self._pending.append(_Pending(_GRAD_FORWARD if gradients else _FORWARD, rows))
        return True

    def backward_begins(self) -> bool:
        if self.inside or threading.get_ident() != self.thread:
            return False
        self._to_pending()
        self._settle_before_backward()
        self._end_run(self._evaluating)  # what is learned from is no evaluation
        self._enter(BACKWARD)
        return True

    def backward_ends(self) -> None:
        self._leave(BACKWARD)
        self._pending = [_Pending(_AFTER_BACKWARD)]

    def optimizer_begins(self) -> bool:
        if self.inside or threading.get_ident() != self.thread:
            return False
        self._to_pending()
        for pending in self._pending:  # clipping lies between the gradients and the step
            self._settle(pending, OPTIMIZER if pending.kind == _AFTER_BACKWARD else LOSS)
        self._pending = []
        self._enter(OPTIMIZER)
        return True

    def optimizer_ends(self) -> None:
        self._leave(OPTIMIZER)
        self._counts[UPDATES] += 1
        self._learned, self._anchor = True, None
        self._pending = [_Pending(_AFTER_UPDATE)]

    def phase_begins(self, path: str) -> None:
        """A framework's adapter knows that `collect` or `update` begins here: what no event claims is the phase's own."""
        if self.inside or threading.get_ident() != self.thread:
            return
        self._to_pending()
        for pending in self._pending:
            if pending.kind == _AFTER_UPDATE:  # the end of the learning phase
                pending.kind, pending.path = _PHASE, stages.UPDATE
        self._pending.append(_Pending(_PHASE, path=path))

    # -- inside what is open --

    def in_environment(self, *paths: str) -> bool:
        """Whether an environment's step or reset (or just what is named) is open on this thread, nothing carved out."""
        fits = self._region in (paths or (STEP, RESET)) and not self._carving
        return fits and threading.get_ident() == self.thread

    def carve_begins(self, path: str) -> int:
        """What comes now is a stage of its own inside the one that is open: waiting for a worker, an episode's beginning."""
        self._carving = path
        return self.now()

    def carve_ends(self, begin: int) -> None:
        amount = self.now() - begin
        self._charge(self._carving, amount, begin)
        self._last += amount
        self._carving = ""

    def transferred(self, amount: int, size: int, to_host: bool) -> None:
        """A copy between host and device took `amount` nanoseconds and moved `size` bytes."""
        if not self.active or threading.get_ident() != self.thread:
            return
        counts = {COPIES[to_host]: 1.0, BYTES[to_host]: float(size)}
        if self._region:
            self._charge(f"{self._region}/{stages.TRANSFER}", amount, self.now() - amount)
            self._note(self._region, counts)
        elif self._pending:
            pending = self._pending[-1]
            pending.transfer += amount
            pending.counts = pending.counts or {}
            for what, number in counts.items():
                pending.counts[what] = pending.counts.get(what, 0) + number
        self._last += amount

    def count_steps(self, number: int) -> None:
        self.env_steps += number
        self.count(ENV_STEPS, number)

    def count(self, what: str, amount: float) -> None:
        self._counts[what] += amount
        if self._run is not None:
            self._run.counts[what] += amount

    def stage(self) -> "str | _Pending":
        """The stage that time is being charged to, or what its name will be asked of later. May be asked from any thread."""
        if self._region:
            return self._carving or self._region
        return self._pending[-1] if self._pending else ""

    # -- settling --

    def _settle(self, pending: _Pending, path: str) -> None:
        path = pending.path = pending.path or path
        if not path:
            return
        self._own[path] += pending.time
        self._calls[path] += 1
        if self._run is not None:
            self._run.own[path] += pending.time
        if pending.kind in (_FORWARD, _GRAD_FORWARD):
            self._counts[f"{FORWARDS}@{path}"] += 1
            self._counts[f"{ROWS}@{path}"] += pending.rows
        if pending.transfer:
            self._charge(f"{path}/{stages.TRANSFER}", pending.transfer, 0)
        if pending.counts:
            self._note(path, pending.counts)

    def _settle_before_env(self) -> None:
        transition = False
        for pending in self._pending:
            kind = pending.kind
            if kind == _AFTER_UPDATE or pending.path == stages.UPDATE:
                transition = True
            elif kind in (_FORWARD, _GRAD_FORWARD):
                self._act_rows = pending.rows
            self._settle(pending, _BEFORE_ENV[kind])
        self._pending = []
        elapsed = (self._last - self._opened) * 1e-9
        if (
            (transition and elapsed >= WINDOW)
            or ((self.worker or not self._learned) and elapsed >= IDLE_WINDOW)
            or elapsed >= LONGEST
        ):
            self._close_window()

    def _settle_before_backward(self) -> None:
        bootstrap = bool(self._pending) and self._pending[0].kind == _AFTER_ENV and self._is_bootstrap()
        forward = any(pending.kind in (_FORWARD, _GRAD_FORWARD) for pending in self._pending)
        for pending in self._pending:
            path = _BEFORE_BACKWARD[pending.kind] if forward else LOSS  # without one, the graph of acting is learned from
            if bootstrap and pending.kind == _AFTER_ENV:
                path = STORE
            elif bootstrap and pending.kind == _FORWARD and pending.rows == self._act_rows:
                path = stages.ADVANTAGE
            self._settle(pending, path)
        self._pending = []

    def _is_bootstrap(self) -> bool:
        return any(pending.kind == _FORWARD and pending.rows == self._act_rows for pending in self._pending)

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
            for path, amount in self._run.own.items():
                self._own[path] -= amount
                self._own[stages.EVALUATE] += amount
            for what, number in self._run.counts.items():
                self._counts[what] -= number
            self._calls[stages.EVALUATE] += 1
        self._run, self._evaluating = None, False

    # -- bookkeeping --

    def _to_pending(self) -> None:
        now = self.now()
        if self._pending:
            pending = self._pending[-1]
            pending.time += now - self._last
            if self.syncs:
                counts = pending.counts = pending.counts or {}
                counts[SYNCS] = counts.get(SYNCS, 0) + self.syncs
            if self._pieces is not None and len(self._pieces) < MAX_EVENTS:
                self._pieces.append((pending, self._last, now - self._last))
        self.syncs = 0
        self._last = now

    def _enter(self, path: str) -> None:
        self.inside += 1
        self._region = path

    def _leave(self, path: str) -> int:
        now = self.now()
        amount = now - self._last
        self._charge(path, amount, self._last)
        if self.syncs:
            self._counts[f"{SYNCS}@{path}"] += self.syncs
            self.syncs = 0
        self._last = now
        self.inside -= 1
        self._region = ""
        return amount

    def _charge(self, path: str, amount: int, begin: int) -> None:
        self._own[path] += amount
        self._calls[path] += 1
        if self._run is not None:
            self._run.own[path] += amount
        if self._pieces is not None and begin and len(self._pieces) < MAX_EVENTS:
            self._pieces.append((_Pending(_PHASE, path=path), begin, amount))

    def _note(self, path: str, counts: dict[str, float]) -> None:
        for what, number in counts.items():
            self._counts[f"{what}@{path}"] += number

    def _fresh(self) -> None:
        self._own = defaultdict(int)
        self._calls = defaultdict(int)
        self._counts = defaultdict(float)
        self.step_times: list[int] = []

    def _close_window(self) -> None:
        wall = self._last - self._opened
        if wall <= 0:
            return
        total: dict[str, int] = {}
        for path, amount in self._own.items():
            name: str | None = path
            while name:
                total[name] = total.get(name, 0) + amount
                name = stages.parent(name)
        own = {path: self._own.get(path, 0) for path in total}
        calls = {path: self._calls.get(path, 0) for path in total}
        counts = dict(self._counts)
        if self.step_times:
            times = sorted(self.step_times)
            counts["step_median"], counts["step_p99"] = times[len(times) // 2] * 1e-9, times[len(times) * 99 // 100] * 1e-9
        sample = Sample(self._opened - self.origin, wall, own, total, calls, counts)
        if self._pieces is not None:
            sample.events = [(p.path, begin - self.origin, amount) for p, begin, amount in self._pieces if p.path]
            self._pieces = None
        self._fresh()
        self._anchor = None
        if self._run is not None:
            self._run = _Run()  # only what a window still holds can be moved
        self.look = True
        self._opened = self._last
        self._on_window(sample)
        # What the record keeps between two windows is nobody's time.
        self._opened = self._last = self.now()


TIMELINE = Timeline()  # of this process; hooks are installed once and report to it


def _of_this_process() -> Timeline:
    return TIMELINE
