"""Stages from semantics, with a fake time source: who gets the time between events."""

import threading

import pytest

from hotlap.probe.timeline import ACT, BACKWARD, LOSS, OPTIMIZER, RESET, STEP, STORE, Timeline


class Script:
    """Plays the part of a training script, one event at a time."""

    def __init__(self):
        self.time = 0
        self.samples = []
        self.timeline = Timeline(now=lambda: self.time)
        self.timeline.start(self.samples.append)

    def glue(self, amount):
        self.time += amount

    def env(self, amount, path=STEP, steps=1, episodes=0):
        assert self.timeline.environment_begins(path)
        self.glue(amount)
        self.timeline.environment_ends(path, steps, episodes)

    def forward(self, amount, rows, gradients=False):
        assert self.timeline.forward_begins(rows, gradients)
        self.glue(amount)
        self.timeline.forward_ends()

    def backward(self, amount):
        assert self.timeline.backward_begins()
        self.glue(amount)
        self.timeline.backward_ends()

    def optimizer(self, amount):
        assert self.timeline.optimizer_begins()
        self.glue(amount)
        self.timeline.optimizer_ends()

    def region(self, amount, path):
        assert self.timeline.region_begins(path)
        self.glue(amount)
        self.timeline.region_ends(path)

    def end(self):
        self.timeline.stop()
        (sample,) = self.samples
        return {path: time for path, time in sample.own.items() if time}, sample


def test_a_ppo_iteration():
    script = Script()
    script.env(1, RESET, steps=0)
    for _ in range(3):
        script.glue(10)  # store
        script.forward(100, rows=8)
        script.glue(1_000)  # sampling the action, moving it to the host
        script.env(10_000, steps=8, episodes=1)
    script.glue(10)
    script.forward(100_000, rows=8)  # the value of the last state
    script.glue(1_000_000)  # returns
    for _ in range(2):
        script.glue(10_000_000)  # picking a minibatch; the first one still follows the returns
        script.forward(20_000_000, rows=64, gradients=True)
        script.glue(30_000_000)  # the loss's arithmetic
        script.backward(40_000_000)
        script.glue(3)  # clipping
        script.optimizer(5)
    script.glue(7)  # whatever comes after the last event is no training
    own, sample = script.end()
    assert own == {
        RESET: 1,
        STORE: 40,
        ACT: 3_300,
        STEP: 30_000,
        "advantage": 11_100_000,
        "sample": 10_000_000,
        LOSS: 100_000_000,
        BACKWARD: 80_000_000,
        OPTIMIZER: 16,
    }
    assert sample.wall == sum(own.values())
    expected = {"env_steps": 24, "updates": 2, "episodes": 3, "forwards@collect/act": 3, "rows@collect/act": 24}
    expected |= {"forwards@advantage": 1, "forwards@update/loss": 2, "rows@update/loss": 128}
    assert expected.items() <= sample.counts.items()
    assert sample.total["update"] == 180_000_016
    assert sample.total["collect"] == sum(own[path] for path in (RESET, STORE, ACT, STEP))


def test_a_dqn_step():
    script = Script()
    script.env(1)
    for _ in range(2):
        script.glue(5)  # adding to the buffer
        script.forward(10, rows=1)  # acting
        script.env(100)
    script.glue(1_000)  # adding, then drawing a batch
    script.forward(20_000, rows=32)  # the target network, on a batch: no bootstrap
    script.forward(30_000, rows=32, gradients=True)
    script.backward(400_000)
    script.optimizer(500_000)
    own, _ = script.end()
    assert own == {STEP: 201, STORE: 10, ACT: 20, "sample": 1_000, LOSS: 50_000, BACKWARD: 400_000, OPTIMIZER: 500_000}


def test_acting_with_gradients_is_still_acting():
    script = Script()
    script.env(1)
    script.glue(2)
    script.forward(30, rows=4, gradients=True)
    script.glue(400)
    script.env(5_000)
    own, _ = script.end()
    assert own == {STEP: 5_001, STORE: 2, ACT: 430}


def test_what_happens_inside_an_environment_is_the_environments():
    script = Script()
    assert script.timeline.environment_begins(STEP)
    assert not script.timeline.environment_begins(STEP)  # a wrapped environment
    assert not script.timeline.forward_begins(1, False)  # a learned model inside it
    assert not script.timeline.backward_begins()
    assert not script.timeline.optimizer_begins()
    assert not script.timeline.region_begins("log")
    script.glue(50)
    script.timeline.environment_ends(STEP, 1)
    own, sample = script.end()
    assert own == {STEP: 50}
    assert sample.counts["env_steps"] == 1


def test_regions_interrupt_pending_time_without_taking_it():
    script = Script()
    script.env(1)
    script.glue(20)
    script.region(300, "log")
    script.glue(4_000)
    script.env(1)
    own, _ = script.end()
    assert own == {STEP: 2, STORE: 4_020, "log": 300}


def test_phases_that_a_framework_announces_own_their_glue():
    script = Script()
    script.env(1)
    script.timeline.phase_begins("update")
    script.glue(10)
    script.forward(2, rows=32, gradients=True)
    script.backward(3)
    script.optimizer(4)
    script.glue(50)  # the end of learning
    script.timeline.phase_begins("collect")
    script.glue(600)
    script.env(1)
    own, _ = script.end()
    assert own == {STEP: 2, "update": 60, LOSS: 2, BACKWARD: 3, OPTIMIZER: 4, "collect": 600}


def test_another_thread_is_left_alone():
    script = Script()
    said = []

    def work():
        said.append(script.timeline.forward_begins(1, False))
        said.append(script.timeline.environment_begins(STEP))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert said == [False, False]


def test_windows_end_where_learning_turns_into_acting():
    script = Script()
    for iteration in range(3):
        for _ in range(4):
            script.env(100_000_000)
        script.forward(1_000_000, rows=32, gradients=True)
        script.backward(1_000_000)
        script.optimizer(1_000_000)
        assert len(script.samples) == iteration
    script.env(1)
    assert [sample.counts["env_steps"] for sample in script.samples] == [4, 4, 4]
    assert [sample.wall for sample in script.samples] == [403_000_000] * 3


def test_before_learning_windows_end_by_time():
    script = Script()
    for _ in range(12):
        script.env(100_000_000)
    assert [sample.counts["env_steps"] for sample in script.samples] == [5, 5]


@pytest.mark.parametrize("events", [["env"], ["forward", "env"], ["forward"], ["backward", "optimizer"]])
def test_the_guess_for_the_sampler_is_a_stage(events):
    script = Script()
    for event in events:
        getattr(script, event)(1, **({"rows": 1} if event == "forward" else {}))
    assert str(script.timeline.stage()) in {STORE, ACT, LOSS, "sample", OPTIMIZER}
