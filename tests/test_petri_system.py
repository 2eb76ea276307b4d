"""The Petri system: its recipes, what `profile` says about it, evaluation, and the search that its goals are measured by."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from hotlap.core.clock import StageClock
from hotlap.envs.petri.cluster import cluster_tool
from hotlap.envs.petri.pnml import write_pnml
from hotlap.envs.petri.schedule import schedule
from hotlap.systems import load
from hotlap.train import ppo
from hotlap.train.by_hand import ByHand
from tests import petri_optimum
from tests.cli import run_cli

TINY = ["--hidden", "8", "--critic-hidden", "8", "--epochs", "1", "--stop-when-dead"]


def widths(trunk):
    assert all(isinstance(module, nn.Linear | nn.ReLU) for module in trunk)
    return [module.out_features for module in trunk if isinstance(module, nn.Linear)]


@pytest.mark.parametrize("preset", ["fast", "seed"])
def test_the_networks_of_the_report(preset):
    system = load("petri")
    config = replace(system.preset(preset), num_envs=1)
    env = system.make_env(config)
    state = system.start(config, env)
    assert widths(state.net.actor) == [128] * 4 and widths(state.net.critic) == [128] * 3
    assert isinstance(state.gradient, ByHand)  # actor and critic of different depth


def test_the_recipe_of_the_report():
    seed = load("petri").preset("seed")
    assert seed.num_envs * seed.horizon == 640 and (seed.epochs, seed.batch_size) == (10, 64)
    assert not seed.turbo and not seed.anneal and seed.wafers is None and seed.features == "tokens"
    assert (seed.learning_rate, seed.gamma, seed.gae_lambda, seed.clip) == (1e-4, 0.99, 0.95, 0.2)
    assert (seed.entropy, seed.entropy_end, seed.grad_clip) == (0.02, 0.01, 1.0)


def test_turbo_learns_the_same_to_the_bit():
    system, learned = load("petri"), []
    for turbo in (True, False):
        config = replace(system.preset("seed"), turbo=turbo, horizon=128, epochs=2, stop_when_dead=True)
        env = system.make_env(config)
        state = system.start(config, env)
        for _ in range(2):
            ppo.iterate(state, config, env, StageClock())
        assert state.episodes > 2
        learned.append(state.flat.detach().clone())
    assert torch.equal(*learned)


def test_profile_with_and_without_turbo(tmp_path):
    profiles = []
    for turbo in ("--turbo", "--no-turbo"):
        flags = ["--preset", "seed", turbo, *TINY, "--horizon", "128", "--iterations", "3", "--breakdown", "--detailed"]
        profiles.append(json.loads(run_cli("profile", "petri", *flags, "--json", cwd=tmp_path).stdout))
    for profile in profiles:
        assert sum(stage["share"] for stage in profile["stages"].values()) == pytest.approx(1)
        assert {"collect/act", "collect/env_step", "update/loss", "update/backward"} <= profile["stages"].keys()
        assert profile["counts"]["episodes"] >= 5  # each was followed by a reset
        assert profile["functions"]
    fast, slow = profiles
    assert slow["stages"]["collect/env_reset"]["seconds"] > 0  # a kernel resets within its step
    assert "collect/env_reset" not in fast["stages"]


def test_evaluation_says_how_many_finish_and_how_long_they_take(tmp_path):
    flags = [*TINY, "--wafers", "2", "--num-envs", "4", "--horizon", "8", "--batch-size", "32", "--total-steps", "64"]
    flags += ["--evaluation-episodes", "8", "--evaluation-sampled", "--json"]
    result = json.loads(run_cli("train", "petri", *flags, cwd=tmp_path).stdout)
    evaluation = result["evaluation"]
    assert evaluation["score_name"] == "finished" and evaluation["sampled"] and evaluation["score_ci95"][1] > 0.2
    metrics = {metric["name"]: metric for metric in evaluation["metrics"]}
    assert set(metrics) == {"makespan", "done", "scrapped"}
    low, high = metrics["makespan"]["ci95"]
    assert low < metrics["makespan"]["mean"] < high  # episodes differ, as actions are drawn
    shown = " ".join(run_cli("report", "latest", cwd=tmp_path).stdout.split())
    assert "makespan" in shown and "finished" in shown and "actions drawn from the policy, 8 episodes" in shown


def test_any_net_of_a_file(tmp_path):
    write_pnml(cluster_tool(2), tmp_path / "two.pnml")
    flags = [*TINY, "--num-envs", "2", "--horizon", "8", "--batch-size", "16", "--total-steps", "32"]
    flags += ["--evaluation-episodes", "2"]
    run_cli("train", "petri", *flags, "--pnml", "two.pnml", cwd=tmp_path)
    wrong = run_cli("train", "petri", *flags, "--pnml", "three.pnml", cwd=tmp_path, code=2).stderr
    assert "three.pnml" in wrong and len(wrong.strip().splitlines()) == 1
    wrong = run_cli("train", "petri", *flags, "--pnml", "two.pnml", "--wafers", "2", cwd=tmp_path, code=2).stderr
    assert "wafers (of the cluster tool) and pnml name different nets" in wrong


def test_sampling_needs_a_policy(tmp_path):
    stderr = run_cli("train", "snake", "--evaluation-sampled", cwd=tmp_path, code=2).stderr
    assert "--evaluation-sampled needs a policy to draw from, which DQN does not learn" in stderr


# -- the oracle of the makespan --


@pytest.mark.parametrize(("wafers", "seconds"), [(1, 550), (2, 625)])
def test_the_bounded_search_finds_what_the_exhaustive_one_finds(wafers, seconds):
    actions, _ = petri_optimum.bounded(wafers)
    assert len(actions) * petri_optimum.MOVE == petri_optimum.exhaustive(wafers) == seconds


def test_the_shortest_schedule_is_one_of_the_environment():
    actions, _ = petri_optimum.bounded(3)
    made = schedule(cluster_tool(3), actions)
    assert made.finished and not made.scrapped and made.makespan == 865


@pytest.mark.exact
def test_the_shortest_schedules_that_goals_are_measured_by():
    assert petri_optimum.exhaustive(3) == 865
    assert len(petri_optimum.bounded(4)[0]) * petri_optimum.MOVE == 945
