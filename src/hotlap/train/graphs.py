"""CUDA graphs: work of many small kernels, captured once and replayed with one launch.

`Captured` wraps a function whose work is all on the GPU. Its first call for inputs of some shapes runs as it is, on the stream
that captures; the second one is captured; from then on it is replayed. So the same functions do the same work with graphs and
without. If something cannot be captured all goes on without graphs, and `Graphs.refused` says why.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hotlap.core.clock import StageClock
from hotlap.core.graph_marks import GraphMarks
from hotlap.core.text import one_line

MOST_GRAPHS = 8  # graphs of one function: sizes that change all the time are not worth one each

Function = Callable[..., Any]  # (clock, *tensors, **constants) -> tensors


@dataclass
class Graphs:
    """Whether to use CUDA graphs, and what came of it."""

    device: torch.device
    generators: Sequence[torch.Generator] = ()  # besides torch's own
    wanted: bool = True
    captured: list[str] = field(default_factory=list)
    refused: str = ""  # why something runs without a graph
    left_out: str = ""  # what else has none, and why
    paused: bool = False

    def of(self, name: str, function: Function, every: int = 1) -> Function:
        """The function, captured if graphs are wanted. `every`: of how many occurrences of a stage in it one is timed."""
        return Captured(name, function, self, every) if self.wanted else function

    @contextmanager
    def off(self) -> Iterator[None]:
        """Without graphs inside: so that modules are called, and can be timed."""
        self.paused = True
        try:
            yield
        finally:
            self.paused = False

    def recover(self) -> None:
        """After a failed capture, for which random generators still count: each goes on from a copy of its state, which graphs
        that were captured before do not know."""
        self.captured.clear()
        torch.cuda.synchronize(self.device)
        own = torch.cuda.default_generators[torch.cuda.current_device() if self.device.index is None else self.device.index]
        for generator in (*self.generators, own):
            fresh = torch.Generator(self.device)
            fresh.set_state(generator.get_state())
            generator.graphsafe_set_state(fresh)

    def __str__(self) -> str:
        parts = [f"of {', '.join(self.captured)}"] if self.captured else []
        parts += [self.left_out] if self.left_out else []
        return "; ".join(parts + ([f"none: {self.refused}"] if self.refused else []))


@dataclass
class _Graph:
    """A captured call: where its inputs go, where its results are, and the events that it records, if any."""

    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    output: Any
    marks: GraphMarks


class Captured:
    """See above. Constants (`report=True`) and the inputs' shapes say which graph is meant; each is captured once more with
    events inside, if a clock wants them."""

    def __init__(self, name: str, function: Function, graphs: Graphs, every: int) -> None:
        self._name, self._function, self._graphs, self._every = name, function, graphs, every
        self._stream: torch.cuda.Stream = torch.cuda.Stream(graphs.device)  # type: ignore[no-untyped-call]
        self._warm: set[Any] = set()  # calls that ran once
        self._known: dict[Any, _Graph] = {}

    def __call__(self, clock: StageClock, *inputs: Tensor, **constants: Any) -> Any:
        if self._graphs.refused or self._graphs.paused:
            return self._function(clock, *inputs, **constants)
        key = (id(self), *((tuple(part.shape), part.dtype) for part in inputs), *sorted(constants.items()))
        marked = clock.wants_marks(key)
        found = self._known.get((key, marked))
        if found is None:
            if key not in self._warm and len(self._warm) >= MOST_GRAPHS:
                self._graphs.left_out = f"some calls of {self._name}, which differ too often"
                return self._function(clock, *inputs, **constants)
            if key not in self._warm:
                self._warm.add(key)
                return self._warm_up(clock, inputs, constants)
            try:
                found = self._known[key, marked] = self._capture(clock, inputs, constants, marked)
            except RuntimeError as error:
                self._graphs.refused = f"{self._name} cannot be captured ({one_line(str(error))})"
                self._graphs.recover()
                return self._function(clock, *inputs, **constants)
        for kept, given in zip(found.inputs, inputs, strict=True):
            kept.copy_(given)
        found.graph.replay()
        clock.replayed(key, found.marks if marked else None)
        return found.output

    def _warm_up(self, clock: StageClock, inputs: tuple[Tensor, ...], constants: dict[str, Any]) -> Any:
        now = torch.cuda.current_stream(self._graphs.device)
        self._stream.wait_stream(now)
        with torch.cuda.stream(self._stream):
            output = self._function(clock, *inputs, **constants)
        now.wait_stream(self._stream)
        return output

    def _capture(self, clock: StageClock, inputs: tuple[Tensor, ...], constants: dict[str, Any], marked: bool) -> _Graph:
        graph, kept = torch.cuda.CUDAGraph(), [part.clone() for part in inputs]
        for generator in self._graphs.generators:
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph, stream=self._stream), clock.capturing(self._every, marked) as marks:
            output = self._function(clock, *kept, **constants)
        if self._name not in self._graphs.captured:
            self._graphs.captured.append(self._name)
        return _Graph(graph, kept, output, marks)
