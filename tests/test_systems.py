"""Systems: their algorithms, presets and networks, and the one way in which their environments are made."""

import dataclasses
import json

import numpy as np
import pytest

from hotlap import systems
from hotlap.core.errors import UsageError
from hotlap.systems.configs import config_from
from hotlap.train.configs import DQNConfig
from hotlap.train.rating import score_interval
from hotlap.train.system import Recipe, RLSystem
from tests.cli import run_cli


def test_the_first_algorithm_and_the_first_preset_are_the_defaults():
    snake = systems.load("snake")
    assert snake.algorithm == "DQN" and snake.preset() is snake.presets["fast"]
    assert snake.using("ppo").algorithm == "PPO" and snake.using("ppo").trainer.__name__ == "hotlap.train.ppo"
    assert systems.load("CartPole-v1").algorithm == "PPO"
    assert systems.load("CartPole-v1", "dqn").preset().num_envs == 8


def test_presets_have_any_names():
    recipes = {
        "dqn": {"slow": Recipe(DQNConfig(num_envs=3, hidden=(8,)), "slow"), "seed-optimized": Recipe(DQNConfig(), "other")}
    }
    system = RLSystem("x", "", recipes, game="snake")
    assert system.preset().num_envs == 3 and list(system.presets) == ["slow", "seed-optimized"]
    config = config_from(system, {"num_envs": 5, "hidden": [4, 4]})
    assert config == DQNConfig(num_envs=5, hidden=(4, 4))
    with pytest.raises(UsageError, match="x with DQN has no preset 'fast'; its presets: slow, seed-optimized"):
        system.preset("fast")
    with pytest.raises(ValueError, match="recipes are by algorithm"):
        RLSystem("x", "", {"sarsa": {}}, game="snake")


@pytest.mark.parametrize("turbo", [True, False])
@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_one_way_to_make_environments(turbo, algorithm):
    system = systems.load("snake", algorithm)
    config = dataclasses.replace(system.preset(), num_envs=3, size=6, features="grid", turbo=turbo, workers=0)
    env = system.make_env(config)
    assert env.num_envs == 3 and env.turbo == turbo and env.single_observation_space.shape == (6, 6, 3)
    assert env.depth == config.iteration_steps + 1
    assert system.make_env(config, 2).depth == 2  # to evaluate
    env.close()


def test_an_environment_of_gymnasium_has_its_kernel_where_there_is_one():
    system = systems.load("CartPole-v1")
    config = dataclasses.replace(system.preset(), num_envs=2, workers=0)
    assert system.source(config).gym == "CartPole-v1"
    assert system.source(dataclasses.replace(config, turbo=True)).game == "cartpole"
    lunar = systems.load("Acrobot-v1")
    with pytest.raises(ValueError, match="hotlap has no kernel of Acrobot-v1: leave out --turbo"):
        lunar.make_env(dataclasses.replace(config, turbo=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "snake", "--algo", "sac"], "snake is trained with dqn or ppo, not with --algo sac"),
        (["train", "snake", "--preset", "best"], "snake with DQN has no preset 'best'; its presets: fast, seed"),
        (["profile", "snake", "--algo", "ppo", "--preset", "seed"], "snake with PPO has no preset 'seed'; its presets: fast"),
        (["compare", "snake --preset best", "snake"], "snake with DQN has no preset 'best'"),
    ],
)
def test_what_a_system_does_not_have_is_one_clear_line(arguments, message, tmp_path):
    result = run_cli(*arguments, cwd=tmp_path, code=2)
    assert message in result.stderr and len(result.stderr.strip().splitlines()) == 1


def test_connect4_sees_where_a_fourth_stone_wins():
    import torch

    from hotlap.envs.connect4.board import COLUMNS, ROWS
    from hotlap.envs.connect4.reference import ConnectFour
    from hotlap.systems.connect4_net import Lines

    rng, encoder, seen = np.random.default_rng(0), Lines(), 0
    for _ in range(3):
        game = ConnectFour()
        obs, over = game.reset()[0], False
        while not over:
            features = encoder(torch.from_numpy(obs)[None])[0].numpy()
            own, other, wins, losses = features[: 4 * ROWS * COLUMNS].reshape(4, ROWS, COLUMNS)
            moves = features[4 * ROWS * COLUMNS :].reshape(2, COLUMNS)
            np.testing.assert_array_equal(np.stack((own, other), -1), obs)
            for column in range(COLUMNS):
                row = int(np.count_nonzero((own + other)[:, column] == 0)) - 1  # where a stone falls; -1: nowhere
                for player, cells, move in ((game.seat, wins, moves[0]), (1 - game.seat, losses, moves[1])):
                    if row < 0:
                        assert move[column] == 0
                        continue
                    stones = dict(game.stones)
                    game.stones[row, column] = player
                    won = bool(game.winning_cells())
                    game.stones = stones
                    assert won == bool(cells[row, column]) == bool(move[column])
                    seen += won
            obs, _, over, _, _ = game.step(rng.choice(np.flatnonzero(game.mask())))
    assert seen > 5


def test_a_network_of_a_system_is_chosen_by_name(tmp_path):
    system = systems.load("connect4")
    assert system.net_names == ("auto", "mlp", "lines") and set(system.net_makers()) == set(system.net_names)
    flags = ["--num-envs", "4", "--horizon", "4", "--batch-size", "16", "--total-steps", "32", "--evaluation-episodes", "2"]
    for net in ("auto", "mlp", "lines"):
        run_cli("train", "connect4", *flags, "--net", net, "--hidden", "8", cwd=tmp_path)
    wrong = run_cli("train", "connect4", *flags, "--net", "transformer", cwd=tmp_path, code=2).stderr
    assert "net must be one of auto, mlp, lines, not 'transformer'" in wrong


def test_the_score_against_each_bot_has_an_interval(tmp_path):
    flags = ["--num-envs", "4", "--horizon", "4", "--batch-size", "16", "--total-steps", "16", "--evaluation-episodes", "10"]
    shown = run_cli("train", "connect4", *flags, "--out", "run", cwd=tmp_path).stdout
    assert "score against lookahead" in shown
    against = json.loads(run_cli("report", "run", "--json", cwd=tmp_path).stdout)["evaluation"]["against"]
    assert [bot["bot"] for bot in against] == ["random", "first", "lookahead"]
    for bot in against:
        assert bot["games"] == 10 and 0 <= bot["ci95"][0] < bot["mean_score"] + 1e-9 and bot["ci95"][0] < bot["ci95"][1] <= 1
    low, high = score_interval(np.ones(20))
    assert 0.8 < low < 0.9 and high == 1.0  # all won: still no certainty
    assert score_interval(np.zeros(20)) == pytest.approx((1 - high, 1 - low))
