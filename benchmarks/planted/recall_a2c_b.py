"""Recurrent actor-critic on a small memory task."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from gymnasium.vector.utils import batch_space


class RecallVec(gym.vector.VectorEnv):
    """A sign is shown first; after a stretch of noise it must be named."""

    def __init__(self, num_envs, signs=4, length=32):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (signs + 4,), np.float32)
        self.single_action_space = gym.spaces.Discrete(signs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.signs, self.length = signs, length

    def _obs(self):
        obs = self.rng.standard_normal((self.num_envs, self.signs + 4), np.float32)
        obs[:, : self.signs] *= 0.1
        if self.t == 0:
            obs[np.arange(self.num_envs), self.sign] = 2
        obs[:, -1] = self.t / self.length
        return obs

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.t, self.sign = 0, self.rng.integers(0, self.signs, self.num_envs)
        return self._obs(), {}

    def step(self, actions):
        self.t += 1
        last = np.full(self.num_envs, self.t == self.length)
        reward = (last & (actions == self.sign)).astype(np.float32)
        return self._obs(), reward, last, np.zeros(self.num_envs, bool), {}


class Policy(nn.Module):
    def __init__(self, inputs, moves, width=64):
        super().__init__()
        self.lstm = nn.LSTM(inputs, width)
        self.actor, self.critic = nn.Linear(width, moves), nn.Linear(width, 1)

    def act(self, x, memory):
        h, memory = self.lstm(x[None], memory)
        return self.actor(h[0]).log_softmax(1), memory

    def evaluate(self, xs):
        memory, outs = None, []
        for x in xs:
            h, memory = self.lstm(x[None], memory)
            outs.append(h)
        h = torch.cat(outs)
        return self.actor(h).log_softmax(2), self.critic(h).squeeze(2)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    n, length, epochs, gamma = 128, 32, 4, 0.98
    envs = RecallVec(n, length=length)
    dim, moves = envs.single_observation_space.shape[0], 4
    policy = Policy(dim, moves)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3, fused=True)
    states, taken = torch.zeros(length, n, dim), torch.zeros(length, n, dtype=torch.int64)
    chances, rewards = torch.zeros(2, length, n)
    weights = gamma ** torch.arange(length - 1, -1, -1.0)[:, None]
    for update in range(1_000_000):
        obs, _ = envs.reset(seed=0 if update == 0 else None)
        memory = None
        with torch.no_grad():
            for t in range(length):
                states[t] = torch.from_numpy(obs)
                logp, memory = policy.act(states[t], memory)
                taken[t] = (logp - torch.empty_like(logp).exponential_().log()).argmax(1)
                chances[t] = logp.gather(1, taken[t, :, None]).squeeze(1)
                obs, reward, _, _, _ = envs.step(taken[t].numpy())
                rewards[t] = torch.from_numpy(reward)
        goal = weights * rewards[-1]
        for _ in range(epochs):
            logp, value = policy.evaluate(states)
            gain = (goal - value).detach()
            ratio = (logp.gather(2, taken[..., None]).squeeze(2) - chances).exp()
            surrogate = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss = 0.5 * (goal - value).square().mean() - surrogate
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if update % 100 == 0:
            print(update, rewards[-1].mean().item())


if __name__ == "__main__":
    main()
