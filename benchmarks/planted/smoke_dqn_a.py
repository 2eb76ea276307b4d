"""DQN on steering smoke with wind."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

SIZE = 96
SUBSTEPS = 40
GUSTS = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], np.float32)


class SmokeEnv(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (66,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.smoke = np.zeros((SIZE, SIZE), np.float32)
        self.wind = self.np_random.normal(0.0, 0.3, 2).astype(np.float32)
        self.source = self.np_random.integers(SIZE // 4, 3 * SIZE // 4, 2)
        self.target = self.np_random.integers(SIZE // 4, 3 * SIZE // 4, 2)
        self.time = 0
        return self.observe(), {}

    def observe(self):
        obs = np.empty(66, np.float32)
        side = SIZE // 8
        obs[:64] = self.smoke.reshape(8, side, 8, side).mean((1, 3)).ravel()
        obs[64:] = self.wind
        return obs

    def advance(self):
        smoke = self.smoke
        for _ in range(SUBSTEPS):
            up, down = np.roll(smoke, 1, 0), np.roll(smoke, -1, 0)
            left, right = np.roll(smoke, 1, 1), np.roll(smoke, -1, 1)
            spread = 0.2 * (up + down + left + right - 4.0 * smoke)
            drift = 0.5 * (self.wind[0] * (up - down) + self.wind[1] * (left - right))
            smoke = np.maximum(smoke + spread + 0.5 * drift, 0.0)
        self.smoke = 0.98 * smoke

    def step(self, action):
        self.time += 1
        self.wind = (self.wind + 0.1 * GUSTS[action]).clip(-0.6, 0.6)
        row, col = self.source
        self.smoke[row - 2 : row + 3, col - 2 : col + 3] += 1.0
        self.advance()
        row, col = self.target
        reward = float(self.smoke[row - 4 : row + 5, col - 4 : col + 5].mean())
        return self.observe(), reward, False, self.time >= 100, {}


def make_network(inputs, actions):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(4)
    rng = np.random.default_rng(4)
    n, capacity, batch = 8, 8000, 256
    envs = SyncVectorEnv([SmokeEnv] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    size = envs.single_observation_space.shape[0]
    online, target = make_network(size, 4), make_network(size, 4)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=5e-4, foreach=True)
    states, nexts = torch.zeros(capacity, size), torch.zeros(capacity, size)
    acts, rewards, alive = torch.zeros(capacity, dtype=torch.int64), torch.zeros(capacity), torch.zeros(capacity)
    pos = filled = 0
    obs = torch.from_numpy(envs.reset(seed=4)[0])
    for t in range(2_000_000):
        with torch.no_grad():
            greedy = online(obs).argmax(1).numpy()
        epsilon = max(0.05, 1.0 - t / 1000)
        actions = np.where(rng.random(n) < epsilon, rng.integers(0, 4, n), greedy)
        new_obs, reward, term, trunc, _ = envs.step(actions)
        new_obs = torch.from_numpy(new_obs)
        rows = slice(pos, pos + n)
        states[rows], nexts[rows], acts[rows] = obs, new_obs, torch.from_numpy(actions)
        rewards[rows], alive[rows] = torch.from_numpy(reward), torch.from_numpy(~(term | trunc))
        pos, filled, obs = (pos + n) % capacity, min(filled + n, capacity), new_obs
        if t >= 8 and t % 2 == 0:
            pick = torch.randint(0, filled, (batch,))
            with torch.no_grad():
                goal = rewards[pick] + 0.97 * alive[pick] * target(nexts[pick]).amax(1)
            value = online(states[pick]).gather(1, acts[pick, None]).squeeze(1)
            loss = nn.functional.smooth_l1_loss(value, goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if t % 200 == 0:
                target.load_state_dict(online.state_dict())


if __name__ == "__main__":
    main()
