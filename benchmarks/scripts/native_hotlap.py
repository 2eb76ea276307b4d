"""hotlap's PPO on its native CartPole, 4,096 environments, PufferLib's recipe. Says how fast its loop ran, and its curve.

python native_hotlap.py mlp|lstm STEPS
"""

import sys
import time
from statistics import median

import hotlap
from hotlap.core.clock import StageClock
from hotlap.train import ppo

memory = {"mlp": "none", "lstm": "lstm"}[sys.argv[1]]
config = ppo.Config(
    num_envs=4096,
    turbo=True,
    env_threads=2,
    torch_threads=2,
    total_steps=int(sys.argv[2]),
    horizon=64,
    batch_size=32_768,
    epochs=1,
    hidden=(128,),
    activation="relu",
    shared=True,
    memory=memory,
    priority_alpha=0.8,
    priority_beta=0.2,
    learning_rate=0.01,
    gamma=0.95,
    gae_lambda=0.9,
    value_weight=2.0,
    value_clip=0.2,
    entropy=0.001,
    grad_clip=1.5,
)
env = hotlap.make_vec("cartpole", config.num_envs, seed=0, threads=config.env_threads, depth=config.horizon + 1)
state, clock = ppo.start(config, env), StageClock(enabled=False)
times: list[float] = []
while state.env_steps < config.total_steps:
    begin = time.perf_counter()
    metrics = ppo.iterate(state, config, env, clock)
    times.append(time.perf_counter() - begin)
    lengths = metrics.episodes.get("length", [0.0])
    print(f"curve {state.env_steps} {sum(times):.4f} {sum(lengths) / len(lengths):.2f}")
print("parameters", state.flat.numel())
print("steps_per_s", config.num_envs * config.horizon / median(times[2:]), flush=True)
