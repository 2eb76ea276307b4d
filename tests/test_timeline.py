"""Stages from semantics, with a fake time source: who gets the time between events."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotlap.core.paths import ACT, LOSS, RESET, STEP, STORE, TARGET, WAIT
from hotlap.core.paths import BACKWARD as GRADIENTS
from hotlap.core.paths import OPTIMIZER as OPTIMIZE
from hotlap.probe.events import Events
from hotlap.probe.kinds import BACKWARD, ENDED, EVALUATING, FORWARD, REGION, RESETTING, STEPPED, TARGETING, WAITED, number_of


class Script:
    """Plays the part of a training script, one event at a time."""

    def __init__(self, **options):
        self.time = 1
        self.samples = []
        self.events = Events(now=lambda: self.time)
        self.events.start(self.samples.append, **options)

    def glue(self, amount):
        self.time += amount

    def env(self, amount, path=STEP, steps=1, episodes=0, env=7, evaluates=False):
        begin = self.events.environment(path)
        assert begin
        self.glue(amount)
        if path == STEP:
            self.events.stepped(STEPPED, begin, env, steps)
        else:
            self.events.end(WAITED if path == WAIT else EVALUATING if evaluates else RESETTING, begin, env)
        for _ in range(episodes):
            self.events.at_once(ENDED, env, 0)

    def forward(self, amount, rows, gradients=False):
        begin = self.events.begin("")
        assert begin
        self.glue(amount)
        self.events.end(FORWARD + gradients, begin, rows)

    def backward(self, amount):
        begin = self.events.begin(GRADIENTS)
        assert begin
        self.glue(amount)
        self.events.end(BACKWARD, begin)

    def optimizer(self, amount, which=0):
        begin = self.events.begin(OPTIMIZE)
        assert begin
        self.glue(amount)
        self.events.optimizer_ended(begin, which)

    def region(self, amount, path):
        begin = self.events.begin(path)
        assert begin
        self.glue(amount)
        self.events.end(REGION, begin, number_of(path))

    def end(self):
        self.events.stop()
        (sample,) = self.samples
        return {path: time for path, time in sample.exclusive.items() if time}, sample


def test_what_a_script_does_after_training_is_no_part_of_it():
    script = Script()
    script.env(1, steps=1)
    script.forward(10, rows=32, gradients=True)
    script.backward(100)
    script.optimizer(1_000)
    script.glue(10_000)
    script.region(100_000, "checkpoint")
    script.glue(1_000_000)  # draws curves
    script.region(1_000_000, "log")  # says where they are
    times, sample = script.end()
    assert times["checkpoint"] == 100_000 and "log" not in times
    assert sample.wall == 111_111


def test_a_target_network_that_follows_by_hand():
    script = Script()
    script.env(1, steps=1)
    for _ in range(2):
        script.glue(10)  # sampling
        script.forward(100, rows=32, gradients=True)
        script.backward(1_000)
        script.optimizer(10_000)
        script.glue(100_000)  # something else
        script.events.at_once(TARGETING)
        script.glue(1_000_000)  # before the next gradient, minibatches are drawn too: no one knows how much of it
    script.events.at_once(TARGETING)
    script.glue(1_000_000)
    script.forward(100, rows=1)
    script.env(1, steps=1)
    times, sample = script.end()
    assert times[TARGET] == 2_000_000 and times["sample"] == 1_100_020
    assert sample.wall - sum(times.values()) == 100_000  # stays unattributed


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
        GRADIENTS: 80_000_000,
        OPTIMIZE: 16,
    }
    assert sample.wall == sum(own.values())
    expected = {"env_steps": 24, "updates": 2, "episodes": 3, "forwards@collect/act": 3, "rows@collect/act": 24}
    expected |= {"episode_steps": 3, "forwards@advantage": 1, "forwards@update/loss": 2, "rows@update/loss": 128}
    assert expected.items() <= sample.counts.items()
    assert sample.inclusive["update"] == 180_000_016
    assert sample.inclusive["collect"] == sum(own[path] for path in (RESET, STORE, ACT, STEP))


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
    assert own == {STEP: 201, STORE: 10, ACT: 20, "sample": 1_000, LOSS: 50_000, GRADIENTS: 400_000, OPTIMIZE: 500_000}


@pytest.mark.parametrize(("passes", "path"), [(2, "advantage"), (64, LOSS)])
def test_passes_on_one_row_after_another_go_through_a_minibatch(passes, path):
    """A bootstrap asks for the value of a state or two; who predicts row by row computes targets."""
    script = Script()
    for _ in range(3):
        script.forward(10, rows=1)
        script.env(100)
    for _ in range(passes):
        script.forward(20, rows=1)
    learn(script)
    own, _ = script.end()
    assert own[path] == 20 * passes + (20_000 if path == LOSS else 0)


def learn(script):
    script.forward(20_000, rows=32, gradients=True)
    script.backward(400_000)
    script.optimizer(500_000)


def test_what_a_storing_function_ends_was_storing():
    script = Script()
    script.env(1)
    for _ in range(2):  # a row at a time
        script.glue(3)
        script.events.syncs += 5  # reading numbers of tensors
        script.events.stored()
    script.glue(1_000)  # drawing a batch
    learn(script)
    own, sample = script.end()
    assert sample.counts["syncs@collect/store"] == 10
    assert own == {STEP: 1, STORE: 6, "sample": 1_000, LOSS: 20_000, GRADIENTS: 400_000, OPTIMIZE: 500_000}


def test_what_an_adapter_stores_ends_storing_too():
    script = Script()
    script.env(1)
    script.glue(3)
    script.region(40, STORE)
    script.glue(1_000)
    learn(script)
    own, _ = script.end()
    assert own == {STEP: 1, STORE: 43, "sample": 1_000, LOSS: 20_000, GRADIENTS: 400_000, OPTIMIZE: 500_000}


def test_lines_split_the_time_between_events():
    script = Script()
    script.env(1)
    script.events.line_begins(STORE)
    script.glue(2)
    script.events.line_begins("")  # drawing a plot
    script.glue(30)
    script.events.line_begins(None)
    script.glue(1_000)
    learn(script)
    script.events.line_begins(TARGET)
    script.glue(5)
    script.events.line_begins(None)
    script.glue(60)
    script.env(1)
    own, sample = script.end()
    expected = {STEP: 2, STORE: 2, "sample": 1_000, LOSS: 20_000, GRADIENTS: 400_000, OPTIMIZE: 500_000, TARGET: 5}
    assert own == expected
    assert sample.wall == sum(own.values()) + 30 + 60


def test_lines_say_nothing_about_forward_passes():
    script = Script()
    script.env(1)
    script.forward(10, rows=1)
    script.events.line_begins(STORE)
    script.glue(100)
    script.env(1)
    own, _ = script.end()
    assert own == {STEP: 2, ACT: 110}


def test_stack_samples_divide_the_time_that_lines_share():
    """Three of four samples fall on lines that store, so three quarters of the time do; and each sample has its own stage."""
    script = Script()
    script.events.lines.path_of = lambda stack: stack  # a sample's stack is its stage here
    script.env(1)
    moments = [script.events.moment(script.time + 10 * number, path, 0.025) for number, path in enumerate([STORE] * 3 + [None])]
    script.glue(1_000)
    learn(script)
    own, sample = script.end()
    assert own == {STEP: 1, STORE: 750, "sample": 250, LOSS: 20_000, GRADIENTS: 400_000, OPTIMIZE: 500_000}
    assert sample.wall == sum(own.values())
    assert [str(moment) for moment in moments] == [STORE] * 3 + ["sample"]


def test_an_update_is_a_round_of_all_optimizers():
    script = Script()
    for _ in range(3):  # SAC: critic, actor, temperature; the actor every other time
        script.env(1)
        for number in range(4):
            for optimizer in (1, 2, 3)[: 1 if number % 2 else 3]:
                script.forward(1, rows=32, gradients=True)
                script.backward(1)
                script.optimizer(1, which=optimizer)
    _, sample = script.end()
    assert sample.counts["updates"] == 12


def test_random_actions_are_choices_too():
    script = Script()
    for _ in range(5):
        script.env(1, steps=4)
    _, sample = script.end()
    assert (sample.counts["choices"], sample.counts["env_steps"]) == (5, 20)


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
    begin = script.events.environment(STEP)
    assert not script.events.environment(STEP)  # a wrapped environment
    assert not script.events.begin(GRADIENTS)  # a learned model inside it
    script.events.phase("update")
    script.events.forward(1, True)
    script.glue(50)
    script.events.stepped(STEPPED, begin, 7, 1)
    own, sample = script.end()
    assert own == {STEP: 50}
    assert sample.counts["env_steps"] == 1


def test_waits_and_resets_inside_a_step_are_stages_of_their_own():
    script = Script()
    begin = script.events.environment(STEP)
    script.glue(1)
    for path, amount in ((WAIT, 20), (RESET, 300)):
        assert script.events.in_environment()
        inner = script.events.carve(path)
        assert not script.events.in_environment()
        script.glue(amount)
        script.events.carved(inner)
    script.glue(4_000)
    script.events.stepped(STEPPED, begin, 7, 1)
    own, sample = script.end()
    assert own == {STEP: 4_001, WAIT: 20, RESET: 300}
    assert sample.counts["step_median"] == pytest.approx(4_001e-9)


def test_copies_and_syncs_go_where_their_time_goes():
    script = Script()
    script.env(1)
    script.glue(10)
    script.events.syncs += 2
    script.forward(100, rows=4)
    copy = script.time
    script.glue(1_000)
    script.events.copied(copy, 64, True)
    script.glue(20_000)
    begin = script.events.environment(STEP)
    copy = script.time
    script.glue(300_000)
    script.events.copied(copy, 8, False)
    script.events.syncs += 1
    script.glue(4_000_000)
    script.events.stepped(STEPPED, begin, 7, 1)
    own, sample = script.end()
    assert own == {STORE: 10, ACT: 20_100, f"{ACT}/transfer": 1_000, STEP: 4_000_001, f"{STEP}/transfer": 300_000}
    assert sample.wall == sum(own.values())
    counts = {name: value for name, value in sample.counts.items() if name.startswith(("syncs", "copies", "bytes"))}
    assert counts == {
        f"syncs@{STORE}": 2,
        f"copies_to_host@{ACT}": 1,
        f"bytes_to_host@{ACT}": 64,
        f"copies_to_device@{STEP}": 1,
        f"bytes_to_device@{STEP}": 8,
        f"syncs@{STEP}": 1,
    }


def learned(script):
    script.env(1, RESET, steps=0)
    script.env(1)
    script.forward(1, 32, gradients=True)
    script.backward(1)
    script.optimizer(1)


def test_another_environment_that_plays_while_the_first_one_pauses_evaluates():
    script = Script()
    learned(script)
    script.env(10)
    for _ in range(2):  # episodes of the other environment
        script.env(200, RESET, steps=0, env=8)
        script.env(3_000, env=8)
        script.glue(40_000)
        script.env(3_000, env=8, episodes=1)
    script.env(10)  # the first one goes on
    own, sample = script.end()
    assert own["evaluate"] == 2 * 46_200
    assert own[STEP] == 21
    assert sample.counts["env_steps"] == 3
    assert sample.counts["episodes"] == 0


def test_alternating_environments_do_not_evaluate():
    script = Script()
    learned(script)
    for _ in range(3):
        for env in (7, 8, 9):
            script.env(1, env=env, episodes=1)
            script.env(1, RESET, steps=0, env=env)
    own, sample = script.end()
    assert "evaluate" not in own
    assert sample.counts["env_steps"] == 10


def test_a_function_that_says_it_evaluates_does_so_with_the_same_environment():
    script = Script()
    learned(script)
    script.env(5, RESET, steps=0, evaluates=True)
    script.env(50)
    script.env(7, RESET, steps=0)
    own, sample = script.end()
    assert own["evaluate"] == 55
    assert sample.counts["env_steps"] == 1


def test_without_a_forward_pass_the_graph_of_acting_is_learned_from():
    script = Script()
    script.env(1)
    script.forward(10, 1, gradients=True)
    script.env(1)
    script.glue(100)  # returns, and the loss from stored log-probabilities
    script.backward(1_000)
    script.optimizer(1)
    own, _ = script.end()
    assert own == {STEP: 2, ACT: 10, LOSS: 100, GRADIENTS: 1_000, OPTIMIZE: 1}


def test_the_end_is_where_training_ended():
    script = Script()
    learned(script)
    script.glue(1_000)
    script.env(5_000, WAIT, steps=0)  # a worker is waited for, and does not come back
    own, sample = script.end()
    assert sample.wall == sum(own.values()) == 5
    assert WAIT not in own


def test_while_paused_only_steps_updates_and_episodes_are_counted():
    script, pauses = Script(), []
    events = script.events
    learned(script)
    script.glue(300_000_000)
    script.events._on_window = lambda sample: (script.samples.append(sample), events.pause(0.5, pauses.append))
    assert not events.environment(STEP)  # the window ends, and a pause begins
    assert events.paused
    assert not events.begin("log")
    for _ in range(3):
        events.stepped_while_paused(7, 4, [0])
        script.glue(200_000_000)
        events.optimizer_ended(0)
    assert events.resumes()
    (pause,) = pauses
    assert pause.wall == 600_000_000
    assert {name: pause.counts[name] for name in ("env_steps", "updates", "episodes", "episode_steps")} == {
        "env_steps": 12,
        "updates": 3,
        "episodes": 3,
        "episode_steps": 1 + 3,  # the first episode had begun before
    }
    script.env(5)
    assert not events.paused
    events.stop()
    assert script.samples[-1].exclusive[STEP] == 5
    assert not events.paused  # nothing pauses, or resumes, after the end
    assert events.inside


def test_profiling_is_stopped_again_should_the_script_catch_it():
    class StopProfiling(BaseException):
        pass

    def stop(sample):
        raise StopProfiling

    script = Script()
    learned(script)
    script.events._on_window = lambda sample: script.events.pause(0.1, stop)
    script.glue(300_000_000)
    script.events.environment(STEP)
    script.glue(200_000_000)
    script.events.optimizer_ended(0)
    with pytest.raises(StopProfiling):
        script.events.resumes()
    assert not script.events.inside
    script.events._on_window = stop
    script.env(1)
    script.optimizer(300_000_000)
    with pytest.raises(StopProfiling):
        script.events.environment(STEP)


def test_without_environments_windows_end_at_updates():
    script = Script()
    for _ in range(4):
        script.forward(100_000_000, 32, gradients=True)
        script.backward(100_000_000)
        script.optimizer(100_000_000)
    assert [sample.counts["updates"] for sample in script.samples] == [2, 2]


def test_moments_learn_their_stage_when_the_window_ends():
    script = Script()
    script.env(10)
    script.glue(5)
    early = script.events.moment(script.events.now())
    script.glue(5)
    script.forward(10, rows=1, gradients=True)
    script.glue(5)
    acting = script.events.moment(script.events.now())
    script.glue(5)
    begin = script.events.environment(STEP)
    script.glue(5)
    stepping = script.events.moment(script.events.now())
    script.glue(1)
    inner = script.events.carve(WAIT)
    script.glue(5)
    waiting = script.events.moment(script.events.now())
    script.glue(1)
    script.events.carved(inner)
    script.events.stepped(STEPPED, begin, 7, 1)
    script.end()
    assert [str(moment) for moment in (early, acting, stepping, waiting)] == [STORE, ACT, STEP, WAIT]


def test_a_traced_window_keeps_where_each_piece_of_time_lay():
    script = Script()
    script.events.trace()
    script.env(10)
    script.glue(5)
    script.forward(100, rows=1)
    script.env(10)
    _, sample = script.end()
    assert sample.events == [(STEP, 0, 10), (STORE, 10, 5), (ACT, 15, 100), (STEP, 115, 10)]


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
    script.events.phase("update")
    script.glue(10)
    script.forward(2, rows=32, gradients=True)
    script.backward(3)
    script.optimizer(4)
    script.glue(50)  # the end of learning
    script.events.phase("collect")
    script.glue(600)
    script.env(1)
    own, _ = script.end()
    assert own == {STEP: 2, "update": 60, LOSS: 2, GRADIENTS: 3, OPTIMIZE: 4, "collect": 600}


def test_another_thread_is_left_alone():
    script = Script()
    begins = []

    def work():
        begins.append(script.events.begin(""))
        begins.append(script.events.environment(STEP))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert begins == [0, 0]


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


class Log:
    """A log of events as a script might leave it, drawn at random: events that raise an error never end."""

    def __init__(self, script, draw):
        self.script, self.draw = script, draw

    def pick(self, *options):
        return self.draw(st.sampled_from(options))

    def glue(self):
        self.script.glue(self.draw(st.integers(0, 50)))

    def copy(self):
        begin = self.script.time
        self.glue()
        self.script.events.copied(begin, 8, self.draw(st.booleans()))

    def inside(self):
        """What happens while an event is open: copies, carved stages, nothing."""
        events = self.script.events
        for _ in range(self.draw(st.integers(0, 3))):
            self.glue()
            if self.draw(st.booleans()):
                self.copy()
            elif events.in_environment():
                begin = events.carve(self.pick(WAIT, RESET))
                self.glue()
                events.carved(begin)
            events.syncs += self.draw(st.integers(0, 1))

    def event(self):
        events, kind = (
            self.script.events,
            self.pick("step", "reset", "forward", "backward", "optimizer", "log", "copy", "phase", "raise"),
        )
        if kind == "copy":
            self.copy()
        elif kind == "phase":
            events.phase(self.pick("collect", "update"))
        elif kind in ("step", "reset"):
            begin = events.environment(STEP if kind == "step" else RESET)
            self.inside()
            env = self.pick(7, 8)
            if kind == "step":
                events.stepped(STEPPED, begin, env, 1)
                if self.draw(st.booleans()):
                    events.at_once(ENDED, env, 0)
            else:
                events.end(self.pick(RESETTING, EVALUATING), begin, env)
        elif kind == "raise":  # an optimizer's step raised an error: its end is never reported
            events.begin(OPTIMIZE)
            self.inside()
            events.inside, events.region = False, ""
        else:
            begin = events.begin({"backward": GRADIENTS, "optimizer": OPTIMIZE}.get(kind, kind))
            self.inside()
            if kind == "optimizer":
                events.optimizer_ended(begin)
            elif kind == "log":
                events.end(REGION, begin, number_of("log"))
            else:
                events.end(BACKWARD if kind == "backward" else FORWARD + self.draw(st.booleans()), begin, self.pick(4, 32))


@settings(max_examples=150)
@given(st.data())
def test_spans_lie_in_their_window_and_add_up(data):
    def on_window(sample):
        script.samples.append(sample)
        begin = script.events.begin("log")  # what the record does between two windows is nobody's time
        script.glue(5)
        if begin:
            script.events.end(REGION, begin, number_of("log"))
        script.events.trace()

    script = Script(window=2e-7)  # 200 of the fake clock's nanoseconds
    script.events._on_window = on_window
    script.events.trace()
    log = Log(script, data.draw)
    for _ in range(data.draw(st.integers(1, 25))):
        log.glue()
        log.event()
    script.events.stop()
    reached = 0
    for sample in script.samples:
        assert sample.start >= reached
        at = sample.start
        spent = {}
        for path, start, duration in sample.events:
            assert start >= at and duration > 0
            at = start + duration
            spent[path] = spent.get(path, 0) + duration
        reached = sample.start + sample.wall
        assert at <= reached
        assert all(time >= 0 for time in (*sample.exclusive.values(), *sample.inclusive.values()))
        assert sum(sample.exclusive.values()) <= sample.wall
        if not sample.exclusive.get("evaluate"):  # which takes its time from other stages afterwards
            assert spent == {path: time for path, time in sample.exclusive.items() if time}


def test_what_the_record_does_between_two_windows_is_nobodys_time():
    script, begun = Script(), []
    learned(script)
    script.glue(300_000_000)

    def on_window(sample):
        begun.append(script.events.begin("log"))
        script.glue(1_000)
        script.events.copied(script.time - 10, 8, True)
        script.events.syncs += 1

    script.events._on_window = on_window
    script.env(5)
    assert begun == [0]
    assert not script.events.inside
    assert [event[0] for event in script.events.events()] == [STEPPED]
    assert script.events.syncs == 0


@pytest.mark.parametrize(("worker", "sampling"), [(False, 0), (True, 30)])
def test_without_an_environment_nobody_knows_what_lies_between_updates(worker, sampling):
    """A game that is not recognised may be played there; a process that only learns samples there."""
    script = Script(worker=worker)
    for _ in range(2):
        script.glue(30)  # after an update: plays, or samples
        script.forward(5, 32)
        script.glue(20)
        script.forward(10, 32, gradients=True)
        script.backward(10)
        script.optimizer(5)
    script.events.stop()
    times = {path: sum(sample.exclusive.get(path, 0) for sample in script.samples) for path in ("sample", LOSS, GRADIENTS)}
    assert times["sample"] == sampling and times[GRADIENTS] == 20
    assert times[LOSS] == (70 if worker else 20)  # the passes with gradients are the loss, whoever plays
