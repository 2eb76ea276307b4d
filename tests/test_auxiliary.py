"""What PPO can be given beside its own loss: contrastive loss, kickstart, weight analysis; sequences shorter than the rollout,
layers of cells, a rollout that is copied or offloaded. Known answers, exact resume, and no trace of what is off."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Categorical, Normal, kl_divergence

import hotlap
from hotlap.core.clock import StageClock
from hotlap.core.errors import RecordError
from hotlap.systems import load
from hotlap.train import loop, ppo, weights
from hotlap.train.actions import Discrete, Gaussian
from hotlap.train.auxiliary import draw_pairs, info_nce
from hotlap.train.by_hand import ByHand
from hotlap.train.gradients import ByAutograd, forward
from tests.cli import run_cli
from tests.minibatches import minibatches

SMALL = ppo.Config(num_envs=4, turbo=True, horizon=16, batch_size=32, epochs=2, hidden=(16, 16), total_steps=10_000)


def start(config):
    env = hotlap.make_vec("cartpole", config.num_envs, seed=config.seed, depth=config.horizon + 1)
    return ppo.start(config, env), env


def trained(config, iterations):
    state, env = start(config)
    for _ in range(iterations):
        ppo.iterate(state, config, env, StageClock())
    return state


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """A run of CartPole whose policy has a memory."""
    folder = tmp_path_factory.mktemp("teacher") / "run"
    system = load("CartPole-v1", "ppo")
    config = replace(SMALL, memory="lstm", total_steps=64)
    loop.train(system, config, folder, options=loop.Options(evaluation_episodes=1))
    return str(folder)


# -- contrastive --


def test_info_nce_by_hand():
    alike, all_count = torch.ones(5, 3), torch.ones(5)
    assert info_nce(alike, alike, all_count).item() == pytest.approx(math.log(5))  # a guess among five
    apart = torch.eye(3)
    expected = math.log(math.exp(2.0) + 2) - 2.0  # similarity 1 of its own key and 0 of two others, over a temperature of 1/2
    assert info_nce(apart, 7 * apart, torch.ones(3), temperature=0.5).item() == pytest.approx(expected)
    wrong = apart[[0, 2, 1]]
    counted = torch.tensor([1.0, 0.0, 0.0])  # the two that are exchanged do not count
    assert info_nce(apart, wrong, counted, temperature=0.5).item() == pytest.approx(expected)
    assert info_nce(apart, wrong, torch.zeros(3)).item() == 0.0


def test_pairs_are_of_one_episode():
    torch.manual_seed(0)
    done = (torch.rand(12, 7) < 0.2).float()
    now, later, counted = draw_pairs(done, 4)
    assert 0 < counted.sum() < len(counted)
    for first, second, counts in zip(now.tolist(), later.tolist(), counted.tolist(), strict=True):
        assert first % 7 == second % 7  # of one sequence
        begin, end = first // 7, second // 7
        assert 1 <= end - begin <= 4
        assert bool(counts) == (done[begin:end, first % 7].sum() == 0)


def test_features_learn_to_tell_their_future():
    config = replace(
        SMALL, num_envs=16, batch_size=128, memory="lstm", contrastive=1.0, contrastive_steps=2, learning_rate=3e-3
    )
    state, env = start(config)
    losses = [ppo.iterate(state, config, env, StageClock()).scalars["train/contrastive"] for _ in range(16)]
    assert np.mean(losses[-3:]) < losses[0] - 0.5


# -- kickstart --


def test_divergence_against_torch():
    generator = torch.Generator().manual_seed(0)
    wanted, logits = (torch.randn(8, 5, generator=generator) for _ in range(2))
    expected = kl_divergence(Categorical(logits=wanted), Categorical(logits=logits))
    torch.testing.assert_close(Discrete((5,)).kl(wanted, logits), expected)
    two = kl_divergence(Categorical(logits=wanted[:, :2]), Categorical(logits=logits[:, :2]))
    two += kl_divergence(Categorical(logits=wanted[:, 2:]), Categorical(logits=logits[:, 2:]))
    torch.testing.assert_close(Discrete((2, 3)).kl(wanted, logits), two)
    expected = kl_divergence(Normal(wanted[:, :2], wanted[:, 2:4].exp()), Normal(logits[:, :2], logits[:, 2:4].exp())).sum(-1)
    torch.testing.assert_close(Gaussian(2).kl(wanted[:, :4], logits[:, :4]), expected)


def test_illegal_actions_do_not_diverge():
    wanted, logits = torch.zeros(1, 3), torch.tensor([[1.0, 1.0, 50.0]], requires_grad=True)
    divergence = Discrete((3,)).kl(wanted, logits, torch.tensor([[True, True, False]]))
    assert divergence.item() == pytest.approx(0, abs=1e-6)
    divergence.sum().backward()
    assert torch.isfinite(logits.grad).all()


def test_the_teacher_sees_what_it_would_have_seen(teacher):
    """A policy that begins as its teacher and does not learn never diverges from it: not in the second rollout either, where
    the teacher's memory goes on from the first, nor after episodes have ended."""
    config = replace(SMALL, memory="lstm", kickstart=1.0, teacher=teacher, learning_rate=0.0, anneal=False)
    state, env = start(config)
    state.net.load_state_dict(state.auxiliaries[0]._teacher.state_dict())
    for _ in range(3):
        scalars = ppo.iterate(state, config, env, StageClock()).scalars
        assert scalars["train/kickstart"] == pytest.approx(0, abs=1e-6)
    assert state.episodes


def test_a_policy_follows_its_teacher_less_and_less(teacher):
    config = replace(SMALL, memory="gru", kickstart=10.0, kickstart_steps=640, teacher=teacher, learning_rate=3e-3)
    state, env = start(config)
    state.auxiliaries[0]._teacher.action.weight.mul_(100)  # it has hardly learned anything: let it be sure of what it does
    divergences = []
    for _ in range(10):
        divergences.append(ppo.iterate(state, config, env, StageClock()).scalars["train/kickstart"])
        assert state.rollout.teacher is not None
    assert divergences[-1] < 0.5 * divergences[0]
    ppo.iterate(state, config, env, StageClock())
    assert state.rollout.teacher is None  # 640 steps are over: the teacher is no longer asked


def test_a_teacher_must_fit(teacher, tmp_path):
    with pytest.raises(RecordError, match="no run"):
        start(replace(SMALL, kickstart=1.0, teacher=str(tmp_path / "none")))
    env = hotlap.make_vec("snake", 4, seed=0)
    with pytest.raises(RecordError, match="cannot teach this policy: its environment has another obs shape"):
        ppo.start(replace(SMALL, kickstart=1.0, teacher=teacher), env)


# -- both --


@pytest.mark.parametrize(
    "changes",
    [
        {"contrastive": 0.1},
        {"memory": "lstm", "contrastive": 0.1, "kickstart": 1.0, "accumulate": 2},
        {"kickstart": 1.0},
        {"memory": "gru", "memory_layers": 2, "bptt": 4, "priority_alpha": 0.5},
        {"memory": "lstm", "memory_layers": 2, "weight_analysis": 2},
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one(changes, teacher):
    config = replace(SMALL, **changes, teacher=teacher if "kickstart" in changes else "")
    uninterrupted = trained(config, 4)
    first, env = start(config)
    for _ in range(2):
        ppo.iterate(first, config, env, StageClock())
    arrays, numbers = ppo.save_state(first, env)
    arrays = {name: np.array(array) for name, array in arrays.items()}
    second, env = start(config)
    ppo.load_state(second, env, arrays, numbers)
    for _ in range(2):
        ppo.iterate(second, config, env, StageClock())
    assert torch.equal(uninterrupted.flat, second.flat)


def test_what_is_off_leaves_no_trace():
    state, _ = start(SMALL)
    assert state.auxiliaries == () and isinstance(state.gradient, ByHand)
    assert not any("contrastive" in name for name in state.net.state_dict())


def test_what_each_costs_is_seen_in_the_profile(teacher, tmp_path):
    flags = ["--turbo", "--memory", "lstm", "--hidden", "8", "--horizon", "16", "--batch-size", "64", "--epochs", "1"]
    on = ["--contrastive", "0.1", "--kickstart", "1", "--teacher", teacher, "--weight-analysis", "2"]
    profiles = [
        json.loads(run_cli("profile", "CartPole-v1", *flags, *more, "--iterations", "4", "--json", cwd=tmp_path).stdout)
        for more in (on, [])
    ]
    added = {"update/loss/contrastive", "update/loss/kickstart", "log/weights"}
    assert added <= profiles[0]["stages"].keys() and not added & profiles[1]["stages"].keys()
    assert sum(stage["share"] for stage in profiles[0]["stages"].values()) == pytest.approx(1)


# -- weight analysis --


def test_singular_values_by_hand():
    net = nn.Sequential(nn.Linear(2, 3), nn.Conv2d(1, 2, 2))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]))
        net[1].weight.copy_(torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]).view(2, 1, 2, 2))
    numbers = weights.analyse(net)
    assert numbers["weights/0/largest"] == pytest.approx(4) and numbers["weights/0/smallest"] == pytest.approx(3)
    assert numbers["weights/0/stable_rank"] == pytest.approx(25 / 16)
    assert numbers["weights/1/stable_rank"] == pytest.approx(2)
    assert len(numbers) == 6  # biases are no matrices


# -- the rollout --


@pytest.mark.parametrize("layers", [1, 2])
def test_short_sequences_begin_with_the_memory_that_acting_had(layers):
    config = replace(SMALL, horizon=64, bptt=16, batch_size=64, memory="lstm", memory_layers=layers)
    state, env = start(config)
    for _ in range(2):
        ppo.collect(state, config, env, StageClock(), ppo.Metrics())
    assert state.rollout.done.sum() > 2
    by_autograd = ByAutograd(state.net, state.flat, None, "float32", compiled=False)
    seen = 0
    for (batch,) in minibatches(state.rollout, config, torch.Generator().manual_seed(0), 0.0, by_autograd):
        assert batch.obs.shape[:2] == (16, 4)
        output, value = forward(state.net, batch)
        torch.testing.assert_close(state.actions.evaluate(output, batch.action)[0], batch.log_prob, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(value, batch.value, atol=1e-5, rtol=1e-4)
        seen += len(value)
    assert seen == config.num_envs * config.horizon


@pytest.mark.parametrize("changes", [{"zero_copy": False}, {"cpu_offload": True}])
def test_where_the_rollout_lies_does_not_matter(changes):
    config = replace(SMALL, memory="lstm")
    plain, other = trained(config, 3), trained(replace(config, **changes), 3)
    assert plain.rollout.in_place and other.rollout.in_place == changes.get("zero_copy", True)
    assert torch.equal(plain.flat, other.flat)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bptt": 5, "memory": "lstm"}, "bptt divides the horizon"),
        ({"bptt": 8}, "need a memory or --sequences"),
        ({"memory_layers": 2}, "memory-layers needs a memory"),
        ({"kickstart": 1.0}, "kickstart and teacher go together"),
        ({"kickstart": 1.0, "teacher": "run", "normalize_obs": True}, "kickstart does not work with normalize-obs"),
        ({"cpu_offload": True, "normalize_reward": True}, "cpu-offload does not work with"),
        ({"contrastive": -1.0}, "contrastive must be at least 0"),
        ({"compile_mode": "fastest"}, "compile-mode must be one of"),
    ],
)
def test_configs_that_cannot_work(changes, message):
    with pytest.raises(ValueError, match=message):
        ppo.validate(replace(SMALL, **changes))


# -- intervals --


def test_intervals_of_checkpoints():
    by_time, by_iterations = loop.Options(checkpoint_seconds=15), loop.Options(checkpoint_every=3)
    assert by_time.checkpoint_is_due(1, math.inf) and by_time.checkpoint_is_due(2, 16) and not by_time.checkpoint_is_due(3, 14)
    assert by_iterations.checkpoint_is_due(1, math.inf)  # the first iteration ends with one
    assert [by_iterations.checkpoint_is_due(i, 100) for i in (2, 3, 4, 6)] == [False, True, False, True]
    with pytest.raises(ValueError, match="monitor-every must be at least 1"):
        loop.Options(monitor_every=0)
