"""`hotlap.load_policy`: the actions of the trainer's own evaluation, from a checkpoint alone."""

import dataclasses
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import hotlap
from hotlap import systems
from hotlap.core.errors import HotlapError, RecordError, UsageError
from hotlap.record import episodes
from hotlap.train import checkpoint, loop
from hotlap.train.evaluation import play


class Masked(gymnasium.Env):
    """Two choices at once, of which some are illegal at times."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,))
    action_space = gymnasium.spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observe()

    def step(self, action):
        assert self.mask[action[0]] and self.mask[2 + action[1]]
        self.steps += 1
        return *self._observe()[:1], float(action[1]), self.steps >= 9, False, {"action_mask": self.mask}

    def _observe(self):
        self.mask = self.np_random.random(5) < 0.6
        self.mask[[self.np_random.integers(2), 2 + self.np_random.integers(3)]] = True
        return self.np_random.normal(size=4).astype(np.float32), {"action_mask": self.mask}


SMALL = {"num_envs": 4, "total_steps": 128, "hidden": (8,), "workers": 0}
PPO = {**SMALL, "horizon": 16, "batch_size": 32}
DQN = {**SMALL, "iteration_steps": 16, "learning_starts": 32, "batch_size": 16, "buffer_size": 500}
RUNS = {
    "mlp": ("CartPole-v1", "ppo", PPO),
    "kernel": ("CartPole-v1", "ppo", {**PPO, "turbo": True}),
    "lstm": ("CartPole-v1", "ppo", {**PPO, "memory": "lstm"}),
    "attention": ("CartPole-v1", "ppo", {**PPO, "memory": "attention", "context": 3}),
    "normalized": ("CartPole-v1", "ppo", {**PPO, "normalize_obs": True, "learning_rate": 0.05}),
    "masked": ("Masked-v0", "ppo", {**PPO, "memory": "gru"}),
    "continuous": ("Pendulum-v1", "ppo", {**PPO, "learning_rate": 0.5, "anneal": False}),
    "dqn": ("CartPole-v1", "dqn", DQN),
    "board": ("snake", "dqn", {**DQN, "features": "grid", "size": 6, "dueling": True}),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Runs by name, trained when first asked for."""
    gymnasium.register("Masked-v0", Masked)
    runs = {}

    def train(name):
        if name not in runs:
            target, algorithm, values = RUNS[name]
            system = systems.load(target, algorithm)
            config = dataclasses.replace(system.preset(), **values)
            folder = tmp_path_factory.mktemp(name) / "run"
            loop.train(system, config, folder, options=loop.Options(evaluation_episodes=3))
            runs[name] = system, config, folder
        return runs[name]

    yield train
    del gymnasium.registry["Masked-v0"]


@pytest.mark.parametrize("name", RUNS)
def test_actions_are_those_of_the_evaluation(name, trained):
    """In batches, and one observation at a time."""
    system, config, folder = trained(name)
    batches, single = hotlap.load_policy(folder), hotlap.load_policy(folder / checkpoint.NAME)
    alone = []

    def choose(obs, info, fresh):
        if fresh is not None:
            batches.reset(fresh)
            if fresh[0]:
                single.reset()
        mask = info.get("action_mask")
        alone.append(single.act(obs[0], None if mask is None else mask[0]))
        actions = batches.act(obs, mask)
        assert actions.shape == env.action_space.shape and env.action_space.contains(actions.astype(env.action_space.dtype))
        return actions

    env = system.make_env(config, 3)
    played = play(env, loop.EVALUATION_SEED, choose)
    env.close()
    kept = episodes.read(folder).episodes
    assert [episode.actions for episode in played.episodes] == [episode.actions for episode in kept]
    first = kept[0].actions
    np.testing.assert_allclose(np.array(alone[: len(first)], float), np.array(first, float), rtol=1e-4, atol=1e-5)
    assert isinstance(alone[0], np.ndarray if name in ("masked", "continuous") else int)


def test_memory_begins_with_the_episode(trained):
    policy = hotlap.load_policy(trained("lstm")[2])
    observations = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)

    def acted():
        return [policy.act(obs) for obs in observations], [part.clone() for part in policy._memory]

    (first, memory), (again, later) = acted(), acted()
    assert not all((a == b).all() for a, b in zip(memory, later, strict=True))
    policy.reset()
    assert acted()[0] == first and len(again) == 30
    with pytest.raises(ValueError, match="remembers 1 rows, not 2"):
        policy.act(observations[:2])
    policy.reset()
    policy.act(observations[:2])
    policy.reset([True, False])
    assert not policy._memory[0][0].any() and policy._memory[0][1].any()
    with pytest.raises(ValueError, match="2 booleans"):
        policy.reset([True])


def test_bounds(trained):
    policy = hotlap.load_policy(trained("continuous")[2])
    extreme = policy.act(np.array([[1e4, -1e4, 1e4], [-1e4, 1e4, 1e4]]))
    assert extreme.shape == (2, 1) and np.abs(extreme).max() == 2 and policy.spec.action_high == 2


def test_wrong_observations_and_masks_are_clear(trained):
    policy, masked = (hotlap.load_policy(trained(name)[2]) for name in ("mlp", "masked"))
    for wrong in (np.zeros(3), np.zeros((2, 3)), np.zeros((0, 4)), 1.0):
        with pytest.raises(ValueError, match="an observation has the shape"):
            policy.act(wrong)
    with pytest.raises(ValueError, match="2 booleans per observation"):
        policy.act(np.zeros(4), [True])
    assert [policy.act(np.zeros(4), mask) for mask in ([True, False], [False, True])] == [0, 1]
    only = [False, True, False, False, True]
    assert masked.act(np.zeros(4), only).tolist() == [1, 2]
    with pytest.raises(ValueError, match="continuous actions have no mask"):
        hotlap.load_policy(trained("continuous")[2]).act(np.zeros(3), [True])


def test_what_cannot_be_loaded_is_one_line(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, _, folder = trained("mlp")
    found = checkpoint.load(folder)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no checkpoint")
    later = dataclasses.replace(found.source, config={**found.source.config, "knob_of_tomorrow": 1})
    checkpoint.save(tmp_path, found.arrays, found.numbers, later)
    other = tmp_path / "other"
    other.mkdir()
    narrow = dataclasses.replace(found.source, config={**found.source.config, "hidden": [3]})
    checkpoint.save(other, found.arrays, found.numbers, narrow)
    wrong = {"no-such-run": RecordError, "empty": RecordError, "file": RecordError, ".": RecordError, "other": RecordError}
    for path, kind in wrong.items():
        with pytest.raises(kind) as caught:
            hotlap.load_policy(path)
        assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(UsageError, match="device 'nowhere' cannot be used"):
        hotlap.load_policy(folder, device="nowhere")
    unknown = dataclasses.replace(found.source, algorithm="SAC")
    checkpoint.save(other, found.arrays, found.numbers, unknown)
    with pytest.raises(HotlapError, match="SAC"):
        hotlap.load_policy(other)


def test_torch_is_imported_when_it_is_called():
    code = (
        "import sys, hotlap; assert 'load_policy' in hotlap.__all__; print({'torch', 'gymnasium', 'numpy'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"
