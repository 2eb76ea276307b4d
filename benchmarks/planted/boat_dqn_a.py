"""DQN on keeping a boat in calm water."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from torch import nn

SIZE = 256
SUBSTEPS = 6
COURSE = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])


class WaveEnv(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (66,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level = np.zeros((SIZE, SIZE), np.float32)
        self.speed = np.zeros((SIZE, SIZE), np.float32)
        self.boat = self.np_random.uniform(0.3, 0.7, 2)
        self.level[self.np_random.integers(8, SIZE - 8), self.np_random.integers(8, SIZE - 8)] = 8.0
        self.time = 0
        return self.observe(), {}

    def observe(self):
        obs = np.empty(66, np.float32)
        row, col = (self.boat * (SIZE - 10)).astype(int)
        obs[:64] = self.level[row : row + 8, col : col + 8].ravel()
        obs[64:] = self.boat
        return obs

    def advance(self):
        level, speed = self.level, self.speed
        for _ in range(SUBSTEPS):
            force = -4.0 * level
            force[1:] += level[:-1]
            force[:-1] += level[1:]
            force[:, 1:] += level[:, :-1]
            force[:, :-1] += level[:, 1:]
            speed += 0.2 * force
            speed *= 0.999
            level += 0.2 * speed

    def step(self, action):
        self.time += 1
        self.advance()
        self.boat = (self.boat + 0.02 * COURSE[action]).clip(0.0, 1.0)
        if self.time % 20 == 0:
            self.level[self.np_random.integers(8, SIZE - 8), self.np_random.integers(8, SIZE - 8)] += 8.0
        obs = self.observe()
        reward = 0.5 - float(np.abs(obs[:64]).mean())
        info = {"level": self.level, "speed": self.speed, "boat": self.boat}
        return obs, reward, False, self.time >= 200, info


def make_network(inputs, actions):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(6)
    rng = np.random.default_rng(6)
    n, capacity, batch = 4, 8000, 256
    envs = AsyncVectorEnv([WaveEnv] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    size = envs.single_observation_space.shape[0]
    online, target = make_network(size, 4), make_network(size, 4)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=5e-4, foreach=True)
    states, nexts = torch.zeros(capacity, size), torch.zeros(capacity, size)
    acts, rewards, alive = torch.zeros(capacity, dtype=torch.int64), torch.zeros(capacity), torch.zeros(capacity)
    pos = filled = 0
    obs = torch.from_numpy(envs.reset(seed=6)[0])
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
        if t >= 32 and t % 4 == 0:
            pick = torch.randint(0, filled, (batch,))
            with torch.no_grad():
                goal = rewards[pick] + 0.97 * alive[pick] * target(nexts[pick]).amax(1)
            value = online(states[pick]).gather(1, acts[pick, None]).squeeze(1)
            loss = nn.functional.smooth_l1_loss(value, goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if t % 400 == 0:
                target.load_state_dict(online.state_dict())


if __name__ == "__main__":
    main()
