"""StageClock: where the time of each training iteration goes.

    clock = StageClock()
    for _ in range(iterations):
        with clock.iteration():
            with clock.stage(stages.COLLECT):
                with clock.stage(stages.ACT):
                    ...
            clock.count(ENV_STEPS, 256)
    samples = clock.take()

Each thread has its own tree of open stages. The thread that opens an iteration owns its wall time; other threads' stages
overlap with it and are reported apart, so a child can never exceed its parent.

A traced iteration also keeps every span and, on a GPU, records a pair of pooled CUDA events around each stage; its sample is
handed out once the GPU has passed them all, without ever making the training wait. Events slow a launch-bound loop down (by
a tenth on an H200), so only traced iterations have them. Where CUDA graphs are replayed the host has nothing to time: a traced
iteration then takes all its stages from the GPU's timeline, those inside graphs by the graphs' own events (`graph_marks`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from statistics import median
from typing import Any

from hotlap.core.caches import CacheSweep
from hotlap.core.graph_marks import GraphMarks, exclusive_times
from hotlap.core.sample import MAX_EVENTS, Sample
from hotlap.core.stages import LOG, STAGES

_OFF: AbstractContextManager[None] = nullcontext()


class _Node:
    """A stage at one place in one thread's tree."""

    __slots__ = ("calls", "children", "parent", "path", "start", "total")

    def __init__(self, path: str, parent: _Node | None) -> None:
        self.path = path
        self.parent = parent or self  # the root is its own parent
        self.children: dict[str, _Node] = {}
        self.start = self.total = self.calls = 0

    def child(self, name: str) -> _Node:
        """A stage that opens inside this one. If both are parts of the same stage (a reset inside a step), its place in the
        tree of stages is beside this one, and its time is not this one's."""
        beside = bool(self.parent.path) and STAGES[name].parent == self.parent.path.rpartition("/")[2]
        above = self.parent.path if beside else self.path
        node = self.children[name] = _Node(f"{above}/{name}" if above else name, self)
        return node

    def drain(self, exclusive: dict[str, int], inclusive: dict[str, int], calls: dict[str, int]) -> None:
        """Move the times below this node into dictionaries and start again from zero."""
        for node in list(self.children.values()):  # another thread may be opening new stages meanwhile
            if node.calls:
                path, inside = node.path, list(node.children.values())
                beside = sum(child.total for child in inside if not child.path.startswith(f"{path}/"))
                exclusive[path] = exclusive.get(path, 0) + node.total - sum(child.total for child in inside)
                inclusive[path] = inclusive.get(path, 0) + node.total - beside
                calls[path] = calls.get(path, 0) + node.calls
            node.drain(exclusive, inclusive, calls)
            node.total = node.calls = 0


class _Thread:
    """The root and the innermost open stage of one thread."""

    __slots__ = ("node", "root", "thread")

    def __init__(self) -> None:
        self.root = self.node = _Node("", None)
        self.thread = threading.current_thread()


class _Local(threading.local):
    def __init__(self, threads: list[_Thread]) -> None:  # runs once in each thread that touches the clock
        self.thread = _Thread()
        threads.append(self.thread)


class _Stage:
    """Context manager of one stage name. It holds no state of its own, so it may be nested and shared by threads."""

    __slots__ = ("clock", "local", "name", "now")

    def __init__(self, clock: StageClock, name: str) -> None:
        self.clock, self.name = clock, name
        self.local, self.now = clock._local, clock._now

    def __enter__(self) -> None:
        thread = self.local.thread
        node = thread.node.children.get(self.name) or thread.node.child(self.name)
        thread.node = node
        node.start = self.now()

    def __exit__(self, *exception: object) -> None:
        end = self.now()
        thread = self.local.thread
        node = thread.node
        node.total += end - node.start
        node.calls += 1
        thread.node = node.parent


class _RichStage(_Stage):
    """A stage that also leaves spans for the trace, CUDA events, and ranges for other profilers."""

    __slots__ = ()

    def __enter__(self) -> None:
        clock = self.clock
        if clock._open_range:
            clock._open_range(self.name)
        super().__enter__()
        if clock._tracing and clock._new_event and self.local.thread is clock._owner:
            clock._open_marks.append(clock._record_event())

    def __exit__(self, *exception: object) -> None:
        clock, thread = self.clock, self.local.thread
        node = thread.node
        traced = clock._tracing and thread is clock._owner
        if traced and clock._new_event:
            clock._marks.append((node.path, clock._open_marks.pop(), clock._record_event()))
        before = node.total
        super().__exit__(*exception)
        if traced and len(clock._events) < MAX_EVENTS:
            clock._events.append((node.path, node.start - clock._origin, node.total - before))
        if clock._close_range:
            clock._close_range()


class StageClock:
    """Measures stages per iteration.

    `now` is the time source, in nanoseconds. `gpu_event` makes timing events (`torch.cuda.Event` on a GPU; see `for_device`).
    `ranges`: "profiler" or "nvtx" also announces every stage to torch.profiler or Nsight. `elapsed` nanoseconds have already
    passed, in a run that is resumed.
    """

    def __init__(
        self,
        enabled: bool = True,
        now: Callable[[], int] = time.perf_counter_ns,
        gpu_event: Callable[[], Any] | None = None,
        graph_event: Callable[[], Any] | None = None,
        ranges: str | None = None,
        elapsed: int = 0,
    ) -> None:
        self.enabled = enabled
        self._now = now
        self._origin = now() - elapsed
        self._threads: list[_Thread] = []
        self._local = _Local(self._threads)
        self._owner: _Thread | None = None
        self._counts: dict[str, float] = {}
        self._plain: dict[str, _Stage] = {}
        self._rich: dict[str, _Stage] = {}
        self._tracing = self._open = False
        self._events: list[tuple[str, int, int]] = []
        self._new_event, self._graph_event = gpu_event, graph_event
        self._capturing: GraphMarks | None = None  # a graph, which stages are now parts of
        self._replays: dict[Any, tuple[GraphMarks | None, int]] = {}
        self.replays_graphs = False  # so that the host's times say nothing about stages
        self._spare: list[Any] = []  # CUDA events to use again
        self._open_marks: list[Any] = []
        self._marks: list[tuple[str, Any, Any]] = []
        self._pending: deque[tuple[Sample, list[tuple[str, Any, Any]], list[tuple[GraphMarks, int]]]] = deque()
        self._open_range, self._close_range = _ranges(ranges)

    @classmethod
    def for_device(cls, device: str, ranges: str | None = None, elapsed: int = 0) -> StageClock:
        """A clock that uses CUDA events if the device is a GPU."""
        if not device.startswith("cuda"):
            return cls(ranges=ranges, elapsed=elapsed)
        import torch

        event = partial(torch.cuda.Event, enable_timing=True)
        return cls(gpu_event=event, graph_event=partial(event, external=True), ranges=ranges, elapsed=elapsed)

    @property
    def times_gpu(self) -> bool:
        return self._new_event is not None

    @property
    def policy(self) -> str:
        """How GPU time is taken, for the record."""
        if self.replays_graphs:
            return "stages on the GPU's timeline, by CUDA events, also inside CUDA graphs"
        return "cuda events in traced iterations, no synchronisation" if self._new_event else "host time only"

    @property
    def origin(self) -> int:
        """When it began, by its time source."""
        return self._origin

    def stage(self, name: str) -> AbstractContextManager[None]:
        if not self.enabled:
            return _OFF
        if self._capturing is not None:
            return self._capturing.stage(name) if self._capturing.empty else _OFF
        rich = self._tracing or self._open_range
        known = self._rich if rich else self._plain
        stage = known.get(name)
        if stage is None:
            if name not in STAGES:
                raise ValueError(f"unknown stage {name!r}; stages: {', '.join(STAGES)}")
            stage = known[name] = (_RichStage if rich else _Stage)(self, name)
        return stage

    # -- CUDA graphs --

    def wants_marks(self, graph: Any) -> bool:
        """Whether the next replay of a graph is to record its marks: the first one in a traced iteration."""
        return bool(self.enabled and self._tracing and self._graph_event) and graph not in self._replays

    @contextmanager
    def capturing(self, every: int = 1, marked: bool = False) -> Iterator[GraphMarks]:
        """A graph is captured inside: stages are marked in it, or nothing is. Nothing is timed."""
        path = self._local.thread.node.path
        marks = self._capturing = GraphMarks(self._graph_event or object, path, max(1, every))
        try:
            if marked:
                marks.empty = marks.event(), marks.event()
            yield marks
        finally:
            self._capturing = None

    def replayed(self, graph: Any, marks: GraphMarks | None) -> None:
        """A graph was replayed, with its marks or without."""
        self.replays_graphs = True
        if self._tracing:
            before, times = self._replays.get(graph, (None, 0))
            self._replays[graph] = before or marks, times + 1

    def count(self, what: str, amount: float = 1) -> None:
        """Add to one of this iteration's counts."""
        if self.enabled:
            self._counts[what] = self._counts.get(what, 0) + amount

    @contextmanager
    def iteration(self, trace: bool = False) -> Iterator[None]:
        """One collect-and-update round, kept as a sample unless it raises. `trace` keeps every span and GPU events."""
        if not self.enabled:
            yield
            return
        owner = self._local.thread
        if owner.node is not owner.root or self._open:
            inside = f"the stage {owner.node.path!r}" if owner.node is not owner.root else "another one"
            raise RuntimeError(f"an iteration cannot begin inside {inside}")
        for thread in self._threads:
            thread.root.drain({}, {}, {})
        self._owner, self._tracing, self._open = owner, trace, True
        self._counts, self._events, self._marks, self._replays = {}, [], [], {}
        sample = Sample(start=self._now() - self._origin)
        try:
            yield
        finally:
            sample.wall = self._now() - self._origin - sample.start
            owner.node = owner.root
            self._tracing = self._open = False
        owner.root.drain(sample.exclusive, sample.inclusive, sample.calls)
        self._drain_others(owner, sample)
        sample.counts, sample.events = self._counts, self._events
        graphs = [(marks, times) for marks, times in self._replays.values() if marks is not None]
        self._pending.append((sample, self._marks, graphs))

    def _drain_others(self, owner: _Thread, sample: Sample) -> None:
        for thread in list(self._threads):
            if thread is owner:
                continue
            exclusive: dict[str, int] = {}
            thread.root.drain(exclusive, {}, {})
            merged = sample.threads.setdefault(thread.thread.name, {}) if exclusive else {}  # threads may share a name
            for path, time_inside in exclusive.items():
                merged[path] = merged.get(path, 0) + time_inside
            if not thread.thread.is_alive():
                self._threads.remove(thread)

    def take(self, wait: bool = False) -> list[Sample]:
        """The samples that are complete, oldest first. `wait` also waits for the GPU to finish the others."""
        ready = []
        while self._pending:
            sample, marks, graphs = self._pending[0]
            if marks and wait:
                marks[-1][2].synchronize()
            if marks and not all(end.query() for _, _, end in marks):
                break
            for path, start, end in marks:
                sample.gpu[path] = sample.gpu.get(path, 0) + int(start.elapsed_time(end) * 1e6)
                self._spare += (start, end)
            for graph, times in graphs:
                for path, time_inside in graph.read(times).items():
                    sample.gpu[path] = sample.gpu.get(path, 0) + int(time_inside)
                    sample.calls[path] = sample.calls.get(path, 0) + graph.calls[path] * times
            if graphs:
                sample.exclusive, sample.inclusive = exclusive_times(sample.gpu), sample.gpu
            self._pending.popleft()
            ready.append(sample)
        return ready

    def open_path(self) -> str:
        """The innermost open stage of the iteration's thread; may be asked from any thread."""
        return self._owner.node.path if self._owner else ""

    def _record_event(self) -> Any:
        event = self._spare.pop() if self._spare else self._new_event()  # type: ignore[misc]
        event.record()
        return event


def stage_cost(rounds: int = 100) -> float:
    """What one stage costs here, in seconds: the median over empty ones between work that sweeps the caches.

    Back to back, a stage costs a third of what it costs in a training loop, where other code and data push it out.
    """
    clock = StageClock()
    sweep = CacheSweep()
    costs = []
    with clock.iteration():
        for _ in range(rounds):
            sweep()
            begin = time.perf_counter_ns()
            with clock.stage(LOG):
                pass
            costs.append(time.perf_counter_ns() - begin)
    return median(costs) * 1e-9


def _ranges(kind: str | None) -> tuple[Callable[[str], Any] | None, Callable[[], Any] | None]:
    """How to open and close a named range in another profiler."""
    if kind is None:
        return None, None
    import torch

    if kind == "nvtx":
        try:
            torch.cuda.nvtx.mark("hotlap")  # type: ignore[no-untyped-call]
        except RuntimeError:
            raise ValueError("ranges: this build of torch has no NVTX") from None
        return torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
    if kind != "profiler":
        raise ValueError(f"ranges must be 'profiler' or 'nvtx', not {kind!r}")
    local = threading.local()

    def enter(name: str) -> None:
        opened = torch.profiler.record_function(f"hotlap/{name}")
        local.opened = [*getattr(local, "opened", []), opened]
        opened.__enter__()  # type: ignore[no-untyped-call]

    return enter, lambda: local.opened.pop().__exit__(None, None, None)
