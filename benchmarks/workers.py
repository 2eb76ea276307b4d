"""Slow environments of other people: hotlap's workers against one process, Gymnasium's AsyncVectorEnv and SB3's SubprocVecEnv.

    python benchmarks/workers.py

200 environments whose step takes 2 ms of Python; 64 whose step waits 2 ms; and, with PPO around them, 64 whose steps wait for
times that vary: there groups of workers that do not wait for each other are raced against all waiting for the slowest.
"""

import time
from contextlib import ExitStack
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from side_by_side import interleave, save, speedup

from hotlap.core.clock import StageClock
from hotlap.envs.vector import AUTO, make_gym
from hotlap.train import ppo

STEP = 0.002  # seconds
ENVS, WAITING = 200, 64
ROUNDS = 7


class Slow(gymnasium.Env[Any, Any]):
    """A step takes 2 ms: of computing in Python, of waiting, or of waiting for a time that varies."""

    def __init__(self, how: str = "computes") -> None:
        self.how = how
        self.observation_space = gymnasium.spaces.Box(-1, 1, (16,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.random(16, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.how == "computes":
            end = time.thread_time() + STEP
            while time.thread_time() < end:
                pass
        else:
            time.sleep(STEP if self.how == "waits" else float(self.np_random.exponential(STEP)))
        self.steps += 1
        return self.np_random.random(16, np.float32), 1.0, False, self.steps >= 500, {}


def contenders(how: str, envs: int, opened: ExitStack) -> dict[str, Any]:
    """Functions that make some vector steps."""
    from stable_baselines3.common.vec_env import SubprocVecEnv

    actions = np.zeros(envs, np.int64)
    make = partial(Slow, how)
    ours, serial = make_gym(make, envs, 0, workers=AUTO), make_gym(make, envs, 0)
    print(f"{envs} environments whose step {how}: hotlap chose {ours.layout}", flush=True)
    theirs = gymnasium.vector.AsyncVectorEnv([make] * envs)
    sb3 = SubprocVecEnv([make] * envs, start_method="fork")
    for env in (ours, serial, theirs):
        env.reset(seed=0)
        opened.callback(env.close)
    sb3.reset()
    opened.callback(sb3.close)

    def steps_of(step: Any) -> Any:
        def run() -> int:
            for _ in range(3):
                step(actions)
            return 3 * envs

        return run

    return {
        "hotlap": steps_of(ours.step),
        "one process": steps_of(serial.step),
        "Gymnasium AsyncVectorEnv": steps_of(theirs.step),
        "SB3 SubprocVecEnv": steps_of(sb3.step),
    }


def training(async_factor: int, opened: ExitStack) -> Any:
    config = ppo.Config(num_envs=WAITING, workers=8, async_factor=async_factor, horizon=16, batch_size=256, epochs=1)
    env = make_gym(partial(Slow, "varies"), WAITING, 0, config.workers, async_factor, config.horizon + 1)
    opened.callback(env.close)
    state, clock = ppo.start(config, env), StageClock(enabled=False)

    def run() -> int:
        ppo.iterate(state, config, env, clock)
        return config.horizon * WAITING

    return run


def main() -> None:
    results: dict[str, Any] = {}
    for how, envs in (("computes", ENVS), ("waits", WAITING)):
        with ExitStack() as opened:
            samples = interleave(contenders(how, envs, opened), ROUNDS)
        for name in list(samples)[1:]:
            pair = {key: samples[key] for key in (name, "hotlap")}
            results[f"{envs} env, step {how}: hotlap against {name}"] = speedup(pair, name, "hotlap")
            if how == "computes" or name == "one process":
                results[f"{envs} env, step {how}: hotlap against {name}"]["goal"] = 1
    with ExitStack() as opened:
        samples = interleave({"all wait": training(1, opened), "8 groups": training(8, opened)}, ROUNDS)
    results["64 env, steps vary: 8 groups against all waiting"] = speedup(samples, "all wait", "8 groups") | {"goal": 1}
    save("workers", "python benchmarks/workers.py", results)


if __name__ == "__main__":
    main()
