"""DQN on guiding rain drops to a lake."""

import argparse

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from torch import nn

SIDE = 512
CELLS = SIDE * SIDE
DROPS = 8000
SLOPES = np.array([1, -1, SIDE, -SIDE], np.int32)
TILT = np.array([7, -7, 7 * SIDE, -7 * SIDE], np.int32)


class RainEnv(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (18,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        slope = self.np_random.integers(0, 4, CELLS, np.int8)
        self.flow = (np.arange(CELLS, dtype=np.int32) + SLOPES[slope]) & (CELLS - 1)
        self.drops = self.np_random.integers(0, CELLS, DROPS, np.int32)
        self.lake = int(self.np_random.integers(16))
        self.time = 0
        self.count()
        return self.observe(), {}

    def count(self):
        self.bands = np.bincount(self.drops >> 14, minlength=16)

    def observe(self):
        obs = np.empty(18, np.float32)
        obs[:16] = self.bands * (16.0 / DROPS) - 1.0
        obs[16:] = self.lake / 16.0, self.time / 500.0
        return obs

    def step(self, action):
        self.time += 1
        drops = self.drops
        for _ in range(12):
            drops = self.flow[drops]
        self.drops = (drops + TILT[action]) & (CELLS - 1)
        self.count()
        reward = float(self.bands[self.lake]) / DROPS * 16.0 - 1.0
        return self.observe(), reward, False, self.time >= 500, {}


def make_network(inputs, actions):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--envs", type=int, default=32)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(12)
    rng = np.random.default_rng(12)
    n, capacity, batch = args.envs, 640 * args.envs, 256
    every = 256 // n
    envs = AsyncVectorEnv([RainEnv] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    size = envs.single_observation_space.shape[0]
    online, target = make_network(size, 4), make_network(size, 4)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=5e-4, foreach=True)
    states, nexts = torch.zeros(capacity, size), torch.zeros(capacity, size)
    acts, rewards, alive = torch.zeros(capacity, dtype=torch.int64), torch.zeros(capacity), torch.zeros(capacity)
    pos = filled = 0
    obs = torch.from_numpy(envs.reset(seed=12)[0])
    for t in range(2_000_000):
        with torch.no_grad():
            greedy = online(obs).argmax(1).numpy()
        epsilon = max(0.05, 1.0 - t / 4000)
        actions = np.where(rng.random(n) < epsilon, rng.integers(0, 4, n), greedy)
        new_obs, reward, term, trunc, _ = envs.step(actions)
        new_obs = torch.from_numpy(new_obs)
        rows = slice(pos, pos + n)
        states[rows], nexts[rows], acts[rows] = obs, new_obs, torch.from_numpy(actions)
        rewards[rows], alive[rows] = torch.from_numpy(reward), torch.from_numpy(~(term | trunc))
        pos, filled, obs = (pos + n) % capacity, min(filled + n, capacity), new_obs
        if t >= 16 and t % every == 0:
            pick = torch.randint(0, filled, (batch,))
            with torch.no_grad():
                goal = rewards[pick] + 0.97 * alive[pick] * target(nexts[pick]).amax(1)
            value = online(states[pick]).gather(1, acts[pick, None]).squeeze(1)
            loss = nn.functional.smooth_l1_loss(value, goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if t % (100 * every) == 0:
                target.load_state_dict(online.state_dict())


if __name__ == "__main__":
    main()
