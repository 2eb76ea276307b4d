"""The line sampler and the module timer find what was planted."""

import hashlib
import signal
import sys
import threading
import time

import pytest
import torch
from torch import nn
from torch.nn import functional

from hotlap.core.clock import StageClock
from hotlap.probe import core
from hotlap.probe.sampler import Sampler, is_at_call, shorten
from hotlap.train.modules import ModuleTimer


def burn(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass  # the planted line, or the one above it


def test_the_sampler_finds_the_planted_lines_and_their_stages():
    clock = StageClock()
    sampler = Sampler(lambda *_: clock.open_path(), period=0.002)
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
    planted = [line for line in lines if line.where in {f"tests/test_probe.py:{first + n}" for n in (2, 3)}]
    assert lines[0] in planted
    assert {line.stage for line in planted} == {"collect"}
    assert sum(line.share for line in planted) > 0.5  # it has three quarters of the time
    slept = [line for line in lines if "time.sleep(0.1)" in line.code]
    assert slept[0].stage == "update"
    assert abs(sum(line.share for line in lines) - 1) < 1e-9
    assert not any(thread.name == "hotlap-sampler" for thread in threading.enumerate())


def test_every_moment_is_charged_however_short_the_iterations_are():
    sampler = Sampler(lambda *_: "collect", period=0.011)
    watched = 0.0
    while len(sampler._fresh) < 20:
        began = time.perf_counter()
        sampler.resume()
        burn(0.002)
        sampler.pause()
        watched += time.perf_counter() - began
    charged = sum(sample.seconds for sample in sampler._fresh)
    sampler.close()
    assert 0.6 * watched < charged <= watched  # charged from each resume only, it was a quarter


@pytest.mark.truth
@pytest.mark.parametrize(("turns", "rounds"), [(1, 400), (30, 20)])
def test_the_sampler_is_fair_to_python_and_to_what_releases_the_lock(turns, rounds):
    """Short turns of Python and of sleep, in iterations shorter and longer than the sampler's period."""
    clock = StageClock()
    sampler = Sampler(lambda *_: clock.open_path(), period=0.011)
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
    truth = sum(s.exclusive["collect"] for s in samples) / sum(s.wall for s in samples)  # four fifths on a quiet machine
    share = sum(line.share for line in sampler.hottest(100) if line.stage == "collect")
    assert abs(share - truth) < 0.13, (share, truth)  # four standard deviations of what so few samples can say


A, SMALL, BIAS, DATA = torch.ones(64, 64), torch.ones(4, 4), torch.ones(4), bytes(4_000)


def arithmetic():
    number = 1
    for _ in range(2_000):
        number = (number * 3 + 1) % 1_000_003


def product():
    for _ in range(100):
        torch.mm(A, A)


def layer():
    for _ in range(100):
        functional.linear(SMALL, SMALL, BIAS)


def operators():
    x = A
    for _ in range(100):
        x = x @ A


def digest():
    for _ in range(100):
        hashlib.sha256(DATA)


def clock_reading():
    for _ in range(1_000):
        time.perf_counter()


WORKS = [(arithmetic, False), (product, True), (layer, True), (operators, True), (digest, True), (clock_reading, False)]


@pytest.mark.skipif(core.ticker is None, reason="no compiler, or no headers of Python")
@pytest.mark.parametrize(("work", "native"), WORKS)
def test_a_stack_sample_tells_native_code_from_python(work, native):
    """Short calls of native code too. A sample that falls between two calls is Python's, so most samples decide."""
    sampler = Sampler(lambda *_: "update", period=0.001)
    sampler.resume()
    while len(sampler._fresh) < 60:
        work()
    sampler.pause()
    sampler.close()
    labels = [sample.native for sample in sampler._fresh if sample.stack[0].function == work.__name__]
    assert len(labels) > 30
    assert (sum(labels) > len(labels) / 2) == native, sum(labels) / len(labels)
    sampler.keep()
    line = next(line for line in sampler.functions(limit=1_000) if line.function == work.__name__)
    assert line.native == native


@pytest.mark.parametrize(("work", "calls"), [(arithmetic, False), (product, True), (layer, True), (digest, True)])
def test_the_instruction_alone_tells_calls_of_native_code(work, calls):
    """Where nobody knows what the processor did: on other systems than Linux."""
    seen = []

    def handler(_, frame):
        if frame.f_code is work.__code__:
            seen.append(is_at_call(frame))

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        while len(seen) < 60:
            work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert (sum(seen) > len(seen) / 2) == calls, sum(seen) / len(seen)


def test_a_sampler_leaves_signals_as_they_were():
    before = signal.getsignal(signal.SIGURG)
    sampler = Sampler(lambda *_: "", period=0.001)
    sampler.resume()
    arithmetic()
    sampler.close()
    assert signal.getsignal(signal.SIGURG) in (before, signal.SIG_DFL)
    assert sys.getswitchinterval() == pytest.approx(0.005)


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
