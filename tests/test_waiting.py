"""Waiting for the workers of a pool, and the steps that they made."""

from types import ModuleType, SimpleNamespace

import pytest

from hotlap.core.counts import ENV_STEPS
from hotlap.core.paths import STEP, WAIT
from hotlap.core.sample import Sample
from hotlap.probe.events import Events
from hotlap.probe.hooks.processes import _patch_futures
from hotlap.probe.kinds import STEPPED
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


def recorded(start, wall, steps=0):
    return SimpleNamespace(sample=Sample(start, wall, counts={ENV_STEPS: steps} if steps else {}))


def test_no_step_of_a_worker_is_lost_between_windows():
    """Writing a window down takes time, in which workers go on; and their own windows end after the script's last one."""
    windows = [recorded(100, 200), recorded(350, 100), recorded(500, 100)]
    workers = {"1": [recorded(0, 320, 32), recorded(320, 300, 30)], "2": [recorded(400, 260, 26)]}
    fill_worker_steps(SimpleNamespace(lines=windows, workers=workers))
    steps = [line.sample.counts[ENV_STEPS] for line in windows]
    assert sum(steps) == pytest.approx(88) and steps[0] == pytest.approx(30)
