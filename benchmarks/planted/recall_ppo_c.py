"""Recurrent PPO on a memory task."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from torch import nn

CUES = 4
LENGTH = 10
NUM_ENVS = 768
HORIZON = 20


class RecallVec(VectorEnv):
    """A cue is shown at the start and must be repeated at the end."""

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (CUES + 1,), np.float32)
        self.single_action_space = gym.spaces.Discrete(CUES)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def _observe(self):
        obs = self.rng.normal(0.0, 0.1, (self.num_envs, CUES + 1)).astype(np.float32)
        first = np.flatnonzero(self.time == 0)
        obs[first, self.cue[first]] += 1.0
        obs[:, CUES] = self.time == LENGTH - 1
        return obs

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.cue = self.rng.integers(0, CUES, self.num_envs)
        self.time = self.rng.integers(0, LENGTH, self.num_envs)
        return self._observe(), {}

    def step(self, actions):
        last = self.time == LENGTH - 1
        reward = np.where(last, np.where(actions == self.cue, 1.0, -1.0), 0.0)
        self.time = np.where(last, 0, self.time + 1)
        self.cue = np.where(last, self.rng.integers(0, CUES, self.num_envs), self.cue)
        return self._observe(), reward.astype(np.float32), last, np.zeros_like(last), {}


class Recurrent(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.lstm = nn.LSTM(CUES + 1, width)
        self.head = nn.Linear(width, CUES + 1)

    def forward(self, obs, state):
        hidden, state = self.lstm(obs, state)
        out = self.head(hidden)
        return torch.log_softmax(out[..., :CUES], dim=-1), out[..., CUES], state


def gae(rewards, values, dones, last_value, gamma=0.97, lam=0.95):
    advantages = np.empty_like(rewards)
    running = np.zeros_like(last_value)
    for t in reversed(range(len(rewards))):
        alive = 1.0 - dones[t]
        delta = rewards[t] + gamma * last_value * alive - values[t]
        running = delta + gamma * lam * alive * running
        advantages[t] = running
        last_value = values[t]
    return advantages


def main():
    torch.set_num_threads(1)
    torch.manual_seed(6)
    env = RecallVec(NUM_ENVS)
    net = Recurrent()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, foreach=True)
    shape = (HORIZON, NUM_ENVS)
    obs_buf = torch.zeros(*shape, CUES + 1)
    action_buf = torch.zeros(shape, dtype=torch.int64)
    logp_buf, value_buf = torch.zeros(shape), torch.zeros(shape)
    reward_buf, done_buf = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    obs, _ = env.reset(seed=6)
    state = (torch.zeros(1, NUM_ENVS, 64), torch.zeros(1, NUM_ENVS, 64))
    for _ in range(1_000_000):
        start = state
        with torch.no_grad():
            for t in range(HORIZON):
                obs_buf[t] = torch.from_numpy(obs)
                logp, value, state = net(obs_buf[t : t + 1], state)
                noise = torch.empty_like(logp[0]).exponential_().log()
                action = (logp[0] - noise).argmax(dim=-1)
                action_buf[t], value_buf[t] = action, value[0]
                logp_buf[t] = logp[0].gather(1, action[:, None]).squeeze(1)
                obs, reward_buf[t], done, cut, _ = env.step(action.numpy())
                done_buf[t] = done | cut
            last_value = net(torch.from_numpy(obs)[None], state)[1][0].numpy()
        advantages = torch.from_numpy(gae(reward_buf, value_buf.numpy(), done_buf, last_value))
        returns = advantages + value_buf
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        for _ in range(4):
            for part in torch.randperm(NUM_ENVS).split(NUM_ENVS // 2):
                begin = (start[0][:, part], start[1][:, part])
                logp, value, _ = net(obs_buf[:, part], begin)
                chosen = logp.gather(2, action_buf[:, part, None]).squeeze(2)
                ratio = (chosen - logp_buf[:, part]).exp()
                gain = advantages[:, part]
                clipped = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
                loss = -clipped.mean() + 0.5 * (value - returns[:, part]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5, foreach=True)
                optimizer.step()


if __name__ == "__main__":
    main()
