"""The stages of a script that knows nothing of stages, from what it does.

Hooks report events: an environment steps, a module runs forward, gradients flow, an optimizer steps. The time *between* events
belongs to a stage too, but which one is often known only later: a forward pass followed by an environment step chose actions,
the same pass followed by `backward` computed a loss. So time since the last anchor (an environment step or a backward pass)
is kept as pending segments, and the next anchor says what they were:

| pending | before an environment step | before a backward pass |
|---|---|---|
| after an environment step | `collect/store` | `collect/store` if a bootstrap follows, else `sample` |
| a forward pass and what follows it | `collect/act` | `advantage` if it is a bootstrap, else `update/loss` |
| after an optimizer step | nothing: stays unattributed | `sample` |
| in a phase that a framework's adapter announced | that phase itself | that phase itself |

A bootstrap is a forward pass without gradients on as many rows as acting has, after an environment step: the value of the last
state, followed by the computation of returns.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from hotlap import stages
from hotlap.clock import ENV_STEPS, EPISODES, UPDATES, Sample

ACT = f"{stages.COLLECT}/{stages.ACT}"
STEP = f"{stages.COLLECT}/{stages.ENV_STEP}"
RESET = f"{stages.COLLECT}/{stages.ENV_RESET}"
STORE = f"{stages.COLLECT}/{stages.STORE}"
LOSS = f"{stages.UPDATE}/{stages.LOSS}"
BACKWARD = f"{stages.UPDATE}/{stages.BACKWARD}"
OPTIMIZER = f"{stages.UPDATE}/{stages.OPTIMIZER}"

WINDOW = 0.25  # seconds: shorter iterations are joined to windows of at least this length
IDLE_WINDOW = 0.5  # seconds: the length of windows before anything has been learned
LONGEST = 30.0  # seconds: a window ends here whatever happens

_AFTER_ENV, _FORWARD, _GRAD_FORWARD, _AFTER_UPDATE, _AFTER_BACKWARD, _PHASE, _START = range(7)


@dataclass(slots=True)
class _Pending:
    kind: int
    rows: int = 0  # of a forward pass
    time: int = 0
    path: str = ""  # of a phase


class Timeline:
    """Charges the time of the thread that created it to stages, window by window."""

    def __init__(
        self, now: Callable[[], int] = time.perf_counter_ns, on_window: Callable[[Sample], None] = lambda _: None
    ) -> None:
        self._now = now
        self._on_window = on_window
        self._thread = threading.get_ident()
        self._origin = self._last = self._opened = now()
        self._own: dict[str, int] = {}
        self._calls: dict[str, int] = {}
        self._counts: dict[str, float] = {}
        self._pending: list[_Pending] = [_Pending(_START)]
        self.inside = 0  # depth of regions: what happens in an environment's step is the environment's
        self._region = ""
        self._act_rows = -1  # rows of the last forward pass that chose actions
        self._learned = False

    # -- events --

    def region_begins(self, path: str) -> bool:
        """Something that is a stage as a whole: logging, evaluating, sampling. Pending time goes on after it.

        Every `..._begins` returns False if it happens inside something else or on another thread; then it has no end.
        """
        if self.inside or threading.get_ident() != self._thread:
            return False
        self._to_pending()
        self._enter(path)
        return True

    def region_ends(self, path: str) -> None:
        self._leave(path)

    def environment_begins(self, path: str) -> bool:
        """An environment steps or resets; the outermost one counts."""
        if self.inside or threading.get_ident() != self._thread:
            return False
        self._to_pending()
        self._settle_before_env()
        self._enter(path)
        return True

    def environment_ends(self, path: str, steps: int, episodes: int = 0) -> None:
        self._leave(path)
        if steps:
            self._count(ENV_STEPS, steps)
        if episodes:
            self._count(EPISODES, episodes)
        self._pending = [_Pending(_AFTER_ENV)]

    def forward_begins(self, rows: int, gradients: bool) -> bool:
        """An outermost forward pass begins."""
        if self.inside or threading.get_ident() != self._thread:
            return False
        self._to_pending()
        self._pending.append(_Pending(_GRAD_FORWARD if gradients else _FORWARD, rows))
        self.inside += 1
        return True

    def forward_ends(self) -> None:
        self._to_pending()
        self.inside -= 1

    def backward_begins(self) -> bool:
        if self.inside or threading.get_ident() != self._thread:
            return False
        self._to_pending()
        self._settle_before_backward()
        self._enter(BACKWARD)
        return True

    def backward_ends(self) -> None:
        self._leave(BACKWARD)
        self._pending = [_Pending(_AFTER_BACKWARD)]

    def optimizer_begins(self) -> bool:
        if self.inside or threading.get_ident() != self._thread:
            return False
        self._to_pending()
        for pending in self._pending:  # clipping lies between the gradients and the step
            self._charge(OPTIMIZER if pending.kind == _AFTER_BACKWARD else LOSS, pending.time)
        self._pending = []
        self._enter(OPTIMIZER)
        return True

    def optimizer_ends(self) -> None:
        self._leave(OPTIMIZER)
        self._count(UPDATES, 1)
        self._learned = True
        self._pending = [_Pending(_AFTER_UPDATE)]

    def phase_begins(self, path: str) -> None:
        """A framework's adapter knows that `collect` or `update` begins here: what no event claims is the phase's own."""
        if self.inside or threading.get_ident() != self._thread:
            return
        self._to_pending()
        for pending in self._pending:
            if pending.kind == _AFTER_UPDATE:  # the end of the learning phase
                pending.kind, pending.path = _PHASE, stages.UPDATE
        self._pending.append(_Pending(_PHASE, path=path))

    def stage(self) -> str:
        """The stage that time is being charged to, as far as it is known now. May be asked from any thread."""
        if self._region:
            return self._region
        kind = self._pending[-1].kind if self._pending else _START
        guess = {
            _AFTER_ENV: STORE,
            _FORWARD: ACT,
            _GRAD_FORWARD: LOSS,
            _AFTER_UPDATE: stages.SAMPLE,
            _AFTER_BACKWARD: OPTIMIZER,
        }
        return guess.get(kind, "")

    def close(self) -> None:
        """End the last window where it stands; what is pending stays unattributed."""
        self._to_pending()
        self._close_window()

    # -- settling --

    def _settle_before_env(self) -> None:
        transition = any(pending.kind == _AFTER_UPDATE or pending.path == stages.UPDATE for pending in self._pending)
        for pending in self._pending:
            if pending.kind == _PHASE:
                self._charge(pending.path, pending.time)
            elif pending.kind in (_FORWARD, _GRAD_FORWARD):
                self._charge(ACT, pending.time)
                self._act_rows = pending.rows
            elif pending.kind == _AFTER_ENV:
                self._charge(STORE, pending.time)
            elif pending.kind == _AFTER_BACKWARD:
                self._charge(OPTIMIZER, pending.time)
        self._pending = []
        elapsed = (self._last - self._opened) * 1e-9
        if (transition and elapsed >= WINDOW) or (not self._learned and elapsed >= IDLE_WINDOW) or elapsed >= LONGEST:
            self._close_window()

    def _settle_before_backward(self) -> None:
        bootstrap = self._pending and self._pending[0].kind == _AFTER_ENV and self._is_bootstrap()
        for pending in self._pending:
            if pending.kind == _AFTER_ENV:
                self._charge(STORE if bootstrap else stages.SAMPLE, pending.time)
            elif pending.kind == _AFTER_UPDATE:
                self._charge(stages.SAMPLE, pending.time)
            elif pending.kind == _FORWARD and bootstrap and pending.rows == self._act_rows:
                self._charge(stages.ADVANTAGE, pending.time)
            elif pending.kind == _PHASE:
                self._charge(pending.path, pending.time)
            elif pending.kind != _START:
                self._charge(LOSS, pending.time)
        self._pending = []

    def _is_bootstrap(self) -> bool:
        return any(pending.kind == _FORWARD and pending.rows == self._act_rows for pending in self._pending)

    # -- bookkeeping --

    def _to_pending(self) -> None:
        now = self._now()
        if self._pending:
            self._pending[-1].time += now - self._last
        self._last = now

    def _enter(self, path: str) -> None:
        self.inside += 1
        self._region = path

    def _leave(self, path: str) -> None:
        now = self._now()
        self._charge(path, now - self._last)
        self._last = now
        self.inside -= 1
        self._region = ""

    def _charge(self, path: str, amount: int) -> None:
        self._own[path] = self._own.get(path, 0) + amount
        self._calls[path] = self._calls.get(path, 0) + 1

    def _count(self, what: str, amount: float) -> None:
        self._counts[what] = self._counts.get(what, 0) + amount

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
        sample = Sample(self._opened - self._origin, wall, own, total, calls, self._counts)
        self._own, self._calls, self._counts = {}, {}, {}
        self._opened = self._last
        self._on_window(sample)
        # What the record keeps between two windows is nobody's time.
        self._opened = self._last = self._now()
