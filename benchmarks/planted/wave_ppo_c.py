"""PPO that calms a wave field with a moving damper."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv
from torch import nn

SIZE = 384
NUM_ENVS = 2
HORIZON = 16


class WaveEnv(gym.Env):
    """A spectral wave solver on a torus; the damper removes energy around it."""

    def __init__(self):
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (18,), np.float32)
        self.action_space = gym.spaces.Discrete(5)
        self.moves = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]]) * (SIZE // 16)
        k = np.fft.fftfreq(SIZE) * SIZE
        speed = np.sqrt(k[:, None] ** 2 + k[None, : SIZE // 2 + 1] ** 2)
        self.turn = np.exp(-0.02j * speed)
        axis = np.minimum(np.arange(SIZE), SIZE - np.arange(SIZE)) / SIZE
        self.damper = 0.3 * np.exp(-60.0 * (axis[:, None] ** 2 + axis[None, :] ** 2))

    def _observe(self):
        block = SIZE // 4
        coarse = np.square(self.field).reshape(4, block, 4, block).mean(axis=(1, 3))
        return np.append(coarse.ravel(), self.place / SIZE).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        axis = np.arange(SIZE) * (2.0 * np.pi / SIZE)
        a, b = self.np_random.integers(1, 4, 2)
        self.field = np.sin(a * axis)[:, None] * np.cos(b * axis)[None, :]
        self.place = self.np_random.integers(0, SIZE, 2)
        self.time = 0
        return self._observe(), {}

    def step(self, action):
        self.place = (self.place + self.moves[action]) % SIZE
        field = np.fft.irfft2(np.fft.rfft2(self.field) * self.turn, s=(SIZE, SIZE))
        around = np.roll(self.damper, tuple(self.place), axis=(0, 1))
        self.field = field * (1.0 - around)
        self.time += 1
        obs = self._observe()
        return obs, -float(obs[:16].mean()), False, self.time >= 100, {}


class ActorCritic(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(18, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.head = nn.Linear(width, 6)

    def forward(self, obs):
        out = self.head(self.body(obs))
        return torch.log_softmax(out[..., :5], dim=-1), out[..., 5]


def main():
    torch.set_num_threads(1)
    torch.manual_seed(9)
    envs = AsyncVectorEnv([WaveEnv] * NUM_ENVS)
    net = ActorCritic()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-4, foreach=True)
    obs_buf = torch.zeros(HORIZON, NUM_ENVS, 18)
    action_buf = torch.zeros(HORIZON, NUM_ENVS, dtype=torch.int64)
    reward_buf, alive_buf = torch.zeros(HORIZON, NUM_ENVS), torch.zeros(HORIZON, NUM_ENVS)
    returns = torch.zeros(HORIZON, NUM_ENVS)
    obs, _ = envs.reset(seed=9)
    for _ in range(1_000_000):
        with torch.no_grad():
            for t in range(HORIZON):
                obs_buf[t] = torch.from_numpy(obs)
                logp, _ = net(obs_buf[t])
                action_buf[t] = (logp - torch.empty_like(logp).exponential_().log()).argmax(dim=-1)
                obs, reward, done, cut, _ = envs.step(action_buf[t].numpy())
                reward_buf[t] = torch.from_numpy(reward)
                alive_buf[t] = torch.from_numpy(~(done | cut))
            old, value = net(obs_buf)
            old = old.gather(2, action_buf[..., None]).squeeze(2)
            running = net(torch.from_numpy(obs))[1]
            for t in reversed(range(HORIZON)):
                running = reward_buf[t] + 0.98 * alive_buf[t] * running
                returns[t] = running
            advantage = returns - value
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        for _ in range(3):
            logp, value = net(obs_buf)
            ratio = (logp.gather(2, action_buf[..., None]).squeeze(2) - old).exp()
            clipped = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
            loss = -clipped.mean() + 0.5 * (value - returns).square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5, foreach=True)
            optimizer.step()


if __name__ == "__main__":
    main()
