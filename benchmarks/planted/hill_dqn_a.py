"""DQN on climbing hills in generated terrain."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

SIZE = 96
MARGIN = 5
MOVES = ((2, 0), (-2, 0), (0, 2), (0, -2))


def build_terrain(level):
    rng = np.random.default_rng(level)
    rows, cols = np.fft.fftfreq(SIZE)[:, None], np.fft.rfftfreq(SIZE)[None, :]
    height = np.zeros((SIZE, SIZE))
    for octave in (4.0, 10.0, 24.0):
        noise = np.fft.rfft2(rng.normal(size=(SIZE, SIZE)))
        height += octave * np.fft.irfft2(noise * np.exp(-((rows**2 + cols**2) * octave**2)), (SIZE, SIZE))
    height = (height - height.min()) / np.ptp(height)
    return height.astype(np.float32)


class HillEnv(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (27,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.height = build_terrain(int(self.np_random.integers(12)))
        self.row, self.col = self.np_random.integers(MARGIN, SIZE - MARGIN, 2).tolist()
        self.time = 0
        return self.observe(), {}

    def observe(self):
        obs = np.empty(27, np.float32)
        patch = self.height[self.row - 4 : self.row + 5 : 2, self.col - 4 : self.col + 5 : 2]
        obs[:25] = (patch - self.height[self.row, self.col]).ravel()
        obs[25:] = self.row / SIZE, self.col / SIZE
        return obs

    def step(self, action):
        self.time += 1
        before = self.height[self.row, self.col]
        down, right = MOVES[action]
        self.row = min(max(self.row + down, MARGIN), SIZE - MARGIN)
        self.col = min(max(self.col + right, MARGIN), SIZE - MARGIN)
        now = self.height[self.row, self.col]
        top = bool(now > 0.9)
        return self.observe(), 10.0 * float(now - before) + top, top, self.time >= 24, {}


def make_network(inputs, actions):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, capacity, batch = 32, 20480, 256
    envs = SyncVectorEnv([HillEnv] * n, autoreset_mode=AutoresetMode.SAME_STEP)
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
