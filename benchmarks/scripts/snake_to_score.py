"""Train Snake's `fast` preset until it plays to a score; says how many seconds of training that took, without evaluations.

Single evaluations scatter by several apples, so the first one above the score would be luck: the mean of the last four counts.

python snake_to_score.py SEED SCORE [EVERY]
"""

import sys
import time
from dataclasses import replace

from hotlap import systems
from hotlap.core.clock import StageClock

seed, goal = int(sys.argv[1]), float(sys.argv[2])
every = int(sys.argv[3]) if len(sys.argv) > 3 else 50_000  # steps between evaluations of 100 greedy episodes
system = systems.load("snake", "dqn")
config = replace(system.presets["fast"], seed=seed)
env = system.make_env(config)
state = system.trainer.start(config, env)
clock = StageClock(enabled=False)
seconds, score, due = 0.0, 0.0, every
scores: list[float] = []
while state.env_steps < config.total_steps and score < goal:
    begin = time.perf_counter()
    system.trainer.iterate(state, config, env, clock)
    seconds += time.perf_counter() - begin
    if state.env_steps >= due:
        due += every
        scores.append(float(system.trainer.evaluate(state, system.make_env(config, 100), 1_000_003)["score"].mean()))
        score = sum(scores[-4:]) / 4  # of fewer: too low
print("score", score)
print("env_steps", state.env_steps)
print("steps_per_s", state.env_steps / seconds)
print("seconds", seconds, flush=True)
