import pathlib
import subprocess
import sys

import gymnasium as gym
import numpy as np
from gymnasium import spaces

BOX = pathlib.Path(__file__).with_name("controller.py")


class MotorBench(gym.Env):
    """Speed tracking on one motor bench: action = (torque command, brake)."""

    def __init__(self, bench_id=0, horizon=300):
        self.bench_id, self.horizon = bench_id, horizon
        self.observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float32)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        self.link = None

    def _open(self):
        self.link = subprocess.Popen(
            [sys.executable, "-S", str(BOX)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def _ask(self, msg):
        self.link.stdin.write(msg + "\n")
        w, temp, load, target, _ = map(float, self.link.stdout.readline().split())
        return w, temp, load, target

    def _obs(self, w, temp, load, target):
        return np.array([w, (temp - 20) / 20, load, target, target - w], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.link is None:
            self._open()
        self.t = 0
        return self._obs(*self._ask("zero")), {}

    def step(self, action):
        self.t += 1
        u, b = float(action[0]), float(action[1])
        w, temp, load, target = self._ask(f"set {u:.5f} {b:.5f}")
        reward = -abs(target - w) - 0.01 * u * u - 0.02 * max(temp - 60, 0)
        return self._obs(w, temp, load, target), reward, False, self.t >= self.horizon, {}

    def close(self):
        if self.link is not None:
            self.link.stdin.close()
            self.link.wait(timeout=2)
            self.link = None
