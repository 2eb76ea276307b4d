"""What-if curves of recurrent layers, of torch's threads and of anomaly detection; and projections that use them."""

import weakref

import pytest
import torch
from torch import nn

from hotlap import causes
from hotlap.core import machine
from hotlap.probe import sequences, what_if
from hotlap.probe.timing import Stopwatch
from hotlap.probe.watching import LEARNING, Pass, Watch
from hotlap.record.what_if import AT_ONCE, DETECTING, NOT_DETECTING, STEP_BY_STEP, Change, Cost, CostCurve, WhatIfCurves
from tests.causes_scenarios import SCENARIOS
from tests.made_runs import make_run
from tests.test_what_if import Ticking


@pytest.fixture(autouse=True)
def settings_of_torch():
    threads, detecting = torch.get_num_threads(), torch.is_anomaly_enabled()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.autograd.set_detect_anomaly(detecting)


def learning(*calls):
    """A window with passes that learned: module, argument, and how often it was called."""
    watch = Watch(updates=2.0)
    made = [Pass(weakref.ref(m), type(m).__name__, tuple(args), {}, True, [1e-3] * times) for m, args, times in calls]
    watch.passes[LEARNING] = made
    return watch


def stopwatch():
    clock = Ticking()
    return Stopwatch(60.0, 0.1, clock, clock)


LAYERS = [
    (nn.LSTM(3, 8), torch.zeros(1, 5, 3)),
    (nn.GRU(3, 8, batch_first=True), torch.zeros(5, 1, 3)),
    (nn.LSTMCell(3, 8), torch.zeros(5, 3)),
    (nn.GRUCell(3, 8), torch.zeros(5, 3)),
]


@pytest.mark.parametrize(("layer", "given"), LAYERS, ids=lambda value: type(value).__name__)
def test_a_recurrent_layer_is_measured_in_sequences_as_long_as_the_script_s(layer, given):
    head = nn.Linear(8, 2)
    watch = learning((layer, [given], 20), (head, [torch.zeros(5, 8)], 20), (nn.Linear(8, 1), [torch.zeros(5, 8)], 2))
    measured = sequences.sequence_curve(torch, watch.passes[LEARNING], watch.updates, stopwatch())
    assert [cost.form for cost in measured.costs] == [STEP_BY_STEP, AT_ONCE]
    assert measured.what == f"{type(layer).__name__}, 10 steps" and measured.part == 1.0
    assert layer.weight_ih.grad is None if isinstance(layer, nn.RNNCellBase) else layer.weight_ih_l0.grad is None


@pytest.mark.parametrize(("layer", "given"), LAYERS[:2], ids=lambda value: type(value).__name__)
def test_step_by_step_and_at_once_compute_the_same(layer, given):
    inputs = torch.randn(7, sequences._rows(layer, learning((layer, [given], 1)).passes[LEARNING][0]), 3)
    assert inputs.shape == (7, 5, 3)
    stepped = sequences._stepwise(torch, layer, inputs)()[:, 0]
    assert torch.allclose(stepped, sequences._whole(torch, layer, inputs)(), atol=1e-6)


def test_a_layer_inside_a_module_is_only_a_part_of_the_loop():
    net = nn.Sequential(nn.Linear(4, 3), nn.LSTM(3, 8))
    watch = learning((net, [torch.zeros(5, 4)], 20))
    measured = sequences.sequence_curve(torch, watch.passes[LEARNING], watch.updates, stopwatch())
    assert measured.part == sequences.LAYERS_PART and measured.what == f"LSTM, {sequences.STEPS} steps"
    without = learning((nn.Linear(4, 3), [torch.zeros(5, 4)], 20))
    assert sequences.sequence_curve(torch, without.passes[LEARNING], 2.0, stopwatch()) is None


def test_settings_are_measured_only_where_they_are_wrong_and_stay_as_they_are(monkeypatch):
    net = nn.Linear(4, 2)
    watch = learning((net, [torch.zeros(8, 4)], 2))
    watch.parts[LEARNING] = 1.0
    monkeypatch.setattr(machine, "usable_cores", lambda: 2.0)
    changes = {curve.change for curve in what_if.measured(watch, 60.0, Ticking()).curves}
    assert not changes & {Change.THREADS, Change.ANOMALY}
    torch.set_num_threads(4)
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    curves = {curve.change: curve for curve in what_if.measured(watch, 60.0, Ticking()).curves}
    assert [cost.form for cost in curves[Change.THREADS].costs] == ["4 threads", "2 threads", "1 thread"]
    assert [cost.form for cost in curves[Change.ANOMALY].costs] == [DETECTING, NOT_DETECTING]
    assert torch.get_num_threads() == 4 and torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()


def halved(change, *forms):
    """A curve whose second form costs half."""
    costs = tuple(Cost(form, 0.0, seconds, seconds, seconds) for form, seconds in zip(forms, (1.0, 0.5), strict=True))
    return WhatIfCurves((CostCurve(change, "net", costs),))


@pytest.mark.parametrize(
    ("scenario", "cause", "change", "forms"),
    [
        ("rnn", "rnn-seq-loop", Change.SEQUENCE, (STEP_BY_STEP, AT_ONCE)),
        ("anomaly", "anomaly-on", Change.ANOMALY, (DETECTING, NOT_DETECTING)),
        ("torch-threads", "torch-oversubscribe", Change.THREADS, ("8 threads", "2 threads")),
    ],
)
def test_projections_come_from_the_curve(scenario, cause, change, forms, tmp_path):
    """Half the cost of what is measured: no more than twice as fast, within an interval that is narrower than a guess."""
    found = {}
    for name, curves in (("guessed", None), ("measured", halved(change, *forms))):
        run = make_run(tmp_path / name, **SCENARIOS[scenario], what_if=curves)
        found[name] = next(f for f in causes.diagnose(run).findings if f.cause == cause).projected
    (low, high), (guessed_low, guessed_high) = found["measured"].ci95, found["guessed"].ci95
    assert 1.0 < low <= found["measured"].speedup <= high < 2.4
    assert high / low < guessed_high / guessed_low
