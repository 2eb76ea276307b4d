"""Rewards, observations, losses and learning rates that are not finite: training stops with one line that says where they came
from, and the last good checkpoint stays."""

import gc
import json
import math
import re

import gymnasium
import numpy as np
import pytest

from hotlap.core.errors import NotFinite
from hotlap.envs.spec import EnvSpec
from hotlap.envs.vector import make_gym
from hotlap.train import checkpoint, finite
from hotlap.train.flat import Adam
from tests.cli import run_cli

BAD = 2  # the environment that misbehaves, of four
AT = 41  # its step
SEEDS = np.random.SeedSequence(0).generate_state(4)


class Faulty(gymnasium.Env):
    """Short episodes of random numbers; the environment with seed `who` returns something that is not finite in step `AT`."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(-1, 1, (3,))

    def __init__(self, fault="", who=None, value=math.nan):
        self.fault, self.who, self.value, self.total, self.seeded = fault, who, value, 0, None
        self.always = 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeded = self.seeded if seed is None else seed
        self.length = 0
        return self._observe(), {}

    def step(self, action):
        self.total += 1
        self.length += 1
        obs, reward, over = self._observe(), self.always, self.length >= 7
        if self.total == AT and self.seeded == self.who:
            if self.fault == "reward":
                reward = self.value
            elif self.fault == "rewards":  # from now on
                self.fault, self.always = "", self.value
            elif self.fault == "observation":
                obs[1], over = self.value, False
            elif self.fault == "last":
                obs[1], over = self.value, True
            elif self.fault == "learning rate":
                for found in gc.get_objects():
                    if issubclass(type(found), Adam):
                        found.rate.fill_(self.value)
        return obs, reward, False, over, {}

    def _observe(self):
        return self.np_random.random(3).astype(np.float32)


FLAGS = ["--num-envs", "4", "--total-steps", "400", "--hidden", "8", "--checkpoint-seconds", "0", "--evaluation-episodes", "2"]
PPO = ["--algo", "ppo", "--horizon", "8", "--batch-size", "16", "--no-anneal"]
DQN = ["--algo", "dqn", "--iteration-steps", "8", "--batch-size", "16", "--learning-starts", "16", "--updates-per-step", "1"]
ALGORITHMS = {"ppo": PPO, "dqn": DQN}


def train(tmp_path, fault, *flags, code, value=math.nan):
    """`hotlap train` on four environments of which one is faulty."""
    gymnasium.register("Faulty-v0", Faulty, kwargs={"fault": fault, "who": int(SEEDS[BAD]), "value": value})
    try:
        return run_cli("train", "Faulty-v0", *flags, cwd=tmp_path, code=code)
    finally:
        del gymnasium.registry["Faulty-v0"]


def check_failed(tmp_path, result, words, resume=True):
    """One line, a record that says so, and a checkpoint of before it that training can go on from."""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1 and re.search(words, lines[0]), result.stderr
    header = json.loads((tmp_path / "run" / "run.json").read_text())
    assert header["status"] == "failed" and re.search(words, header["error"])
    found = checkpoint.load(tmp_path / "run")
    assert 0 < found.numbers["env_steps"] < 400
    assert all(finite.all_finite(array) for array in found.arrays.values())
    if not resume:
        return
    train(tmp_path, "", "--resume", "run", "--evaluation-episodes", "2", "--workers", "0", code=0)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "done"


FROM_ENVIRONMENT = {
    "reward": f"environment {BAD} returned the reward nan in its step {AT}",
    "observation": f"environment {BAD} returned the observation nan in its step {AT}",
    "last": f"environment {BAD} ended an episode in the observation nan in its step {AT}",
}


@pytest.mark.parametrize("fault", FROM_ENVIRONMENT)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_environments_that_return_nan(algorithm, fault, tmp_path):
    result = train(tmp_path, fault, *FLAGS, *ALGORITHMS[algorithm], "--workers", "0", "--out", "run", code=1)
    check_failed(tmp_path, result, FROM_ENVIRONMENT[fault], resume=fault == "reward")


@pytest.mark.parametrize(
    ("algorithm", "fault", "workers"),
    [
        ("ppo", "reward", 2),
        ("dqn", "observation", 1),
        pytest.param("ppo", "last", 2, marks=pytest.mark.exact),
        pytest.param("dqn", "reward", 2, marks=pytest.mark.exact),
    ],
)
def test_in_workers(algorithm, fault, workers, tmp_path):
    result = train(tmp_path, fault, *FLAGS, *ALGORITHMS[algorithm], "--workers", workers, "--out", "run", code=1)
    check_failed(tmp_path, result, FROM_ENVIRONMENT[fault], resume=fault == "reward")


@pytest.mark.parametrize("fault", ["reward", "observation"])
def test_normalized_numbers_are_named_by_their_origin(fault, tmp_path):
    """A running mean that is nan makes every row nan: the one it came from is named."""
    normalized = [*FLAGS, *PPO, "--normalize-obs", "--normalize-reward", "--workers", "0", "--out", "run"]
    result = train(tmp_path, fault, *normalized, code=1, value=math.inf)
    check_failed(tmp_path, result, FROM_ENVIRONMENT[fault].replace("nan", "inf"), resume=False)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_loss_that_overflows(algorithm, tmp_path):
    """Finite rewards, whose sums and squares are not."""
    flags = [*FLAGS, *ALGORITHMS[algorithm], "--workers", "0", "--out", "run"]
    result = train(tmp_path, "rewards", *flags, code=1, value=3e38)
    words = r"the .* is (nan|inf|-inf) in iteration \d.*rewards and observations are finite"
    check_failed(tmp_path, result, words, resume=algorithm == "ppo")  # a replay memory keeps what was too large


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_learning_rate_that_becomes_nan(algorithm, tmp_path):
    flags = [*FLAGS, *ALGORITHMS[algorithm], "--workers", "0", "--out", "run"]
    result = train(tmp_path, "learning rate", *flags, code=1)
    check_failed(tmp_path, result, "the (learning rate|.*loss) is nan in iteration")


@pytest.mark.parametrize("rate", ["nan", "inf", "1e39", "-1"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_learning_rates_that_are_refused(algorithm, rate, tmp_path):
    result = train(tmp_path, "", *FLAGS, "--algo", algorithm, f"--learning-rate={rate}", code=2)
    assert "learning-rate must be" in result.stderr and len(result.stderr.strip().splitlines()) == 1


def test_large_numbers_are_no_error():
    numbers = np.full(1_000, 3e38, np.float32)  # whose sum overflows
    assert finite.all_finite(numbers) and finite.all_finite(np.arange(3)) and finite.all_finite(np.zeros((0, 3), np.float32))
    for bad in (np.nan, np.inf, -np.inf):
        numbers[7] = bad
        assert not finite.all_finite(numbers)


def test_agents_and_steps_are_named():
    env = make_gym(Faulty, 4, depth=3)
    env.reset(seed=0)
    env.env_spec = EnvSpec(obs_shape=(3,), action_sizes=(2,), agents=2)
    with (
        pytest.raises(NotFinite, match=r"environment 1 \(agent 1\) returned the reward inf in its step 3"),
        finite.checked_steps(env, "cpu"),
    ):
        for step in range(4):
            _, reward, *_ = env.step(np.zeros(4, int))
            reward[3] = np.inf if step == 2 else 0
    with pytest.raises(NotFinite, match="reward inf") as caught, finite.checked_steps(env, "cpu"):
        raise RuntimeError("because of it")
    assert isinstance(caught.value.__cause__, RuntimeError)
    env.close()


@pytest.mark.parametrize("bootstrapped", [False, True])
@pytest.mark.parametrize("terminated", [False, True])
def test_the_value_of_a_cut_off_is_named_where_it_was_added(bootstrapped, terminated):
    env = make_gym(Faulty, 1, depth=9)
    env.reset(seed=0)
    words = "the reward nan, with the value of where its episode was cut off, in"
    with pytest.raises(NotFinite) as caught, finite.checked_steps(env, "cpu", bootstrapped):
        for _ in range(7):
            _, reward, ended, cut, _ = env.step(np.zeros(1, int))
        assert cut[0]
        reward[0], ended[0] = np.nan, terminated
    assert (words in str(caught.value)) == (bootstrapped and not terminated)
    env.close()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("net.a", "a of the network"),
        ("obs_moments.mean", "mean of the running moments of observations"),
        ("reward_scale.returns", "returns of the running scale of rewards"),
    ],
)
def test_a_state_that_is_not_finite_is_not_saved(name, words):
    finite.check_state({"net.a": np.ones(2), "replay.obs": np.full(2, np.nan)})
    with pytest.raises(NotFinite, match=f"^{words} is not finite"):
        finite.check_state({name: np.array([1, np.nan])})
