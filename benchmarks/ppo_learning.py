"""Does hotlap's PPO learn as well as Stable-Baselines3's with the same recipe? Mean return of 100 greedy episodes per seed.

python benchmarks/ppo_learning.py
"""

import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import torch
from side_by_side import RESULTS, err

from hotlap import machine
from hotlap.clock import StageClock
from hotlap.train import ppo
from hotlap.vector import make_gym

SEEDS = {"CartPole-v1": (0, 1, 2, 3, 4), "Acrobot-v1": (0, 1, 2), "Pendulum-v1": (0, 1, 2)}
RECIPES = {
    "CartPole-v1": ppo.Config(total_steps=150_000),
    "Acrobot-v1": ppo.Config(total_steps=150_000, normalize_obs=True, normalize_reward=True),
    "Pendulum-v1": ppo.Config(
        total_steps=200_000, horizon=256, epochs=10, minibatch=128, gamma=0.9, normalize_obs=True, normalize_reward=True
    ),
}


def ours(task: str, config: ppo.Config) -> tuple[float, float]:
    env = make_gym(task, config.num_envs, seed=config.seed)
    state, clock = ppo.start(config, env), StageClock(enabled=False)
    begin = time.perf_counter()
    while state.env_steps < config.total_steps:
        ppo.iterate(state, config, env, clock)
    seconds = time.perf_counter() - begin
    return float(ppo.evaluate(state, make_gym(task, 100), 10_000)["return"].mean()), seconds


def theirs(task: str, config: ppo.Config) -> tuple[float, float]:
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize

    env: Any = make_vec_env(task, config.num_envs, seed=config.seed)
    if config.normalize_obs:
        env = VecNormalize(env, gamma=config.gamma)
    model = PPO(
        "MlpPolicy",
        env,
        learning_rate=lambda left: config.learning_rate * left,
        n_steps=config.horizon,
        batch_size=config.minibatch,
        n_epochs=config.epochs,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        ent_coef=config.entropy,
        vf_coef=config.value_weight / 2,  # theirs has no half in the value's error
        max_grad_norm=config.grad_clip,
        seed=config.seed,
        device="cpu",
    )
    begin = time.perf_counter()
    model.learn(config.total_steps)
    seconds = time.perf_counter() - begin
    if config.normalize_obs:
        env.training = env.norm_reward = False
    return float(evaluate_policy(model, env, 100, warn=False)[0]), seconds  # type: ignore[arg-type]


def main() -> None:
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for task, seeds in SEEDS.items():
        for name, train in (("hotlap", ours), ("SB3", theirs)):
            found = []
            for seed in seeds:
                err.print(f"{task}: {name}, seed {seed}")
                found.append(train(task, replace(RECIPES[task], seed=seed)))
            results[f"{task}: {name}"] = {"returns": [r for r, _ in found], "seconds": [s for _, s in found]}
            print(task, name, [round(r, 1) for r, _ in found], f"{sum(s for _, s in found) / len(found):.1f} s", flush=True)
    document: dict[str, Any] = {"schema": "hotlap.benchmark/1", "command": "python benchmarks/ppo_learning.py"}
    document |= {"created": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine.facts(), "results": results}
    (RESULTS / "ppo_learning.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
