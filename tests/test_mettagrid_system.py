"""The MettaGrid system: the recipes of the original guide, its network, what can be switched, what a profile shows."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from hotlap.core.clock import StageClock
from hotlap.envs.mettagrid.objects import FEATURE_MAX, FEATURES
from hotlap.envs.mettagrid.tokens import to_box
from hotlap.systems import load
from hotlap.systems.mettagrid_net import planes_of
from hotlap.train import ppo
from hotlap.train.tokens import Box, TokenConv2d
from tests.cli import run_cli

SMALL = {"num_envs": 2, "horizon": 8, "batch_size": 32, "max_steps": 20, "torch_threads": 1, "hidden": (16,)}
FLAGS = ["--num-envs", "2", "--horizon", "8", "--bptt", "0", "--batch-size", "32"]
FLAGS += ["--torch-threads", "1", "--max-steps", "20", "--hidden", "8"]


def small(preset="fast", **changes):
    return replace(load("mettagrid").preset(preset), **{**SMALL, "bptt": 0, "workers": 0, "async_factor": 1, **changes})


def started(config):
    system = load("mettagrid")
    env = system.make_env(config)
    return system.start(config, env), env


def test_the_recipes_of_the_guide():
    presets = load("mettagrid").presets
    seed, optimized = presets["seed"], presets["seed-optimized"]
    for config, batch, minibatch, envs, horizon, workers, groups in (
        (seed, 16_384, 512, 64, 64, 4, 2),
        (optimized, 262_144, 32_768, 512, 32, 16, 8),
    ):
        assert config.num_envs * 4 * config.horizon == batch and config.batch_size == minibatch
        assert (config.num_envs, config.sequence_steps, config.workers, config.async_factor) == (envs, horizon, workers, groups)
        assert (config.learning_rate, config.gamma, config.gae_lambda, config.clip) == (3e-4, 0.99, 0.95, 0.1)
        assert (config.epochs, config.entropy, config.grad_clip, config.memory_layers) == (1, 0.01, 0.5, 2)
        ppo.validate(config)
    ppo.validate(presets["fast"])
    assert seed.priority_alpha and seed.contrastive and seed.weight_analysis
    assert not (optimized.priority_alpha or optimized.contrastive or optimized.weight_analysis or optimized.cpu_offload)


def test_the_network_of_the_guide():
    state, env = started(small("seed", hidden=(128, 128), turbo=True))
    net, encoder = state.net, state.net.encoder
    assert [(c.out_channels, c.kernel_size, c.stride) for c in (encoder.first, encoder.second)] == [
        (64, (5, 5), (3, 3)),
        (64, (3, 3), (1, 1)),
    ]
    assert encoder.features == 64 and [layer.out_features for layer in net.actor if isinstance(layer, nn.Linear)] == [128, 128]
    assert [layer.cell.hidden_size for layer in net.memory.layers] == [128, 128]
    env.close()


def test_the_box_is_the_decoder_s():
    state, env = started(small(turbo=True))
    ppo.collect(state, small(), env, StageClock(), ppo.Metrics())
    obs = state.rollout.obs[-1]
    box = Box(planes_of(small()), 11)(obs) * torch.tensor(FEATURE_MAX)[:, None, None]
    cells, everywhere = to_box(obs.numpy())
    expected = np.moveaxis(cells, -1, 1).astype(np.float32)
    expected[:, :, 5, 5] += everywhere  # what belongs to no cell is shown in the middle
    np.testing.assert_allclose(box.numpy(), expected, atol=1e-3)
    assert box.shape[1] == len(FEATURES) and isinstance(state.net.encoder.first, TokenConv2d)


def test_turbo_and_copies_learn_the_same_to_the_bit():
    learned = []
    for changes in ({"turbo": True}, {"turbo": False}, {"turbo": True, "zero_copy": False, "cpu_offload": True}):
        config = small(**changes)
        state, env = started(config)
        for _ in range(3):
            ppo.iterate(state, config, env, StageClock())
        learned.append(state.flat.detach().clone())
    assert torch.equal(learned[0], learned[1]) and torch.equal(learned[0], learned[2])


def test_a_resumed_run_equals_an_uninterrupted_one():
    config = small("seed", turbo=True, bptt=4)
    runs = [started(config) for _ in range(3)]
    (whole, env), (first, first_env), (second, second_env) = runs
    for _ in range(4):
        ppo.iterate(whole, config, env, StageClock())
    for _ in range(2):
        ppo.iterate(first, config, first_env, StageClock())
    arrays, numbers = ppo.save_state(first, first_env)
    ppo.load_state(second, second_env, {name: np.array(array) for name, array in arrays.items()}, numbers)
    for _ in range(2):
        ppo.iterate(second, config, second_env, StageClock())
    assert torch.equal(whole.flat, second.flat)


@pytest.mark.parametrize(
    "changes",
    [
        {"precision": "bfloat16"},
        {"accumulate": 2},
        {"priority_alpha": 0.8, "contrastive": 0.1, "weight_analysis": 1},
        {"task": "arena", "agents": 6, "generator": "rooms"},
        {"net": "box", "memory_layers": 2},
    ],
)
def test_everything_can_be_switched(changes):
    config = small(turbo=True, **changes)
    state, env = started(config)
    scalars = ppo.iterate(state, config, env, StageClock()).scalars
    assert np.isfinite(list(scalars.values())).all()
    assert ("train/contrastive" in scalars) == ("contrastive" in changes)
    assert any(name.startswith("weights/encoder.first/") for name in scalars) == ("weight_analysis" in changes)


def test_train_evaluate_and_profile(tmp_path):
    flags = [*FLAGS, "--total-steps", "200", "--evaluation-episodes", "2", "--json"]
    evaluation = json.loads(run_cli("train", "mettagrid", *flags, cwd=tmp_path).stdout)["evaluation"]
    assert evaluation["score_name"] == "found" and {"hearts", "hits"} <= {metric["name"] for metric in evaluation["metrics"]}
    flags = [*FLAGS, "--contrastive", "0.1", "--iterations", "3", "--modules", "--json"]
    profile = json.loads(run_cli("profile", "mettagrid", *flags, cwd=tmp_path).stdout)
    assert "update/loss/contrastive" in profile["stages"]
    times = {module["name"]: module["forward"] + module["backward"] for module in profile["modules"]}
    assert {"net.encoder.first", "net.encoder.second", "net.actor.0", "net.memory.unrolled", "net.action"} <= times.keys()
    assert max(times.values()) < 60  # seconds: cells that run unrolled are not charged for what was before
