"""Stages inside CUDA graphs, on a clock whose events are a fake GPU's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.core import stages
from hotlap.core.clock import StageClock
from hotlap.core.graph_marks import GraphMarks, exclusive_times
from hotlap.core.sample import Sample
from hotlap.probe.gpu import activity


class Gpu:
    """A timeline in milliseconds, on which a captured function can be replayed."""

    def __init__(self):
        self.now, self.events = 0.0, []

    def event(self):
        gpu = self

        class Event:
            at = 0.0

            def record(self):
                if gpu.recording is not None:
                    gpu.recording.append(self)
                self.at = gpu.now

            def query(self):
                return True

            def synchronize(self):
                pass

            def elapsed_time(self, end):
                return end.at - self.at

        return Event()

    recording = None


def rollout(clock, gpu, steps):
    for number in range(steps):
        with clock.stage(stages.ACT):
            gpu.now += 2.0
        with clock.stage(stages.ENV_STEP):
            gpu.now += 1.0 + (number % 2)  # 1.5 on average


def test_stages_inside_a_graph_are_scaled_to_all_their_occurrences_and_replays():
    gpu = Gpu()
    clock = StageClock(gpu_event=gpu.event, graph_event=gpu.event)
    assert not clock.wants_marks("graph")  # no iteration is traced
    with clock.iteration(trace=True):
        with clock.stage(stages.COLLECT):
            assert clock.wants_marks("graph")
            with clock.capturing(every=3, marked=True) as marks:
                rollout(clock, gpu, 12)
            clock.replayed("graph", marks)
            assert not clock.wants_marks("graph")  # once per iteration
            clock.replayed("graph", None)
            gpu.now += 3.5 * 12  # of the second replay
        with clock.stage(stages.LOG):
            gpu.now += 10.0
    (sample,) = clock.take()
    assert clock.replays_graphs and "inside CUDA graphs" in clock.policy
    assert sample.calls["collect/act"] == sample.calls["collect/env_step"] == 24
    assert sample.inclusive["collect/act"] == 48_000_000 and sample.inclusive["log"] == 10_000_000
    assert sample.inclusive["collect/env_step"] == pytest.approx(36e6, rel=0.35)  # four of twelve were looked at
    assert sample.inclusive["collect"] == 84_000_000
    assert sum(sample.exclusive.values()) == 94_000_000 and min(sample.exclusive.values()) >= 0


def test_marks_cost_nothing_where_nobody_wants_them():
    gpu = Gpu()
    clock = StageClock(gpu_event=gpu.event, graph_event=gpu.event)
    with clock.iteration(), clock.stage(stages.COLLECT), clock.capturing() as marks:
        rollout(clock, gpu, 5)
    assert marks.marks == [] and marks.calls == {}
    (sample,) = clock.take()
    assert "collect/act" not in sample.inclusive  # capturing is no work


def test_what_marking_adds_is_taken_off():
    gpu = Gpu()
    marks = GraphMarks(gpu.event, "update")
    first = marks.event()
    gpu.now += 0.5
    marks.empty = first, marks.event()
    with marks.stage("loss"):
        gpu.now += 2.5
    assert marks.read(3) == {"update/loss": pytest.approx(6e6)}


TREES = st.dictionaries(st.sampled_from(["a", "b", "a/x", "a/y", "a/x/p", "b/z"]), st.integers(0, 1_000), min_size=1)


@given(TREES)
def test_exclusive_times_are_a_tree(times):
    for path in list(times):
        while "/" in path:
            path = path.rpartition("/")[0]
            times.setdefault(path, 0)
    inclusive = dict(times)
    exclusive = exclusive_times(inclusive)
    assert set(exclusive) == set(inclusive) and all(time >= 0 for time in exclusive.values())
    for path, time in inclusive.items():
        inside = sum(part for other, part in inclusive.items() if other.rpartition("/")[0] == path)
        assert inside <= time + 2  # rounding
        if "/" not in path:
            assert time == times[path]
    outer = sum(time for path, time in inclusive.items() if "/" not in path)
    assert sum(exclusive.values()) == pytest.approx(outer, abs=len(times))


def test_idle_time_is_split_where_the_next_kernel_was_launched():
    """Of 100 ns: busy 10-30 and 50-60 (launched at 35) and 62-70 (launched long before)."""
    kernels = [(10, 15, 1, "gemm"), (20, 10, 1, "Memcpy DtoH"), (50, 10, 2, "gemm"), (62, 8, 2, "gemm")]
    found = activity(kernels, {1: 5, 2: 35}, Sample(start=0, wall=100, counts={"updates": 2}))
    assert (found.busy, found.kernel_wait, found.host_wait) == (0.38, 0.17, 0.45)
    assert (found.kernels, found.launches, found.copies, found.updates) == (3, 2, 1, 2)
    idle = activity([], {}, Sample(start=0, wall=100))
    assert (idle.busy, idle.host_wait, idle.kernels) == (0, 1, 0)
