"""How rows act and how a gradient is computed: all ways are held equal; the loss, the optimizer, the LSTM's C code."""

from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch

import hotlap
from hotlap.core.clock import StageClock
from hotlap.envs.vector import make_gym
from hotlap.train import backend, dense_policy, flat, lstm, ppo
from hotlap.train.acting import Dense, FewRows, Groups, StepByStep
from hotlap.train.actions import Discrete
from hotlap.train.batches import returns_and_advantages
from hotlap.train.by_hand import ByHand
from hotlap.train.dense_policy import DensePolicy
from hotlap.train.fast import Lanes
from hotlap.train.flat import Adam
from hotlap.train.gradients import ByAutograd, forward
from hotlap.train.lstm_policy import LstmPolicy
from hotlap.train.minibatch import Minibatch
from hotlap.train.nets import NETS, mlp_policy
from tests.minibatches import minibatches

SMALL = ppo.Config(num_envs=4, turbo=True, horizon=16, batch_size=32, epochs=2, hidden=(16, 16), total_steps=10_000)


def cartpole(config, **options):
    return hotlap.make_vec("cartpole", config.num_envs, turbo=config.turbo, seed=config.seed, **options)


def autograd(state, config):
    loss = partial(ppo.ppo_loss, state.actions, config)
    return ByAutograd(state.net, state.flat, loss, config.precision, config.compile)


def parameters_after(config, **changes):
    config = replace(config, **changes)
    env = cartpole(config)
    state = ppo.start(config, env)
    for _ in range(2):
        ppo.iterate(state, config, env, StageClock())
    return state.flat.detach().clone()


# -- which one is used --


class Choices(gymnasium.Env):
    """Any observation, any actions."""

    def __init__(self, shape=(3,), actions=None):
        self.observation_space = gymnasium.spaces.Box(0, 1, shape, np.uint8)
        self.action_space = actions or gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, False, False, {}


@pytest.mark.parametrize(
    ("changes", "env", "actor", "gradient"),
    [
        ({}, {}, FewRows, DensePolicy),
        ({"num_envs": 65}, {}, Dense, DensePolicy),
        ({"memory": "lstm"}, {}, StepByStep, LstmPolicy),
        ({"memory": "gru"}, {}, StepByStep, None),
        ({"memory": "attention"}, {}, StepByStep, None),
        ({"precision": "bfloat16"}, {}, StepByStep, None),
        ({}, {"shape": (5, 5, 2)}, StepByStep, None),
        ({"net": "mlp"}, {"shape": (5, 5, 2)}, FewRows, DensePolicy),
        ({}, {"actions": gymnasium.spaces.MultiDiscrete([2, 2])}, StepByStep, None),
        ({}, {"actions": gymnasium.spaces.Box(-1, 1, (2,))}, StepByStep, None),
    ],
)
def test_by_hand_where_that_is_possible(changes, env, actor, gradient):
    config = replace(SMALL, turbo=False, **changes)
    state = ppo.start(config, make_gym(lambda: Choices(**env), config.num_envs, seed=0))
    assert type(state.actor) is actor
    if gradient is None:
        assert type(state.gradient) is ByAutograd and ppo.networks(state) == {"net": state.net}
    else:
        assert type(state.gradient) is ByHand and type(state.gradient.policy) is gradient and ppo.networks(state) == {}


def normed(config, spec, outputs, deviations):
    """A layer that nothing computes by hand."""
    net = mlp_policy(config, spec, outputs, deviations)
    net.actor.insert(1, torch.nn.LayerNorm(config.hidden[0]))
    return net


def mixed(config, spec, outputs, deviations):
    """The critic with another activation than the actor."""
    net = mlp_policy(config, spec, outputs, deviations)
    net.critic[1] = torch.nn.ReLU()
    return net


@pytest.mark.parametrize(("make", "memory"), [(normed, "none"), (normed, "lstm"), (mixed, "none")])
def test_layers_that_are_not_known_take_autograd(make, memory):
    config = replace(SMALL, net="own", memory=memory)
    state = ppo.start(config, cartpole(config), {**NETS, "own": make})
    assert type(state.actor) is StepByStep and type(state.gradient) is ByAutograd


# -- acting --


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_acting_in_one_call_equals_torch(activation, masked):
    config = replace(SMALL, activation=activation, hidden=(33, 17))
    state = ppo.start(config, cartpole(config))
    state.flat.data.normal_(0, 0.5, generator=torch.Generator().manual_seed(1))
    obs = torch.randn(4_000, 4, generator=torch.Generator().manual_seed(0))
    draw = torch.rand(4_000, generator=torch.Generator().manual_seed(2))
    mask = torch.rand(4_000, 2, generator=torch.Generator().manual_seed(3)) < 0.6 if masked else None
    if mask is not None:
        mask[~mask.any(1), 1] = True
    action = torch.zeros(4_000, dtype=torch.int64)
    state.gradient.policy.actor_kernel(4).act(obs, mask, draw, action)
    with torch.no_grad():
        logits = state.net(obs)[0]
        probability = torch.softmax(logits if mask is None else logits.masked_fill(~mask, -torch.inf), -1)
    edge = probability[:, 0]
    clear = (edge - draw).abs() > 1e-5
    assert clear.float().mean() > 0.99
    assert torch.equal(action[clear], (draw >= edge).long()[clear])
    if mask is not None:
        assert mask[torch.arange(4_000), action].all()


def collected(config, make_actor):
    """The rollout of a fresh run that acts in a certain way."""
    env = cartpole(config)
    state = ppo.start(config, env)
    state.flat.data.add_(torch.randn(len(state.flat), generator=torch.Generator().manual_seed(5)), alpha=0.1)
    state.actor = make_actor(state, Groups(state.rollout, state.actions, env.groups, state.generators))
    for _ in range(2):
        ppo.collect(state, config, env, StageClock(), ppo.Metrics())
    return state.rollout


def test_dense_layers_act_by_hand_as_the_network_does():
    def by_hand(state, groups):
        return Dense(groups, DensePolicy(state.net, state.flat.grad))

    def by_network(state, groups):
        return StepByStep(groups, state.net, "float32", state.flat.device)

    one, other = (collected(replace(SMALL, horizon=40), make) for make in (by_hand, by_network))
    assert torch.equal(one.action, other.action) and torch.equal(one.obs, other.obs)
    torch.testing.assert_close(one.log_prob, other.log_prob)
    torch.testing.assert_close(one.value, other.value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 3])
def test_lstm_cells_act_by_hand_as_the_network_does(threads):
    def by_hand(state, groups):
        return StepByStep(groups, LstmPolicy(state.net, state.flat.grad, Lanes(threads)).act, "float32", state.flat.device)

    def by_network(state, groups):
        return StepByStep(groups, state.net, "float32", state.flat.device)

    config = replace(SMALL, memory="lstm", horizon=40, batch_size=80)
    one, other = (collected(config, make) for make in (by_hand, by_network))
    assert torch.equal(one.action, other.action) and one.done.sum() > 2
    torch.testing.assert_close(one.log_prob, other.log_prob, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(one.value, other.value, rtol=1e-4, atol=1e-5)
    for now, then in zip(one.memory, other.memory, strict=True):
        torch.testing.assert_close(now, then, rtol=1e-4, atol=1e-5)


def test_few_rows_have_the_log_probabilities_and_values_of_the_network():
    def few(state, groups):
        policy = DensePolicy(state.net, state.flat.grad)
        return FewRows(groups, policy, policy.actor_kernel(4))

    nets = []

    def kept(state, groups):
        nets.append((state.net, state.actions))
        return few(state, groups)

    rollout = collected(SMALL, kept)
    ((net, actions),) = nets
    with torch.no_grad():
        output, value, _ = net(rollout.obs.flatten(0, 1))
    log_prob = actions.log_prob(output[:64], rollout.action.flatten())
    torch.testing.assert_close(rollout.value.flatten(), value, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(rollout.log_prob.flatten(), log_prob, rtol=1e-4, atol=1e-5)


# -- the loss --


@pytest.mark.parametrize("value_clip", [0.0, 0.1])
def test_loss_and_gradients_against_a_plain_implementation(value_clip):
    config = replace(SMALL, value_clip=value_clip, clip=0.1)
    torch.manual_seed(0)
    logits, value = torch.randn(32, 3, requires_grad=True), torch.randn(32, requires_grad=True)
    action, log_prob = torch.randint(0, 3, (32,)), torch.log(torch.rand(32))
    old_value, advantage = torch.randn(32), torch.randn(32)
    return_, normalized = returns_and_advantages(config, advantage, old_value, 32)
    batch = Minibatch(torch.zeros(32, 1), action, log_prob, old_value, normalized, return_)
    loss = ppo.ppo_loss(Discrete((3,)), config, batch, logits, value, 0.01).loss
    gradients = torch.autograd.grad(loss, (logits, value))
    policy = torch.distributions.Categorical(logits=logits)
    scaled = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    ratio = torch.exp(policy.log_prob(action) - log_prob)
    surrogate = torch.stack([scaled * ratio, scaled * torch.clip(ratio, 0.9, 1.1)]).min(0).values.mean()
    returns = advantage + old_value
    error = (value - returns).square()
    if value_clip:
        moved = old_value + torch.clip(value - old_value, -value_clip, value_clip)
        error = torch.maximum(error, (moved - returns).square())
    expected = -surrogate + 0.5 * 0.5 * error.mean() - 0.01 * policy.entropy().mean()
    torch.testing.assert_close(loss, expected)
    for one, other in zip(gradients, torch.autograd.grad(expected, (logits, value)), strict=True):
        torch.testing.assert_close(one, other)


# -- gradients --


def both(state, config, batch, gradient):
    """The gradient and the losses of a minibatch by autograd, and in another way."""
    results = []
    for way in (autograd(state, config), gradient):
        state.flat.grad.fill_(7.0)  # what was there before does not matter
        losses = way.compute(way.prepare(batch, len(batch.advantage)), config.entropy, StageClock(), True)
        results.append((state.flat.grad.clone(), losses))
    return results


@pytest.mark.parametrize("trunks", [{}, {"shared": True}, {"hidden": (16, 9, 12), "critic_hidden": (8, 24)}])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("changes", [{}, {"value_clip": 0.1, "entropy": 0.05}, {"normalize_advantage": False, "clip": 0.05}])
def test_the_gradient_by_hand_equals_autograds(trunks, activation, changes):
    config = replace(SMALL, activation=activation, **trunks, **changes)
    state = ppo.start(config, cartpole(config))
    torch.manual_seed(0)
    obs, action = torch.randn(48, 4), torch.randint(0, 2, (48,))
    log_prob, value = torch.log(torch.rand(48) * 0.8 + 0.1), torch.randn(48) * 0.3
    return_, advantage = returns_and_advantages(config, torch.randn(48), value, 48)
    mask = torch.rand(48, 2) < 0.8
    mask[torch.arange(48), action] = True
    batch = Minibatch(obs, action, log_prob, value, advantage, return_, mask)
    (expected, losses), (by_hand, reported) = both(state, config, batch, state.gradient)
    torch.testing.assert_close(by_hand, expected, rtol=1e-4, atol=1e-6)
    for one, other in zip(reported, losses, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_gradient_of_lstm_cells_by_hand_equals_autograds(threads, activation):
    config = replace(SMALL, memory="lstm", activation=activation, torch_threads=threads, num_envs=5)
    config = replace(config, entropy=0.05, batch_size=80)
    env = cartpole(config)
    state = ppo.start(config, env)
    ppo.collect(state, config, env, StageClock(), ppo.Metrics())
    ppo.compute_advantages(state, config)
    state.rollout.done[torch.rand(16, 5, generator=torch.Generator().manual_seed(0)) < 0.2] = 1.0
    ((batch,),) = minibatches(state.rollout, config, torch.Generator(), 0.0, autograd(state, config))
    (expected, losses), (by_hand, reported) = both(state, config, batch, state.gradient)
    torch.testing.assert_close(by_hand, expected, rtol=1e-3, atol=1e-6)
    for one, other in zip(reported, losses, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
    with torch.no_grad():
        value = state.gradient.policy.forward(batch)[1]
        torch.testing.assert_close(value, forward(state.net, batch)[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (7, 13), (64, 128)])
def test_lstm_steps_in_c_equal_those_in_torch(shape):
    generator = torch.Generator().manual_seed(0)

    def draw(width=1, scale=1.0):
        return torch.randn(shape[0], shape[1] * width, generator=generator) * scale

    gates, c, to_out, to_c = draw(4, 5.0), draw(), draw(), draw()
    gates[0, 0], gates[0, -1] = 200.0, -200.0
    results = []
    for step, back in ((lstm.step, lstm.back), (lstm.step_in_torch, lstm.back_in_torch)):
        opened, seen, out = gates.clone(), torch.empty_like(c), torch.empty_like(c)
        fresh = step(opened, c, seen, out)
        into, cells = torch.empty_like(gates), to_c.clone()
        back(opened, c, seen, to_out, cells, into)
        results.append((opened, seen, out, fresh, into, cells))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("memory", ["none", "lstm"])
def test_a_gradient_in_parts_is_the_same(memory):
    config = replace(SMALL, memory=memory, batch_size=64, epochs=1)
    torch.testing.assert_close(
        parameters_after(config, accumulate=4), parameters_after(config, accumulate=1), rtol=1e-4, atol=1e-5
    )


def test_large_minibatches_in_parts_that_fit_the_cache(monkeypatch):
    at_once = parameters_after(SMALL, batch_size=64)
    monkeypatch.setattr(DensePolicy, "CACHED", 16 * 16)
    config = replace(SMALL, batch_size=64)
    env = cartpole(config)
    state = ppo.start(config, env)
    ppo.collect(state, config, env, StageClock(), ppo.Metrics())
    ((*parts,),) = minibatches(state.rollout, config, state.generators[0], 0.0, state.gradient)
    assert [len(part.obs) for part in parts] == [16] * 4
    torch.testing.assert_close(parameters_after(SMALL, batch_size=64), at_once, rtol=1e-4, atol=1e-5)


def test_more_parts_than_sequences():
    with pytest.raises(ValueError, match="1 sequences per minibatch cannot be split into 2 parts"):
        config = replace(SMALL, num_envs=1, memory="lstm", accumulate=2)
        ppo.start(config, cartpole(config))
    assert torch.isfinite(parameters_after(SMALL, num_envs=5, memory="lstm", batch_size=96, accumulate=2)).all()


@pytest.mark.exact
def test_compiled_and_mixed_precision_learn_the_same(monkeypatch):
    monkeypatch.setattr(dense_policy, "FEW_ROWS", 0)  # the same random numbers
    plain = parameters_after(SMALL)
    torch.testing.assert_close(parameters_after(SMALL, compile=True), plain, rtol=1e-3, atol=1e-4)
    mixed = parameters_after(SMALL, precision="bfloat16")
    assert not torch.equal(mixed, plain)
    torch.testing.assert_close(mixed, plain, rtol=0, atol=0.05)
    for memory in ("lstm", "gru", "attention"):
        assert torch.isfinite(parameters_after(SMALL, precision="bfloat16", memory=memory)).all()


def test_all_of_training_by_autograd_learns_the_same(monkeypatch):
    monkeypatch.setattr(dense_policy, "FEW_ROWS", 0)  # the same random numbers
    plain = parameters_after(SMALL, entropy=0.01)
    monkeypatch.setattr(backend, "can_be_by_hand", lambda config, spec: False)
    torch.testing.assert_close(parameters_after(SMALL, entropy=0.01), plain, rtol=1e-3, atol=1e-4)


# -- the optimizer --


@pytest.mark.parametrize("step", ["fused", "plain"])
def test_adam_against_torch(step, monkeypatch):
    monkeypatch.setattr(flat, "adam_step", lambda: {"fused": flat.fused_step, "plain": flat.plain_step}[step])
    torch.manual_seed(0)
    ours, theirs = (torch.nn.Parameter(torch.ones(50)) for _ in range(2))
    adam, expected = Adam(ours, 1e-2, 1e-5, clip=0.5), torch.optim.Adam([theirs], lr=1e-2, eps=1e-5)
    for _ in range(20):
        theirs.grad = torch.randn(50) * 3
        gradient = theirs.grad.clone()
        torch.nn.utils.clip_grad_norm_([theirs], 0.5)
        expected.step()
        adam.step(gradient)
        torch.testing.assert_close(ours, theirs)
    kept = ours.detach().clone()
    adam.skip.fill_(1.0)
    adam.step(torch.ones(50))
    assert torch.equal(ours, kept) and adam.steps == 20


def test_adam_without_torchs_private_operation(monkeypatch):
    assert flat.choose_step() is flat.fused_step
    monkeypatch.setattr(torch, "_fused_adam_", lambda *tensors, lr: None)  # another signature
    assert flat.choose_step() is flat.plain_step
    monkeypatch.delattr(torch, "_fused_adam_")
    assert flat.choose_step() is flat.plain_step
