"""Does hotlap's DQN learn as well as Stable-Baselines3's with the same recipe? Mean return of 100 greedy episodes per seed.

    python benchmarks/dqn_learning.py [TASK ...] [--processes N]

LunarLander needs box2d (pip install box2d).
"""

import argparse
import multiprocessing
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import torch
from side_by_side import err, keep

from hotlap.core.clock import StageClock
from hotlap.envs.vector import make_gym
from hotlap.train import dqn

CURVES = "curves of steps, seconds, return"
CARTPOLE = dqn.Config(
    num_envs=4,
    turbo=False,
    total_steps=100_000,
    iteration_steps=128,
    updates_per_step=2,
    learning_starts=2_000,
    batch_size=128,
    buffer_size=50_000,
    learning_rate=3e-4,
    grad_clip=10.0,
    hidden=(64, 64),
    n_step=3,
    target_sync=500,
    epsilon_end=0.02,
    epsilon_steps=20_000,
)
LUNAR_LANDER = replace(
    CARTPOLE,
    total_steps=200_000,
    updates_per_step=4,
    learning_rate=5e-4,
    hidden=(128, 128),
    target_sync=500,
    epsilon_steps=40_000,
)
TASKS: dict[str, tuple[int, dqn.Config]] = {"CartPole-v1": (5, CARTPOLE), "LunarLander-v3": (3, LUNAR_LANDER)}  # seeds, recipe


def ours(task: str, config: dqn.Config) -> dict[str, Any]:
    env = make_gym(task, config.num_envs, seed=config.seed)
    state, clock = dqn.start(config, env), StageClock(enabled=False)
    recent: deque[float] = deque(maxlen=100)
    curve, begin = [], time.perf_counter()
    while state.env_steps < config.total_steps:
        recent.extend(dqn.iterate(state, config, env, clock).episodes.get("return", []))
        curve.append([state.env_steps, time.perf_counter() - begin, float(np.mean(recent)) if recent else None])
    played = dqn.evaluate(state, make_gym(task, 100), 10_000)["return"]
    return {"return": float(played.mean()), "seconds": curve[-1][1], "updates": state.updates, "curve": curve}


def theirs(task: str, config: dqn.Config) -> dict[str, Any]:
    from stable_baselines3 import DQN
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    # Not by name: then it would ask for images, and LunarLander would draw particles, at a tenth of the speed.
    env: Any = make_vec_env(lambda: gymnasium.make(task), config.num_envs, seed=config.seed)
    model = DQN(
        "MlpPolicy",
        env,
        learning_rate=config.learning_rate,
        buffer_size=config.buffer_size,
        learning_starts=config.learning_starts,
        batch_size=config.batch_size,
        gamma=config.gamma,
        n_steps=config.n_step,
        train_freq=1,
        gradient_steps=int(config.updates_per_step),
        # in environment steps
        target_update_interval=int(config.target_sync / config.updates_per_step * config.num_envs),
        exploration_fraction=config.epsilon_steps / config.total_steps,
        exploration_final_eps=config.epsilon_end,
        max_grad_norm=config.grad_clip,
        policy_kwargs={"net_arch": list(config.hidden)},
        seed=config.seed,
        device="cpu",
    )
    curve: list[list[Any]] = []
    begin = time.perf_counter()
    every = config.iteration_steps * config.num_envs

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps % every == 0:
                seen = [episode["r"] for episode in self.model.ep_info_buffer or ()]
                curve.append([self.num_timesteps, time.perf_counter() - begin, float(np.mean(seen)) if seen else None])
            return True

    model.learn(config.total_steps, callback=Watch())
    seconds = time.perf_counter() - begin
    played = evaluate_policy(model, env, 100, warn=False)[0]
    return {"return": float(played), "seconds": seconds, "updates": model._n_updates, "curve": curve}  # type: ignore[arg-type]


def train(task: str, name: str, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    err.print(f"{task}: {name}, seed {seed}")
    return {"hotlap": ours, "SB3": theirs}[name](task, replace(TASKS[task][1], seed=seed))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--processes", type=int, default=1, help="seeds trained at once; their seconds are hints then")
    arguments = parser.parse_args()
    command = f"python benchmarks/dqn_learning.py {' '.join(arguments.tasks)} --processes {arguments.processes}"
    pairs = [(task, name) for task in arguments.tasks for name in ("hotlap", "SB3")]
    with ProcessPoolExecutor(arguments.processes, multiprocessing.get_context("spawn")) as pool:
        jobs = {pair: [pool.submit(train, *pair, seed) for seed in range(TASKS[pair[0]][0])] for pair in pairs}
        for (task, name), futures in jobs.items():
            runs = [future.result() for future in futures]
            result = {
                "returns": [run["return"] for run in runs],
                "seconds": [run["seconds"] for run in runs],
                "updates": [run["updates"] for run in runs],
                "processes": arguments.processes,
                CURVES: [run["curve"] for run in runs],
            }
            mean = sum(run["seconds"] for run in runs) / len(runs)
            print(task, name, [round(run["return"], 2) for run in runs], f"{mean:.1f} s each", flush=True)
            keep("dqn_learning", command, {f"{task}: {name}": result}, indent=None)


if __name__ == "__main__":
    main()
