"""Environments in worker processes: the same results as in one, and clear errors when an environment raises, dies or hangs."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
import psutil
import pytest

import hotlap
from hotlap.core.errors import EnvFailed
from hotlap.envs import layout
from hotlap.envs.buffers import Arrays
from hotlap.envs.layout import draw_legal
from hotlap.envs.spec import EnvSpec
from hotlap.envs.vector import make_gym


class Game(gymnasium.Env):
    """Random numbers, masks and short episodes; the one with this seed misbehaves as asked in its 14th step."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, trouble="", seconds=0.0, who=None):
        self.trouble, self.seconds, self.who, self.total, self.seeded = trouble, seconds, who, 0, None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.seeded = self.seeded if seed is None else seed
        return self._observe(), self._mask()

    def step(self, action):
        self.steps += 1
        self.total += 1
        time.sleep(self.seconds)
        if self.total == 14 and self.who in (None, self.seeded):
            if self.trouble == "raise":
                raise RuntimeError("the pole fell off\nand rolled away")
            if self.trouble == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.trouble == "exit":
                os._exit(3)
            if self.trouble == "hang":
                time.sleep(1000)
        over = bool(self.np_random.random() < 0.2)
        return self._observe(), float(action), over, self.steps >= 7, self._mask()

    def _observe(self):
        return self.np_random.random(3).astype(np.float32)

    def _mask(self):
        legal = self.np_random.random(3) < 0.7
        legal[0] |= not legal.any()  # with nothing legal, a policy has no probabilities, and training stops
        return {"action_mask": legal}


def play(env, steps, rows):
    """Everything that a vector tells."""
    obs, info = env.reset(seed=5)
    outputs = [obs.copy(), info["action_mask"].copy()]
    for t in range(steps):
        *arrays, info = env.step((np.arange(rows) + t) % 3)
        outputs += [array.copy() for array in arrays] + [info["action_mask"].copy()]
        if "_final_obs" in info:
            ended = info["_final_obs"]
            outputs += [ended.copy(), info["final_obs"][ended].copy()]
            outputs += [values[ended].copy() for values in info["final_info"].values()]
    env.close()
    return outputs


@pytest.mark.parametrize(
    ("workers", "groups", "transport"), [(1, 1, "shared"), (2, 1, "shared"), (3, 3, "pipe"), (4, 2, "shared"), (2, 1, "pipe")]
)
def test_the_split_does_not_matter(workers, groups, transport):
    alone = play(make_gym(Game, 7), 30, 7)
    split = play(make_gym(Game, 7, workers=workers, async_factor=groups, transport=transport, depth=3), 30, 7)
    assert len(alone) == len(split)
    for one, other in zip(alone, split, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_reference_in_workers_equals_the_kernel_and_can_be_saved():
    envs = [hotlap.make_vec("snake", 6, turbo=turbo, seed=1, workers=0 if turbo else 2) for turbo in (True, False)]
    for env in envs:
        env.reset()
    rng = np.random.default_rng(0)
    for t in range(40):
        action = rng.integers(0, envs[0].single_action_space.n, 6)
        one, other = (env.step(action) for env in envs)
        np.testing.assert_array_equal(one[0], other[0])
        if t == 20:
            saved = envs[1].state()
            kept = one[0].copy()
    obs = envs[1].load_state(saved)
    np.testing.assert_array_equal(obs, kept)
    with pytest.raises(ValueError, match="action 9 of environment 4 is outside"):
        envs[1].step(np.array([0, 0, 0, 0, 9, 0]))
    for env in envs:
        env.close()


@pytest.mark.parametrize("transport", ["shared", "pipe"])
def test_a_masked_game_in_workers_goes_on_where_it_was_saved(transport):
    """Also if it was reset in between, as training does before it resumes: other actions were legal there."""
    env = hotlap.make_vec("petri", 4, turbo=False, seed=1, workers=2, transport=transport)
    rng = np.random.default_rng(0)
    _, info = env.reset()
    seen = []
    for t in range(40):
        if t == 20:
            saved = env.state()
        action = draw_legal(env.single_action_space, info["action_mask"], rng)
        obs, _, _, _, info = env.step(action)
        seen.append((action, obs.copy()))
    env.reset()
    env.load_state(saved)
    for action, obs in seen[20:]:
        np.testing.assert_array_equal(env.step(action)[0], obs)
    env.close()


def test_groups_step_apart():
    """A group may be ahead of another."""
    env = make_gym(Game, 4, workers=2, async_factor=2, depth=9)
    env.reset(seed=0)
    env.send(0, np.zeros(2, int))
    env.send(1, np.zeros(2, int))
    over = []
    while groups := env.receive():
        over += groups
    assert sorted(over) == [0, 1]
    env.send(1, np.zeros(2, int))
    assert env.receive() == [1]
    assert env._slot == [2, 3]  # group 1 is a step ahead
    env.close()


class Short(Game):
    """Every episode ends in its second step; tells masks only if its seed is odd."""

    def step(self, action):
        obs, reward, _, _, info = super().step(action)
        return obs, reward, self.steps >= 2, False, info

    def _mask(self):
        return super()._mask() if (self.seeded or 0) % 2 else {}


@pytest.mark.parametrize("rows", [33, 34, 289])
def test_any_number_of_episodes_may_end_at_once(rows):
    env = make_gym(Short, rows, workers=1)
    env.reset(seed=0)
    for expected in (0, rows) * 2:
        *_, info = env.step(np.zeros(rows, int))
        assert info.get("_final_info", np.zeros(1)).sum() == expected
    env.close()


def test_without_a_mask_every_action_is_legal():
    for workers in (0, 2):
        env = make_gym(Short, 4, workers=workers)
        _, info = env.reset(seed=[0, 2, 1, 3])  # the first worker's environments tell none
        assert info["action_mask"][:2].all() and not info["action_mask"][2:].all()
        env.close()


class Pair(gymnasium.Env):
    """Two choices at once, of which some are illegal."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {"action_mask": np.array([1, 0, 0, 1, 1])}

    def step(self, action):
        assert action[0] == 0 and action[1] > 0, "an illegal action"
        return np.zeros(1, np.float32), 0.0, False, False, {"action_mask": np.array([1, 0, 0, 1, 1])}


def test_measuring_the_layout_takes_legal_actions():
    env = make_gym(Pair, 2, workers=-1)
    assert env.layout.workers == 0


def test_bad_spaces_and_options():
    class Odd(Pair):
        action_space = gymnasium.spaces.Dict({"a": gymnasium.spaces.Discrete(2)})

    with pytest.raises(ValueError, match="actions must be Discrete"):
        make_gym(Odd, 2)
    with pytest.raises(ValueError, match="unknown option worker"):
        make_gym(Game, 2, worker=2)


def workers_of_this_process():
    return [p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize(
    ("trouble", "message", "shown"),
    [
        ("raise", "environment 2 of make raised RuntimeError: the pole fell off", 'raise RuntimeError("the pole fell off'),
        ("die", "worker 1 was killed by SIGKILL while it was in environment 2 of make", ""),
        ("exit", "worker 1 ended with exit code 3 while it was in environment 2 of make", ""),
        ("hang", "environment 2 of make has not answered for 1.5 s", "in step"),
    ],
)
def test_a_worker_in_trouble(trouble, message, shown):
    before = len(workers_of_this_process())

    def make():
        return Game(trouble, who=2)

    env = make_gym(make, 4, seed=0, workers=2, patience=1.5)
    env.reset()
    begin = time.monotonic()
    with pytest.raises(EnvFailed, match=message) as failure:
        for _ in range(20):
            env.step(np.zeros(4, int))
    assert time.monotonic() - begin < 10
    assert shown in failure.value.details
    assert len(workers_of_this_process()) == before  # no orphans
    env.close()


def test_an_environment_that_raises_in_this_process():
    env = make_gym(lambda: Game("raise", who=1), 2, seed=0)
    env.reset()
    with pytest.raises(EnvFailed, match="environment 1 of <lambda> raised RuntimeError: the pole fell off") as failure:
        for _ in range(20):
            env.step(np.zeros(2, int))
    assert "and rolled away" in failure.value.details


SCRIPT = """
import gymnasium, sys
sys.path.insert(0, {folder!r})
from test_workers import Game
gymnasium.register("Trouble-v0", entry_point=lambda: Game({trouble!r}, 0.01), max_episode_steps=100)
sys.argv = ["hotlap", *sys.argv[1:]]
from hotlap.cli import main
main()
"""


def train(tmp_path, trouble, *flags):
    script = tmp_path / "run.py"
    script.write_text(SCRIPT.format(folder=str(Path(__file__).parent), trouble=trouble))
    command = [sys.executable, str(script), "train", "Trouble-v0", "--total-steps", "400", "--horizon", "2"]
    command += ["--batch-size", "8", "--num-envs", "4", "--checkpoint-seconds", "0", "--evaluation-episodes", "2"]
    command += ["--out", "run", *flags]
    return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_training_that_fails_keeps_its_checkpoint_and_no_process(tmp_path):
    process = train(tmp_path, "raise", "--workers", "2")
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert re.search("Trouble-v0 failed: environment . of Trouble-v0 raised RuntimeError: the pole fell off", stderr)
    assert "and rolled away" in stderr and "hotlap/train/loop.py" not in stderr  # the environment's traceback, not ours
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()
    header = json.loads((tmp_path / "run" / "run.json").read_text())
    assert header["status"] == "failed" and "the pole fell off" in header["error"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_outlives_its_parent(tmp_path, how):
    process = train(tmp_path, "", "--workers", "2", "--total-steps", "1000000")
    parent = psutil.Process(process.pid)
    deadline = time.monotonic() + 30
    while not (tmp_path / "run" / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    children = parent.children(recursive=True)
    assert len(children) == 2
    process.send_signal(how)
    process.communicate(timeout=30)
    assert process.returncode == (130 if how == signal.SIGINT else -9)
    gone, alive = psutil.wait_procs(children, timeout=5)
    assert not alive and len(gone) == 2


def test_arrays_in_a_block():
    spec = EnvSpec(obs_shape=(3,), obs_dtype="<f4", action_sizes=(2,), seats=2)
    arrays = Arrays(spec, 5, 4)
    arrays.buffers[3].obs[2] = 7
    assert arrays.rings["obs"][3, 2].tolist() == [7, 7, 7] and arrays.rings["obs"].sum() == 21
    arrays.buffers[1].final_obs[0] = 1
    assert arrays.buffers[3].final_obs[0].tolist() == [1, 1, 1]  # slots alternate between two copies of these
    part = arrays.buffers[0].rows(1, 3)
    part.rewards[0] = (1, 2)
    assert arrays.buffers[0].rewards[1].tolist() == [1, 2]


def test_the_layout_is_measured():
    light = make_gym("CartPole-v1", 4, workers=-1)
    assert light.layout.workers == 0 and "one process" in str(light.layout)
    spec = EnvSpec.of(Game())
    chosen = layout.pick("waiting", lambda: Game(seconds=0.01), layout.SerialEngine, spec, 8)
    assert chosen.workers > 1 and chosen.seconds[chosen.workers] < chosen.seconds[0]  # sleeping environments sleep in parallel
    for env in (light,):
        env.close()


def test_bad_counts():
    with pytest.raises(ValueError, match="at most num_envs"):
        make_gym("CartPole-v1", 2, workers=3)
    with pytest.raises(ValueError, match="multiple of async_factor"):
        make_gym("CartPole-v1", 4, workers=3, async_factor=2)
    with pytest.raises(ValueError, match="transport must be one of shared, pipe, not 'post'"):
        make_gym("CartPole-v1", 4, workers=2, transport="post")
    with pytest.raises(ValueError, match="workers must be a whole number from 0"):
        make_gym("CartPole-v1", 4, workers=-2)
