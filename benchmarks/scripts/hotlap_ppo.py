"""hotlap's PPO on Gymnasium's CartPole. Says how fast its own loop ran.

python hotlap_ppo.py STEPS [MINIBATCH]
"""

import sys
import time

from hotlap.core.clock import StageClock
from hotlap.envs.vector import make_gym
from hotlap.train import ppo

steps, minibatch = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 256
config = ppo.Config(total_steps=steps, batch_size=minibatch, anneal=False)
env = make_gym("CartPole-v1", config.num_envs, seed=config.seed, depth=config.horizon + 1)
state = ppo.start(config, env)
clock = StageClock(enabled=False)
returns: list[float] = []
begin = time.perf_counter()
while state.env_steps < steps:
    returns += ppo.iterate(state, config, env, clock).episodes.get("return", [])
seconds = time.perf_counter() - begin
print("mean_return", sum(returns[-100:]) / max(1, len(returns[-100:])))
print("steps_per_s", state.env_steps / seconds, flush=True)
