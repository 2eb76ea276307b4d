"""DQN on a small grid world with moving blocks."""

from collections import deque

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

SIZE = 20
VIEW = 3
WIDTH = SIZE + 2 * VIEW
MOVES = (1, -1, WIDTH, -WIDTH)


class MazeEnv(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, ((2 * VIEW + 1) ** 2 + 2,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.blocked = np.ones((WIDTH, WIDTH), bool)
        self.blocked[VIEW:-VIEW, VIEW:-VIEW] = self.np_random.random((SIZE, SIZE)) < 0.2
        self.cells = self.blocked.ravel()
        self.agent, self.goal = self.np_random.choice(np.flatnonzero(~self.cells), 2, replace=False).tolist()
        self.time = 0
        self.left = self.distance()
        return self.observe(), {}

    def observe(self):
        (row, col), (to_row, to_col) = divmod(self.agent, WIDTH), divmod(self.goal, WIDTH)
        obs = np.empty(self.observation_space.shape, np.float32)
        obs[:-2] = self.blocked[row - VIEW : row + VIEW + 1, col - VIEW : col + VIEW + 1].ravel()
        obs[-2:] = (to_row - row) / SIZE, (to_col - col) / SIZE
        return obs

    def distance(self):
        walls = self.cells.tolist()
        seen = {self.goal}
        queue = deque([(self.goal, 0)])
        while queue:
            cell, steps = queue.popleft()
            if cell == self.agent:
                return steps
            for move in MOVES:
                other = cell + move
                if other not in seen and not walls[other]:
                    seen.add(other)
                    queue.append((other, steps + 1))
        return 2 * SIZE

    def step(self, action):
        self.time += 1
        row, col = (VIEW + SIZE * self.np_random.random(2)).astype(int)
        if row * WIDTH + col not in (self.agent, self.goal):
            self.blocked[row, col] = not self.blocked[row, col] and self.time % 4 == 0
        cell = self.agent + MOVES[action]
        if not self.cells[cell]:
            self.agent = cell
        before, self.left = self.left, self.distance()
        done = self.agent == self.goal
        reward = 1.0 if done else 0.1 * (before - self.left) - 0.01
        return self.observe(), reward, done, self.time >= 80, {}


def make_network(inputs, actions):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, capacity, batch = 32, 20480, 256
    envs = SyncVectorEnv([MazeEnv] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    size = envs.single_observation_space.shape[0]
    online, target = make_network(size, 4), make_network(size, 4)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=5e-4, foreach=True)
    states, nexts = torch.zeros(capacity, size), torch.zeros(capacity, size)
    acts, rewards, alive = torch.zeros(capacity, dtype=torch.int64), torch.zeros(capacity), torch.zeros(capacity)
    pos = filled = 0
    obs = torch.from_numpy(envs.reset(seed=0)[0])
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
        if t >= 32 and t % 8 == 0:
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
