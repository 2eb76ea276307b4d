"""Steps whose cost is known: so many units of the same work in the environment and in the agent. No learning, no torch.

python known_cost.py [share of a step's work to add to the environment]
"""

import sys

import gymnasium
import numpy as np

ENV, AGENT = 12_000, 8_000  # units per step


def work(units: int) -> int:
    total = 0
    for number in range(units):
        total += number * number
    return total


class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, units: int) -> None:
        self.units = units
        self.obs = np.zeros(2, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> tuple[object, dict[str, object]]:
        return self.obs, {}

    def step(self, action: int) -> tuple[object, float, bool, bool, dict[str, object]]:
        work(self.units)
        return self.obs, 0.0, False, False, {}


extra = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
env = Env(ENV + round(extra * (ENV + AGENT)))
env.reset()
while True:
    env.step(0)
    work(AGENT)
