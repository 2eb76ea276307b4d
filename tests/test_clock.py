"""The clock, proven with a fake time source; CUDA events with fake events."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.core import paths, stages
from hotlap.core.clock import StageClock


class Time:
    """A time source that moves only when told."""

    def __init__(self):
        self.now = 1_000

    def __call__(self):
        return self.now

    def passes(self, amount):
        self.now += amount


@pytest.fixture
def time():
    return Time()


def exclusive_plus_unattributed(sample):
    top = sum(total for path, total in sample.inclusive.items() if "/" not in path)
    return sum(sample.exclusive.values()) + sample.wall - top


def test_nested_stages_are_charged_to_the_innermost(time):
    clock = StageClock(now=time)
    with clock.iteration():
        time.passes(1)
        with clock.stage(stages.COLLECT):
            time.passes(10)
            for _ in range(2):
                with clock.stage(stages.ACT):
                    time.passes(100)
            with clock.stage(stages.ENV_STEP):
                time.passes(1_000)
        with clock.stage(stages.UPDATE):
            time.passes(10_000)
        clock.count("env_steps", 8)
        clock.count("env_steps", 8)
    (sample,) = clock.take()
    assert sample.exclusive == {"collect": 10, "collect/act": 200, "collect/env_step": 1_000, "update": 10_000}
    assert sample.inclusive == {"collect": 1_210, "collect/act": 200, "collect/env_step": 1_000, "update": 10_000}
    assert sample.calls["collect/act"] == 2
    assert (sample.wall, sample.counts) == (11_211, {"env_steps": 16})
    assert exclusive_plus_unattributed(sample) == sample.wall


def test_a_reset_inside_a_step_is_a_stage_beside_it(time):
    clock = StageClock(now=time)
    with clock.iteration(), clock.stage(stages.COLLECT):
        with clock.stage(stages.ENV_RESET):
            time.passes(1)
        for _ in range(2):
            with clock.stage(stages.ENV_STEP):
                time.passes(10)
                with clock.stage(stages.ENV_RESET):
                    assert clock.open_path() == paths.RESET
                    time.passes(100)
                    with clock.stage(stages.TRANSFER):
                        time.passes(1_000)
    (sample,) = clock.take()
    step, reset = paths.STEP, paths.RESET
    assert sample.exclusive == {"collect": 0, step: 20, reset: 201, f"{reset}/transfer": 2_000}
    assert sample.inclusive == {"collect": 2_221, step: 20, reset: 2_201, f"{reset}/transfer": 2_000}
    assert (sample.calls[step], sample.calls[reset]) == (2, 3)
    assert exclusive_plus_unattributed(sample) == sample.wall


# A random program: enter a stage, leave it, or let time pass.
programs = st.recursive(
    st.integers(0, 1_000),
    lambda inner: st.lists(
        st.tuples(st.sampled_from([stages.COLLECT, stages.ENV_STEP, stages.ENV_RESET, stages.LOG]), inner) | inner, max_size=4
    ),
)


def execute(program, clock, time):
    if isinstance(program, int):
        time.passes(program)
    elif isinstance(program, tuple):
        with clock.stage(program[0]):
            execute(program[1], clock, time)
    else:
        for part in program:
            execute(part, clock, time)


@given(st.lists(programs, min_size=1, max_size=3))
def test_children_never_exceed_parents_and_shares_sum_to_the_wall(iterations):
    time = Time()
    clock = StageClock(now=time)
    for program in iterations:
        begin = time.now
        with clock.iteration():
            execute(program, clock, time)
        (sample,) = clock.take()
        assert sample.wall == time.now - begin
        assert exclusive_plus_unattributed(sample) == sample.wall
        for path in sample.inclusive:
            assert sample.exclusive[path] >= 0
            parent = stages.parent(path)
            if parent:
                children = sum(t for p, t in sample.inclusive.items() if stages.parent(p) == parent)
                assert children <= sample.inclusive[parent]


def test_an_exception_closes_its_stages_and_drops_the_iteration(time):
    clock = StageClock(now=time)
    with pytest.raises(KeyError), clock.iteration(), clock.stage("collect"), clock.stage("act"):
        time.passes(5)
        raise KeyError
    assert clock.take() == []
    with clock.iteration(), clock.stage("collect"):
        with pytest.raises(ValueError), clock.stage("act"):
            time.passes(7)
            raise ValueError
        time.passes(1)
    (sample,) = clock.take()
    assert sample.exclusive == {"collect": 1, "collect/act": 7}


def test_another_thread_has_its_own_tree_and_is_reported_apart(time):
    clock = StageClock(now=time)
    entered, leave = threading.Event(), threading.Event()

    def work():
        with clock.stage("wait"):
            entered.set()
            leave.wait()

    with clock.iteration():
        with clock.stage("collect"):
            thread = threading.Thread(target=work, name="worker")
            thread.start()
            entered.wait()
            time.passes(50)
        time.passes(3)
        leave.set()
        thread.join()
    (sample,) = clock.take()
    assert sample.exclusive == {"collect": 50}
    assert sample.threads == {"worker": {"wait": 53}}
    assert exclusive_plus_unattributed(sample) == sample.wall == 53


def test_threads_of_one_name_are_summed_and_forgotten_when_they_end(time):
    clock = StageClock(now=time)

    def work():
        with clock.stage("wait"):
            time.passes(10)

    with clock.iteration():
        for _ in range(3):
            thread = threading.Thread(target=work, name="worker")
            thread.start()
            thread.join()
    assert clock.take()[0].threads == {"worker": {"wait": 30}}
    assert len(clock._threads) == 1


def test_threads_may_open_new_stages_while_an_iteration_ends():
    clock = StageClock()
    stop = threading.Event()

    def work():
        names = list(stages.STAGES)
        while not stop.is_set():
            clock._local.thread.root.children.clear()  # so that every stage is a new one
            for name in names:
                with clock.stage(name):
                    pass

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(300):
            with clock.iteration(), clock.stage("collect"):
                pass
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(clock.take()) == 300


def test_unknown_stages_are_refused():
    with pytest.raises(ValueError, match="unknown stage 'colect'; stages: collect, act"):
        StageClock().stage("colect")


def test_a_resumed_clock_goes_on_from_where_it_was(time):
    clock = StageClock(now=time, elapsed=500)
    time.passes(20)
    with clock.iteration():
        time.passes(1)
    assert clock.take()[0].start == 520


def test_an_iteration_may_not_begin_inside_a_stage(time):
    clock = StageClock(now=time)
    with clock.stage("collect"), pytest.raises(RuntimeError, match="inside the stage 'collect'"), clock.iteration():
        pass


def test_an_iteration_may_not_begin_inside_another(time):
    clock = StageClock(now=time)
    with clock.iteration(), pytest.raises(RuntimeError, match="inside another one"), clock.iteration():
        pass


def test_time_between_iterations_belongs_to_none(time):
    clock = StageClock(now=time)
    for _ in range(2):
        with clock.iteration(), clock.stage("collect"):
            time.passes(5)
        with clock.stage("collect"):
            time.passes(1_000)
    assert [(s.start, s.wall, s.exclusive) for s in clock.take()] == [(0, 5, {"collect": 5}), (1_005, 5, {"collect": 5})]


def test_switched_off_it_records_nothing_and_asks_no_time():
    def never():
        raise AssertionError("asked for the time")

    clock = StageClock(now=Time())
    clock.enabled, clock._now = False, never
    with clock.iteration(), clock.stage("collect"):
        clock.count("env_steps")
    assert clock.take() == []


def test_spans_are_kept_only_when_traced(time):
    clock = StageClock(now=time)
    for trace in (True, False):
        with clock.iteration(trace=trace), clock.stage("collect"):
            time.passes(2)
            with clock.stage("act"):
                time.passes(3)
    first, second = clock.take()
    assert first.events == [("collect/act", 2, 3), ("collect", 0, 5)]
    assert second.events == []
    assert first.exclusive == second.exclusive == {"collect": 2, "collect/act": 3}


class FakeEvent:
    """A CUDA event whose GPU is a list: recorded at a GPU time, passed once the GPU has come so far."""

    gpu_time = 0.0
    passed = 0.0
    made = 0

    def __init__(self):
        FakeEvent.made += 1

    def record(self):
        self.at = FakeEvent.gpu_time

    def query(self):
        return self.at <= FakeEvent.passed

    def synchronize(self):
        FakeEvent.passed = max(FakeEvent.passed, self.at)

    def elapsed_time(self, other):
        return other.at - self.at


def test_gpu_events_never_wait_and_are_used_again(time):
    clock = StageClock(now=time, gpu_event=FakeEvent)
    made = []
    for _ in range(3):
        with clock.iteration(trace=True), clock.stage("update"):
            time.passes(1)
            FakeEvent.gpu_time += 2.0  # milliseconds of work queued; the host does not wait for it
        made.append(FakeEvent.made)
        FakeEvent.passed = FakeEvent.gpu_time - 1.0
        clock.take()
    assert made[0] == 2
    pending = clock.take(wait=True)
    assert [s.gpu for s in pending] == [{"update": 2_000_000}]
    before = FakeEvent.made
    with clock.iteration(trace=True), clock.stage("update"):
        pass
    assert FakeEvent.made == before  # from the pool
    clock.take(wait=True)
    with clock.iteration(), clock.stage("update"):
        pass
    assert clock.take()[0].gpu == {}  # only traced iterations have events
    assert "events" in clock.policy


def test_ranges_reach_torch_profiler():
    torch = pytest.importorskip("torch")
    clock = StageClock(ranges="profiler")
    watched = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with watched as profiler, clock.iteration(), clock.stage(stages.UPDATE), clock.stage(stages.LOSS):
        torch.ones(3).sum()
    names = {event.key for event in profiler.key_averages()}
    assert {"hotlap/update", "hotlap/loss"} <= names
    with pytest.raises(ValueError, match="ranges must be"):
        StageClock(ranges="smoke signals")


def test_ranges_reach_nvtx_or_say_that_there_is_none():
    torch = pytest.importorskip("torch")
    if torch.version.cuda:
        clock = StageClock(ranges="nvtx")
        with clock.iteration(), clock.stage(stages.UPDATE):
            pass
        assert clock.take()[0].calls == {"update": 1}
    else:
        with pytest.raises(ValueError, match="no NVTX"):
            StageClock(ranges="nvtx")


def test_the_stage_tree_is_complete():
    for stage in stages.STAGES.values():
        assert stage.parent is None or stage.parent in stages.STAGES
        assert stage.meaning
    assert sorted(["update/loss", "collect", "unattributed", "update", "collect/act"], key=stages.order) == [
        "collect",
        "collect/act",
        "update",
        "update/loss",
        "unattributed",
    ]
