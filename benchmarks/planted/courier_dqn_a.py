"""DQN on finding the way over changing ground."""

from functools import partial

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from torch import nn

SIZE = 64
EVERY = 16
SWEEPS = 320
MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1))


class CourierEnv(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (83,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def __init__(self, offset):
        self.offset = offset

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cost = self.np_random.uniform(0.2, 1.0, (SIZE, SIZE)).astype(np.float32)
        self.goal = tuple(self.np_random.integers(8, SIZE - 8, 2).tolist())
        self.row, self.col = self.np_random.integers(5, SIZE - 5, 2).tolist()
        self.field = np.full((SIZE, SIZE), 99.0, np.float32)
        self.time = 0
        return self.observe(), {}

    def plan(self, sweeps):
        field = self.field
        for _ in range(sweeps):
            best = np.minimum(np.roll(field, 1, 0), np.roll(field, -1, 0))
            best = np.minimum(best, np.minimum(np.roll(field, 1, 1), np.roll(field, -1, 1)))
            field = np.minimum(field, best + self.cost)
            field[self.goal] = 0.0
        self.field = field

    def observe(self):
        obs = np.empty(83, np.float32)
        view = slice(self.row - 4, self.row + 5), slice(self.col - 4, self.col + 5)
        obs[:81] = self.field[view].ravel() - self.field[self.row, self.col]
        obs[81:] = (self.goal[0] - self.row) / SIZE, (self.goal[1] - self.col) / SIZE
        return obs

    def step(self, action):
        self.time += 1
        self.cost = (0.995 * self.cost + 0.005 * self.np_random.random((SIZE, SIZE), np.float32)).clip(0.2, 1.0)
        if (self.time + self.offset) % EVERY == 0:
            self.plan(SWEEPS)
        down, right = MOVES[action]
        self.row = min(max(self.row + down, 4), SIZE - 5)
        self.col = min(max(self.col + right, 4), SIZE - 5)
        there = abs(self.row - self.goal[0]) + abs(self.col - self.goal[1]) < 2
        reward = 10.0 if there else -float(self.cost[self.row, self.col])
        return self.observe(), reward, there, self.time >= 400, {}


def make_network(inputs, actions):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(8)
    rng = np.random.default_rng(8)
    n, capacity, batch = 4, 8000, 256
    makers = [partial(CourierEnv, offset=EVERY * i // n) for i in range(n)]
    envs = AsyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    size = envs.single_observation_space.shape[0]
    online, target = make_network(size, 4), make_network(size, 4)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=5e-4, foreach=True)
    states, nexts = torch.zeros(capacity, size), torch.zeros(capacity, size)
    acts, rewards, alive = torch.zeros(capacity, dtype=torch.int64), torch.zeros(capacity), torch.zeros(capacity)
    pos = filled = 0
    obs = torch.from_numpy(envs.reset(seed=8)[0])
    for t in range(2_000_000):
        with torch.no_grad():
            greedy = online(obs).argmax(1).numpy()
        epsilon = max(0.05, 1.0 - t / 3000)
        actions = np.where(rng.random(n) < epsilon, rng.integers(0, 4, n), greedy)
        new_obs, reward, term, trunc, _ = envs.step(actions)
        new_obs = torch.from_numpy(new_obs)
        rows = slice(pos, pos + n)
        states[rows], nexts[rows], acts[rows] = obs, new_obs, torch.from_numpy(actions)
        rewards[rows], alive[rows] = torch.from_numpy(reward), torch.from_numpy(~(term | trunc))
        pos, filled, obs = (pos + n) % capacity, min(filled + n, capacity), new_obs
        if t >= 16 and t % 8 == 0:
            pick = torch.randint(0, filled, (batch,))
            with torch.no_grad():
                goal = rewards[pick] + 0.97 * alive[pick] * target(nexts[pick]).amax(1)
            value = online(states[pick]).gather(1, acts[pick, None]).squeeze(1)
            loss = nn.functional.smooth_l1_loss(value, goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if t % 800 == 0:
                target.load_state_dict(online.state_dict())


if __name__ == "__main__":
    main()
