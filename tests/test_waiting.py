"""Waiting: for the workers of a pool, whose steps count; and between windows, where nothing may be hidden."""

from io import BytesIO
from types import ModuleType, SimpleNamespace

import pytest

from hotlap.core.counts import ENV_STEPS, IPC_RECEIVED, UPDATES
from hotlap.core.paths import STEP, WAIT
from hotlap.core.sample import Sample
from hotlap.probe.events import EVENTS, Events
from hotlap.probe.hooks.processes import _patch_connections, _patch_futures, _patch_pool
from hotlap.probe.kinds import STEPPED
from hotlap.probe.options import ProbeOptions
from hotlap.probe.recorder import Recorder
from hotlap.record.counters import fill_worker_steps


def pool(clock):
    """A module like concurrent.futures, in which each result takes ten nanoseconds to come."""

    class Future:
        def result(self, timeout=None):
            clock[0] += 10
            return 7

    def as_completed(futures, timeout=None):
        for future in futures:
            clock[0] += 10
            yield future

    module = ModuleType("concurrent.futures")
    module.Future, module.as_completed = Future, as_completed
    module.wait = lambda futures, timeout=None: [future.result() for future in futures]
    return module


@pytest.mark.parametrize("way", ["as_completed", "result", "wait"])
def test_results_of_a_pool_are_waited_for(way):
    clock, samples = [1], []
    events = Events(now=lambda: clock[0])
    module = pool(clock)
    _patch_futures(module, events)
    _patch_futures(module, events)  # scripts find the same functions in two modules
    events.start(samples.append)
    futures = [module.Future() for _ in range(3)]
    if way == "as_completed":
        assert list(module.as_completed(futures)) == futures
    elif way == "result":
        assert [future.result() for future in futures] == [7] * 3
    else:
        assert module.wait(futures) == [7] * 3
    begin = events.environment(STEP)
    events.stepped(STEPPED, begin, 1, 1)  # something must follow for the last wait to count
    events.stop()
    assert sum(sample.exclusive[WAIT] for sample in samples) == 30


@pytest.mark.parametrize("way", ["get", "next"])
def test_results_of_a_multiprocessing_pool_are_waited_for(way):
    clock, samples = [1], []

    class ApplyResult:
        def get(self, timeout=None):
            clock[0] += 10
            return 7

    class IMapIterator:
        left = 3

        def __iter__(self):
            return self

        def next(self, timeout=None):
            if not self.left:
                raise StopIteration
            self.left -= 1
            clock[0] += 10
            return 7

        __next__ = next

    events, module = Events(now=lambda: clock[0]), ModuleType("multiprocessing.pool")
    module.ApplyResult, module.IMapIterator = ApplyResult, IMapIterator
    _patch_pool(module, events)
    events.start(samples.append)
    results = [ApplyResult().get() for _ in range(3)] if way == "get" else list(IMapIterator())
    assert results == [7] * 3
    begin = events.environment(STEP)
    events.stepped(STEPPED, begin, 1, 1)
    events.stop()
    assert sum(sample.exclusive[WAIT] for sample in samples) == 30


def test_bytes_that_come_back_are_counted():
    class Connection:
        def _recv_bytes(self, maxsize=None):
            content = BytesIO()
            content.write(bytes(5))
            return content

        def _send_bytes(self, buffer):
            pass

    events, module, samples = Events(now=iter(range(10**6)).__next__), ModuleType("multiprocessing.connection"), []
    module.Connection, module.wait = Connection, lambda object_list, timeout=None: object_list
    _patch_connections(module, events)
    events.start(samples.append)
    assert [Connection()._recv_bytes().tell() for _ in range(2)] == [5, 5]
    begin = events.environment(STEP)
    events.stepped(STEPPED, begin, 1, 1)
    events.stop()
    assert sum(sample.counts[IPC_RECEIVED] for sample in samples) == 10


def recorded(start, wall, steps=0):
    return SimpleNamespace(sample=Sample(start, wall, counts={ENV_STEPS: steps} if steps else {}))


def test_no_step_of_a_worker_is_lost_between_windows():
    """Writing a window down takes time, in which workers go on; and their own windows end after the script's last one."""
    windows = [recorded(100, 200), recorded(350, 100), recorded(500, 100)]
    workers = {"1": [recorded(0, 320, 32), recorded(320, 300, 30)], "2": [recorded(400, 260, 26)]}
    fill_worker_steps(SimpleNamespace(lines=windows, workers=workers))
    steps = [line.sample.counts[ENV_STEPS] for line in windows]
    assert sum(steps) == pytest.approx(88) and steps[0] == pytest.approx(30)


def test_an_iteration_longer_than_a_window_is_measured_to_its_end(tmp_path, monkeypatch):
    """A window ends after half a minute. The next one must not be a pause: it has the update."""
    pauses = []
    monkeypatch.setattr(Events, "pause", lambda _, seconds, on_end: pauses.append(seconds))
    monkeypatch.setattr(EVENTS, "learned", True)
    monkeypatch.setattr(EVENTS, "cannot_pause", False)
    recorder = Recorder(tmp_path, ProbeOptions(iterations=100, warmup=0, sampler=False, pause=2.0))

    def window(seconds, updates):
        recorder.write(Sample(0, int(seconds * 1e9), {STEP: 1}, {STEP: 1}, {STEP: 1}, {UPDATES: updates} if updates else {}))

    window(30, 1)  # learning begins
    monkeypatch.setattr(recorder, "_traced", True)
    for seconds, updates in ((30, 0), (20, 4), (30, 0), (30, 0), (10, 4)):
        window(seconds, updates)
    assert pauses == [100.0, 140.0]
