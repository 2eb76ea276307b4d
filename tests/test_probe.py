"""The line sampler and the module timer find what was planted."""

import threading
import time

import pytest
import torch
from torch import nn

from hotlap.core.clock import StageClock
from hotlap.probe.sampler import Sampler, shorten
from hotlap.train.modules import ModuleTimer


def burn(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass  # the planted line, or the one above it


def test_the_sampler_finds_the_planted_lines_and_their_stages():
    clock = StageClock()
    sampler = Sampler(lambda _: clock.open_path(), period=0.002)
    burn(0.05)  # not watched: the sampler is paused
    with clock.iteration():
        sampler.resume()
        with clock.stage("collect"):
            burn(0.3)
        with clock.stage("update"):
            time.sleep(0.1)
        sampler.pause()
    sampler.keep()
    sampler.close()
    lines = sampler.hottest(100)
    first = burn.__code__.co_firstlineno
    planted = [line for line in lines if line["where"] in {f"tests/test_probe.py:{first + n}" for n in (2, 3)}]
    assert lines[0] in planted
    assert {line["stage"] for line in planted} == {"collect"}
    assert sum(line["share"] for line in planted) > 0.5  # it has three quarters of the time
    slept = [line for line in lines if "time.sleep(0.1)" in line["code"]]
    assert slept[0]["stage"] == "update"
    assert abs(sum(line["share"] for line in lines) - 1) < 1e-9
    assert sampler.seconds < 0.2
    assert not any(thread.name == "hotlap-sampler" for thread in threading.enumerate())


@pytest.mark.parametrize(("turns", "rounds"), [(1, 250), (30, 10)])
def test_the_sampler_is_fair_to_python_and_to_what_releases_the_lock(turns, rounds):
    """Short turns of Python and of sleep, in iterations shorter and longer than the sampler's period."""
    clock = StageClock()
    sampler = Sampler(lambda _: clock.open_path(), period=0.011)
    for _ in range(rounds):
        sampler.resume()
        with clock.iteration():
            for _ in range(turns):
                with clock.stage("collect"):
                    burn(0.004)
                with clock.stage("update"):
                    time.sleep(0.001)
        sampler.pause()
    sampler.keep()
    sampler.close()
    samples = clock.take()
    truth = sum(s.own["collect"] for s in samples) / sum(s.wall for s in samples)  # four fifths on a quiet machine
    share = sum(line["share"] for line in sampler.hottest(100) if line["stage"] == "collect")
    assert abs(share - truth) < 0.35, (share, truth)  # an unfair sampler sees no Python at all: it is 0.8 off


def test_paths_are_shortened_for_people():
    assert shorten(torch.nn.modules.linear.__file__) == "torch/nn/modules/linear.py"
    assert shorten(threading.__file__) == "threading.py"
    assert shorten(__file__) == "tests/test_probe.py"
    assert shorten("/elsewhere/deep/file.py") == "file.py"


class SlowFunction(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight):
        time.sleep(0.02)
        return x * weight

    @staticmethod
    def backward(context, gradient):
        time.sleep(0.04)
        return None, gradient.sum()


class Slow(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return SlowFunction.apply(x, self.weight)


def test_modules_are_timed_forward_and_backward():
    net = nn.Sequential(Slow(), nn.Sequential(nn.Linear(4, 4), nn.ReLU()))  # the slow one comes first: no input gradient
    timer = ModuleTimer({"net": net})
    with timer.watch():
        for _ in range(2):
            net(torch.rand(3, 4)).sum().backward()
    net(torch.rand(3, 4)).sum().backward()  # no longer watched
    result = {entry.name: entry for entry in timer.results()}
    assert list(result) == ["net", "net.0", "net.1", "net.1.0", "net.1.1"]
    assert [entry.parameters for entry in result.values()] == [21, 1, 20, 20, 0]
    assert {entry.calls for entry in result.values()} == {2}
    assert result["net.0"].forward >= 0.04
    assert result["net.0"].backward >= 0.08
    assert result["net"].forward >= result["net.0"].forward + result["net.1"].forward
    assert result["net"].backward >= result["net.0"].backward
    assert 0 < result["net.1.0"].backward < result["net.0"].backward
