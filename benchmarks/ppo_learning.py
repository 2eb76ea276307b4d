"""Does hotlap's PPO learn as well as Stable-Baselines3's with the same recipe? Mean return of 100 greedy episodes per seed.

    python benchmarks/ppo_learning.py [TASK ...]

LunarLander needs box2d (pip install box2d). `Recall` is a task that needs a memory: a light is shown once, and after some steps
the agent must say which one; there hotlap's networks with and without a memory are compared.
"""

import sys
import time
from collections import deque
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import torch
from side_by_side import err, keep

from hotlap.core.clock import StageClock
from hotlap.envs.vector import make_gym
from hotlap.train import ppo

SMALL = ppo.Config(total_steps=150_000)
RECALL = ppo.Config(num_envs=32, horizon=32, batch_size=512, hidden=(32,), shared=True, learning_rate=3e-3, total_steps=150_000)
TASKS: dict[str, tuple[int, ppo.Config]] = {  # seeds, recipe
    "CartPole-v1": (5, ppo.Config(total_steps=200_000, gamma=0.98, entropy=0.01)),
    "Acrobot-v1": (3, replace(SMALL, normalize_obs=True, normalize_reward=True)),
    "Pendulum-v1": (
        3,
        ppo.Config(
            total_steps=200_000, horizon=256, epochs=10, batch_size=128, gamma=0.9, normalize_obs=True, normalize_reward=True
        ),
    ),
    "LunarLander-v3": (
        3,
        ppo.Config(
            total_steps=1_000_000,
            num_envs=16,
            horizon=1024,
            gamma=0.999,
            gae_lambda=0.98,
            entropy=0.01,
            learning_rate=1e-3,
        ),
    ),
    "Recall": (3, RECALL),
}


class Recall(gymnasium.Env[Any, Any]):
    """A light, left or right, is shown in the first step; ten steps later a signal asks which it was."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.light, self.time = int(self.np_random.integers(2)), 0
        return np.array([2 * self.light - 1, 0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        reward = (1.0 if action == self.light else -1.0) if self.time == 11 else 0.0
        return np.array([0, self.time == 10], np.float32), reward, self.time == 11, False, {}


def ours(task: str, config: ppo.Config) -> dict[str, Any]:
    env_of: Any = Recall if task == "Recall" else task
    env = make_gym(env_of, config.num_envs, seed=config.seed, depth=config.horizon + 1)
    state, clock = ppo.start(config, env), StageClock(enabled=False)
    recent: deque[float] = deque(maxlen=100)
    curve, begin = [], time.perf_counter()
    while state.env_steps < config.total_steps:
        recent.extend(ppo.iterate(state, config, env, clock).episodes.get("return", []))
        curve.append([state.env_steps, time.perf_counter() - begin, float(np.mean(recent)) if recent else None])
    played = ppo.evaluate(state, make_gym(env_of, 100), 10_000)["return"]
    return {"return": float(played.mean()), "seconds": curve[-1][1], "curve": curve}


def theirs(task: str, config: ppo.Config) -> dict[str, Any]:
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize

    # Not by name: then it would ask for images, and LunarLander would draw particles, at a tenth of the speed.
    env: Any = make_vec_env(lambda: gymnasium.make(task), config.num_envs, seed=config.seed)
    if config.normalize_obs:
        env = VecNormalize(env, gamma=config.gamma)
    model = PPO(
        "MlpPolicy",
        env,
        learning_rate=lambda left: config.learning_rate * left,
        n_steps=config.horizon,
        batch_size=config.batch_size,
        n_epochs=config.epochs,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        ent_coef=config.entropy,
        vf_coef=config.value_weight / 2,  # theirs has no half in the value's error
        max_grad_norm=config.grad_clip,
        seed=config.seed,
        device="cpu",
    )
    curve: list[list[Any]] = []
    begin = time.perf_counter()

    class Watch(BaseCallback):
        def _on_rollout_end(self) -> None:
            seen = [episode["r"] for episode in self.model.ep_info_buffer or ()]
            curve.append([self.num_timesteps, time.perf_counter() - begin, float(np.mean(seen)) if seen else None])

        def _on_step(self) -> bool:
            return True

    model.learn(config.total_steps, callback=Watch())
    seconds = time.perf_counter() - begin
    if config.normalize_obs:
        env.training = env.norm_reward = False
    return {"return": float(evaluate_policy(model, env, 100, warn=False)[0]), "seconds": seconds, "curve": curve}  # type: ignore[arg-type]


def contenders(task: str, config: ppo.Config) -> dict[str, Any]:
    """Functions of a seed."""
    if task == "Recall":
        memories = ("none", "lstm", "gru", "attention")
        return {
            f"hotlap, memory {memory}": lambda seed, memory=memory: ours(
                task, replace(config, memory=memory, context=16, seed=seed)
            )
            for memory in memories
        }
    return {
        "hotlap": lambda seed: ours(task, replace(config, seed=seed)),
        "SB3": lambda seed: theirs(task, replace(config, seed=seed)),
    }


def main() -> None:
    torch.set_num_threads(1)
    for task in sys.argv[1:] or TASKS:
        seeds, config = TASKS[task]
        for name, train in contenders(task, config).items():
            runs = []
            for seed in range(seeds):
                err.print(f"{task}: {name}, seed {seed}")
                runs.append(train(seed))
            result = {
                "returns": [run["return"] for run in runs],
                "seconds": [run["seconds"] for run in runs],
                "curves of steps, seconds, return": [run["curve"] for run in runs],
            }
            mean = sum(run["seconds"] for run in runs) / len(runs)
            print(task, name, [round(run["return"], 2) for run in runs], f"{mean:.1f} s each", flush=True)
            keep("ppo_learning", f"python benchmarks/ppo_learning.py {task}", {f"{task}: {name}": result}, indent=None)


if __name__ == "__main__":
    main()
