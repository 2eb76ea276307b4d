"""The Hearts system: the first layer of sparse observations, the attention network, presets, learning, exact resume."""

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import hotlap
from hotlap.core.clock import StageClock
from hotlap.envs.hearts import information
from hotlap.systems import hearts, hearts_net, load
from hotlap.train import ppo, sparse
from hotlap.train.gradients import ByAutograd
from hotlap.train.sparse import SparseLinear
from tests.lockstep import random_legal
from tests.minibatches import minibatches

ROOT = Path(__file__).parent.parent
SYSTEM = load("hearts")
SIZES = {"attn-128x2": (1_074_165, (128, 4, 2)), "attn-64x1": (401_269, (64, 2, 1)), "attn-32x1": (183_285, (32, 2, 1))}
SMALL = replace(hearts.FAST, num_envs=8, horizon=64, batch_size=128, hidden=(32, 32), epochs=1, opponent_every=1)
ATTENTION = replace(SMALL, net="attn-32x1", num_envs=4, horizon=70, batch_size=32)


def make(config):
    env = SYSTEM.make_env(config)
    return SYSTEM.start(config, env), env


def rows_of(history):
    """Rows of all stages of a hand."""
    env = hotlap.make_vec("hearts", 1, seed=0, observation="sparse", history=history)
    obs, info = env.reset()
    rows, rng = [], np.random.default_rng(0)
    for _ in range(52):
        rows.append(obs[0].copy())
        obs, *_, info = env.step(random_legal(info["action_mask"], rng))
    return torch.from_numpy(np.stack(rows))


def dense_of(rows, size):
    dense = torch.zeros(len(rows), size + 1)
    return dense.scatter_(1, rows[:, 1:].long(), 1.0)[:, :-1]


# -- the first layer --


@pytest.mark.parametrize("in_torch", [False, True])
@pytest.mark.parametrize("dtype", [torch.int16, torch.int32])
@pytest.mark.parametrize("outputs", [7, 64, 200])
def test_the_sparse_layer_equals_a_dense_one(in_torch, dtype, outputs, monkeypatch):
    if in_torch:
        monkeypatch.setattr(sparse, "_library", lambda rows, weight: None)
    rows = rows_of(1).to(dtype)
    torch.manual_seed(0)
    layer, dense = SparseLinear(information.size_of(1), outputs), nn.Linear(information.size_of(1), outputs)
    with torch.no_grad():
        dense.weight.copy_(layer.weight.t())
        dense.bias.copy_(layer.bias.normal_())
    out, expected = layer(rows), dense(dense_of(rows, information.size_of(1)))
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    to_out = torch.randn(out.shape)
    out.backward(to_out)
    expected.backward(to_out)
    torch.testing.assert_close(layer.weight.grad, dense.weight.grad.t(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(layer.bias.grad, dense.bias.grad)


@pytest.mark.parametrize("in_torch", [False, True])
def test_positions_share_the_weights(in_torch, monkeypatch):
    if in_torch:
        monkeypatch.setattr(sparse, "_library", lambda rows, weight: None)
    rows = rows_of(5)
    torch.manual_seed(0)
    layer = SparseLinear(information.SIZE, 64, positions=5)
    out = layer(rows)
    weight = layer.weight.detach().clone().requires_grad_()
    seen = dense_of(rows, information.size_of(5))[:, :-4].view(len(rows), 5, -1)
    expected = seen @ weight + layer.bias.detach()
    assert (seen.sum(2) == 0).any()  # some seats have not had five
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    to_out = torch.randn(out.shape)
    out.backward(to_out)
    expected.backward(to_out)
    torch.testing.assert_close(layer.weight.grad, weight.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_dense_layers_after_it_by_hand_equal_autograd(activation, shared):
    config = replace(SMALL, activation=activation, shared=shared, entropy=0.05)
    state, env = make(config)
    ppo.collect(state, config, env, StageClock(), ppo.Metrics())
    ppo.compute_advantages(state, config)
    (batch,) = next(minibatches(state.rollout, config, torch.Generator(), 0.0, state.gradient))
    results = []
    for way in (
        state.gradient,
        ByAutograd(state.net, state.flat, lambda *args: ppo.ppo_loss(state.actions, config, *args), "float32", False),
    ):
        state.flat.grad.fill_(7.0)
        losses = way.compute(batch, 0.05, StageClock(), True)
        results.append((state.flat.grad.clone(), losses))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(results[0][1].loss, results[1][1].loss)


# -- the attention network --


@pytest.mark.parametrize("name", SIZES)
def test_the_attention_network_equals_torchs_modules(name):
    """The exact number of parameters; values, gradients; without dropout."""
    parameters, sizes = SIZES[name]
    torch.manual_seed(0)
    net = SYSTEM.net_makers()[name](hearts.SEED, information.spec("sparse", 5, ()), 52, 0).eval()
    assert sum(p.numel() for p in net.parameters()) == parameters
    plain = runpy.run_path(str(ROOT / "benchmarks" / "plain_hearts.py"))["PlainPolicy"](*sizes).eval()
    assert sum(p.numel() for p in plain.parameters()) == parameters
    plain.load(net)
    rows = rows_of(5)
    results = net(rows)[:2], plain(dense_of(rows, information.size_of(5)))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    to_output = torch.randn(len(rows), 52)
    for output, value in results:
        ((output * to_output).sum() + value.sum()).backward()
    for mine, theirs in plain.pairs({key: p.grad for key, p in net.named_parameters()}):
        torch.testing.assert_close(mine.grad, theirs, rtol=1e-3, atol=1e-4)


def test_attention_needs_a_history():
    spec = information.spec("sparse", 1, ())
    with pytest.raises(ValueError, match="attention networks take sparse observations with a history of 5"):
        SYSTEM.net_makers()["attn-32x1"](hearts.SEED, spec, 52, 0)


def test_dropout_is_for_learning_alone():
    state, env = make(ATTENTION)
    rows = rows_of(5)
    assert not state.net.training
    assert torch.equal(state.net(rows)[0], state.net(rows)[0])
    ppo.iterate(state, ATTENTION, env, StageClock())
    assert not state.net.training
    state.net.train()
    assert not torch.equal(state.net(rows)[0], state.net(rows)[0])


def test_dropout_keeps_nine_of_ten_and_the_mean():
    torch.manual_seed(0)
    x = hearts_net.Dropout(0.1).train()(torch.ones(1_001, 101))
    assert (x == 0).float().mean() == pytest.approx(0.1, abs=0.005)
    assert x.mean() == pytest.approx(1.0, abs=0.005)
    assert x.unique().tolist() == pytest.approx([0, 1 / 0.9])


# -- the system --


def test_presets_follow_the_report():
    seed, optimized = hearts.SEED, hearts.SEED_OPTIMIZED
    assert (seed.num_envs * seed.horizon, seed.batch_size, seed.epochs) == (4_000, 32, 10)
    assert seed.num_envs * seed.horizon * seed.epochs // seed.batch_size == 1_250
    assert (optimized.num_envs * optimized.horizon, optimized.batch_size, optimized.epochs) == (6_000, 64, 6)
    shown = {net: (config.observation, config.history) for net in SYSTEM.net_names for config in [replace(seed, net=net)]}
    assert shown["mlp"] == ("sparse", 1) and shown["cards"] == ("relative", 0) and shown["attn-64x1"] == ("sparse", 5)


@pytest.mark.parametrize("config", [SMALL, ATTENTION])
def test_resumes_exactly(config):
    """Dropout too: its random numbers follow from the iteration."""
    config = replace(config, total_steps=10_000)
    state, env = make(config)
    ppo.iterate(state, config, env, StageClock())
    arrays, numbers = ppo.save_state(state, env)
    arrays = {name: np.array(array) for name, array in arrays.items()}
    ppo.iterate(state, config, env, StageClock())
    torch.rand(3)  # what others draw does not matter
    other, fresh = make(config)
    ppo.load_state(other, fresh, arrays, numbers)
    ppo.iterate(other, config, fresh, StageClock())
    assert torch.equal(state.flat, other.flat)


def test_learns_to_take_fewer_points():
    config = replace(SMALL, num_envs=64, horizon=64, batch_size=512, epochs=3, hidden=(64, 64), total_steps=1_000_000)
    state, env = make(config)
    hands = 400

    def play():
        """Against the first bot, at random: the same deals before and after."""
        return ppo.evaluate(state, SYSTEM.make_env(config, hands), 1)["return"][:hands]

    before = play()
    for _ in range(25):
        ppo.iterate(state, config, env, StageClock())
    saved = play() - before  # points
    assert saved.mean() > 3 * saved.std() / hands**0.5
