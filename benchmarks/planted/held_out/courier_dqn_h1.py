"""DQN (stable-baselines3) for a courier robot that crosses a yard full of bollards with a range finder."""
import argparse
import math
import random

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import DQN

BEAMS = 40
BOLLARDS = 36
YARD = 12.0
REACH = 6.0
RADIUS = 0.3


class YardEnv(gym.Env):
    metadata = {"render_modes": []}

    def __init__(self):
        self.observation_space = spaces.Box(-1.0, 1.0, (BEAMS + 4,), np.float32)
        self.action_space = spaces.Discrete(4)
        self.bollards = np.zeros((BOLLARDS, 2))
        self.x = self.y = self.heading = 0.0
        self.goal = np.zeros(2)
        self.t = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.bollards = self.np_random.uniform(1.5, YARD - 1.5, (BOLLARDS, 2))
        self.x, self.y = 0.7, 0.7
        self.heading = math.pi / 4
        self.goal = self.np_random.uniform(YARD - 2.0, YARD - 0.5, 2)
        self.t = 0
        return self._look(), {}

    def _beams(self):
        ranges = []
        for k in range(BEAMS):
            angle = self.heading + 2.0 * math.pi * k / BEAMS
            dx, dy = math.cos(angle), math.sin(angle)
            best = REACH
            for b in range(BOLLARDS):
                ox = self.bollards[b][0] - self.x
                oy = self.bollards[b][1] - self.y
                along = ox * dx + oy * dy
                if along <= 0.0:
                    continue
                off2 = ox * ox + oy * oy - along * along
                if off2 < RADIUS * RADIUS:
                    hit = along - math.sqrt(RADIUS * RADIUS - off2)
                    if hit < best:
                        best = max(hit, 0.0)
            ranges.append(best / REACH)
        return np.array(ranges)

    def _look(self):
        gx, gy = self.goal[0] - self.x, self.goal[1] - self.y
        bearing = math.atan2(gy, gx) - self.heading
        tail = [math.hypot(gx, gy) / (2 * YARD), math.cos(bearing), math.sin(bearing), self.t / 200.0]
        return np.concatenate([self._beams(), tail]).astype(np.float32)

    def step(self, action):
        self.t += 1
        before = math.hypot(self.goal[0] - self.x, self.goal[1] - self.y)
        if action == 1:
            self.heading += 0.35
        elif action == 2:
            self.heading -= 0.35
        speed = 0.1 if action == 3 else 0.3
        self.x = min(max(self.x + speed * math.cos(self.heading), 0.0), YARD)
        self.y = min(max(self.y + speed * math.sin(self.heading), 0.0), YARD)
        after = math.hypot(self.goal[0] - self.x, self.goal[1] - self.y)
        gap = np.square(self.bollards - (self.x, self.y)).sum(axis=1).min()
        crashed = bool(gap < (RADIUS + 0.1) ** 2)
        arrived = bool(after < 0.6)
        reward = (before - after) - 0.02 + 5.0 * arrived - 1.0 * crashed
        return self._look(), float(reward), arrived or crashed, self.t >= 200, {}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=400_000)
    ap.add_argument("--seed", type=int, default=4)
    opts = ap.parse_args()
    random.seed(opts.seed)
    np.random.seed(opts.seed)
    torch.manual_seed(opts.seed)
    torch.set_num_threads(1)

    agent = DQN(
        "MlpPolicy",
        YardEnv(),
        learning_rate=5e-4,
        buffer_size=50_000,
        learning_starts=300,
        batch_size=128,
        gamma=0.98,
        train_freq=8,
        gradient_steps=1,
        target_update_interval=1000,
        exploration_fraction=0.2,
        policy_kwargs=dict(net_arch=[64, 64]),
        seed=opts.seed,
        device="cpu",
        verbose=0,
    )
    agent.learn(opts.steps)
    print("finished", agent.num_timesteps)


if __name__ == "__main__":
    main()
