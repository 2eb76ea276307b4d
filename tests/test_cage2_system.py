"""The CAGE2 system: its recipes, the challenge's protocol, and a saved policy beside a simulator that gives 52 bits alone."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import hotlap
from hotlap.core.clock import StageClock
from hotlap.envs.cage2.actions import ALL
from hotlap.envs.cage2.reference import Cage2
from hotlap.record import episodes
from hotlap.record.run import load as load_run
from hotlap.systems import load
from hotlap.systems.simulation import play_again
from hotlap.train import loop, ppo
from hotlap.train.advantage import of_normalized_returns
from hotlap.train.by_hand import ByHand
from tests.cli import run_cli

TINY = {"num_envs": 4, "horizon": 8, "batch_size": 32, "total_steps": 64, "hidden": (8,), "epochs": 1}


def test_the_recipes_of_the_report():
    system = load("cage2")
    seed, many = system.preset("seed"), system.preset("seed-200")
    for config in (seed, many):
        assert config.num_envs * config.horizon == config.batch_size == 20_000 and config.epochs == 6
        assert config.horizon % config.episode_length == 0  # so that returns end with the episode
        assert (config.learning_rate, config.beta2, config.gamma, config.clip) == (0.002, 0.99, 0.99, 0.2)
        assert config.normalize_return and not (config.bootstrap or config.normalize_advantage or config.turbo)
        assert (config.observation, config.actions, config.entropy, config.value_weight / 2) == ("scans", "all", 0.01, 0.5)
    assert (seed.num_envs, seed.workers, many.workers, many.transport) == (1, 0, 200, "pipe")
    config = replace(seed, horizon=100, batch_size=100)
    state = system.start(config, system.make_env(config))
    shapes = [tuple(layer.weight.shape) for layer in (state.net.actor[0], state.net.actor[2], state.net.critic[2])]
    assert shapes == [(64, 62), (64, 64), (64, 64)] and state.net.action.out_features == 145
    assert isinstance(state.gradient, ByHand)


def test_returns_are_whole_and_normalized():
    reward, done = torch.tensor([[1.0], [2.0], [4.0], [8.0]]), torch.tensor([[0.0], [1.0], [0.0], [1.0]])
    value = torch.tensor([[0.5], [0.25], [0.0], [-1.0], [9.0]])
    returns = torch.tensor([[2.0], [2.0], [8.0], [8.0]])
    advantage = of_normalized_returns(reward, value, done, 0.5, 1.0, torch.empty_like(reward))
    torch.testing.assert_close(advantage + value[:-1], (returns - 5) / 3)
    system = load("cage2")
    wrong = replace(system.preset("seed"), gae_lambda=0.9)
    with pytest.raises(ValueError, match="gae-lambda must be 1, not"):
        ppo.validate(wrong)


@pytest.mark.parametrize("bootstrap", [True, False])
def test_a_time_limit_ends_the_return_if_asked_for(bootstrap):
    system = load("cage2")
    config = replace(system.preset(), **TINY, episode_length=4, bootstrap=bootstrap, normalize_reward=False, red="sleep")
    with_limit = system.make_env(config)
    state = system.start(config, with_limit)
    state.flat.data.zero_()
    state.net.value.bias.data.fill_(-3.0)
    ppo.collect(state, config, with_limit, StageClock(), ppo.Metrics())
    last = state.rollout.reward[3::4]
    assert (last <= -2.9).all() if bootstrap else (last >= -1).all()


def test_turbo_and_transport_learn_the_same_to_the_bit():
    system, learned = load("cage2"), []
    small = replace(system.preset("seed-200"), num_envs=4, horizon=110, batch_size=440, epochs=2, red="mixed")
    for layout in ({"turbo": True}, {"workers": 0}, {"workers": 2}, {"workers": 2, "transport": "shared"}):
        config = replace(small, **layout)
        env = system.make_env(config)
        state = system.start(config, env)
        ppo.iterate(state, config, env, StageClock())
        env.close()
        assert state.episodes == 4
        learned.append(state.flat.detach().clone())
    assert all(torch.equal(learned[0], other) for other in learned[1:])


# -- the challenge's protocol --


def test_evaluation_by_the_protocol(tmp_path):
    flags = ["--num-envs", "4", "--horizon", "8", "--batch-size", "32", "--total-steps", "64", "--hidden", "8"]
    shown = run_cli("train", "cage2", *flags, "--evaluation-episodes", "5", "--out", "run", cwd=tmp_path).stdout
    assert "Evaluation by case" in shown and "b_line, 30 steps" in shown and "sum of the means" in shown
    evaluation = json.loads(run_cli("report", "run", "--json", cwd=tmp_path).stdout)["evaluation"]
    cases = {case["case"]: case for case in evaluation["cases"]}
    assert list(cases) == [f"{red}, {steps} steps" for red in ("b_line", "meander", "sleep") for steps in (30, 50, 100)]
    assert all(case["episodes"] == 5 and case["ci95"][0] <= case["mean_return"] <= case["ci95"][1] for case in cases.values())
    assert cases["b_line, 100 steps"]["mean_return"] < cases["b_line, 30 steps"]["mean_return"] < 0
    assert cases["b_line, 100 steps"]["std"] >= 0 and evaluation["episodes"] == 45
    kept = episodes.read(tmp_path / "run")
    assert [episode.length for episode in kept.episodes] == ([30] * 5 + [50] * 5 + [100] * 5) * 3
    assert len({episode.seed for episode in kept.episodes}) == 45
    again = play_again(kept.source, kept.episodes[17])
    assert again.reproduced and "red: meander" in "".join(text for text, _ in again.frames[3].picture[0])


def test_the_system_says_how_many_episodes():
    assert load("cage2").evaluation_episodes == 1_000 and load("snake").evaluation_episodes == 200


# -- a saved policy, as CybORG would ask it --


@pytest.fixture(scope="module", params=["history merged none", "scans all none", "table distinct lstm"])
def trained(request, tmp_path_factory):
    observation, actions, memory = request.param.split()
    system = load("cage2")
    chosen = {"observation": observation, "actions": actions, "memory": memory, "learning_rate": 0.05}
    config = replace(system.preset(), **(TINY | {"seed": 1}), **chosen, red="mixed")  # a policy that plays several actions
    folder = tmp_path_factory.mktemp("cage2") / "run"
    loop.train(system, config, folder, options=loop.Options(evaluation_episodes=2))
    return folder


def test_a_saved_policy_needs_52_bits_alone(trained):
    """Beside the plain environment with all 145 actions it plays the episodes of the evaluation again."""
    policy, kept = hotlap.load_policy(trained), episodes.read(trained).episodes
    assert load_run(trained).header.training.evaluation.episodes == len(kept) == 18
    assert policy.spec.obs_shape == (52,) and policy.spec.action_sizes == (len(ALL),)
    chosen = set()
    for episode in kept:
        env = Cage2()
        bits, _ = env.reset(seed=episode.seed, options=episode.reset_options)
        policy.reset()
        total, over = 0.0, False
        while not over:
            action = policy.act(bits)
            chosen.add(action)
            bits, reward, _, over, _ = env.step(action)
            total += reward
        assert env.steps == episode.length and total == episode.returns[0]
    assert isinstance(action, int) and len(chosen) > 1


def test_a_batch_of_simulators(trained):
    policy, single = hotlap.load_policy(trained), hotlap.load_policy(trained)
    env = hotlap.make_vec("cage2", 3, seed=1, red="meander", episode_length=20)
    bits, _ = env.reset(options={"per_env": [{"episode_length": length} for length in (7, 20, 9)]})
    for _ in range(30):
        actions = policy.act(bits)
        assert single.act(bits[0]) == actions[0] and actions.shape == (3,)
        bits, _, _, truncated, _ = env.step(actions)
        policy.reset(truncated)
        if truncated[0]:
            single.reset()
    for wrong, message in ((bits[:2], "remembers 3 rows, not 2"), (bits[0, :51], "an observation has 52 bits")):
        with pytest.raises(ValueError, match=message):
            policy.act(wrong)
    with pytest.raises(ValueError, match="leave the mask out"):
        policy.act(bits, np.ones(145, bool))
