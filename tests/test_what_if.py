# ruff: noqa: NPY002 - the old random numbers of numpy must be kept, too
"""What-if curves: measured within a time limit on copies, without a trace in the script; and projections that use them."""

import json
import random
import subprocess
import sys
import time
from io import StringIO

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

from hotlap import causes
from hotlap.causes.curves import SAME, Curves, Factor, Part, saved
from hotlap.core.errors import RecordError
from hotlap.core.paths import ACT, BACKWARD, LOSS
from hotlap.core.sample import Sample
from hotlap.probe import what_if
from hotlap.probe.copies import CannotCopy, copied, hidden_widths, narrowed, with_rows
from hotlap.probe.payload import of_one
from hotlap.probe.timing import Form, Stopwatch, TimeUp, TooLong
from hotlap.probe.watching import LEARNING, Watch
from hotlap.record import codec
from hotlap.record.observed import Observed
from hotlap.record.what_if import (
    CHECKED,
    FOREACH,
    LOOP,
    NO_GRADIENTS,
    Change,
    Cost,
    CostCurve,
    EnvLayer,
    WhatIfCurves,
)
from hotlap.report import what_if as report
from hotlap.report.terminal import render
from tests.causes_scenarios import SCENARIOS
from tests.made_runs import make_run


class Clock:
    """Time that passes only when somebody works."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def work(self, seconds):
        self.now += seconds


class Ticking(Clock):
    """Time that passes whenever somebody looks: a machine's load has no say in what is measured."""

    def __call__(self):
        self.now += 2e-2
        return self.now


def forms(clock, *seconds):
    return [Form(f"{i}", float(i), lambda s=s: clock.work(s)) for i, s in enumerate(seconds)]


# -- the stopwatch --


def test_forms_are_timed_and_the_limit_holds():
    clock = Clock()
    watch = Stopwatch(10.0, 0.1, clock, clock)
    costs = watch.costs(forms(clock, 0.01, 0.02))
    assert [cost.seconds for cost in costs] == pytest.approx([0.01, 0.02])
    assert clock.now <= 1.0 + 0.06  # a tenth of ten seconds, and the round that was open
    while watch.left > 0:
        watch.costs(forms(clock, 0.01, 0.02))
    assert watch.spent == pytest.approx(10.0, abs=0.2)
    with pytest.raises(TooLong):
        watch.costs(forms(clock, 0.01, 0.02))


def test_forms_too_slow_to_repeat_are_left_out():
    clock = Clock()
    costs = Stopwatch(10.0, 0.1, clock, clock).costs(forms(clock, 0.01, 0.02, 0.9, 0.01))
    assert [cost.form for cost in costs] == ["0", "1"]
    with pytest.raises(TooLong):
        Stopwatch(10.0, 0.1, clock, clock).costs(forms(clock, 0.9, 0.01))


def test_what_another_program_took_does_not_count_unless_the_form_waits():
    wall, cpu = Clock(), Clock()

    def disturbed():
        wall.work(0.03)
        cpu.work(0.01)

    pair = [Form("a", 0.0, disturbed), Form("b", 0.0, disturbed)]
    assert Stopwatch(10.0, 0.1, wall, cpu).costs(pair)[0].seconds == pytest.approx(0.01)
    assert Stopwatch(10.0, 0.1, wall, cpu).costs(pair, waits=True)[0].seconds == pytest.approx(0.03)


# -- watching --


def watched(module, acting, learning, gradients=False):
    """A window in which a module acted on some rows, and then learned from others."""
    watch = Watch()
    watch.passed(module, (acting,), {}, gradients, 100, 200)
    watch.passed(module, (learning,), {}, True, 1_000, 1_400)
    spans = [(ACT, 0, 500), (LOSS, 900, 700), (BACKWARD, 1_600, 300)]
    exclusive = {ACT: 500, LOSS: 700, BACKWARD: 300}
    watch.settle(Sample(0, 2_000, exclusive, counts={"env_steps": 4.0, "updates": 1.0}, events=spans), 0)
    return watch


def test_passes_have_the_role_of_their_time():
    module = nn.Linear(3, 2)
    watch = watched(module, torch.zeros(4, 3), torch.zeros(8, 3))
    assert {role: passes[0].args[0].shape for role, passes in watch.passes.items()} == {ACT: (4, 3), LEARNING: (8, 3)}
    assert watch.parts == {ACT: pytest.approx(0.2), LEARNING: pytest.approx(400 / 700)}
    assert watch.backward == pytest.approx(300e-9)


def test_a_pass_with_strange_arguments_is_left_out():
    watch = Watch()
    watch.passed(nn.Identity(), (object(),), {}, True, 1, 2)
    watch.settle(Sample(0, 10, {LOSS: 10}, events=[(LOSS, 0, 10)]), 0)
    assert watch.passes == {}


class Game:
    def step(self, action):
        return "observation", 1.0, False


class Wrapper:
    num_envs = 2

    def __init__(self, watch, games):
        self.watch, self.games = watch, games

    def step(self, action):
        return [self.watch.step(game, Game.step, (action,), {}) for game in self.games]


def test_layers_of_environments():
    watch = Watch()
    vector = Wrapper(watch, [Game(), Game()])
    for _ in range(3):
        watch.step(vector, Wrapper.step, (0,), {})
    outer, inner = watch.layers()
    assert (outer.name, outer.calls, outer.is_vector) == ("Wrapper", 1.0, True)
    assert (inner.name, inner.calls, inner.is_vector) == ("Game", 2.0, False)
    assert outer.seconds > 0 and inner.seconds > 0
    assert watch.num_envs == 2 and len(watch.result) == 2


# -- curves of a real network --


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # threads that wait for each other take long on a busy machine
    yield
    torch.set_num_threads(before)


@pytest.fixture
def agent(one_thread):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 2))
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.randn(8, 4)).sum().backward()
    optimizer.step()
    return net, optimizer


def state_of(net, optimizer):
    moments = [value.clone() for state in optimizer.state.values() for value in state.values()]
    tensors = [t.clone() for p in net.parameters() for t in (p.detach(), p.grad)]
    return [*tensors, *moments]


def test_every_curve_is_measured_and_the_script_notices_nothing(agent, capsys):
    net, optimizer = agent
    heard = []
    net.register_forward_hook(lambda *_: heard.append(1))
    watch = watched(net, torch.randn(1, 4), torch.randn(8, 4), gradients=True)
    watch.made(torch.distributions.Categorical(logits=torch.zeros(1, 2)))
    watch.result = (np.zeros((2, 4)), np.zeros(2), np.zeros(2, bool), {})
    before = state_of(net, optimizer)
    randoms = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    with torch.inference_mode():  # a script may be stopped in the middle of acting
        measured = what_if.measured(watch, 12.0, Ticking())
    assert measured.skipped == {}
    curves = {curve.change: curve for curve in measured.curves}
    assert curves.keys() == set(Change) - {Change.SEQUENCE, Change.THREADS, Change.ANOMALY}  # tests/test_what_if_settings.py
    assert [cost.form for cost in curves[Change.LEARNING_ROWS].costs][:2] == ["8 rows", "16 rows"]
    assert [cost.size for cost in curves[Change.ACTING_WIDTH].costs] == [256, 128, 64]
    assert [cost.form for cost in curves[Change.OPTIMIZER].costs][:2] == [LOOP, FOREACH]
    assert curves[Change.CHECKS].costs[0].form == CHECKED
    assert all(torch.equal(a, b) for a, b in zip(before, state_of(net, optimizer), strict=True))
    assert random.getstate() == randoms[0]
    assert np.random.get_state()[1].tolist() == randoms[1]
    assert torch.equal(torch.get_rng_state(), randoms[2])
    assert heard == [] and capsys.readouterr().out == ""
    assert codec.from_json(WhatIfCurves, json.loads(json.dumps(codec.to_json(measured))), "x") == measured


class Noisy(nn.Module):
    """Prints, draws random numbers, and fails on more than 8 rows."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.memory = [0.0] * 100_000

    def forward(self, x):
        print("forward")
        np.random.random()
        if len(x) > 8:
            raise RuntimeError("too many rows")
        return self.layer(x) + torch.rand(2)


def test_what_fails_is_noted_and_never_raised(one_thread, capsys):
    net = Noisy()
    randoms = np.random.get_state()[1].tolist()
    measured = what_if.measured(watched(net, torch.randn(8, 4), torch.randn(8, 4), gradients=True), 12.0, Ticking())
    assert "too many rows" in measured.skipped[Change.LEARNING_ROWS.value]
    assert Change.GRADIENTS in {curve.change for curve in measured.curves}
    assert capsys.readouterr().out == ""
    assert np.random.get_state()[1].tolist() == randoms


def test_no_time_no_curves(agent):
    net, _ = agent
    measured = what_if.measured(watched(net, torch.randn(1, 4), torch.randn(32, 4)), 0.0)
    assert measured.curves == () and set(measured.skipped.values()) == {"TooLong: there is no time left to measure it"}


def test_a_measurement_that_hangs_is_cut_off_and_the_others_are_kept(agent):
    net, _ = agent
    watch = watched(net, torch.randn(1, 4), torch.randn(8, 4))
    clock, limits = Ticking(), [6.0]

    def cut_off():
        if limits and clock() > limits[0]:
            limits.clear()
            raise TimeUp
        return clock()

    whole = what_if.measured(watch, 12.0, Ticking())
    cut = what_if.measured(watch, 12.0, cut_off)
    assert 0 < len(cut.curves) < len(whole.curves)


def test_copies_share_nothing_that_is_trained():
    net = Noisy()
    net.last = net(torch.zeros(1, 4))  # with its graph: deepcopy alone would refuse
    (copy,) = copied([net])
    copy(torch.zeros(1, 4)).sum().backward()
    assert all(p.grad is None for p in net.parameters()) and copy.layer.weight.grad is not None
    assert copy.memory is net.memory
    lstm = nn.LSTM(3, 5)
    (copy,) = copied([lstm])
    copy(torch.zeros(2, 1, 3))[0].sum().backward()
    assert lstm.weight_hh_l0.grad is None and copy.weight_hh_l0.grad is not None


def test_rows_and_widths():
    assert with_rows((torch.arange(3), 7), 3, 6)[0].tolist() == [0, 1, 2, 0, 1, 2]
    assert with_rows(torch.zeros(4), 1, 2).shape == (2, 4)  # one row without an axis for rows
    with pytest.raises(CannotCopy):
        with_rows(torch.zeros(5, 2), 3, 6)
    net = nn.Sequential(nn.Linear(4, 512), nn.LayerNorm(512), nn.ReLU(), nn.Linear(512, 512), nn.Linear(512, 2))
    assert hidden_widths([net]) == {512}
    (small,) = narrowed([net], {512}, 8)
    assert small(torch.zeros(3, 4)).shape == (3, 2) and small[3].weight.shape == (64, 64)
    assert hidden_widths([nn.Sequential(nn.Conv2d(1, 8, 3), nn.Linear(8, 8), nn.Linear(8, 2))]) == set()


def test_the_payload_of_one_environment():
    observation, reward, info = of_one((np.zeros((3, 2)), [1.0, 2.0, 3.0], {"x": np.zeros(3)}), 3)
    assert observation.shape == (2,) and reward == 1.0 and info == {"x": 0.0}


# -- records --


def test_records_from_before_have_no_curves_and_damaged_ones_are_refused():
    assert codec.from_json(Observed, {}, "run.json").what_if is None
    with pytest.raises(RecordError):
        codec.from_json(Observed, {"what_if": {"curves": [{"change": "rows when acting", "what": 3}]}}, "run.json")


# -- projections --


def curve(change, *points, seen=None, part=1.0):
    costs = tuple(Cost(f"{size}", float(size), seconds, seconds, seconds) for size, seconds in points)
    return CostCurve(change, "net", costs, seen=seen, part=part)


def test_factors_between_sizes_and_with_cold_caches():
    curves = Curves(WhatIfCurves((curve(Change.LEARNING_ROWS, (32, 1.0), (64, 1.0), (128, 4.0), seen=2.0),)))
    assert curves.times(Change.LEARNING_ROWS, 2.0).value == pytest.approx(1.0)
    assert curves.times(Change.LEARNING_ROWS, 4.0).value == pytest.approx((4 + 1) / (1 + 1))
    assert 1.0 < curves.times(Change.LEARNING_ROWS, 3.0).value < 2.5
    assert curves.times(Change.LEARNING_ROWS, 8.0).value == pytest.approx(
        (10 + 1) / (1 + 1)
    )  # once further, in a straight line
    assert curves.times(Change.LEARNING_ROWS, 9.0) is None  # never far beyond what was measured
    assert curves.form(Change.GRADIENTS, NO_GRADIENTS) is None


def test_a_step_of_many_environments_is_warm_and_pays_its_vector_once():
    layers = (EnvLayer("Vector", 1.0, 3e-5, is_vector=True), EnvLayer("Game", 1.0, 6e-5))
    factor = Curves(WhatIfCurves((), layers)).step(SAME.over(32))
    assert factor.low < factor.value < factor.high
    assert factor.value == pytest.approx((3e-5 / 32 + 6e-5 - 17e-6) / 9e-5)
    assert Curves(None).step(SAME.over(32)) == SAME
    alone = (EnvLayer("Game", 1.0, 6e-5),)  # no vector: nothing says what one would cost
    assert Curves(WhatIfCurves((), alone)).step(SAME.over(32)).value == 1.0


def test_an_estimate_lies_inside_its_interval():
    estimate = saved([Part(0.5, 0.45, 0.55, Factor(0.2, 0.15, 0.3)), Part(0.2, 0.2, 0.2, SAME)])
    assert estimate.value == pytest.approx(0.4)
    assert estimate.low < estimate.value < estimate.high


@pytest.mark.parametrize(("cost", "gain"), [(1.0, "more"), (8.0, "nothing")])
def test_small_minibatches_cost_what_the_curve_says(cost, gain, tmp_path):
    """As much for 16 times the rows: all the more is saved. In proportion to the rows: there is nothing to gain."""
    guess = next(f for f in causes.diagnose(made(tmp_path / "a", ())).findings if f.cause == "tiny-minibatch")
    times = guess.parameters["times"]
    points = curve(Change.LEARNING_ROWS, (32, 1e-3), (32 * times, cost * times / 8.0 * 1e-3 if cost > 1 else 1e-3))
    found = [f for f in causes.diagnose(made(tmp_path / "b", (points,))).findings if f.cause == "tiny-minibatch"]
    if gain == "nothing":
        assert found == [] or found[0].projected.speedup < guess.projected.speedup
    else:
        low, high = found[0].projected.ci95
        assert low < found[0].projected.speedup < high
        assert high / low < guess.projected.ci95[1] / guess.projected.ci95[0]


def made(folder, curves):
    return make_run(folder, **SCENARIOS["tiny-minibatch"], what_if=WhatIfCurves(tuple(curves)))


# -- the report --


def test_only_changes_that_matter_are_shown():
    layers = (EnvLayer("Vector", 1.0, 3e-5, is_vector=True), EnvLayer("Game", 4.0, 1e-5))
    curves = (curve(Change.ACTING_ROWS, (1, 1e-4), (32, 2e-4)), curve(Change.OPTIMIZER, (0, 1e-3), (0, 0.99e-3)))
    table, around = report.sections(WhatIfCurves(curves, layers, seconds=1.0))
    assert [row[0] for row in table.rows] == ["rows when acting"]
    assert table.rows[0][1] == "16.0x per row"
    assert [row[0] for row in around.rows] == ["Vector", "  Game"]
    assert report.sections(WhatIfCurves()) == []


def test_what_a_change_saves_is_there_in_a_narrow_terminal():
    forms = (("step by step", 3.46e-3), ("at once", 8.03e-4))
    costs = tuple(Cost(form, 0.0, seconds, seconds, seconds) for form, seconds in forms)
    curves = WhatIfCurves((CostCurve(Change.SEQUENCE, "TransformerLSTM, 16 steps", costs),))
    text = StringIO()
    render("a profile", report.sections(curves), Console(file=text, width=80))
    assert "4.31x" in text.getvalue() and "803 us" in text.getvalue()


# -- in a script --

SCRIPT = """
import random, numpy as np, torch
from torch import nn

class Game:
    def reset(self):
        return np.zeros(4, np.float32)

    def step(self, action):
        self.left = states()
        return np.zeros(4, np.float32), 1.0, False

def states():
    return random.getstate()[1][:5], np.random.get_state()[1][:5].tolist(), torch.get_rng_state()[:64].tolist()

net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(net.parameters())
game = Game()
observation = torch.from_numpy(game.reset())
game.step(0)
try:
    while True:
        for _ in range(8):
            with torch.no_grad():
                action = int(net(observation[None]).argmax())
            game.step(action)
        loss = net(observation[None].repeat(32, 1)).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
finally:
    print("random numbers kept:", states() == game.left)
"""


def profile(folder, *flags):
    (folder / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "hotlap", "profile", "train.py", "--iterations", "3", "--json", *flags]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=300)
    return json.loads(result.stdout), result.stderr


@pytest.mark.exact
def test_a_script_is_measured_before_it_unwinds(tmp_path):
    document, output = profile(tmp_path)
    assert "random numbers kept: True" in output
    assert document["what_if_curves"]["curves"] or document["what_if_curves"]["skipped"]
    document, _ = profile(tmp_path, "--no-what-if")
    assert document["what_if_curves"] is None


@pytest.mark.truth
def test_a_curve_is_what_the_rows_cost():
    class Burning(nn.Linear):
        def forward(self, x):
            end = time.perf_counter() + 2e-3 + 1e-4 * len(x)
            while time.perf_counter() < end:
                pass
            return super().forward(x)

    net = Burning(4, 2)
    measured = what_if.measured(watched(net, torch.randn(10, 4), torch.randn(20, 4)), 10.0)
    costs = {cost.size: cost.seconds for c in measured.curves if c.change is Change.ACTING_ROWS for cost in c.costs}
    for rows in (10, 20, 40, 80):
        assert costs[rows] == pytest.approx(2e-3 + 1e-4 * rows, rel=0.1)
