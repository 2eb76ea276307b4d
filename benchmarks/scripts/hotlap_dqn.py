"""hotlap's DQN on CartPole with the defaults of Stable-Baselines3: 4 environments, one update of 128 per vector step.

python hotlap_dqn.py STEPS [ALPHA [TURBO]]
"""

import sys
import time

from hotlap.core.clock import StageClock
from hotlap.envs.vector import make_gym, make_vec
from hotlap.train import dqn

steps = int(sys.argv[1])
alpha, turbo = (float(sys.argv[2]) if len(sys.argv) > 2 else 0.0), len(sys.argv) > 3
config = dqn.Config(
    num_envs=4,
    turbo=turbo,
    total_steps=steps,
    iteration_steps=128,
    updates_per_step=1,
    learning_starts=100,
    batch_size=128,
    buffer_size=1_000_000,
    learning_rate=1e-4,
    grad_clip=10.0,
    hidden=(64, 64),
    target_sync=2_500,  # updates: SB3 counts 10,000 steps
    epsilon_end=0.05,
    epsilon_steps=steps // 10,
    priority_alpha=alpha,
)
env = make_vec("cartpole", 4, seed=0) if turbo else make_gym("CartPole-v1", 4, seed=0)
state = dqn.start(config, env)
clock = StageClock(enabled=False)
returns: list[float] = []
begin = time.perf_counter()
while state.env_steps < steps:
    returns += dqn.iterate(state, config, env, clock).episodes.get("return", [])
seconds = time.perf_counter() - begin
print("mean_return", sum(returns[-100:]) / max(1, len(returns[-100:])))
print("updates", state.updates)
print("steps_per_s", state.env_steps / seconds, flush=True)
